"""Invocations that leave for nobody: no waiter exists, or it has begun, has given up or waits for another lock."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import LockNotAcquired
from singleton.functions.coalescing import Arrival
from singleton.locking.seat import Seat
from singleton.runtime.registry import Registry
from tests.broken.breaking import Now, around, broken, names

if TYPE_CHECKING:
    from singleton.base.hold import Hold
    from tests.broken.breaking import Patch

_ALONE: Final = "ended as coalesced, and no body of its lock began later"


@broken(_ALONE, app="refreshes")
def each_refused_arrival_leaves(patch: Patch) -> None:
    async def acquire(self: Arrival, registry: Registry, _: float | None) -> Hold | None:
        try:
            return await self._acquire(registry, 0)
        except LockNotAcquired:
            return None

    patch.setattr(Arrival, "acquire", acquire)


@broken(_ALONE, app="hasty")
def a_waiter_whose_time_is_up_ends_as_coalesced(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def seated(self: Arrival, *args: Any) -> Hold | None:
            try:
                return await real(self, *args)  # type: ignore[no-any-return]
            except LockNotAcquired:
                return None

        return seated

    around(patch, Arrival, "_seated", made)


@broken(_ALONE, app="refreshes")
def the_seat_says_waiting_while_the_body_runs(patch: Patch) -> None:
    async def begin(self: Seat) -> None:
        self.waits = False

    async def leave(self: Seat) -> None:
        self.waits, self._lease, self._taken = False, None, False

    patch.setattr(Seat, "begin", begin)
    patch.setattr(Seat, "leave", leave)


@broken(_ALONE, app="refreshes")
def a_waiter_counts_in_its_process_after_its_body_has_begun(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def leave(self: Seat) -> None:
            await real(self)
            self.waits = True
            asyncio.get_running_loop().call_later(0.3, setattr, self, "waits", False)

        return leave

    around(patch, Seat, "leave", made)


@broken(_ALONE, app="refreshes")
def each_second_look_at_a_seat_fails_and_counts_as_a_waiter(patch: Patch) -> None:
    now = Now(2)

    def made(real: Any) -> Any:
        async def take(self: Seat, owner: str, *, again: bool) -> bool | None:
            return False if now() else await real(self, owner, again=again)

        return take

    around(patch, Seat, "take", made)


@broken(_ALONE, app="refreshes")
def all_values_of_a_scope_share_one_seat(patch: Patch) -> None:
    def made(real: Any) -> Any:
        return lambda self, address: real(self, replace(address, name=address.name.partition(".")[0]))

    around(patch, Registry, "seat", made)


@broken(_ALONE, app="refreshes")
def all_values_of_a_scope_share_one_lock_and_one_seat(patch: Patch) -> None:
    names(patch, lambda name: name.partition(".")[0])
