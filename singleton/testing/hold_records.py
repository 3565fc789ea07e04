"""A registry for tests with a record of unreleased holds, which can refuse or grant every acquire."""

from __future__ import annotations

import asyncio
import math
import random
import weakref
from typing import TYPE_CHECKING, Any, Literal

from singleton.base.double_hold import parts_of
from singleton.base.errors import LockNotAcquired
from singleton.base.hold import Hold
from singleton.process.registry import Registry
from singleton.testing.memory_queue import MemoryMessageStore, StoredMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.process.address import Address
    from singleton.settings.accounts import LockContainer
    from singleton.testing.memory_store import MemoryLeaseStore

Manner = Literal["as it is", "busy", "off"]
"""The answer to an acquire: what the store says, "in use", or a hold that locks nothing."""

manners: list[Manner] = ["as it is"]
"""Stack of manners: the last manner applies."""


class RecordingRegistry(Registry):
    """A registry with a record of unreleased holds. The current manner decides the answer to an acquire."""

    def __init__(self, open_store: Callable[[LockContainer], MemoryLeaseStore]) -> None:
        # Seeded: the same lease ids and polls in each run.
        super().__init__(
            open_store,
            random.Random(1),  # noqa: S311
            open_queue=lambda _account, _name: _Queue(),
            wall=lambda: asyncio.get_running_loop().time(),  # the clock jumps under virtual time
        )
        self._out: dict[weakref.ref[Hold], str] = {}

    async def acquire(self, address: Address, *, owner: str, **how: Any) -> Hold:
        """See ``Registry.acquire``."""
        if manners[-1] == "busy":
            raise LockNotAcquired(
                f"lock {address.name!r} was not acquired: under always_busy() somebody else has it",
                lock=address.name,
                owner=owner,
            )
        if manners[-1] == "off":
            return Hold(address.name, owner=owner)
        hold = await super().acquire(address, owner=owner, **how)
        if address not in self.keepers:  # a listener keeps it as long as the process lives
            self._out[weakref.ref(hold)] = (
                f"{hold.lock!r}, acquired by {hold.owner!r}" if hold.owner else repr(hold.lock)
            )
        return hold

    def known(self, address: Address) -> None:
        """Return None: nobody runs here, as the manner decides how an acquire is answered."""

    async def release(self, hold: Hold) -> None:
        """See ``Registry.release``."""
        await super().release(hold)
        self._forget(hold)

    def end(self, hold: Hold, then: Callable[[], object]) -> bool:
        """See ``Registry.end``."""

        def ended() -> None:
            self._forget(hold)
            then()

        return super().end(hold, ended)

    async def drop(self, hold: Hold) -> None:
        """See ``Registry.drop``."""
        await super().drop(hold)
        self._forget(hold)

    def _forget(self, hold: Hold) -> None:
        if hold.lease_id is None:
            hold.lost.freeze()
        for each in parts_of(hold):
            self._out.pop(weakref.ref(each), None)

    def left(self) -> list[str]:
        """Name the holds that were neither released nor lost; a dropped hold counts as not released."""
        return [name for ref, name in self._out.copy().items() if (hold := ref()) is None or not hold.lost.is_set()]


class _Queue(MemoryMessageStore):
    """A queue that has every invented message of a test, so a test can put the message back."""

    def _owned(self, id: str, receipt: str) -> StoredMessage:  # noqa: A002
        now = self._now()
        self._messages.setdefault(id, StoredMessage(id, "", now, math.inf, now, receipt))
        return super()._owned(id, receipt)
