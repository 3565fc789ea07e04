"""An operator takes a lock away: who had it stops before anybody else gets in, or it is said for how long not."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import pytest

from simulator.pilot.assumed.lease_table import written
from singleton.base.errors import ConfigurationError, StorageDenied, StorageError, StorageUnavailable
from singleton.locking.lock import release
from singleton.operating.lease_break import Broken, Passed, break_hold, end_hold
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.network import LOST_REPLY, LOST_REQUEST, Fate, Network, answered
from tests.support.world import NAME, held, lock_on, now, virtual

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

FOREIGN = "99999999-9999-4999-8999-999999999999"


@virtual
async def test_by_default_the_rest_of_the_lease_runs_out_and_its_holder_stops_before_anybody_gets_in() -> None:
    network = Network()
    hold = await lock_on(network).acquire(owner="me")
    lost: list[float] = []
    hold.lost.add_callback(lambda _: lost.append(now()))
    await asyncio.sleep(20)  # renewed twice: at 7.5 and 15
    broken = await break_hold(network, NAME)
    assert broken is not None
    assert (broken.lock, broken.holder.owner, broken.together) == (NAME, "me", 0)
    assert 9 <= broken.free_in <= 10
    waiting = asyncio.create_task(lock_on(network).acquire())
    other = await waiting
    assert lost
    assert lost[0] < now() <= 31
    assert hold.lost.reason == "broken"
    assert (other.token or 0) > (hold.token or 0)
    await release(hold)
    await release(other)


@virtual
async def test_a_holder_that_cannot_be_reached_stops_before_anybody_gets_in_as_well() -> None:
    service = MemoryLeaseStore()
    network, mine = Network(service), Network(service)
    hold = await lock_on(mine).acquire()
    lost: list[float] = []
    hold.lost.add_callback(lambda _: lost.append(now()))
    mine.fail_all(LOST_REQUEST)
    await asyncio.sleep(3)
    assert await break_hold(network, NAME) is not None
    other = await lock_on(network).acquire()
    assert lost
    assert lost[0] < now()
    assert hold.lost.reason == "expired"
    await release(hold)
    await release(other)


@virtual
async def test_a_shorter_notice_says_for_how_long_two_may_be_inside() -> None:
    service = MemoryLeaseStore()
    network, mine = Network(service), Network(service)
    hold = await lock_on(mine).acquire()
    mine.fail_all(LOST_REQUEST)
    await asyncio.sleep(3)
    broken = await break_hold(network, NAME, 4)
    assert broken is not None
    assert broken.free_in == 4
    assert 7 <= broken.together <= 8
    other = await lock_on(network).acquire()
    entered = now()
    assert await hold.lost == "expired"
    assert 0 < now() - entered <= broken.together
    await release(hold)
    await release(other)


@virtual
async def test_a_notice_longer_than_the_lease_changes_nothing_and_zero_frees_at_once() -> None:
    network = Network()
    async with held(lock_on(network)):
        broken = await break_hold(network, NAME, 60)
        assert broken is not None
        assert (broken.free_in, broken.together) == (15, 0)
    async with held(lock_on(network)):
        broken = await break_hold(network, NAME, 0)
        assert broken is not None
        assert (broken.free_in, broken.together) == (0, 15)
        assert await break_hold(network, NAME, 0) is None, "nobody has it any more"


@virtual
@pytest.mark.parametrize(("notice", "free_in"), [(2, 2), (None, 4), (60, 4)])
async def test_of_a_lease_that_was_being_broken_already_the_most_is_said_that_its_holder_may_have_left(
    notice: float | None, free_in: float
) -> None:
    """A break leaves no mark: what was cut off by the one before can't be read."""
    service = MemoryLeaseStore()
    network, mine = Network(service), Network(service)
    hold = await lock_on(mine).acquire()
    mine.fail_all(LOST_REQUEST)
    first = await break_hold(network, NAME, 4)
    again = await break_hold(network, NAME, notice)
    assert first is not None
    assert again is not None
    assert (first.before, again.before) == (False, True)
    assert (again.free_in, again.together) == (free_in, 60 - free_in)
    other = await lock_on(network).acquire()
    entered = now()
    assert await hold.lost == "expired"
    assert 0 < now() - entered <= again.together
    await release(hold)
    await release(other)


@virtual
async def test_nobody_is_broken_who_got_the_lock_after_it_was_looked_at() -> None:
    """The break names the ETag of the stamp that was read."""
    network = Network()
    first = await lock_on(network).acquire()
    arrive = network.service.break_

    async def too_late(name: str, etag: str | None = None, after: int | None = 0) -> int:
        await release_now.wait()
        return await arrive(name, etag, after)

    release_now = asyncio.Event()
    network.break_ = too_late  # type: ignore[method-assign]
    breaking = asyncio.create_task(break_hold(network, NAME))
    await asyncio.sleep(0.1)
    await release(first)
    second = await lock_on(network).acquire()
    release_now.set()
    assert await breaking is None
    await asyncio.sleep(60)
    second.raise_if_lost()
    await release(second)


@virtual
async def test_a_lease_without_end_is_not_broken_without_a_notice() -> None:
    network = Network()
    await network.service.create(NAME)
    await network.service.acquire(NAME, FOREIGN, -1)
    with pytest.raises(ConfigurationError, match=r"never ends by itself.*give notice, from 0 to 60 seconds"):
        await break_hold(network, NAME)
    assert set(network.service.leased()) == {NAME}
    broken = await break_hold(network, NAME, 10)
    assert broken is not None
    assert (broken.free_in, broken.together) == (10, math.inf)


@virtual
async def test_a_lock_that_is_free_is_nobodys_and_one_that_was_never_there_an_error() -> None:
    network = Network()
    with pytest.raises(StorageError, match="there is no lock"):
        await break_hold(network, NAME)
    async with held(lock_on(network)):
        pass
    assert await break_hold(network, NAME) is None


@virtual
async def test_a_break_whose_answer_is_lost_is_asked_for_again() -> None:
    network = Network()
    async with held(lock_on(network)):
        network.plan("break", answered(503), LOST_REPLY)
        broken = await break_hold(network, NAME)
        assert isinstance(broken, Broken)
        assert 0 < broken.free_in < 15


@virtual
async def test_storage_that_denies_is_no_free_lock() -> None:
    network = Network()
    async with held(lock_on(network)):
        network.plan("break", answered(403, "AuthorizationPermissionMismatch"))
        with pytest.raises(StorageDenied, match="denies access"):
            await break_hold(network, NAME)


# --- the blob is written between the requests -------------------------------------------------------------------------

YOUNG = {"SingletonEpoch": "7", "SingletonHost": "vm-1", "SingletonPid": "11", "FunctionInstance": "a"}
SIGNED = {**YOUNG, "SingletonHeld": "9.0"}


class Busy(Network):
    """A network on which something happens before a break of this number arrives; 0: before each."""

    def __init__(self, service: MemoryLeaseStore, **before: Callable[[], Awaitable[object]]) -> None:
        super().__init__(service)
        self._before = before
        self.asked = 0

    async def break_(self, name: str, etag: str | None = None, after: int | None = 0) -> int:
        self.asked += 1
        happens = self._before.get(f"on_{self.asked}") or self._before.get("always")
        if happens is not None:
            await happens()
        return await super().break_(name, etag, after)


async def a_service(**metadata: str) -> MemoryLeaseStore:
    """A service on which another process has the lock, and left this."""
    service = MemoryLeaseStore()
    await service.create(NAME, metadata)
    await service.acquire(NAME, FOREIGN, 30)
    return service


def writes(service: MemoryLeaseStore, **metadata: str) -> Callable[[], Awaitable[object]]:
    return lambda: written(service, NAME, FOREIGN, **metadata)


def passes(service: MemoryLeaseStore, **metadata: str) -> Callable[[], Awaitable[object]]:
    async def to_the_next() -> None:
        if (await service.read(NAME)).held:
            await service.release(NAME, FOREIGN)
        await service.acquire(NAME, OTHER, 30)
        await written(service, NAME, OTHER, **metadata)

    return to_the_next


OTHER = "88888888-8888-4888-8888-888888888888"


@virtual
async def test_a_holder_with_failover_that_writes_all_the_time_is_broken_like_any_other() -> None:
    """As over a slow line: between the look and the break there is a touch."""
    service = MemoryLeaseStore()
    far, near = Network(service), Network(service)
    for call in ("read", "break"):
        far.always(call, Fate(up=0.2, down=0.2))
    holds = [await lock_on(near, name=f"{NAME}.{number}", failover=2.0).acquire(owner="me") for number in range(8)]
    await asyncio.sleep(9)
    asked = [
        asyncio.create_task(end_hold(far, hold.lock, 4 if number % 2 else None)) for number, hold in enumerate(holds)
    ]
    for number, breaking in enumerate(asked):
        broken = await breaking
        assert isinstance(broken, Broken), (number, broken)
        assert broken.holder.owner == "me"
        assert broken.free_in <= (4 if number % 2 else 15)
        assert (broken.together > 0) is bool(number % 2)
    assert len(far.sent("break")) > 12, "nothing was written between"
    await asyncio.sleep(20)
    assert service.leased() == {}
    for hold in holds:
        await release(hold)


@virtual
@pytest.mark.parametrize(
    ("stood", "stands"),
    [
        (YOUNG, SIGNED),
        ({**YOUNG, "SingletonHeld": "0"}, {**SIGNED, "FunctionInstance": "b"}),
        ({**SIGNED, "SingletonHeld": "8.0"}, SIGNED),
        (SIGNED, {**SIGNED, "Team": "billing"}),
        ({"FunctionInstance": "a"}, {"FunctionInstance": "a", "Team": "billing"}),
    ],
    ids=["renewed", "another owner in that process", "touched", "state", "WebJobs"],
)
@pytest.mark.parametrize("when", ["on_1", "on_2"])
async def test_a_hold_that_was_written_meanwhile_is_the_same(
    stood: dict[str, str], stands: dict[str, str], when: str
) -> None:
    service = await a_service(**stood)
    network = Busy(service, **{when: writes(service, **stands)})
    broken = await end_hold(network, NAME, 4)
    assert isinstance(broken, Broken)
    assert (broken.free_in, broken.before) == (4, False)
    assert 25 <= broken.together <= 26
    assert broken.holder.owner == stands["FunctionInstance"]
    assert network.asked == 3
    assert (await service.read(NAME)).lease == "breaking"


@virtual
@pytest.mark.parametrize(
    "next_one",
    [
        {**SIGNED, "SingletonEpoch": "8"},
        {**SIGNED, "SingletonHost": "vm-2"},
        {**SIGNED, "SingletonPid": "12"},
        {**SIGNED, "FunctionInstance": "b"},
        {**SIGNED, "SingletonHeld": "1.0"},
    ],
    ids=["epoch", "host", "pid", "owner", "begin"],
)
async def test_who_got_the_lock_before_the_break_arrived_is_not_broken_and_told(
    next_one: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    service = await a_service(**SIGNED)
    network = Busy(service, on_1=passes(service, **next_one))
    passed = await end_hold(network, NAME)
    assert isinstance(passed, Passed)
    assert (passed.before.host, passed.before.pid, passed.before.owner) == ("vm-1", 11, "a")
    assert passed.now.owner == next_one["FunctionInstance"]
    assert network.asked == 1
    assert (await service.read(NAME)).lease == "leased"
    assert await break_hold(Busy(await a_service(**SIGNED)), NAME) is not None
    service = await a_service(**SIGNED)
    assert await break_hold(Busy(service, on_1=passes(service, **next_one)), NAME) is None
    assert "it changed hands before the break arrived, so nothing was broken. Before, 'a' had it" in caplog.text


@virtual
async def test_a_break_that_took_place_is_told_whatever_becomes_of_its_notice() -> None:
    """The lease is broken by the first request already: it ends, at the latest, when its rest has run out."""

    async def over(service: MemoryLeaseStore) -> None:
        await service.release(NAME, FOREIGN)

    async def gone(service: MemoryLeaseStore) -> None:
        service.delete(NAME)

    async def denied(_: MemoryLeaseStore) -> None:
        raise answered(403, "AuthorizationPermissionMismatch").failure  # type: ignore[misc]

    async def given_on(service: MemoryLeaseStore) -> None:
        await passes(service, **{**SIGNED, "SingletonEpoch": "8"})()

    async def written_always(service: MemoryLeaseStore) -> None:
        await writes(service, **SIGNED)()

    for becomes, free_in in ((over, 0), (gone, 0), (denied, 30), (given_on, 0), (written_always, 30)):
        service = await a_service(**SIGNED)
        first = True

        async def then(service: MemoryLeaseStore = service, becomes: Callable[..., Awaitable[None]] = becomes) -> None:
            nonlocal first
            if not first:
                await becomes(service)
            first = False

        broken = await end_hold(Busy(service, always=then), NAME, 4)
        assert isinstance(broken, Broken), becomes
        assert (broken.free_in, broken.together) == (free_in, 26), becomes
        assert broken.holder.owner == "a"


@virtual
async def test_a_lock_that_was_given_back_before_the_break_arrived_is_nobodys() -> None:
    service = await a_service(**SIGNED)
    network = Busy(service, on_1=lambda: service.release(NAME, FOREIGN))
    assert await end_hold(network, NAME) is None
    service = await a_service(**SIGNED)

    async def written_and_given_back() -> None:
        await writes(service, **SIGNED)()
        await service.release(NAME, FOREIGN)

    assert await end_hold(Busy(service, on_1=written_and_given_back), NAME) is None


@virtual
async def test_a_blob_that_is_written_before_every_try_ends_with_an_error_and_no_break() -> None:
    service = await a_service(**SIGNED)
    network = Busy(service, always=writes(service, **SIGNED))
    with pytest.raises(StorageUnavailable, match="its holder wrote the blob before each of 20 tries"):
        await end_hold(network, NAME)
    assert network.asked == 20
    assert (await service.read(NAME)).lease == "leased"
