"""Adds messages to the logs of an inbox: what one process sends. Lives where locks do. See ``protocol.py``."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import weakref
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from singleton.base.tasks import undisturbed
from singleton.locking.acquisition import storage_error
from singleton.locking.lease import as_failure
from singleton.patterns.ordered.protocol import NEW, chain_of, end_chain
from singleton.stores.log_store import FULL, NO_LOG

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from singleton.patterns.ordered.entries import Entry
    from singleton.patterns.ordered.protocol import Names, Store
    from singleton.stores.protocol import StoreFailure

_PATIENCE: Final = 30.0
"""Seconds that a message may take into its log."""
_CALL: Final = 5.0
_BYTES_A_SECOND: Final = 500_000
_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_STEADY: Final = 0.5
"""Seconds by which wall clock and monotonic clock may move against each other between two messages."""
_REMEMBERED: Final = 4096
"""Keys of which is remembered when their bell was rung."""
_SILENCE: Final = _PATIENCE
"""Seconds after which a bell is rung for a message that is not the first in its log: who sent the first may have died
before it rang, or this process may not know that it was: when it gives that up, so much time has passed."""


class Place(NamedTuple):
    """The log that messages of a key are added to: its first, or a part behind the full log ``chain``."""

    chain: str = ""
    part: int = 0


class Sender:
    """Sends the messages of one process to one inbox."""

    def __init__(
        self, store: Store, names: Names, *, wall: Callable[[], float], rng: random.Random | None = None
    ) -> None:
        self._store = store
        self._names = names
        self._wall = wall
        self._rng = rng or random.SystemRandom()
        self._id = ""
        self._numbers = itertools.count(1)
        self._clocks = 0.0
        self._process = 0
        self._turns: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._places: dict[str, Place] = {}
        self._rung: OrderedDict[str, float] = OrderedDict()

    @undisturbed
    async def send(self, spot: str, entry: Entry, ring: Callable[[str], Awaitable[object]]) -> None:
        """Add a message to its log, under a number of this sender's unless it has one, and ring the bell if needed.

        What has begun goes on to its end. ``ring`` rings the bell of a spot. That it could not be rung is no error: the
        message is in the log.

        Raises:
            StorageError: it was not sent, or that is not known; then it will not be handled after one that is sent
                after it.
        """
        offset = await self._appended(spot, entry)
        now = asyncio.get_running_loop().time()
        if not self._is_due(spot, offset, now):
            return
        self._rung.pop(spot, None)
        if not await ring(spot):
            return
        self._rung[spot] = now
        if len(self._rung) > _REMEMBERED:
            self._rung.popitem(last=False)

    def _is_due(self, spot: str, offset: int, now: float) -> bool:
        """Tell whether a bell is to be rung for a message at this offset."""
        return not offset or now - self._rung.get(spot, -_SILENCE) >= _SILENCE

    async def _appended(self, spot: str, entry: Entry) -> int:
        """Add a message to its log, in its turn; return its offset."""
        turn = self._turns.setdefault(spot, asyncio.Lock())
        async with turn:
            if not entry.sender:
                entry = replace(entry, sender=self._named(), number=next(self._numbers))
            return await self._added(spot, entry.framed())

    def _named(self) -> str:
        """Return the id of this sender; another in a copy of the process."""
        before, self._clocks = self._clocks, self._wall() - asyncio.get_running_loop().time()
        if not self._id or abs(self._clocks - before) > _STEADY or self._process != os.getpid():
            self._id, self._process = f"{self._rng.getrandbits(64):016x}", os.getpid()
        return self._id

    async def _added(self, spot: str, block: bytes) -> int:
        """Add a block to the log of a spot, whatever becomes of the requests; return its offset.

        0 also where an earlier request may have added it as the first.
        """
        loop = asyncio.get_running_loop()
        ends, pause = loop.time() + _PATIENCE, _PAUSE
        place, may_be_first = self._places.get(spot, Place()), False
        while True:
            try:
                async with asyncio.timeout_at(min(ends, loop.time() + _CALL + len(block) / _BYTES_A_SECOND)):
                    offset = await self._store.append(self._name(spot, place), block)
            except Exception as error:  # noqa: BLE001 - whatever a store raises, it is a failure to answer
                failure = as_failure(error)
            else:
                self._found(spot, place)
                return 0 if may_be_first else offset
            may_be_first = may_be_first or failure.meaning == "transient"
            try:
                async with asyncio.timeout_at(min(ends, loop.time() + _CALL)):
                    found = await self._other(spot, place, failure)
            except Exception as error:  # noqa: BLE001
                found, failure = None, as_failure(error)
            if found is not None and loop.time() < ends:
                place = found
                continue
            if failure.meaning in ("denied", "refused") or loop.time() + pause >= ends:
                raise storage_error(self._name(spot, place), failure, what="log") from failure
            await asyncio.sleep(max(pause, min(failure.retry_after or 0.0, ends - loop.time())))
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _other(self, spot: str, place: Place, failure: StoreFailure) -> Place | None:
        """Return the next place for the entry after a refusal at ``place``; None: ``place`` again, a bit later."""
        name = self._name(spot, place)
        if failure.code == FULL:
            chain = place.chain
            if not chain:
                first = await self._store.tail(name, 0, 1)
                if not first.full:  # it is another by now
                    return place
                chain = chain_of(first)
            following = Place(chain, place.part + 1)
            await self._store.start_log(self._name(spot, following), NEW)
            return following
        if failure.code == NO_LOG and place.part:
            await end_chain(self._store, self._names.log(spot), place.chain)
            return Place()
        if failure.meaning == "missing":
            if not place.part:
                await self._store.start_log(name, NEW)
            return Place()
        return None

    def _found(self, spot: str, place: Place) -> None:
        if place.part:
            self._places[spot] = place
        else:
            self._places.pop(spot, None)

    def _name(self, spot: str, place: Place) -> str:
        return self._names.log(spot, place.chain, place.part)
