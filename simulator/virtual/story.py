"""Tell what happened in a world, in words that somebody can follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simulator.checks import label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.journal import Record
    from simulator.virtual.oracle import Violation
    from simulator.virtual.scenario import Scenario
    from simulator.virtual.world import Run

_BEFORE: Final = 35.0
_LONGEST: Final = 40


def tell(scenario: Scenario, run: Run) -> list[str]:
    """Return the story of a run, a line each."""
    lines = [f"{scenario.hosts} hosts, workload {scenario.workload!r}, seed {scenario.seed}."]
    if not scenario.faults:
        lines.append("No fault strikes.")
    if not run.violations:
        lines += [f"{fault.at:9.3f} s  {fault.words()}." for fault in scenario.faults]
        return [*lines, "Every promise was kept."]
    first = run.violations[0]
    told = list(_told(run, first))
    if len(told) > _LONGEST:
        told = [f"           ({len(told) - _LONGEST} earlier events)", *told[-_LONGEST:]]
    lines += told
    lines.append(f"{first.at:9.3f} s  BROKEN ({first.check}): {first.text}.")
    if len(run.violations) > 1:
        lines.append(f"           and {len(run.violations) - 1} more after it.")
    return lines


def _told(run: Run, violation: Violation) -> Iterator[str]:
    for record in run.records:
        if record.t > violation.at:
            return
        text = _sentence(record, violation)
        if text and (record.event == "fault" or record.t >= violation.at - _BEFORE):
            yield f"{record.t:9.3f} s  {text}"


def _sentence(record: Record, violation: Violation) -> str:
    host = record.host
    match record.event:
        case "fault":
            return f"{record.text('words')}."
        case "request" if record.text("name") in violation.text or "locks/" not in violation.text:
            answer = record.text("answer")
            return f"{host}: {record.text('call').strip('_')} of {label(record.text('name'))} is answered {answer}."
        case "lock" if record.text("lock") in violation.text or "locks/" not in violation.text:
            return f"{host}: {_lock_event(record)}."
    return ""


def _lock_event(record: Record) -> str:
    lock, who, token = label(record.text("lock")), record.text("owner"), record.get("token")
    match record.text("kind"):
        case "waiting":
            return f"{who} asks for {lock}"
        case "acquired":
            return f"{who} gets {lock} with token {token}"
        case "contended":
            return f"{who} does not get {lock} ({record.text('reason')})"
        case "lost":
            return f"{who} is told that it lost {lock} ({record.text('reason')})"
        case "released":
            return f"{who} has given {lock} back"
        case "body_started":
            return f"{who} enters its body"
        case _:
            return f"{who} leaves its body ({record.text('reason')})"
