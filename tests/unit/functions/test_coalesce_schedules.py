"""Random messages, faults and crashes: a body begins after the arrival of each message that left. And planted bugs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from singleton.base.errors import StorageError
from singleton.functions import coalescing
from singleton.locking.seat import Seat
from singleton.stores.protocol import within
from tests.support.coalescing import ended

if TYPE_CHECKING:
    from collections.abc import Callable


SEEDS = 600


def test_a_body_begins_after_each_message_that_left() -> None:
    assert {seed: faults for seed in range(SEEDS) if (faults := ended(seed).faults)} == {}


def test_messages_do_leave_in_these_worlds_and_hosts_crash() -> None:
    worlds = [*map(ended, range(30))]
    assert sum(len(world.left) for world in worlds) > 20
    assert sum(map(bool, (world.crashes for world in worlds))) > 10


# --- planted bugs -----------------------------------------------------------------------------------------------------


def begun_is_written_after_the_body(patch: pytest.MonkeyPatch) -> None:
    async def begin(seat: Seat) -> None:
        seat.waits = False
        asyncio.get_running_loop().call_later(6.0, setattr, seat, "_late", True)

    async def leave(seat: Seat) -> None:
        seat._lease, seat._taken, lease = None, False, seat._lease
        if lease is not None:
            await lease.stop()

    patch.setattr(Seat, "begin", begin)
    patch.setattr(Seat, "leave", leave)


def begun_without_an_answer_counts_as_written(patch: pytest.MonkeyPatch) -> None:
    begin = Seat.begin

    async def hopeful(seat: Seat) -> None:
        with suppress(StorageError):
            await begin(seat)

    patch.setattr(Seat, "begin", hopeful)


def the_lease_alone_counts(patch: pytest.MonkeyPatch) -> None:
    async def leased(seat: Seat) -> bool:
        return (await within(5.0, seat._store.read(seat.name))).held

    patch.setattr(Seat, "_another_waits", leased)


def a_granted_waiter_counts(patch: pytest.MonkeyPatch) -> None:
    begin = Seat.begin

    async def counted(seat: Seat) -> None:
        await begin(seat)
        seat.waits = True
        asyncio.get_running_loop().call_later(5.0, setattr, seat, "waits", False)

    async def leave(seat: Seat, before: Callable[[Seat], Any] = Seat.leave) -> None:
        waits = seat.waits
        await before(seat)
        seat.waits = waits

    patch.setattr(Seat, "begin", counted)
    patch.setattr(Seat, "leave", leave)


def trouble_is_read_as_taken(patch: pytest.MonkeyPatch) -> None:
    take = Seat.take

    async def taken(seat: Seat, owner: str, *, again: bool) -> bool | None:
        try:
            return await take(seat, owner, again=again)
        except StorageError:
            return False

    patch.setattr(Seat, "take", taken)


def a_lost_seat_counts_as_begun(patch: pytest.MonkeyPatch) -> None:
    said = Seat._said

    async def hopeful(seat: Seat) -> bool:
        return seat._lease is None or not seat._lease.alive() or await said(seat)

    patch.setattr(Seat, "_said", hopeful)


def a_repeated_delivery_counts_as_new(patch: pytest.MonkeyPatch) -> None:
    new = coalescing.Arrival.__init__

    def forgetful(self: Any, *arguments: Any, again: bool) -> None:
        new(self, *arguments, again=again and False)

    patch.setattr(coalescing.Arrival, "__init__", forgetful)


PLANTED = [
    begun_is_written_after_the_body,
    begun_without_an_answer_counts_as_written,
    the_lease_alone_counts,
    a_granted_waiter_counts,
    trouble_is_read_as_taken,
    a_repeated_delivery_counts_as_new,
    a_lost_seat_counts_as_begun,
]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert any(ended(seed).faults for seed in range(SEEDS))
