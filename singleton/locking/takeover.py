"""Asking for a lease that somebody else has, and taking it from a holder that has fallen silent (``failover``).

Once it is known that somebody has the lease, a waiter reads the blob before it asks. Reading costs a request as well,
and shows whether the holder touches its lock. If it was silent for longer than *its own* ``failover`` allows, its lease
is broken on condition that the ETag is still the one that was read, so that a touch on its way wins. What was read is
forgotten before that: the next holder has not touched the lock yet.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

from singleton.base.invocation import log as _log
from singleton.stores.protocol import LeaseStore, StoreFailure, within
from singleton.stores.suspicion import Suspicion

if TYPE_CHECKING:
    from singleton.locking.acquisition import Acquisition
    from singleton.locking.lease import Lease
    from singleton.stores.protocol import BlobState

_SHORTEST_CALL: Final = 1.0
_OF_USE: Final = 60.0
"""Seconds for which a lock is kept, though it idles, when its holder might be found to be silent."""


class Takeover:
    """Asks as an ``Acquisition`` does. What it has read is remembered from one attempt to the next."""

    def __init__(self, acquisition: Acquisition, store: LeaseStore, name: str, failover: float) -> None:
        self._acquisition = acquisition
        self._store = store
        self._name = name
        self._call = max(_SHORTEST_CALL, failover / 2)
        self._suspicion = Suspicion()

    @property
    def due(self) -> float:
        """When the next look may show that the holder is silent, by the loop's clock; infinite: not to be said."""
        return self._suspicion.due

    @property
    def remembers(self) -> bool:
        """Tell whether what was read of the holder may still be of use: to a single attempt within a minute."""
        return asyncio.get_running_loop().time() - _OF_USE < self.due < math.inf

    async def ask(self, owner: str) -> Lease:
        """Ask for the lease once. See ``Acquisition.ask``."""
        if self._suspicion.etag is not None and await self._is_taken() and not self._acquisition.in_doubt:
            raise StoreFailure(409, "LeaseAlreadyPresent", "as was read")
        try:
            lease = await self._acquisition.ask(owner)
        except StoreFailure as failure:
            if failure.meaning == "held" and self._suspicion.etag is None:
                await self._begin_to_watch()
            raise
        self._suspicion.forget()
        return lease

    async def _begin_to_watch(self) -> None:
        """Read who has it, for the next attempt; the answer to this one is known."""
        try:
            await self._look()
        except StoreFailure as failure:
            _log.debug("lock %s: not read: %s", self._name, failure)

    async def _is_taken(self) -> bool:
        """Look whether somebody has it. One who has been silent for too long has it no more."""
        try:
            state, silent = await self._look()
        except StoreFailure as failure:
            if failure.meaning not in ("missing", "deleting"):
                raise
            self._suspicion.forget()
            return False
        if silent is not None:
            await self._break(silent)
            return False
        return state.held

    async def _look(self) -> tuple[BlobState, str | None]:
        loop = asyncio.get_running_loop()
        sent = loop.time()
        state = await within(self._call, self._store.read(self._name))
        return state, self._suspicion.read(state, sent=sent, replied=loop.time())

    async def _break(self, etag: str) -> None:
        """End the lease of the holder that left this ETag. Whatever comes of that, the acquire that follows tells."""
        self._suspicion.forget()
        try:
            await within(self._call, self._store.break_(self._name, etag))
        except StoreFailure as failure:
            _log.debug("lock %s: the lease of its silent holder was not broken: %s", self._name, failure)
        else:
            _log.warning(
                *("lock %s: its holder was silent for too long, so its lease was broken", self._name),
                extra={"lock": self._name},
            )
