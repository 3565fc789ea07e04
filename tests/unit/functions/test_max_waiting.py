"""``max_waiting``: how many invocations of one process wait for one lock, however they come and go."""

from __future__ import annotations

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from singleton import ConfigurationError, LockNotAcquired, StorageUnavailable, singleton
from singleton.testing import Headcount
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import InlineHost
from tests.support.lock_thread import Context, LockThread, a_job, an_app
from tests.support.network import answered
from tests.support.virtual import run_virtual
from tests.support.world import foreign_id, now, until, virtual

if TYPE_CHECKING:
    from pathlib import Path

    from singleton.functions.contention import Contention

LOCK = "locks/app/job"


@pytest.fixture(autouse=True)
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


def a_slow_job(seconds: float = 10, **arguments: Any) -> Any:
    @singleton(**arguments)
    async def job() -> None:
        await asyncio.sleep(seconds)

    return job


async def how_it_ended(*calls: Any) -> list[str]:
    results = await asyncio.gather(*calls, return_exceptions=True)
    return ["ran" if result is None else getattr(result, "reason", None) or repr(result) for result in results]


def waiting(host: InlineHost) -> int:
    return sum(map(len, host.registry.waiters._waiting.values()))


@pytest.mark.parametrize("most", [0, 1, 3])
def test_so_many_wait_and_the_next_are_refused(most: int) -> None:
    @virtual
    async def run() -> None:
        host = InlineHost(MemoryLeaseStore())
        job = a_slow_job(max_waiting=most)
        with host.here():
            ended = await how_it_ended(*(job() for _ in range(6)))
        assert ended.count("ran") == most + 1
        assert ended.count("max_waiting") == 5 - most
        assert waiting(host) == 0

    run()


@virtual
async def test_they_are_counted_behind_a_holder_in_another_process_too() -> None:
    service = MemoryLeaseStore()
    await service.create(LOCK)
    await service.acquire(LOCK, foreign_id(), 60)
    host = InlineHost(service)
    job = a_slow_job(1, max_waiting=2)
    with host.here():
        calls = asyncio.gather(how_it_ended(*(job() for _ in range(5))))
        await until(30)
        assert waiting(host) == 2
        ended = (await calls)[0]
    assert (ended.count("ran"), ended.count("max_waiting")) == (2, 3)


@virtual
async def test_who_was_refused_may_come_again_when_somebody_has_left() -> None:
    host = InlineHost(MemoryLeaseStore())
    job = a_slow_job(max_waiting=1)
    with host.here():
        running = [asyncio.create_task(job()) for _ in range(2)]
        await asyncio.sleep(1)
        assert await how_it_ended(job()) == ["max_waiting"]
        running.pop().cancel()
        await asyncio.sleep(0.1)
        assert waiting(host) == 0
        assert await how_it_ended(job()) == ["ran"]
        await running[0]


@virtual
async def test_a_time_out_is_counted_out() -> None:
    host = InlineHost(MemoryLeaseStore())
    job = a_slow_job(30, max_waiting=2, timeout=3)
    with host.here():
        ended = await how_it_ended(*(job() for _ in range(4)))
        assert ended.count("ran") == 1
        assert ended.count("max_waiting") == 1
        assert waiting(host) == 0


@pytest.mark.parametrize("timeout", [None, 30])
def test_who_may_wait_waits_for_the_storage_too_as_without_a_number(timeout: float | None) -> None:
    @virtual
    async def run() -> None:
        ran: list[float] = []

        @singleton(max_waiting=1, timeout=timeout)
        async def job() -> None:
            ran.append(now())

        host = InlineHost(MemoryLeaseStore())
        with host.here():
            host.network.fail_all(answered(503, "ServerBusy"))
            invocation = asyncio.create_task(job())
            await until(20)
            assert waiting(host) == 1
            host.network.heal()
            await invocation
            assert 20 < ran[0] < 20 + 5.1
            host.network.fail_all(answered(503, "ServerBusy"))
            began = now()
            with pytest.raises(StorageUnavailable):
                await job()
            least, most = (60, 71) if timeout is None else (30, 31)
            assert least <= now() - began <= most

    run()


@pytest.mark.parametrize(
    "more", [{}, {"on_contention": "skip", "timeout": 30}, {"on_contention": "raise", "timeout": 30}]
)
@virtual
async def test_who_may_not_wait_for_the_storage_hears_of_the_storage(more: dict[str, Any]) -> None:
    host = InlineHost(MemoryLeaseStore())
    job = a_slow_job(max_waiting=0, **more)
    with host.here():
        host.network.fail_all(answered(503, "ServerBusy"))
        with pytest.raises(StorageUnavailable):
            await job()
        assert waiting(host) == 0


@virtual
async def test_each_lock_has_its_own_number() -> None:
    with InlineHost(MemoryLeaseStore()).here():

        @singleton(scope="Id", max_waiting=1)
        async def job(msg: bytes) -> None:
            await asyncio.sleep(5)

        ended = await how_it_ended(*(job(b'{"Id": %d}' % (n % 2)) for n in range(6)))
    assert (ended.count("ran"), ended.count("max_waiting")) == (4, 2)


@virtual
async def test_invocations_of_a_function_without_a_number_count_where_the_lock_is_shared() -> None:
    with InlineHost(MemoryLeaseStore()).here():
        free = a_slow_job(level="host", scope_id="x")
        bound = a_slow_job(level="host", scope_id="x", max_waiting=2)
        others = [asyncio.create_task(free()) for _ in range(3)]
        await asyncio.sleep(1)
        assert await how_it_ended(bound()) == ["max_waiting"]
        await asyncio.gather(*others)


@virtual
async def test_skip_with_a_time_out_waits_for_so_long_and_then_skips() -> None:
    with InlineHost(MemoryLeaseStore()).here():
        job = a_slow_job(30, on_contention="skip", timeout=4, max_waiting=1)
        running = asyncio.create_task(job())
        await asyncio.sleep(1)
        began = now()
        assert sorted(await how_it_ended(job(), job())) == ["max_waiting", "ran"]
        assert 4 <= now() - began < 5, "one waited, and skipped"
        await running


@virtual
async def test_a_policy_is_told_how_many_wait() -> None:
    told: list[int] = []

    def policy(contention: Contention) -> Any:
        told.append(contention.waiting)
        return "wait"

    with InlineHost(MemoryLeaseStore()).here():
        job = a_slow_job(on_contention=policy)
        tasks = []
        for _ in range(4):
            tasks.append(asyncio.create_task(job()))
            await asyncio.sleep(1)
        await asyncio.gather(*tasks)
    assert told == [0, 1, 2]


def test_threads_are_counted_and_the_others_stay_free() -> None:
    """One busy tenant has three threads of the worker: two wait, one runs."""
    inside, go_on, refused = Headcount(), threading.Event(), threading.Semaphore(0)

    def body() -> None:
        with inside:
            go_on.wait(60)

    job = a_job("sync", body, max_waiting=2)

    def invoke(number: int) -> str:
        try:
            job(context=Context(f"inv-{number}"))
        except LockNotAcquired as error:
            refused.release()
            return str(error.reason)
        return "ran"

    with LockThread() as thread, ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(invoke, number) for number in range(8)]
        for _ in range(5):
            assert refused.acquire(timeout=10)
        go_on.set()
        ended = [call.result(60) for call in calls]
        assert (ended.count("ran"), ended.count("max_waiting"), inside.most) == (3, 5, 1)
        assert not thread.runtime.registry.waiters._waiting
        assert thread.kinds().count("contended:raise") == 5


def test_the_error_says_how_many_and_what_to_do() -> None:
    @virtual
    async def run() -> None:
        with InlineHost(MemoryLeaseStore()).here():
            job = a_slow_job(max_waiting=0)
            running = asyncio.create_task(job())
            await asyncio.sleep(1)
            with pytest.raises(LockNotAcquired, match=r"max_waiting is 0\. Raise max_waiting, or .* when_full='defer'"):
                await job()
            await running

    run()


comings = st.lists(
    st.tuples(st.floats(0, 20), st.sampled_from([0.0, 0.5, 4.0]), st.one_of(st.none(), st.floats(0, 8))),
    min_size=3,
    max_size=12,
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(comings, st.integers(0, 3), st.sampled_from([None, 2.0]))
def test_whoever_comes_and_goes_there_are_never_more_and_the_count_ends_at_nought(
    who: list[tuple[float, float, float | None]], most: int, timeout: float | None
) -> None:
    async def run() -> None:
        host = InlineHost(MemoryLeaseStore(), random.randrange(100))

        async def come(at: float, stay: float, leave: float | None) -> None:
            job = a_slow_job(stay, max_waiting=most, timeout=timeout)
            await until(at)
            with host.here(), suppress(LockNotAcquired, TimeoutError):
                async with asyncio.timeout(leave):
                    await job()

        async def watch() -> None:
            while True:
                assert waiting(host) <= most
                await asyncio.sleep(0.05)

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(come(*each) for each in who))
        assert waiting(host) == 0
        assert not watching.done()
        watching.cancel()
        await asyncio.wait({watching})
        await host.registry.aclose()

    run_virtual(run())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"max_waiting": -1}, "max_waiting is -1: give a whole number of at least 0"),
        ({"max_waiting": 1.5}, r"max_waiting is 1\.5"),
        ({"max_waiting": True}, "max_waiting is True"),
        ({"max_waiting": 1, "on_contention": "skip"}, "no invocation waits"),
        ({"when_full": "raise"}, "when_full='raise' needs max_waiting"),
        ({"when_full": "conflict"}, "when_full is 'conflict': it must be one of 'raise', 'defer'"),
        ({"max_waiting": 1, "when_full": "skip"}, "when_full is 'skip': it must be one of 'raise', 'defer'"),
        ({"max_waiting": 1, "mode": "listener"}, "max_waiting=1 is for mode='function' only"),
    ],
)
def test_what_can_not_be_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        a_job("sync", **arguments)
