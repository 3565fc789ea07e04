"""Make an HTML report of a run: one file with style, script and data, and nothing from anywhere else.

A report is about a run of real hosts, the story of a virtual world, or an exploration that found nothing. The data are
packed: columns in place of objects, and each text once.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from simulator.report.timeline.build import build_timeline, careful, without_secrets
from simulator.report.words import Line, fine_print, headline, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from simulator.checks.reports import CheckResult
    from simulator.checks.verdict import Verdict
    from simulator.history.journal import Record
    from simulator.report.timeline.timeline import Timeline


FORMAT: Final = 1
_EXACT: Final = 2**53
"""Whole numbers from here on are not exact in JavaScript."""
_ESCAPES: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def packed(subject: ReportContent, told: Callable[[Any], Any] = lambda data: data) -> str:
    """Return a report's data as JSON that may stand inside HTML, whatever the names in it are.

    ``told``: what may be told of the data; at least secrets are left out.
    """
    data, texts = _data(subject)
    whole = told({**without_secrets(data), **texts})
    return json.dumps(whole, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


def _data(subject: ReportContent) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what there is little of, and, as columns, what there may be much of."""
    line, texts = subject.timeline, _Texts()
    spans = _spans(line, texts)
    return {
        "format": FORMAT,
        "title": subject.title,
        "headline": {"mark": subject.headline.mark, "text": subject.headline.text},
        "lines": [[each.mark, each.text] for each in subject.lines],
        "facts": [list(fact) for fact in subject.facts],
        "story": list(subject.story),
        "again": subject.again,
        "faults": list(subject.faults),
        "checks": [_check(each) for each in subject.checks],
        "duration": _time(line.duration),
        "hosts": [{"name": lane.name, "lives": _rows(lane.lives, "name pid start end ended")} for lane in line.hosts],
        "locks": _rows(line.locks, "lock label function"),
        "marks": [_mark(mark) for mark in _fields(line.marks)],
        "overlaps": _rows(line.overlaps, "lock start end hosts owners caught"),
        "takeovers": _rows(line.takeovers, "lock victim at state by taken bound token"),
        "troubles": list(_fields(line.troubles)),
        "calls": {host: dict(calls) for host, calls in line.calls.items()},
    }, {**spans, "texts": texts.all}


def _spans(line: Timeline, texts: _Texts) -> dict[str, Any]:
    """Return what there may be many of, as columns."""
    lease = "lock blob host start end ending renewed refused expires deadline seen"
    return {
        "bodies": _columns(line.bodies, "lock host function owner start end ending token held", texts),
        "holdings": _columns(line.holdings, "lock host function owner start=t end=until ending token mode", texts),
        "waits": _columns(line.waits, "lock host function owner start end ending", texts),
        "leases": _columns(line.leases, lease, texts),
        "handovers": _columns(line.handovers, "lock since at giver taker", texts),
        "messages": _columns(line.messages, "id queue key sent received done state dequeued deferred", texts),
        "notes": _columns(line.notes, "at host owner lock text", texts),
    }


class _Texts:
    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self.all))
        if number == len(self.all):
            self.all.append(careful(text))
        return number


def _columns(things: Sequence[Any], names: str, texts: _Texts) -> dict[str, list[Any]]:
    """Return a column for each field, ``name`` or ``name=field``.

    Texts are numbers of `texts`; the name of such a column begins with ``$``.
    """
    columns: dict[str, list[Any]] = {}
    for each in names.split():
        name, _, field = each.partition("=")
        values = [getattr(thing, field or name) for thing in things]
        if values and isinstance(values[0], str):
            columns[f"${name}"] = [texts.number(value) for value in values]
        else:
            columns[name] = [_plain(value) for value in values]
    return columns


def _rows(things: Iterable[Any], names: str) -> list[list[Any]]:
    return [[_plain(getattr(thing, name)) for name in names.split()] for thing in things]


def _fields(things: Iterable[Any]) -> Iterable[dict[str, Any]]:
    return ({name: _plain(getattr(thing, name)) for name in type(thing).__slots__} for thing in things)


def _mark(mark: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in mark.items() if value not in ("", 0, []) or name in {"at", "end"}}


def _check(check: CheckResult) -> dict[str, Any]:
    return {
        "name": check.name,
        "promise": check.promise,
        "looked": [[what, number] for what, number in check.looked_at.items()],
        "findings": [[finding.kind, finding.text] for finding in check.findings],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return _time(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _EXACT:
        return str(value)
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value


def _time(seconds: float) -> float:
    return round(seconds, 4) if math.isfinite(seconds) else 0.0


SCRIPTS: Final = (
    "scale.js",
    "run.js",
    "lanes.js",
    "paint.js",
    "overview.js",
    "chart.js",
    "input.js",
    "tables.js",
    "main.js",
)
"""In this order: a script uses only scripts before it."""


def as_page(subject: ReportContent, told: Callable[[Any], Any] = lambda data: data) -> str:
    """Return the report as one HTML document; ``told``: see `packed`.

    Its policy for content (CSP) allows exactly this style and this script, and no request at all.
    """
    style, script = _file("page.css"), '"use strict";\n(() => {\n' + "\n".join(map(_file, SCRIPTS)) + "\n})();\n"
    parts = {
        "POLICY": f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'",
        "TITLE": html.escape(careful(f"{subject.headline.text} {subject.title}")),
        "STYLE": style,
        "SCRIPT": script,
        "DATA": packed(subject, told),
    }
    page = _file("page.html")
    pieces = page.split("@@")  # every second one is a name: what is put in is never looked at again
    return "".join(parts[piece] if number % 2 else piece for number, piece in enumerate(pieces))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _file(name: str) -> str:
    return (files("simulator.report.html") / "page" / name).read_text("utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContent:
    """A report's content, apart from its form. ``again``: the command that repeats the run."""

    title: str
    headline: Line
    lines: Sequence[Line]
    facts: Sequence[tuple[str, str]]
    timeline: Timeline
    checks: Sequence[CheckResult] = ()
    story: Sequence[str] = ()
    again: str = ""
    faults: Sequence[dict[str, Any]] = ()


def of_run(records: Sequence[Record], verdict: Verdict, again: str) -> ReportContent:
    """Make the report of a run of real hosts."""
    timeline = build_timeline(records, verdict)
    return ReportContent(
        title="singleton-sim",
        headline=headline(verdict),
        lines=[*summary(verdict), Line("note", fine_print(verdict))],
        facts=facts_of(verdict),
        timeline=timeline,
        checks=verdict.checks,
        again=again,
        faults=verdict.to_dict()["faults"],
    )


def facts_of(verdict: Verdict) -> list[tuple[str, str]]:
    """Return the numbers of a verdict for the top of the page."""
    messages = verdict.messages
    again = sum(bool(host.after) for host in verdict.hosts)
    facts = [
        ("hosts", f"{len(verdict.hosts) - again:,}"),
        ("seconds", f"{verdict.duration:.0f}"),
        ("guarded bodies", f"{verdict.sections:,}"),
        ("locks", f"{verdict.locks:,}"),
        ("overlaps", f"{len(verdict.overlaps):,}"),
        ("kills", f"{verdict.kills:,}"),
        ("pauses", f"{verdict.pauses:,}"),
        ("messages done", f"{messages.done:,} of {messages.sent:,}"),
        ("fencing tokens", f"{verdict.tokens.issued:,}"),
        ("longest body", f"{verdict.exercised.longest:.1f} s"),
    ]
    if verdict.faults:
        facts.insert(5, ("faults", f"{len(verdict.faults):,}"))
    if again:
        facts.insert(1, ("started again", f"{again:,}"))
    return facts
