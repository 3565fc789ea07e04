"""Draws the workbook and the dashboard of Grafana as SVG, from the metrics of a run and from their files as they are.

The workbook's queries run over the rows that Application Insights would have (``duckdb-kql`` reads them). Grafana's run
here, as far as they have the forms of ``prometheus``; another form is an error.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from singleton.observing.metrics import METRICS
from tools.dashboards import GRAFANA, WORKBOOK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

EXPORTED: Final = 60
"""The run exports its metrics this often, in seconds, as the exporter to Azure Monitor does."""
WIDTH: Final = 480
HEIGHT: Final = 210
COLOURS: Final = ("#3b82f6", "#f59e0b", "#10b981", "#ef4444", "#8b5cf6", "#6b7280")
BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
"""When the run began, for queries: pictures tell times from then on."""
_ROWS: Final = 6
_SUM: Final = re.compile(
    r"sum by \((?P<by>[^)]*)\) "
    r"\((?P<how>rate|increase)\((?P<name>\w+)(?:\{(?P<where>[^}]*)\})?\[\$__rate_interval\]\)\)"
)
_WHERE: Final = re.compile(r'(\w+)(!?=)"([^"]*)"')
Series = dict[str, dict[float, float]]


class Point(NamedTuple):
    """What a process exported at a time: a metric, its attributes, and its values."""

    at: float
    process: str
    metric: str
    about: dict[str, str]
    value: dict[str, Any]


def points(folder: Path) -> list[Point]:
    """Read what the processes of a run exported; times count from the first, in seconds."""
    found = []
    files = [file for file in sorted(folder.glob("*.jsonl")) if file.stat().st_size]  # the app was described, too
    for number, file in enumerate(files, 1):
        for line in file.read_text("utf-8").splitlines():
            for resource in json.loads(line)["resource_metrics"]:
                for metric in (metric for scope in resource["scope_metrics"] for metric in scope["metrics"]):
                    for point in metric["data"]["data_points"]:
                        at = point["time_unix_nano"] / 1e9
                        found.append(Point(at, f"host-{number}", metric["name"], point["attributes"], point))
    first = min(point.at for point in found)
    return [point._replace(at=point.at - first) for point in found]


def of_workbook(every: list[Point], *, dark: bool) -> str:
    """Draw the workbook as it is when locks were last held."""
    import duckdb
    import duckdb_kql

    now = max(point.at for point in every if point.metric == "singleton.lock.held") + 1
    base = duckdb.connect()
    base.execute(
        "create table customMetrics(timestamp TIMESTAMP, name VARCHAR, valueCount INTEGER, valueSum DOUBLE, "
        "valueMax DOUBLE, customDimensions JSON, cloud_RoleInstance VARCHAR)"
    )
    base.execute("create table traces(timestamp TIMESTAMP, message VARCHAR, itemCount INTEGER)")
    for point in every:
        if point.at <= now:
            total = point.value.get("sum", point.value.get("value"))
            row = [BEGIN + timedelta(seconds=point.at), point.metric, point.value.get("count", 1), total]
            row += [point.value.get("max", total), json.dumps(point.about), point.process]
            base.execute("insert into customMetrics values (?, ?, ?, ?, ?, ?, ?)", row)
    drawn: dict[str, Callable[[list[str], list[tuple[Any, ...]]], str]] = {
        "timechart": lambda _, rows: _lines(_by_time(rows)),
        "barchart": lambda _, rows: _bars({row[0]: row[1] for row in rows}),
        "table": _table,
    }
    panels = []
    for item in json.loads(WORKBOOK.read_text("utf-8"))["items"]:
        content = item["content"]
        if item["type"] == 3:
            asked = duckdb_kql.query(base, content["query"], query_now=BEGIN + timedelta(seconds=now))
            panels.append((content["title"], drawn[content["visualization"]](asked.columns, asked.fetchall())))
    return _page(panels, dark=dark)


def _by_time(rows: list[tuple[Any, ...]]) -> Series:
    found: Series = defaultdict(dict)
    for at, name, value in rows:
        found[name][(at - BEGIN).total_seconds()] = value
    return found


def of_grafana(every: list[Point], *, dark: bool) -> str:
    """Draw the dashboard of Grafana."""
    panels = []
    for panel in json.loads(GRAFANA.read_text("utf-8"))["panels"]:
        (target,) = panel["targets"]
        panels.append((panel["title"], _lines(prometheus(target["expr"], target["legendFormat"], every))))
    return _page(panels, dark=dark)


def prometheus(asked: str, legend: str, every: list[Point]) -> Series:
    """Answer a query of the dashboard, for each time of export. ``ValueError``: it has another form."""
    if re.fullmatch(r"\w+", asked):
        series: Series = defaultdict(dict)
        for point in _of(asked, "", every):
            series[_named(legend, {**point.about, "instance": point.process})][_step(point)] = point.value["value"]
        return series
    sums = [*_SUM.finditer(asked)]
    form = _SUM.sub("S", asked)
    if form == "S":
        return {_named(legend, dict(labels)): line for labels, line in _summed(sums[0], every).items()}
    if form == "100 * S / (S + (S or 0 * S))":
        contended, acquired = _summed(sums[0], every), _summed(sums[2], every)
        shares: Series = {}
        for labels, line in contended.items():
            got = acquired.get(labels, {})
            shares[_named(legend, dict(labels))] = {
                at: 100 * lost / (lost + got.get(at, 0.0)) for at, lost in line.items() if lost + got.get(at, 0.0)
            }
        return shares
    if form == "histogram_quantile(0.95, S)":
        return {_named(legend, dict(labels)): line for labels, line in _quantiles(sums[0], every).items()}
    raise ValueError(f"no query of this form is known here: {asked}")


def _of(name: str, where: str, every: list[Point]) -> Iterator[Point]:
    """Yield the points of a metric, by its name in Prometheus, that fit the labels."""
    (metric,) = (
        each.name
        for each in METRICS
        if re.fullmatch(
            each.name.replace(".", "_") + ("_seconds" if each.unit == "s" else "") + r"(_bucket|_total)?", name
        )
    )
    for point in every:
        labels = {label.replace(".", "_"): text for label, text in point.about.items()}
        if point.metric == metric and all(
            (labels.get(label) == text) == (how == "=") for label, how, text in _WHERE.findall(where)
        ):
            yield point


def _step(point: Point) -> float:
    return point.at // EXPORTED * EXPORTED


def _labels(found: re.Match[str], point: Point) -> tuple[tuple[str, str], ...]:
    names = [name.replace("singleton_", "singleton.") for name in found["by"].split(", ") if name != "le"]
    return tuple((name, point.about[name]) for name in names)


def _summed(found: re.Match[str], every: list[Point]) -> dict[tuple[tuple[str, str], ...], dict[float, float]]:
    lines: dict[tuple[tuple[str, str], ...], dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for point in _of(found["name"], found["where"] or "", every):
        value = point.value["value"]
        lines[_labels(found, point)][_step(point)] += value / EXPORTED if found["how"] == "rate" else value
    return lines


def _quantiles(found: re.Match[str], every: list[Point]) -> dict[tuple[tuple[str, str], ...], dict[float, float]]:
    """Return 95th percentiles as Prometheus estimates them: in its bucket, a value is where the line says."""
    counts: dict[Any, dict[float, list[int]]] = defaultdict(dict)
    bounds: list[float] = []
    for point in _of(found["name"], found["where"] or "", every):
        bounds = point.value["explicit_bounds"]
        line, many = counts[_labels(found, point)], point.value["bucket_counts"]
        line[_step(point)] = [sum(pair) for pair in zip(line.get(_step(point), [0] * len(many)), many, strict=True)]
    return {
        labels: {at: _quantile(0.95, bounds, many) for at, many in line.items() if sum(many)}
        for labels, line in counts.items()
    }


def _quantile(share: float, bounds: list[float], many: list[int]) -> float:
    rank, before = share * sum(many), 0
    for low, high, count in zip([0.0, *bounds], bounds, many, strict=False):
        if count and before + count >= rank:
            return low + (high - low) * (rank - before) / count
        before += count
    return bounds[-1]


def _named(legend: str, labels: dict[str, str]) -> str:
    return re.sub(
        r"\{\{(?:singleton_)?(\w+)\}\}", lambda found: labels.get(f"singleton.{found[1]}") or labels[found[1]], legend
    )


def _page(panels: list[tuple[str, str]], *, dark: bool) -> str:
    """Lay the panels out, two beside each other."""
    ink, faint, ground, box = (
        ("#e5e7eb", "#9ca3af", "#111418", "#1b2026") if dark else ("#1f2937", "#6b7280", "#f3f4f6", "#ffffff")
    )
    width, height = 2 * WIDTH + 30, (len(panels) + 1) // 2 * (HEIGHT + 10) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="{ground}"/>',
    ]
    for number, (title, drawn) in enumerate(panels):
        x, y = 10 + number % 2 * (WIDTH + 10), 10 + number // 2 * (HEIGHT + 10)
        parts.append(
            f'<g transform="translate({x},{y})" fill="{faint}"><rect width="{WIDTH}" height="{HEIGHT}" rx="4" '
            f'fill="{box}"/><text x="12" y="20" font-weight="bold" fill="{ink}">{escape(title)}</text>{drawn}</g>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _lines(series: Series) -> str:
    """Draw values over time; of many series those with the greatest values."""
    series = {name: line for name, line in series.items() if line}
    if not series:
        return '<text x="12" y="48">no data</text>'
    names = sorted(sorted(series, key=lambda name: -max(series[name].values()))[:_ROWS])
    top = max(value for name in names for value in series[name].values()) or 1.0
    last = max((at for name in names for at in series[name]), default=0.0) or 1.0
    parts = [
        f'<text x="12" y="48">{top:.3g}</text><text x="12" y="146">0</text>',
        f'<text x="{WIDTH - 54}" y="160">{last / 60:.0f} min</text>',
        f'<path d="M44 40V146H{WIDTH - 12}" stroke="#888" fill="none"/>',
    ]
    for number, name in enumerate(names):
        dots = [(50 + at / last * (WIDTH - 76), 145 - value / top * 100) for at, value in sorted(series[name].items())]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in dots)
        parts.append(f'<path d="M{path}" stroke="{COLOURS[number]}" stroke-width="2" fill="none"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{COLOURS[number]}"/>' for x, y in dots]
        x, y = 40 + number % 2 * 220, 170 + number // 2 * 15
        parts.append(f'<rect x="{x}" y="{y - 8}" width="9" height="9" fill="{COLOURS[number]}"/>')
        parts.append(f'<text x="{x + 14}" y="{y}">{escape(name)}</text>')
    return "".join(parts)


def _bars(values: dict[str, float]) -> str:
    if not values:
        return '<text x="12" y="48">no data</text>'
    top = max(values.values()) or 1.0
    parts = []
    for number, (name, value) in enumerate(sorted(values.items(), key=lambda item: -item[1])[:_ROWS]):
        y, long = 34 + number * 25, value / top * (WIDTH - 270)
        parts.append(
            f'<text x="12" y="{y + 14}">{escape(name)}</text><rect x="200" y="{y + 2}" width="{max(long, 1):.1f}" '
            f'height="16" fill="{COLOURS[0]}"/><text x="{206 + long:.1f}" y="{y + 14}">{value:.4g}</text>'
        )
    return "".join(parts)


def _table(columns: list[str], rows: list[tuple[Any, ...]]) -> str:
    """Draw rows beneath the names of their columns."""
    wide = (WIDTH - 24) // len(columns)
    told = [columns, *([_told(value) for value in row] for row in rows[:_ROWS])]
    bold = ' font-weight="bold"'
    parts = [
        f'<text x="{12 + wide * column}" y="{48 + 20 * line}"{"" if line else bold}>{escape(text)}</text>'
        for line, texts in enumerate(told)
        for column, text in enumerate(texts)
    ]
    return "".join(parts) + ("" if rows else '<text x="12" y="72">no rows</text>')


def _told(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{(value - BEGIN).total_seconds() / 60:.0f} min"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
