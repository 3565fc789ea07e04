"""Something happened: a run in which nothing was locked, processed or killed proves nothing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from simulator.checks.findings import Finding, count, note, unproven, violation
from simulator.checks.messages import Messages, error_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import History


def judge_activity(history: History, messages: Messages) -> Iterator[Finding]:
    """Find what should have happened and did not, and hosts that failed."""
    yield from _hosts(history)
    yield from _strikes(history)
    yield from _work(history, messages)
    yield from _notes(history)
    if history.interrupted:
        yield unproven(f"the run was broken off after {history.end - history.start:.0f} s")


def _hosts(history: History) -> Iterator[Finding]:
    for host, message in history.errors:
        yield violation(f"{host} failed: {message}")
    for host, code in history.crashes:
        yield violation(f"{host} ended by itself with exit code {code}")
    ends = Counter((end.host, end.reason) for end in history.worker_ends)
    for (host, reason), number in ends.items():
        same = [end.cut for end in history.worker_ends if (end.host, end.reason) == (host, reason)]
        inside = count(sum(same), "guarded body", "guarded bodies")
        yield violation(f"a worker of {host} ended {count(number, 'time')}, and cut {inside} short: {reason}")
    asked = history.setup.get("hosts", 0)
    ready = len(history.ready - history.restarted.keys())
    if ready < asked and not history.interrupted:
        yield unproven(f"only {ready} of {count(asked, 'host')} became ready")


def _strikes(history: History) -> Iterator[Finding]:
    for what, done in (("kill", len(history.kills)), ("pause", len(history.pauses))):
        asked = history.setup.get(what, 0)
        if done < asked and not history.interrupted:
            yield unproven(f"{count(asked, what)} asked for, {done} done: no further host was caught holding a lock")


def _work(history: History, messages: Messages) -> Iterator[Finding]:
    guarded = [function.name for function in history.functions.values() if function.guarded]
    if history.functions and not guarded and not history.sections:
        yield unproven("no function of this app has @singleton: there is nothing to judge")
    elif not history.sections:
        yield unproven("no guarded body ran: there is nothing to judge")
    done = messages.completed + messages.skipped
    if messages.sent and not done and not history.interrupted:
        hint = ". Perhaps they need other bodies: --messages FILE" if messages.poisoned else ""
        yield unproven(f"none of the {count(messages.sent, 'message')} sent was processed{hint}")
    ran = {section.function for section in history.sections}
    idle = sorted({name for name in guarded if not history.functions[name].idle} - ran)
    if idle and history.sections:
        yield note(f"never ran: {', '.join(idle)}")


def _notes(history: History) -> Iterator[Finding]:
    for remark in history.notes:
        yield note(remark)
    failed = [call for call in history.invocations if call.ending == "error"]
    why = Counter((call.function, call.blames or error_name(call) or "an error", bool(call.blames)) for call in failed)
    for (function, name, of_lock), number in sorted(why.items()):
        by = "the lock" if of_lock else "its own code"
        by = "its policy" if of_lock and name == "LockNotAcquired" else by
        yield note(f"{count(number, 'invocation')} of {function!r} failed with {name} ({by})")
    for reason, number in sorted(history.losses.items()):
        yield note(f"{count(number, 'hold')} lost ({reason or 'no reason given'})")
