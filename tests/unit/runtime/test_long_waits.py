"""A wait that gets long is told of, with who has the lock, where and since when; and that costs next to nothing."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from singleton import AsyncLockClient, LockNotAcquired, SingletonOptions
from singleton.base.holder_record import Holder, in_words
from singleton.base.invocation import Invocation
from singleton.functions.acquirers import acquire_by_attempts
from singleton.layouts.attempt_delays import Attempts
from singleton.stores.stamps import this_host
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import InlineHost
from tests.support.network import LOST_REQUEST, answered
from tests.support.world import eventually, foreign_id, now, occupy, until, virtual

if TYPE_CHECKING:
    from singleton.stores.protocol import BlobState


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "singleton")
    return caplog


def told(log: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in log.records if " s; " in record.getMessage()]


async def held_elsewhere(service: MemoryLeaseStore, name: str = "a", **metadata: str) -> None:
    """Let another process have the lock for good, and have put itself down there."""
    await service.create(name)
    etag = await service.acquire(name, foreign_id(), -1)
    if metadata:
        await service.write(name, foreign_id(), metadata, etag)


STAMP = {"SingletonEpoch": "7", "SingletonHost": "host-7", "FunctionInstance": "inv-7"}


ENDLESS = (
    "a lease without an end (nothing ends it but its owner, or `singleton-locks break a --container webjobshost "
    "--connection UseDevelopmentStorage=true`)"
)


async def waiting(locks: AsyncLockClient, name: str = "a", owner: str = "me") -> asyncio.Task[object]:
    task = asyncio.create_task(locks.acquire(name, owner=owner))
    await asyncio.sleep(0)
    return task


async def given_up(*tasks: asyncio.Task[object]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@virtual
async def test_it_is_told_after_half_a_minute_and_each_time_that_it_has_doubled(log: pytest.LogCaptureFixture) -> None:
    host = InlineHost(MemoryLeaseStore())
    await held_elsewhere(host.network.service, **STAMP)
    with host.here() as locks:
        task = await waiting(locks)
        counts = []
        for when in (29.9, 30.5, 59.9, 60.5, 119.9, 120.5, 239.9, 240.5, 479.0):
            await until(when)
            counts.append(len(told(log)))
        await given_up(task)
    assert counts == [0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert all(record.levelno == logging.WARNING for record in log.records)


@virtual
async def test_it_says_who_has_the_lock_where_and_since_when(log: pytest.LogCaptureFixture) -> None:
    host = InlineHost(MemoryLeaseStore())
    await held_elsewhere(host.network.service, **STAMP)
    with host.here() as locks:
        task = await waiting(locks)
        await until(31.0)
        await given_up(task)
    (line,) = told(log)
    assert line.startswith("lock a: 'me' has waited for 30 s; it is held by 'inv-7' on host-7, since 1970-01-01 ")
    assert f" UTC, by {ENDLESS}" in line
    assert line.endswith(", as read just now")
    fields = vars(log.records[0])
    assert {name: fields[name] for name in ("lock", "owner", "waited", "holder", "holder_host", "holder_token")} == {
        "lock": "a",
        "owner": "me",
        "waited": 30.0,
        "holder": "inv-7",
        "holder_host": "host-7",
        "holder_token": 7001,
    }


@virtual
async def test_the_holder_is_asked_for_once_a_minute_however_many_wait(log: pytest.LogCaptureFixture) -> None:
    host = InlineHost(MemoryLeaseStore())
    await held_elsewhere(host.network.service, **STAMP)
    with host.here() as locks:
        tasks = [await waiting(locks, owner=f"inv-{number}") for number in range(5)]
        await until(29.0)
        assert "read" not in host.network.calls()
        reads = []
        for when in (59.0, 61.0, 119.0, 121.0):
            await until(when)
            reads.append(host.network.calls().count("read"))
        await given_up(*tasks)
    assert reads == [1, 1, 1, 2]
    assert len(told(log)) == 15
    assert sum("as read 30 s ago" in line for line in told(log)) == 5


@virtual
async def test_a_wait_that_ends_in_time_asks_nothing_and_leaves_nothing(log: pytest.LogCaptureFixture) -> None:
    host = InlineHost(MemoryLeaseStore())
    await occupy(host.network.service, "a", 15)
    with host.here() as locks:
        async with locks.lock("a"):
            pass
        await asyncio.sleep(60.0)
    assert not told(log)
    assert "read" not in host.network.calls()[host.network.calls().index("release") :]


@virtual
async def test_a_holder_of_this_process_is_known_without_a_request(log: pytest.LogCaptureFixture) -> None:
    host = InlineHost(MemoryLeaseStore())
    with host.here() as locks:
        async with locks.lock("a", owner="first"):
            task = await waiting(locks)
            before = host.network.calls().count("read")
            await until(31.0)
            await given_up(task)
            assert host.network.calls().count("read") == before
    (line,) = told(log)
    assert line.startswith("lock a: 'me' has waited for 30 s; it is held by 'first' in this process, since ")
    assert log.records[-1].__dict__["holder_pid"] == os.getpid()


@virtual
async def test_what_cannot_be_read_is_said_so(log: pytest.LogCaptureFixture) -> None:
    host = InlineHost(MemoryLeaseStore())
    await held_elsewhere(host.network.service)
    host.network.always("read", answered(503, "ServerBusy"))
    with host.here() as locks:
        task = await waiting(locks)
        await until(31.0)
        host.network.always("read", LOST_REQUEST)
        await until(126.0)
        await given_up(task)
    first, second, third = told(log)
    assert first.endswith("its holder could not be read just now (503 ServerBusy)")
    assert second.endswith("its holder could not be read 30 s ago (503 ServerBusy)")
    assert third.endswith("its holder could not be read 5 s ago (no answer within 5 s)")


@virtual
async def test_a_holder_that_put_nothing_down_is_told_as_such(log: pytest.LogCaptureFixture) -> None:
    host = InlineHost(MemoryLeaseStore())
    await held_elsewhere(host.network.service)
    with host.here() as locks:
        task = await waiting(locks)
        await until(31.0)
        await given_up(task)
    assert f"it is held by {ENDLESS}" in (told(log)[0])


@virtual
async def test_the_holder_of_a_lease_that_ends_put_nothing_down(log: pytest.LogCaptureFixture) -> None:
    host = InlineHost(MemoryLeaseStore())
    service = host.network.service
    await service.create("a")
    with host.here() as locks:
        await service.acquire("a", foreign_id(), 60)
        task = await waiting(locks)
        await until(31.0)
        await given_up(task)
    assert told(log)[0].endswith("it is held; its holder is not recorded, as read just now")


@virtual
@pytest.mark.parametrize("limit", [None, 1])
async def test_a_long_wait_that_was_told_is_told_to_have_ended(
    log: pytest.LogCaptureFixture, limit: int | None
) -> None:
    host = InlineHost(MemoryLeaseStore())
    with host.here() as locks:
        held = await locks.acquire("a", limit=limit)
        task = asyncio.create_task(locks.acquire("a", limit=limit, owner="me"))
        await until(42.0)
        await locks.release(held)
        await locks.release(await task)
    line = log.records[-1]
    what = "lock" if limit is None else "semaphore"
    waited = vars(line)["waited"]
    assert waited == pytest.approx(45.0, abs=3.0)
    assert (line.levelno, line.getMessage()) == (logging.INFO, f"{what} a: acquired by 'me' after {waited:g} s")


@virtual
async def test_the_end_of_a_wait_that_was_not_told_or_got_nothing_is_not_told(log: pytest.LogCaptureFixture) -> None:
    host = InlineHost(MemoryLeaseStore())
    with host.here() as locks:
        held = await locks.acquire("a")
        task = asyncio.create_task(locks.acquire("a"))
        await until(29.0)
        await locks.release(held)
        hold = await task
        assert log.records == []
        with pytest.raises(LockNotAcquired):
            await asyncio.create_task(locks.acquire("a", timeout=35.0))
        await locks.release(hold)
    assert [record.levelno for record in log.records] == [logging.WARNING]


@virtual
async def test_a_lock_that_at_least_keeps_says_so_and_until_when(log: pytest.LogCaptureFixture) -> None:
    host = InlineHost(MemoryLeaseStore())
    with host.here() as locks:
        async with locks.lock("a", at_least=100.0, owner="inv-1"):
            pass
        error = await refused(locks, 0)
        assert error.holder is not None
        kept_until, since = error.holder.kept_until, error.holder.since
        assert kept_until is not None
        assert since is not None
        assert (kept_until - since).total_seconds() == pytest.approx(100.0, abs=1.0)
        assert "it is in use by this process; kept until " in str(error)
        assert f"{kept_until:%H:%M:%S} UTC by at_least, by 'inv-1' in this process, since " in str(error)

        @locks.try_lock("a")
        async def nightly() -> None: ...

        await nightly()
        assert "nightly skipped: this process has lock a; kept until " in log.records[-1].getMessage()

        async def work(_: object) -> None: ...

        async with locks.periodic("a", work, every=1000):
            await asyncio.sleep(1.0)
        assert "worker a skips: this process has the lock; kept until " in log.records[-1].getMessage()
        task = await waiting(locks)
        await asyncio.sleep(31.0)
        await given_up(task)
        assert "'me' has waited for 30 s; it is kept until " in told(log)[-1]
        await until(110.0)


@virtual
async def test_a_lease_without_an_end_is_said_in_the_error_and_by_the_holder() -> None:
    host = InlineHost(MemoryLeaseStore())
    await held_elsewhere(host.network.service)
    with host.here() as locks:
        error = await refused(locks, 3.0)
        holder = await locks.holder("a")
    assert str(error).endswith(f"; held by {ENDLESS}")
    assert holder is not None
    assert holder.endless
    assert holder == error.holder


def test_the_holder_is_a_sentence_whatever_is_known() -> None:
    known = Holder(lock="a", host="vm", function="import_prices")
    assert in_words(replace(known, owner="inv-7")) == "held by 'inv-7' (import_prices) on vm"
    assert in_words(known) == "held by function import_prices on vm"
    assert in_words(known, here=True) == "held by function import_prices in this process"
    assert in_words(Holder(lock="a")) == ""


@virtual
async def test_whoever_began_to_ask_may_go_and_the_others_are_told(log: pytest.LogCaptureFixture) -> None:
    host = InlineHost(MemoryLeaseStore())
    await held_elsewhere(host.network.service, **STAMP)
    with host.here() as locks:
        first = await waiting(locks, owner="first")
        second = await waiting(locks, owner="second")
        await eventually(lambda: "read" in host.network.calls())
        await given_up(first)
        await until(31.0)
        await given_up(second)
    (line,) = told(log)
    assert "'second' has waited for 30 s; it is held by 'inv-7' on host-7" in line


@virtual
async def test_a_semaphore_says_that_all_of_it_is_taken(log: pytest.LogCaptureFixture) -> None:
    host = InlineHost(MemoryLeaseStore())
    for number in range(2):
        await held_elsewhere(host.network.service, f"s/slot-{number}")
    with host.here() as locks, pytest.raises(LockNotAcquired):
        async with locks.semaphore("s", 2, timeout=40, owner="me"):
            pass
    assert told(log) == ["semaphore s: 'me' has waited for 30 s; all of its 2 slots are taken"]


@virtual
async def test_a_wait_by_single_attempts_is_told_of_like_any_other(log: pytest.LogCaptureFixture) -> None:
    host = InlineHost(MemoryLeaseStore())
    await held_elsewhere(host.network.service, **STAMP)
    address = host.locks._address("a")
    attempts = Attempts(shortest=1, longest=5, retries=3)
    with pytest.raises(LockNotAcquired) as caught:
        await acquire_by_attempts(host.registry, address, attempts, timeout=40.0, owner="me")
    (line,) = told(log)
    assert "'me' has waited for 30 s; it is held by 'inv-7' on host-7" in line
    assert caught.value.holder is not None


@virtual
async def test_the_line_names_the_function_whose_invocation_waits(log: pytest.LogCaptureFixture) -> None:
    host = InlineHost(MemoryLeaseStore())
    await held_elsewhere(host.network.service)
    with host.here() as locks, Invocation("inv-1", function="ship"):
        task = await waiting(locks)
        await until(31.0)
        await given_up(task)
    assert log.records[0].__dict__["function"] == "ship"


# --- LockNotAcquired.holder -------------------------------------------------------------------------------------------


async def refused(locks: AsyncLockClient, timeout: float) -> LockNotAcquired:
    with pytest.raises(LockNotAcquired) as caught:
        await locks.acquire("a", timeout=timeout)
    return caught.value


@virtual
async def test_an_error_names_a_holder_of_this_process() -> None:
    host = InlineHost(MemoryLeaseStore())
    with host.here() as locks:
        async with locks.lock("a", owner="first") as hold:
            at_once = await asyncio.create_task(refused(locks, 0))
            later = await asyncio.create_task(refused(locks, 3.0))
    for error in (at_once, later):
        assert error.holder is not None
        assert (error.holder.owner, error.holder.host) == ("first", this_host())
        assert (error.holder.pid, error.holder.token) == (os.getpid(), hold.token)
        assert pickle.loads(pickle.dumps(error)).holder == error.holder  # noqa: S301 - our own


@virtual
async def test_an_error_names_who_has_the_lock_which_is_asked_for_once_a_minute() -> None:
    host = InlineHost(MemoryLeaseStore())
    await held_elsewhere(host.network.service, SingletonPid="812", SingletonFunction="ship", **STAMP)
    with host.here() as locks:
        for error in [await refused(locks, timeout) for timeout in (0, 3.0, 0.5, 35.0)]:
            assert error.holder is not None
            assert (error.holder.owner, error.holder.pid) == ("inv-7", 812)
            assert host.network.calls().count("read") == 1
        error = await refused(locks, 3.0)
        assert str(error).startswith("lock 'a' was not acquired within 0:00:03: somebody else has it; held by ")
        assert "'inv-7' (ship) on host-7, process 812, since 1970-01-01 " in str(error)
        assert "held by" not in error.message
        twin = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
        assert (str(twin), twin.holder) == (str(error), error.holder)
        await until(130.0)
        await refused(locks, 0)
        assert host.network.calls().count("read") == 2


@virtual
@pytest.mark.parametrize(("timeout", "longest"), [(0, 1.0), (3.0, 4.0), (0.5, 0.75)])
async def test_an_error_waits_a_moment_for_the_answer_which_serves_the_next(timeout: float, longest: float) -> None:
    host = InlineHost(MemoryLeaseStore())
    await held_elsewhere(host.network.service, **STAMP)
    read = host.network.read

    async def slow(name: str) -> BlobState:
        await asyncio.sleep(2)
        return await read(name)

    host.network.read = slow  # type: ignore[method-assign]
    with host.here() as locks:
        began = now()
        assert (await refused(locks, timeout)).holder is None
        assert longest - 0.1 < now() - began < longest + 0.1
        await asyncio.sleep(2)
        assert (await refused(locks, 0)).holder is not None
        assert host.network.calls().count("read") == 1


@virtual
async def test_an_error_whose_holder_can_not_be_read_is_the_same_error() -> None:
    host = InlineHost(MemoryLeaseStore())
    await held_elsewhere(host.network.service, **STAMP)
    host.network.always("read", answered(403, "AuthorizationPermissionMismatch"))
    with host.here() as locks:
        error = await refused(locks, 0)
    assert error.holder is None
    assert str(error) == "lock 'a' was not acquired at once: somebody else has it"


@virtual
async def test_of_several_locks_the_one_that_is_taken_says_who_has_it() -> None:
    host = InlineHost(MemoryLeaseStore())
    await held_elsewhere(host.network.service, **STAMP)
    with host.here() as locks, pytest.raises(LockNotAcquired, match="'a' is in use; held by 'inv-7'") as caught:
        async with locks.lock_all(["b", "a"], timeout=0):
            pass
    assert caught.value.holder is not None


@virtual
async def test_who_only_tries_asks_for_nobody() -> None:
    host = InlineHost(MemoryLeaseStore())
    await held_elsewhere(host.network.service, **STAMP)
    with host.here() as locks:
        async with locks.try_lock("a") as hold:
            assert hold is None
    assert "read" not in host.network.calls()


@virtual
async def test_a_worker_tells_the_first_of_the_ticks_that_it_skips(log: pytest.LogCaptureFixture) -> None:
    host = InlineHost(MemoryLeaseStore(), options=SingletonOptions())
    await occupy(host.network.service, "a", 25)

    async def work(_: object) -> None: ...

    with host.here() as locks:
        async with locks.periodic("a", work, every=10):
            await until(45.0)
    assert [record.getMessage() for record in log.records] == ["worker a skips: somebody else has the lock"]
    assert math.isclose(log.records[0].levelno, logging.INFO)
