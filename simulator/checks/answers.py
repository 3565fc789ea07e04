"""A guard passes on what the guard is given: arguments to its function, and the result and the outputs to the host.

And a guard ends after its function, or without it as its policy says. Different texts get
different names for their locks. The witness compares on each host (``witness/guards.py``); what the app's own
decorators change is not compared.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import Finding, by_function, count, unproven, violation
from simulator.checks.losses import LATE
from simulator.history.deeds import inside, outside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import History
    from simulator.history.journal import Record


_WRONG: Final = {
    "argument": "called its body with another {!r} than @singleton was called with",
    "early": "ended while its body still ran",
    "owned": "ended, and its hold says that it is owned still",
    "ended": "ended, and its hold tells who waits for a loss that it is lost",
    "result": "returned something else than its body",
    "output": "handed on another value of its output {!r} than its body had set",
    "answer": "returned a value though no body of it had run",
    "refusal": "met on_contention='conflict' without an answer of 409 and Retry-After",
    "refused": "failed with ConfigurationError, though nothing in what its body had returned runs later",
    "failed": "failed with {} though its body had succeeded",
    "swallowed": "succeeded although its body had failed with {}",
    "hushed": "left a block without LockLost, though its hold was lost and on_loss='raise'",
    "uncancelled": "went on after the loss of a block's lock, and nobody cancelled its task, though on_loss='raise'",
    "worked": "went on after the loss of its periodic worker's hold, and nobody cancelled its task",
    "cancelled": "was cancelled in a block at the loss of its lock, though on_loss='tell'",
    "led": "got a hold of a leadership that had been lost before",
    "ran": "got from once(…).run something else than what its work had returned, or ran that work twice",
    "raised": "left a block with LockLost, though on_loss='tell'",
}
_BESIDE: Final = frozenset({"failed", "swallowed"})
"""What `judge_endings` finds too, unless the function has decorators of the app's own."""


def judge_answers(history: History) -> Iterator[Finding]:
    """Find guards that changed values on the way, or ended before the function below."""
    called = {(call.host, call.id): call.function for call in history.invocations}
    busy = {(each.host, outside(each.owner)) for each in history.refusals if each.reason == "conflict"}
    found: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    yield from _unrun(history)
    for record in history.altered:
        whose = record.host, record.text("invocation")
        name, kind = record.text("function") or called.get(whose, ""), record.text("kind") or "result"
        worker = int(record.get("worker") or 1)
        function = history.function(name)
        since = record.t - float(record.get("seconds") or math.inf)
        in_time = kind in {"uncancelled", "worked"} and history.worked(record.host, worker, since, record.t) <= LATE
        skipped = in_time or (kind in _BESIDE and not function.decorated)
        skipped |= kind == "refusal" and whose not in busy
        skipped |= kind == "owned" and function.mode == "listener"  # its process goes on with it
        if not skipped and not (kind == "swallowed" and whose in history.struck):
            found[name, kind, record.text("what")].append(record)
    for (name, kind, what), records in sorted(found.items()):
        text = f"{count(len(records), 'invocation')} of {name!r} {_WRONG[kind].format(what)}"
        sure = [record for record in records if record.get("sure", True)]
        first = _first(history, (sure or records)[0])
        if sure:
            yield violation(f"{text} ({first})")
        else:
            why = "other bodies, which may have changed the value, ran meanwhile in the same process"
            yield unproven(f"{text}; not judged, as {why} ({first})")


def _first(history: History, record: Record) -> str:
    forms = [text for name in ("got", "given") if (text := record.text(name))]
    what = f": {' in place of '.join(forms)}" if forms else ""
    return f"first on {record.host}, {record.t - history.start:.1f} s after the start{what}"


def may_succeed(history: History) -> set[tuple[str, str]]:
    """Return the hosts and owners that were refused a lock by a policy which makes a success of that."""
    return {
        (each.host, each.owner)
        for each in history.refusals
        if (each.mode == "listener" and each.reason != "raise")
        or each.reason == history.function(each.function).when_full == "defer"
        or (
            history.function(each.function).on_contention not in {"wait", "raise"}
            and each.reason not in {"timeout", "raise"}
        )
    }


def _unrun(history: History) -> Iterator[Finding]:
    """Judge guards that ran nothing by how they ended themselves: decorators above may end the invocation otherwise.

    What has no such decorators is judged by its invocation. No guard finds less in a message than its declaration says.
    """
    calls = {(call.host, call.id): call for call in history.invocations}
    nameless = {(each.host, each.function) for each in (*history.waits, *history.refusals) if not each.owner}
    refused, well = {(each.host, each.owner) for each in history.refusals}, may_succeed(history)
    asked = {(each.host, each.owner) for each in history.waits}
    empty, early, alone, blind = (Counter[str]() for _ in range(4))
    for record in history.unrun:
        name, who, error = record.text("function"), record.text("invocation"), record.text("error")
        function, call = history.function(name), calls.get((record.host, who))
        if call is None or not function.guarded or (record.host, name) in nameless:
            continue
        if error == "ScopeError" and call.function == name and record.get("delivered"):
            blind[name] += "function" in call.keys and None not in call.keys.values()
        if not function.decorated:
            continue
        wheres = {(record.host, who), (record.host, inside(who, name))}
        if not error:
            empty[name] += well.isdisjoint(wheres)
        elif not record.get("own"):
            early[name] += not asked.isdisjoint(wheres) and function.on_contention != "custom"
        elif error == "LockNotAcquired":
            alone[name] += refused.isdisjoint(wheres)
    yield from by_function(empty, "passed the guard without the body, neither skipped nor put back")
    yield from by_function(early, "failed at the guard without the body, by no error of the lock's")
    yield from by_function(alone, "failed at the guard with LockNotAcquired, and nobody had refused it the lock")
    yield from by_function(blind, "failed with ScopeError, though its message has the value that @singleton names")
