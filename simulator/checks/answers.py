"""A guard passes on what the guard is given: arguments to its function, and the result and the outputs to the host.

And a guard ends after its function. Different texts get
different names for their locks. The witness compares on each host (``witness/guards.py``); what the app's own
decorators change is not compared.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import Finding, count, unproven, violation
from simulator.history.deeds import outside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import History
    from simulator.history.journal import Record


_WRONG: Final = {
    "argument": "called its body with another {!r} than @singleton was called with",
    "early": "ended while its body still ran",
    "result": "returned something else than its body",
    "output": "handed on another value of its output {!r} than its body had set",
    "answer": "returned a value though no body of it had run",
    "refusal": "met on_contention='conflict' without an answer of 409 and Retry-After",
    "refused": "failed with ConfigurationError, though nothing in what its body had returned runs later",
    "failed": "failed with {} though its body had succeeded",
    "swallowed": "succeeded although its body had failed with {}",
    "hushed": "left a block without LockLost, though its hold was lost and on_loss='raise'",
    "uncancelled": "went on after the loss of a block's lock, and nobody cancelled its task, though on_loss='raise'",
    "led": "got a hold of a leadership that had been lost before",
    "raised": "left a block with LockLost, though on_loss='tell'",
}
_BESIDE: Final = frozenset({"failed", "swallowed"})
"""What `judge_endings` finds too, unless the function has decorators of the app's own."""


def judge_answers(history: History) -> Iterator[Finding]:
    """Find guards that changed values on the way, or ended before the function below."""
    called = {(call.host, call.id): call.function for call in history.invocations}
    busy = {(each.host, outside(each.owner)) for each in history.refusals if each.reason == "conflict"}
    found: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in history.altered:
        whose = record.host, record.text("invocation")
        name, kind = record.text("function") or called.get(whose, ""), record.text("kind") or "result"
        function = history.function(name)
        skipped = (kind in _BESIDE and not function.decorated) or (kind == "refusal" and whose not in busy)
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
