"""Read what user code asked of a pattern from two records: before the call, and after."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from simulator.history.deeds import outside
from simulator.history.facts import PatternUse
from simulator.history.value_digest import NOT_UNDERSTOOD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simulator.history.facts import Acquisition, Invocation
    from simulator.history.journal import Record


CALLBACK: Final = "a callback of hold.lost"
"""It is called at a loss only, and dropped with a hold that is given back."""
AGAIN: Final = "a second call of a callback of hold.lost"


class PatternUses:
    """Folds the records of uses, oldest first."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], PatternUse] = {}

    def take(
        self, record: Record, holds: Iterable[Acquisition] = (), calls: Iterable[Invocation] = ()
    ) -> Iterator[PatternUse]:
        """Take the next record, while these ``holds`` exist, in one of the ``calls``; yield the use that begins."""
        number = (record.host, record.text("number"))
        if record.event == "pattern_asked":
            texts = ("invocation", "of", "what", "name", "key", "id", "queue", "digest", "where")
            told: dict[str, Any] = {name: record.text(name) for name in texts}
            told |= {name: int(record.get(name) or 0) for name in ("place", "left", "attempt", "token")}
            told |= {"keep": math.inf if record.get("keep") is None else float(record.get("keep"))}
            hold = _hold(record, f"/{told['name']}", holds)
            caller = next((call.function for call in calls), "")
            self._open[number] = PatternUse(host=record.host, start=record.t, hold=hold, caller=caller, **told)
            yield self._open[number]
        elif record.event == "result_kept" and (hold := _hold(record, record.text("blob"), holds)):
            about: dict[str, Any] = {"invocation": outside(hold.owner), "caller": "", "name": hold.lock, "hold": hold}
            keep = float(record.get("seconds"))
            yield PatternUse(host=record.host, start=record.t, of="@once", what="end", keep=keep, **about)
        elif record.event == "pattern_answered" and number in self._open:
            use = self._open.pop(number)
            use.end, use.ok, use.default = record.t, "error" not in record.fields, record.get("default")
            use.digest = record.text("digest") if "digest" in record.fields else use.digest
            use.id, use.found = record.text("id") or use.id, tuple(record.get("found") or ())
            use.left = int(record.get("left") or 0) if use.of == "look" else use.left
            if use.what == "read" and record.get("reason") == NOT_UNDERSTOOD:  # the call returned: it is no value
                use.digest, use.ok = NOT_UNDERSTOOD, True


def _hold(record: Record, blob: str, holds: Iterable[Acquisition]) -> Acquisition | None:
    """Return the hold of a worker under which something is done with this blob: the invocation's own, if it has one."""
    worker = record.host, int(record.get("worker") or 0)
    theirs = [got for got in holds if (got.host, got.worker) == worker and blob.endswith(f"/{got.blob or got.lock}")]
    mine = [got for got in theirs if outside(got.owner) == record.text("invocation")]
    return next(iter(mine or theirs), None)
