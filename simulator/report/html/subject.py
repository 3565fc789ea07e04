"""What a report is about: a run of real hosts, the story of a virtual world, or an exploration that found nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulator.report.timeline.build import build_timeline
from simulator.report.words import Line, fine_print, headline, summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.checks.reports import CheckReport
    from simulator.checks.verdict import Verdict
    from simulator.history.journal import Record
    from simulator.report.timeline.model import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A report's content, apart from its form.

    Attributes:
        title: what ran.
        headline: the result.
        lines: what happened, line by line.
        facts: numbers with their names.
        story: the lines of a story, if it tells one.
        again: the command that repeats it.
        faults: what each fault hit and excused.
    """

    title: str
    headline: Line
    lines: Sequence[Line]
    facts: Sequence[tuple[str, str]]
    timeline: Timeline
    checks: Sequence[CheckReport] = ()
    story: Sequence[str] = ()
    again: str = ""
    faults: Sequence[dict[str, Any]] = ()


def of_run(records: Sequence[Record], verdict: Verdict, again: str) -> Subject:
    """Make the report of a run of real hosts."""
    timeline = build_timeline(records, verdict)
    return Subject(
        title="singleton-sim",
        headline=headline(verdict),
        lines=[*summary(verdict), Line("note", fine_print(verdict))],
        facts=facts_of(verdict),
        timeline=timeline,
        checks=verdict.checks,
        again=again,
        faults=_faults(verdict),
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
        ("messages done", f"{messages.completed + messages.skipped:,} of {messages.sent:,}"),
        ("fencing tokens", f"{verdict.tokens.issued:,}"),
        ("longest body", f"{verdict.exercised.longest:.1f} s"),
    ]
    if faults := getattr(verdict, "faults", ()):
        facts.insert(5, ("faults", f"{len(faults):,}"))
    if again:
        facts.insert(1, ("started again", f"{again:,}"))
    return facts


def _faults(verdict: Verdict) -> list[dict[str, Any]]:
    told = verdict.to_dict().get("faults") or []
    return [{**each, "excused": _words(each.get("excused"))} for each in told]


def _words(excused: object) -> str:
    return "; ".join(map(str, excused)) if isinstance(excused, list) else str(excused or "")
