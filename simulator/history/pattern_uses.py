"""Read what user code asked of a pattern from two records: before the call, and after."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from simulator.history.facts import PatternUse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simulator.history.facts import Acquisition, Invocation
    from simulator.history.journal import Record


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
            texts = ("invocation", "of", "what", "name", "key", "id", "queue", "digest")
            told: dict[str, Any] = {name: record.text(name) for name in texts}
            told |= {"place": int(record.get("place") or 0), "keep": float(record.get("keep") or math.inf)}
            whose = (record.host, int(record.get("worker") or 0), told["name"])
            hold = next((got for got in holds if (got.host, got.worker, got.lock) == whose), None)
            caller = next((call.function for call in calls), "")
            self._open[number] = PatternUse(host=record.host, start=record.t, hold=hold, caller=caller, **told)
            yield self._open[number]
        elif record.event == "pattern_answered" and number in self._open:
            use = self._open.pop(number)
            use.end, use.ok, use.default = record.t, "error" not in record.fields, record.get("default")
            use.digest = record.text("digest") if "digest" in record.fields else use.digest
