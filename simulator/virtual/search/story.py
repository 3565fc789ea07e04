"""Tell what happened in a world, in words that somebody can follow."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import label
from simulator.virtual.oracle import callers, conduct, oracle
from simulator.virtual.storage.network import SOON
from simulator.virtual.workloads import deferrals, leaders, semaphores
from simulator.virtual.worlds import world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.journal import Record
    from simulator.virtual.oracle.evidence import Violation
    from simulator.virtual.search.scenario import Scenario
    from simulator.virtual.worlds.outcome import Run

_BEFORE: Final = 35.0
"""Seconds before the broken promise of which everything is told; faults are told from the beginning."""
_LONGEST: Final = 40
_SLOW: Final = SOON / 2
_PAD: Final = " " * 11
_OF_LOCKS: Final = {
    "waiting": "{owner} asks for {lock}",
    "acquired": "{owner} gets {lock} with token {token}",
    "contended": "{owner} does not get {lock} ({reason})",
    "failed": "{owner} does not get {lock}, for an error ({reason})",
    "lost": "{owner} is told that it lost {lock} ({reason})",
    "released": "{owner} has given {lock} back",
    "body_started": "{owner} enters its body",
}
_LOCK: Final = re.compile(r"locks/[^\s,;:]*[^\s,;:.]")


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
        told = [f"{_PAD}({len(told) - _LONGEST} earlier events)", *told[-_LONGEST:]]
    lines += told
    lines.append(_broken(first))
    if promise := promises().get(first.check):
        lines.append(f"{_PAD}What must not be: {promise}.")
    if len(run.violations) > 1:
        lines.append(f"{_PAD}And {len(run.violations) - 1} more after it.")
    return lines


def gone(violation: Violation, *, app: bool) -> list[str]:
    """Return what there is to say of a broken promise that was kept when its world was run again."""
    lines = [
        _broken(violation),
        "It did not come back: the same world was run again, and every promise was kept. There is no story to replay.",
    ]
    if app:
        lines.append(
            "The app's bodies do not do the same each time: they may depend on files, on what the app remembers from "
            "one call to the next, on chance, on the real time or on the network."
        )
    return lines


def _broken(violation: Violation) -> str:
    text = _LOCK.sub(lambda lock: label(lock[0]), violation.text)
    return f"{violation.at:9.3f} s  BROKEN ({violation.check}): {text}."


@cache
def promises() -> dict[str, str]:
    """Return what each check of the oracle says must not be, by its name."""
    pages = "".join(
        module.__doc__ or "" for module in (deferrals, leaders, semaphores, world, conduct, callers, oracle)
    )
    return dict(re.findall(r"^ *([a-z]+(?: [a-z]+)*) {2,}(\S.*)$", pages, re.MULTILINE))


def _told(run: Run, violation: Violation) -> Iterator[str]:
    asking: set[tuple[str, str]] = set()
    for record in run.records:
        if record.t > violation.at:
            return
        if record.event != "fault" and (record.t < violation.at - _BEFORE or _asks_on(record, asking)):
            continue
        if text := _sentence(record, violation):
            yield f"{record.t:9.3f} s  {text}."


def _asks_on(record: Record, asking: set[tuple[str, str]]) -> bool:
    """Tell whether this is one more poll in a row of polls in vain, of which only the first is told."""
    if record.event != "request":
        return False
    who = record.host, record.text("name")
    if _in_vain(record):
        if who in asking:
            return True
        asking.add(who)
    else:
        asking.discard(who)
    return False


def _in_vain(record: Record) -> bool:
    return record.text("call") == "acquire" and record.text("answer").endswith("LeaseAlreadyPresent")


def _sentence(record: Record, violation: Violation) -> str:
    match record.event:
        case "fault":
            return record.text("words")
        case "request" if _concerns(record.text("name"), violation):
            return _request(record)
        case "lock" if _concerns(record.text("lock"), violation):
            return _lock_event(record)
    return ""


def _concerns(lock: str, violation: Violation) -> bool:
    named = _LOCK.findall(violation.text)
    return not named or lock in named


def _request(record: Record) -> str:
    """Say what the service did, and where the request or its reply was late or lost."""
    host, call, lock = record.host, record.text("call").strip("_"), label(record.text("name"))
    answer = record.text("answer")
    if answer == "lost":
        return f"{host}'s {call} of {lock} is lost on its way"
    out, back = float(record.get("out", 0.0)), record.get("back", 0.0)
    late = f", {out:.1f} s after it was sent" if out >= _SLOW else ""
    reply = ", but the reply is lost" if back is None else f"; the reply takes {back:.1f} s" if back >= _SLOW else ""
    if answer == "ok":
        what = f"the service carries out {host}'s {call} of {lock}{late}"
    elif _in_vain(record):
        what = f"{host} asks for the lease of {lock} in vain{late}"
    else:
        what = f"the service answers {host}'s {call} of {lock} with {answer}{late}"
    return what + reply


def _lock_event(record: Record) -> str:
    sentence = _OF_LOCKS.get(record.text("kind"), "{owner} leaves its body ({reason})")
    told = {"owner": record.text("owner"), "token": record.get("token"), "reason": record.text("reason")}
    return sentence.format(lock=label(record.text("lock")), **told)
