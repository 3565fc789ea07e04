"""Draws the panels of the dashboards from the metrics of a run, as SVG."""

from __future__ import annotations

import json
from collections import defaultdict
from html import escape
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EXPORTED: Final = 3
"""The run exports its metrics this often, in seconds; the exporter to Azure Monitor does it once a minute."""
WIDTH: Final = 480
HEIGHT: Final = 190
COLOURS: Final = ("#3b82f6", "#f59e0b", "#10b981", "#ef4444", "#8b5cf6", "#6b7280")


class Point(NamedTuple):
    """What a process exported at a time: a metric, its attributes without their prefix, and its values."""

    at: float
    process: str
    metric: str
    about: dict[str, str]
    value: dict[str, Any]


def points(folder: Path) -> list[Point]:
    """Read what the processes of a run exported; times count from the first."""
    found = []
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            metrics = [
                metric
                for resource in json.loads(line)["resource_metrics"]
                for scope in resource["scope_metrics"]
                for metric in scope["metrics"]
            ]
            for metric in metrics:
                for point in metric["data"]["data_points"]:
                    about = {name.removeprefix("singleton."): text for name, text in point["attributes"].items()}
                    found.append(Point(point["time_unix_nano"] / 1e9, file.stem, metric["name"], about, point))
    first = min(point.at for point in found)
    return [point._replace(at=point.at - first) for point in found]


def picture(folder: Path, *, dark: bool) -> str:
    """Draw the panels, two beside each other."""
    every = points(folder)
    panels = [*_panels(every)]
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


def _panels(every: list[Point]) -> Iterator[tuple[str, str]]:
    mine = [point for point in every if point.about.get("mode", "function") == "function"]
    by_metric = defaultdict(list)
    for point in mine:
        by_metric[point.metric.removeprefix("singleton.")].append(point)
    yield "Longest wait for a lock, by function, seconds", _strokes(_longest(by_metric["lock.wait"]))
    yield "Longest hold, by function, seconds", _strokes(_longest(by_metric["lock.hold"]))
    counts = {name: _sums(by_metric[f"lock.{name}"], "function") for name in ("acquired", "contended")}
    share = {
        function: 100 * counts["contended"][function] / (counts["contended"][function] + counts["acquired"][function])
        for function in sorted({*counts["acquired"], *counts["contended"]})
    }
    yield "Contention: attempts that ended without the lock, in percent", _bars(share)
    yield "Lost holds, by reason", _bars(_sums(by_metric["lock.lost"], "function", "reason"))
    moment = max((point.at for point in by_metric["lock.held"]), default=0.0) * 0.6
    held = [point for point in by_metric["lock.held"] if moment <= point.at < moment + EXPORTED]
    now = {f"{point.about['function']} on {point.process}": point.value["value"] for point in held}
    yield f"Held {moment:.0f} seconds after the begin, by function and process, seconds", _bars(now)
    asked = _sums(by_metric["storage.requests"], "operation", "status")
    most = dict(sorted(asked.items(), key=lambda item: -item[1])[:6])
    yield "Requests to the storage, by operation and status", _bars(most)


def _longest(of: list[Point]) -> dict[str, dict[float, float]]:
    """Return for each function the longest of each export."""
    found: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for point in of:
        at = point.at // EXPORTED * EXPORTED
        found[point.about["function"]][at] = max(found[point.about["function"]][at], point.value["max"])
    return found


def _sums(of: list[Point], *names: str) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for point in of:
        found[" ".join(point.about.get(name, "") for name in names)] += point.value["value"]
    return found


def _strokes(series: dict[str, dict[float, float]]) -> str:
    top = max((value for line in series.values() for value in line.values()), default=1.0)
    last = max((at for line in series.values() for at in line), default=1.0)
    parts = [
        f'<text x="12" y="48">{top:.0f}</text><text x="12" y="150">0</text>',
        f'<text x="{WIDTH - 40}" y="166">{last:.0f} s</text>',
        f'<path d="M40 44V150H{WIDTH - 12}" stroke="#888" fill="none"/><g stroke-width="5">',
    ]
    for number, line in enumerate(series[name] for name in sorted(series)):
        for at, value in sorted(line.items()):
            x = 44 + at / last * (WIDTH - 70) + 6 * number
            parts.append(f'<path d="M{x:.1f} 150V{149 - value / top * 104:.1f}" stroke="{COLOURS[number]}"/>')
    return "".join([*parts, "</g>", *(_named(number, name) for number, name in enumerate(sorted(series)))])


def _named(number: int, name: str) -> str:
    x = 40 + number * 150
    box = f'<rect x="{x}" y="172" width="9" height="9" fill="{COLOURS[number]}"/>'
    return f'{box}<text x="{x + 14}" y="181">{escape(name)}</text>'


def _bars(values: dict[str, float]) -> str:
    if not values:
        return '<text x="12" y="48">none</text>'
    top = max(values.values()) or 1.0
    parts = []
    for number, (name, value) in enumerate(sorted(values.items(), key=lambda item: -item[1])[:6]):
        y = 34 + number * 25
        parts.append(
            f'<text x="12" y="{y + 14}">{escape(name)}</text>'
            f'<rect x="200" y="{y + 2}" width="{max(value / top * (WIDTH - 270), 1):.1f}" height="16" '
            f'fill="{COLOURS[0]}"/><text x="{206 + value / top * (WIDTH - 270):.1f}" y="{y + 14}">{value:.4g}</text>'
        )
    return "".join(parts)
