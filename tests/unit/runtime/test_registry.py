"""The locks of one process and their stores: what is remembered of them, and how they end."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import random
import tracemalloc
import warnings
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import singleton
from singleton.base.errors import LockClosed, LockNotAcquired
from singleton.locking.lock import Lock
from singleton.locking.phase import Timing
from singleton.runtime.address import Address
from singleton.runtime.registry import Registry
from singleton.settings.accounts import LockContainer
from singleton.settings.connection import StorageAccount
from singleton.settings.options import SingletonOptions
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.network import Fate, Network, answered
from tests.support.world import NAME, now, occupy, until, virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _Store(MemoryLeaseStore):
    """One whose closing takes some time, or fails."""

    def __init__(self, seconds: float, *, fails: bool = False) -> None:
        super().__init__()
        self.closed_at: float | None = None
        self._seconds = seconds
        self._fails = fails

    async def aclose(self) -> None:
        if self._fails:
            raise OSError("the session is broken")
        await asyncio.sleep(self._seconds)
        self.closed_at = now()


@virtual
async def test_a_store_that_hangs_keeps_no_other_open_and_nobody_for_long() -> None:
    stores = {"hangs": _Store(1e9), "quick": _Store(0.0), "slow": _Store(1.0), "slow, too": _Store(1.0)}
    registry = _registry_of(stores)
    await registry.aclose()
    assert now() <= 2.0
    assert [store.closed_at for store in stores.values()] == [None, 0.0, 1.0, 1.0]


@virtual
async def test_a_store_that_fails_to_close_keeps_no_other_open(caplog: pytest.LogCaptureFixture) -> None:
    stores = {"fails": _Store(0.0, fails=True), "slow": _Store(1.0)}
    await _registry_of(stores).aclose()
    assert stores["slow"].closed_at == 1.0
    assert "the session is broken" in caplog.text


@virtual
async def test_who_waits_is_refused_at_once_when_it_closes_also_while_bodies_of_listeners_end() -> None:
    """A lock that got free meanwhile would be granted, and its body cut off a moment later."""

    class Listener:
        async def end(self) -> None:
            await asyncio.sleep(5.0)

    service = MemoryLeaseStore()
    await occupy(service, "job", duration=60)
    await occupy(service, "job/slot-0", duration=60)
    registry = Registry(lambda _: service, random.Random(1))
    job = Address(LockContainer(StorageAccount("UseDevelopmentStorage=true"), "locks"), "job", Timing())
    registry.keepers[replace(job, name="listener")] = Listener()
    waiting = [asyncio.create_task(registry.acquire(job, timeout=None, owner="me", limit=limit)) for limit in (None, 1)]
    await until(1.0)
    closing = asyncio.create_task(registry.aclose())
    await asyncio.wait(waiting, timeout=0.1)
    assert [type(each.exception()) for each in waiting] == [LockClosed, LockClosed]
    await closing
    assert now() == pytest.approx(6.0, abs=0.1)


def _registry_of(stores: dict[str, _Store]) -> Registry:
    registry = Registry(lambda place: stores[place.container], random.Random(1))
    for container in stores:
        registry.store(LockContainer(StorageAccount("UseDevelopmentStorage=true"), container))
    return registry


# --- what is remembered -----------------------------------------------------------------------------------------------


async def _use(registry: Registry, name: str) -> None:
    address = Address.of(LockContainer(StorageAccount("UseDevelopmentStorage=true"), "locks"), name, SingletonOptions())
    await registry.release(await registry.acquire(address, timeout=None, owner=""))


@virtual
async def test_a_new_name_costs_the_same_however_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(lambda _: MemoryLeaseStore(), random.Random(1))
    looks = 0

    def idle(lock: Lock) -> bool:
        nonlocal looks
        looks += 1
        return lock._server is None

    monkeypatch.setattr(Lock, "idle", property(idle))
    for number in range(1100):
        await _use(registry, f"lock-{number}")
    assert len(registry._locks) <= 1024
    assert looks < 300


@virtual
async def test_each_lock_that_is_held_takes_a_few_kilobytes() -> None:
    """A process may keep ten thousand. A client and asyncio take about half as much beside it."""
    registry, many = Registry(lambda _: MemoryLeaseStore()), 200
    addresses = [replace(an_address(), name=f"tenant/{number}") for number in range(many)]
    await _use(registry, "first")
    package = Path(singleton.__file__).parent
    with tracing(f"{package}/*", but=f"{package}/testing/*") as traced:
        held = [await registry.acquire(each, timeout=None, owner=f"host-1/{each.name}") for each in addresses]
        await until(now() + 20.0)  # each was renewed, and its owner written
        assert traced() / many < 5_500
    for hold in held:
        await registry.release(hold)
    await registry.aclose()


@contextmanager
def tracing(path: str, *, but: str) -> Iterator[Callable[[], int]]:
    """Return in the block how many bytes are in use that the code at this path took in it."""
    chosen = [
        tracemalloc.Filter(inclusive=True, filename_pattern=path),
        tracemalloc.Filter(inclusive=False, filename_pattern=but),
    ]

    def taken() -> int:
        gc.collect()
        return sum(each.size for each in tracemalloc.take_snapshot().filter_traces(chosen).statistics("filename"))

    gc.collect()
    tracemalloc.start()
    try:
        yield taken
    finally:
        tracemalloc.stop()


# --- clones -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_two_clones_of_a_process_propose_different_lease_ids() -> None:
    """The service takes equal ids for one holder, and lets both in."""
    registry = Registry(lambda _: MemoryLeaseStore())
    proposed = set()
    for _ in range(2):
        reader, writer = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            os.write(writer, b"%x" % registry.rng.getrandbits(128))
            os._exit(0)
        os.waitpid(child, 0)
        proposed.add(os.read(reader, 100))
        os.close(reader)
        os.close(writer)
    assert len(proposed) == 2


# --- one blob under several options -----------------------------------------------------------------------------------


@virtual
async def test_sections_of_one_process_never_overlap_under_whatever_options_even_where_one_outlives_its_lease() -> None:
    network = Network()
    registry = Registry(lambda _: network, random.Random(1))
    inside = 0

    async def one(address: Address, seconds: float) -> None:
        nonlocal inside
        hold = await registry.acquire(address, timeout=None, owner="")
        assert inside == 0, "another section of this process is inside"
        inside += 1
        await asyncio.sleep(seconds)
        inside -= 1
        await registry.release(hold)

    lingering = asyncio.create_task(one(an_address(), 50.0))
    await until(1.0)
    others = [asyncio.create_task(one(an_address(period=period), 2.0)) for period in (20.0, 30.0, 20.0)]
    network.plan("renew", *[answered(409, "LeaseIdMismatchWithLeaseOperation")])
    await until(10.0)
    await network.service.break_(NAME)
    asked = len(network.sent("acquire"))
    await until(49.0)
    assert len(network.sent("acquire")) == asked, "a lease would keep other hosts out meanwhile"
    with pytest.raises(LockNotAcquired, match="in use by this process"):
        await registry.acquire(an_address(period=40.0), timeout=0, owner="")
    with pytest.raises(LockNotAcquired):
        await registry.acquire(an_address(period=40.0), timeout=0.5, owner="")
    await asyncio.gather(lingering, *others)
    assert now() < 70.0
    await registry.aclose()
    assert network.service.leased() == {}


@virtual
async def test_a_lease_that_was_won_behind_a_section_that_outlived_its_own_is_given_back() -> None:
    network = Network()
    registry = Registry(lambda _: network, random.Random(1))
    first, second = an_address(), an_address(period=20.0)
    await network.service.create(NAME)
    network.plan("acquire", Fate(up=3.0), Fate(up=0.01))
    waiting = asyncio.create_task(registry.acquire(second, timeout=None, owner=""))
    await until(1.0)
    hold = await registry.acquire(first, timeout=None, owner="")
    assert not waiting.done()
    await network.service.break_(NAME)
    await until(25.0)
    assert hold.lost.is_set()
    assert not waiting.done()
    assert network.service.leased() == {}, "others elsewhere may have it"
    await registry.release(hold)
    await registry.release(await waiting)
    await registry.aclose()


@virtual
async def test_the_next_of_a_line_waits_behind_who_won_a_lease_that_was_broken_under_the_section_before() -> None:
    """The reply to the other lock comes in the very instant in which that section ends."""
    network = Network()
    registry = Registry(lambda _: network, random.Random(1))
    first, second = (replace(address, stamp="none") for address in (an_address(), an_address(period=20.0)))
    inside = 0

    async def one(address: Address, seconds: float) -> None:
        nonlocal inside
        hold = await registry.acquire(address, timeout=None, owner="")
        inside += 1
        assert inside == 1, "another section of this process is inside"
        await asyncio.sleep(seconds)
        inside -= 1
        await registry.release(hold)

    await network.service.create(NAME)
    network.plan("acquire", Fate(up=3.0, down=1.0), Fate())
    tasks = [asyncio.create_task(one(second, 5.0))]
    await until(1.0)
    tasks += [asyncio.create_task(one(first, seconds)) for seconds in (2.98, 5.0)]
    await until(2.0)
    await network.service.break_(NAME)
    await asyncio.gather(*tasks)
    await registry.aclose()


def an_address(**timing: float) -> Address:
    return Address(LockContainer(StorageAccount("UseDevelopmentStorage=true"), "locks"), NAME, Timing(**timing))


@pytest.mark.parametrize("between", ["other options", "closed and opened", "forgotten"])
@virtual
async def test_tokens_increase_within_the_process_when_the_blob_is_deleted_within_a_second(between: str) -> None:
    network = Network()
    registry = Registry(lambda _: network, random.Random(1), keep=8)
    job = Address(LockContainer(StorageAccount("UseDevelopmentStorage=true"), "locks"), NAME, Timing())
    tokens = []
    for turn in range(6):
        period = 30.0 if turn % 2 and between == "other options" else 15.0
        hold = await registry.acquire(replace(job, timing=Timing(period=period)), timeout=None, owner="")
        await registry.release(hold)
        tokens.append(hold.token or 0)
        del hold  # which keeps what is remembered
        network.service.delete(NAME)
        if between == "closed and opened":
            await registry._leave(job.place)
        elif between == "forgotten":
            registry._locks.clear()
        gc.collect()
    assert now() < 1.0
    assert tokens == sorted({*tokens})


@virtual
async def test_of_each_function_a_guess_of_its_own_says_what_is_asked_first() -> None:
    network = Network()
    registry = Registry(lambda _: network, random.Random(1))
    for number in range(3):
        await network.service.create(f"locks/app/bill.{number}")
    first = {"ship": list[str](), "bill": list[str]()}
    for number, function in itertools.product(range(3), first):
        network.requests.clear()
        await _use(registry, f"locks/app/{function}.{number}")
        first[function].append(network.calls()[0])
    assert first["ship"] == ["acquire", "create", "create"]
    assert first["bill"] == ["create", "acquire", "acquire"], "the first is guessed as the other's first was"


@virtual
@pytest.mark.parametrize("name", ["order/{}/pay", "locks/app/ship.{}/slot-0", "order-{}", "locks/app/~{}"])
async def test_of_names_in_a_series_the_second_is_known_to_be_new_as_the_first_was(name: str) -> None:
    network = Network()
    registry = Registry(lambda _: network, random.Random(1))
    for number in range(3):
        network.requests.clear()
        await _use(registry, name.format(number))
        assert network.calls() == [*(["acquire"] if number == 0 else []), "create", "acquire", "release"]
