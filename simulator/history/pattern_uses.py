"""What user code asked of a pattern: a read or a write of ``hold.state``, a block of ``once``, a send."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simulator.history.journal import Record

Pattern = Literal["hold.state", "once", "inbox", "outbox"]


class NamedCall(Protocol):
    """An invocation, as far as a use needs the invocation."""

    function: str


class NamedHold(NamedCall, Protocol):
    """A hold, as far as a use needs the hold: the name of the lock may change later."""

    host: str
    worker: int
    lock: str


@dataclass(slots=True, kw_only=True)
class PatternUse:
    """One call of the public API.

    Attributes:
        what: ``read`` or ``write`` of what is kept; ``send``; ``sent``, ``failed`` (given up) or ``again``, as a relay
            notes.
        name: of the lock, the inbox or the outbox. key: of the operation or the message. place: in an outbox.
        queue: for the bells of an inbox.
        digest: of the value that was written, read or sent; empty: no value. default: of a read's default.
        caller: the function for whose invocation it was asked; empty: not known.
        hold: the hold of the guard under which it was asked; None: of a lock client, or of nobody.
        ok: whether the call returned; an open use, and one that raised, may have had its effect or not.
    """

    host: str
    invocation: str
    caller: str
    of: Pattern
    what: str
    name: str
    start: float
    end: float = math.inf
    key: str = ""
    id: str = ""
    place: int = 0
    queue: str = ""
    digest: str = ""
    default: str | None = None
    keep: float = math.inf  # seconds after which what was written may be forgotten
    hold: NamedHold | None = None
    ok: bool = False

    @property
    def register(self) -> tuple[str, str, str]:
        """The place of what is kept: equal for all who must read what the last of them wrote."""
        return self.of, self.lock, self.key

    @property
    def lock(self) -> str:
        """The lock under which it was asked."""
        return self.hold.lock if self.hold else self.name

    @property
    def function(self) -> str:
        """The function whose guard has the lock, or else the one that asked; empty: not known."""
        return self.hold.function if self.hold else self.caller


class PatternUses:
    """Folds the records of uses, oldest first."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], PatternUse] = {}

    def take(
        self, record: Record, holds: Iterable[NamedHold] = (), calls: Iterable[NamedCall] = ()
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
