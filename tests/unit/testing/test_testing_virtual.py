"""singleton.testing: virtual time, in which waits take none and work takes its own."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, Hold, LockClient, LockLost, LockNotAcquired, current_hold, singleton
from singleton.testing import (
    Headcount,
    always_busy,
    assert_no_leases_left,
    disabled,
    held_elsewhere,
    lose,
    memory_locks,
    virtual_loop,
    virtual_time,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

inside = Headcount()


@pytest.fixture(autouse=True)
def quick_and_without_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test whose virtual waits take real time."""
    monkeypatch.delenv("AzureWebJobsStorage", raising=False)
    inside.__init__()  # type: ignore[misc]
    start = time.monotonic()
    yield
    assert time.monotonic() - start < 100


def now() -> float:
    return asyncio.get_running_loop().time()


@singleton(timeout=15)
async def book(order: int = 0) -> str:
    with inside:
        await asyncio.sleep(10)
    return "booked"


@singleton(timeout=15)
def pack(order: int = 0) -> str:
    with inside:
        time.sleep(0.005)
    return "packed"


# --- time -------------------------------------------------------------------------------------------------------------


@virtual_time
async def test_hours_pass_at_once() -> None:
    assert now() == 0
    await asyncio.sleep(3600)
    assert now() == 3600
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5 * 3600):
            await asyncio.Event().wait()
    assert now() == pytest.approx(6 * 3600)


@virtual_time
async def test_time_stands_still_while_a_thread_works() -> None:
    sleeping = asyncio.create_task(asyncio.sleep(1))
    await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.02) for _ in range(3)))
    assert not sleeping.done()
    assert now() == 0
    await sleeping


def test_it_gives_what_the_test_gives_and_raises_what_it_raises() -> None:
    @virtual_time
    async def gives(number: int, *, more: int) -> int:
        return number + more

    @virtual_time
    async def raises() -> None:
        raise LookupError("the test's")

    assert gives(1, more=2) == 3
    with pytest.raises(LookupError, match="the test's"):
        raises()


def test_what_a_thread_raises_comes_out_where_it_is_awaited() -> None:
    def fail() -> None:
        raise LookupError("the thread's")

    @virtual_time
    async def run() -> None:
        await asyncio.to_thread(fail)

    with pytest.raises(LookupError, match="the thread's"):
        run()


def test_a_sync_test_is_refused() -> None:
    def test() -> None: ...

    with pytest.raises(TypeError, match=r"await asyncio\.to_thread"):
        virtual_time(test)  # type: ignore[arg-type]


def test_two_runs_go_the_same_way() -> None:
    @virtual_time
    async def run() -> list[tuple[int, float]]:
        ends: list[tuple[int, float]] = []

        async def one(number: int) -> None:
            locks = AsyncLockClient()
            async with locks.semaphore("reports", 2):
                await asyncio.sleep(1 + number)
            ends.append((number, now()))

        with held_elsewhere("reports/slot-0"):
            first = asyncio.create_task(one(5))
            await asyncio.sleep(1)
        await asyncio.gather(first, *(one(number) for number in range(5)))
        return ends

    assert run() == run()


# --- locks ------------------------------------------------------------------------------------------------------------


@virtual_time
async def test_bodies_run_one_by_one_and_who_waits_too_long_fails() -> None:
    results = await asyncio.gather(*(book(order) for order in range(3)), return_exceptions=True)
    assert results[:2] == ["booked"] * 2
    assert isinstance(results[2], LockNotAcquired)
    assert (inside.most, inside.total) == (1, 2)
    assert now() == 20


@virtual_time
async def test_sync_functions_run_in_threads_and_wait_in_no_time() -> None:
    assert await asyncio.gather(*(asyncio.to_thread(pack, order) for order in range(20))) == ["packed"] * 20
    assert (inside.most, inside.total) == (1, 20)
    assert now() == 0
    with held_elsewhere(pack, 1), pytest.raises(LockNotAcquired):
        await asyncio.to_thread(pack, 1)
    assert now() == 15


@virtual_time
async def test_threads_that_are_not_guarded_really_run_at_once() -> None:
    together = threading.Barrier(5)
    await asyncio.gather(*(asyncio.to_thread(together.wait, 10) for _ in range(5)))


@virtual_time
async def test_a_sync_function_on_the_loop_itself_is_told_how_to_be_called() -> None:
    for call in (pack, lambda: LockClient().acquire("job")):
        with pytest.raises(RuntimeError, match=r"await asyncio\.to_thread"):
            call()


@virtual_time
async def test_a_lock_is_kept_for_hours() -> None:
    async with AsyncLockClient().lock("job") as hold:
        await asyncio.sleep(3600)
        hold.raise_if_lost()


@virtual_time
async def test_who_waits_for_another_instance_goes_on_when_that_ends() -> None:
    with held_elsewhere(book, 1):
        waiting = asyncio.create_task(book(1))
        await asyncio.sleep(8)
        assert inside.total == 0
    assert await waiting == "booked"
    assert 18 < now() < 18 + 5 + 0.1, "within a polling interval"


@virtual_time
async def test_a_hold_is_lost_where_the_body_waits() -> None:
    @singleton
    async def job() -> None:
        asyncio.get_running_loop().call_later(5, lose, current_hold())
        await asyncio.sleep(60)

    with pytest.raises(LockLost):
        await job()
    assert now() == 5


@virtual_time
async def test_a_hold_is_lost_in_a_thread() -> None:
    @singleton
    def job() -> None:
        lose(current_hold(), "stolen")
        current_hold().raise_if_lost()

    with pytest.raises(LockLost, match="stolen"):
        await asyncio.to_thread(job)


@virtual_time
async def test_busy_and_off() -> None:
    with always_busy(), pytest.raises(LockNotAcquired):
        await book()
    assert now() == 0
    with disabled():
        await asyncio.gather(*(book() for _ in range(3)))
    assert inside.most == 3


@virtual_time
async def test_workers_and_leaders_live_in_virtual_time() -> None:
    locks = AsyncLockClient()
    ticks: list[float] = []

    async def clean_up(_: Hold) -> None:
        ticks.append(now())

    async with locks.periodic("cleanup", clean_up, every=60), locks.leadership("poller") as leadership:
        await asyncio.sleep(200)
        assert leadership.hold is not None
    assert ticks == [0, 60, 120, 180]


@virtual_time
async def test_a_loop_of_a_thread_of_its_own_has_the_same_locks() -> None:
    async def there() -> None:
        async with AsyncLockClient().lock("job"):
            with pytest.raises(LockNotAcquired):
                await AsyncLockClient().acquire("job", timeout=0)

    await asyncio.to_thread(asyncio.run, there())


@pytest.fixture
def busy() -> Iterator[None]:
    with always_busy():
        yield


@pytest.fixture
def taken() -> Iterator[None]:
    with memory_locks(), held_elsewhere("job"):
        yield


@virtual_time
async def test_what_fixtures_pretend_holds_in_virtual_time(busy: None) -> None:
    with pytest.raises(LockNotAcquired):
        await book()


@virtual_time
async def test_what_fixtures_hold_elsewhere_is_held_in_virtual_time(taken: None) -> None:
    with pytest.raises(LockNotAcquired):
        await AsyncLockClient().acquire("job", timeout=3600)
    assert now() == 3600


# --- what is left, and what never comes -------------------------------------------------------------------------------


async def leaves_a_hold() -> None:
    await AsyncLockClient().acquire("job", owner="import/7")


async def leaves_a_task_inside() -> None:
    asyncio.create_task(book())  # noqa: RUF006 - that is the point
    await asyncio.sleep(1)


@pytest.mark.parametrize("test", [leaves_a_hold, leaves_a_task_inside], ids=lambda each: each.__name__)
def test_a_test_that_leaves_a_hold_fails(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with pytest.raises(AssertionError, match="not given back: lock '"):
        virtual_time(test)()


@virtual_time
async def test_a_waiter_that_is_cancelled_leaves_nothing() -> None:
    """At whichever moment of a handing on, the one between the acquisition and its caller among them."""
    locks = AsyncLockClient()
    for moment in range(30):
        hold = await locks.acquire("job")
        waiting = asyncio.create_task(locks.acquire("job"))
        await asyncio.sleep(1)
        releasing = asyncio.create_task(locks.release(hold))
        for _ in range(moment):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting, releasing})
        if not waiting.cancelled():
            await locks.release(waiting.result())
        await asyncio.sleep(1)
        assert_no_leases_left()


async def waits_for_a_lock_that_is_never_free() -> None:
    with held_elsewhere("job"):
        await AsyncLockClient().acquire("job")


async def waits_for_nothing() -> None:
    await asyncio.Event().wait()


async def waits_in_a_thread() -> None:
    later = threading.Event()
    asyncio.get_running_loop().call_later(1, later.set)
    try:
        await asyncio.to_thread(later.wait)
    finally:
        later.set()


NEVER: list[tuple[Callable[[], Coroutine[Any, Any, None]], str]] = [
    (waits_for_a_lock_that_is_never_free, "1 h of virtual time have passed"),
    (waits_for_nothing, "nothing more will happen after 0 s"),
    (waits_in_a_thread, "stands still while a thread works"),
]


@pytest.mark.parametrize(("test", "said"), NEVER)
def test_a_test_that_waits_for_ever_fails_and_says_where(
    test: Callable[[], Coroutine[Any, Any, None]], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virtual_loop, "_PATIENCE", 0.2)
    monkeypatch.setattr(virtual_loop, "_SIGN", 0.2)
    monkeypatch.setattr(virtual_loop, "_LONGEST", 3600)
    where = f"test_testing_virtual.py, line {line_that_waits(test)}"
    with pytest.raises(RuntimeError, match=rf"{said}.*\({where}\)"):
        virtual_time(test)()


def line_that_waits(test: Callable[[], object]) -> int:
    source, first = inspect.getsourcelines(test)
    return next(first + number for number, text in enumerate(source) if "await " in text)
