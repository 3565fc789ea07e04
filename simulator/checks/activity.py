"""Something happened: a run in which nothing was locked, processed or killed proves nothing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from simulator.checks.findings import Finding, count, note, unproven, violation
from simulator.checks.messages import LOCK_FAULTS, Messages, error_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import History


def judge_activity(history: History, messages: Messages) -> list[Finding]:
    """Find what did not happen though it should have, and hosts that failed."""
    findings = [*_hosts(history), *_strikes(history), *_work(history, messages), *_notes(history)]
    if history.interrupted:
        findings.append(unproven(f"the run was broken off after {history.end - history.start:.0f} s"))
    return findings


def _hosts(history: History) -> Iterator[Finding]:
    for host, message in history.errors:
        yield violation(f"{host} failed: {message}")
    for host, code in history.crashes:
        yield violation(f"{host} ended by itself with exit code {code}")
    asked = _whole(history.setup.get("hosts"))
    if len(history.ready) < asked and not history.interrupted:
        yield unproven(f"only {len(history.ready)} of {count(asked, 'host')} became ready")


def _strikes(history: History) -> Iterator[Finding]:
    for what, done in (("kill", len(history.kills)), ("pause", len(history.pauses))):
        asked = _whole(history.setup.get(what))
        if done < asked and not history.interrupted:
            yield unproven(f"{count(asked, what)} asked for, {done} done: no further host was caught holding a lock")


def _work(history: History, messages: Messages) -> Iterator[Finding]:
    guarded = [function.name for function in history.functions.values() if function.guarded]
    if history.functions and not guarded and not history.sections:
        yield unproven("no function of this app is guarded by @singleton: there is nothing to judge")
    elif not history.sections:
        yield unproven("no guarded body ran: there is nothing to judge")
    done = messages.completed + messages.skipped
    if messages.sent and not done and not history.interrupted:
        hint = ": they may need other bodies (--messages FILE)" if messages.poisoned else ""
        yield unproven(f"none of the {count(messages.sent, 'message')} sent was processed{hint}")
    ran = {section.function for section in history.sections}
    idle = sorted(set(guarded) - ran)
    if idle and history.sections:
        yield note(f"never ran: {', '.join(idle)}")


def _notes(history: History) -> Iterator[Finding]:
    for remark in history.notes:
        yield note(remark)
    failed = [call for call in history.invocations if call.ending == "error"]
    own = Counter((call.function, error_name(call) or "an error") for call in failed)
    for (function, name), number in sorted(own.items()):
        by = "the lock" if name in LOCK_FAULTS else "its own code"
        by = "its policy" if name == "LockNotAcquired" else by
        yield note(f"{count(number, 'invocation')} of {function!r} failed with {name} ({by})")
    reasons = Counter(reason for _, _, _, reason in history.losses)
    for reason, number in sorted(reasons.items()):
        yield note(f"{count(number, 'hold')} lost ({reason or 'no reason given'})")


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
