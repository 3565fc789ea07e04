"""Reads the log of one key, under its lock, and deletes what was read. Lives where locks do. See ``protocol.py``.

The state kept with the key's lock: the position of the reader in the log, failures and senders.
"""

from __future__ import annotations

import math
import uuid
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from singleton.base.errors import StorageError
from singleton.base.state import UNTIL_KEY, WHILE_KEY, Kept, read_as, refuse_foreign, written_as
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered
from singleton.patterns.ordered.entries import entries_in, not_understood
from singleton.patterns.ordered.protocol import ENDED, LOG_KEY, chain_of, end_chain, id_in
from singleton.stores.log_store import BEYOND, LONGEST_BLOCK
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from singleton.patterns.ordered.entries import Entry
    from singleton.patterns.ordered.protocol import Names
    from singleton.stores.lock_keeping import BlobStore
    from singleton.stores.log_store import Tail

MOST_SENDERS: Final = 256
"""Number of senders with a kept last number."""
_WEEK: Final = 7 * 86_400.0
"""Seconds for which the last numbers of senders are kept behind the last message, at least."""


@dataclass(slots=True)
class Position:
    """Position of the reader of a key.

    Attributes:
        log: label of the current log; empty: a log without our label, read from its beginning.
        at: offset of the first unread entry.
        entries: number of entries before ``at``.
        part: number of the current log behind a full log; 0: the key's first log.
        chain: label of the full log before the part.
        failures: number of failures of the message at ``at``.
        begun: number of attempts at the message without a known end.
        until: earliest time of the next attempt, by the wall clock.
        stopped: error which stopped the key; empty: not stopped.
        aside: reason for putting the message at ``at`` aside without a further attempt; empty: none.
        senders: last number read from every sender, the most recent sender at the end.
    """

    log: str = ""
    at: int = 0
    entries: int = 0
    part: int = 0
    chain: str = ""
    failures: int = 0
    begun: int = 0
    until: float = 0.0
    stopped: str = ""
    key: str = ""
    aside: str = ""
    senders: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, lock: str, kept: Kept) -> Position:
        """Return the position in the kept state. ``StorageError``: the state is not understood."""
        refuse_foreign(lock, kept)
        told: Any = read_as(lock, kept, {})
        try:
            return cls(**{name: told[name] for name in (each.name for each in fields(cls)) if name in told})
        except TypeError:
            raise StorageError(
                f"lock {lock!r}: its state is not that of an inbox", lock=lock, reason="state not understood"
            ) from None

    def kept(self, in_use_while: str, at: float) -> Kept:
        """Return the state to keep; empty fields are left out. ``protocol.py`` says when a sweep may delete the state.

        ``in_use_while``: the value of the mark ``WHILE_KEY``; ``at``: seconds since 1970.
        """
        said = asdict(self)
        if not self.log:
            said["at"] = said["entries"] = 0
        kept = written_as({name: value for name, value in said.items() if value})
        return Kept(kept.body, {**kept.marks, UNTIL_KEY: str(math.ceil(at + _WEEK)), WHILE_KEY: in_use_while})

    @property
    def tried(self) -> int:
        """Number of counted attempts at the message at ``at``."""
        return self.failures + self.begun

    def is_repeat(self, entry: Entry) -> bool:
        """Tell whether the entry was read before."""
        return entry.number <= self.senders.get(entry.sender, 0)

    def passed(self, entry: Entry) -> None:
        """Go behind an entry which is handled, put aside, or a repeat."""
        if not self.is_repeat(entry):
            self.senders.pop(entry.sender, None)
            self.senders[entry.sender] = entry.number
            while len(self.senders) > MOST_SENDERS:
                del self.senders[next(iter(self.senders))]
            self.aside = ""
            self.failures, self.begun, self.until = 0, 0, 0.0
        self.at = entry.end
        self.entries += 1

    def begin(self) -> None:
        """Go to the beginning of the log."""
        self.log, self.at, self.entries = "", 0, 0

    def next_part(self, chain: str) -> None:
        """Go to the part behind a full log; ``chain``: label of the first full log."""
        self.chain = self.chain or chain
        self.part += 1
        self.begin()

    def restart(self) -> None:
        """Go to the key's first log: the parts have ended."""
        self.part, self.chain = 0, ""
        self.begin()


_T = TypeVar("_T")

_AHEAD: Final = 256 * 1024
"""Bytes that are read at once."""
_CALL: Final = 15.0
_ANSWER: Final = 30.0
_FEW: Final = MOST_SENDERS // 2
"""Entries, or senders, of a log that is read from its beginning each time, at most: all senders are remembered."""
_LOOKS: Final = 5
"""Reads in a row that may find more blocks than entries: each block is one."""


class LogReader:
    """Reads on from a position, which its user moves."""

    def __init__(self, store: BlobStore, names: Names, spot: str, position: Position) -> None:
        self._store = store
        self._names = names
        self._spot = spot
        self._position = position
        self._seen: Tail | None = None

    @property
    def _name(self) -> str:
        return self._names.log(self._spot, self._position.chain, self._position.part)

    async def more(self) -> list[Entry]:
        """Return entries that were not read, in order; none: all are read, and the log is deleted.

        The entries of the call before must have been passed. ``StorageError``: the log is not understood.
        """
        try:
            return await self._more()
        except StoreFailure as failure:
            raise storage_error(self._name, failure, what="log") from failure

    async def _more(self) -> list[Entry]:
        position, most, looks = self._position, _AHEAD, _LOOKS
        if await self._drained():  # all that the last request found was read
            return []
        while looks:
            tail = await self._tail(most)
            if tail is None:
                if not position.part:
                    return []
                await self._end_parts()
                continue
            if id_in(tail.metadata) == ENDED:
                await end_chain(self._store, self._names.log(self._spot), position.chain)
                position.restart()
                continue
            if position.log not in ("", id_in(tail.metadata), chain_of(tail)):
                position.begin()
                continue
            skipped = min(position.at, 1)
            entries = [*entries_in(tail.body[skipped:], position.at, self._name)]
            if entries:
                self._seen = await self._known(tail, entries, is_short=len(tail.body) < most and len(entries) <= _FEW)
                if self._seen is not None:
                    return entries
                continue
            if len(tail.body) == most > _AHEAD or (len(tail.body) < most and len(tail.body) > skipped):
                raise self._not_understood()
            if len(tail.body) == most:
                most = LONGEST_BLOCK + 1
                continue
            self._seen = tail
            if await self._drained():
                return []
            looks -= 1
        raise self._not_understood()

    async def _drained(self) -> bool:
        """Delete the log as seen, if wholly read, or go on to the part behind the log; True: no message is left."""
        seen, self._seen = self._seen, None
        position = self._position
        if seen is None or seen.blocks != position.entries:
            return False
        if seen.full:
            position.next_part(chain_of(seen))
            return False
        if not await self._dropped(seen.etag):
            return False
        return not position.part

    async def _dropped(self, etag: str) -> bool:
        """Delete the log if it is as it was seen; tell whether it is gone."""
        try:
            await self._asked(lambda: self._store.drop(self._name, etag))
        except StoreFailure as failure:
            if failure.meaning not in ("missing", "changed"):
                raise
            return failure.meaning == "missing"
        return True

    async def _tail(self, most: int) -> Tail | None:
        """Read on; None: there is no log.

        The byte before is read as well: so there is something to be read, unless it is another log, which is shorter.
        """
        if not self._position.log:
            self._position.begin()
        start = max(self._position.at - 1, 0)
        try:
            tail = await self._asked(lambda: self._store.tail(self._name, start, most))
        except StoreFailure as failure:
            if failure.meaning == "missing":
                return None
            if failure.code != BEYOND or not start:
                raise
            tail = None
        if tail is None or (start and not tail.body):
            self._position.begin()
            return await self._tail(most)
        return tail

    async def _known(self, tail: Tail, entries: list[Entry], *, is_short: bool) -> Tail | None:
        """Make the log distinct from other logs of its name, before an offset in the log is kept.

        A short log needs nothing: reads begin at its start, and the last numbers of its senders tell the read entries.
        The ETag is the mark of a full log. Other logs get a label, once. If senders are always faster than the label,
        the log has no label for now, if the senders of all its entries are remembered. None: the log has changed.
        """
        position = self._position
        if position.log or is_short:
            return tail
        if tail.full:
            position.log = chain_of(tail)
            return tail
        label = uuid.uuid4().hex[:16]
        try:
            etag = await self._asked(lambda: self._store.label(self._name, {LOG_KEY: label}, tail.etag))
        except StoreFailure as failure:
            if failure.meaning not in ("missing", "changed"):
                raise
            is_busy = failure.meaning == "changed" and len({each.sender for each in entries}) <= _FEW
            return tail if is_busy else None
        position.log = label
        return tail._replace(etag=etag)

    async def _end_parts(self) -> None:
        """Mark the end of the parts, under the name of the last part, unless a sender has made that part again."""
        position, name = self._position, self._name
        if await self._asked(lambda: self._store.create(name, {LOG_KEY: ENDED})) is None:
            return
        await end_chain(self._store, self._names.log(self._spot), position.chain)
        position.restart()

    async def _asked(self, request: Callable[[], Awaitable[_T]]) -> _T:
        return await answered(request, call=_CALL, answer=_ANSWER)

    def _not_understood(self) -> StorageError:
        return not_understood(self._name, self._position.at)
