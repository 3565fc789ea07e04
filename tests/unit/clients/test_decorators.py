"""Blocks of a lock client as decorators: what a decorated function does, and what can't be decorated."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from singleton import (
    AsyncLockClient,
    ConfigurationError,
    LockClient,
    LockLost,
    LockNotAcquired,
    SingletonOptions,
    current_hold,
)
from singleton.testing import memory_locks, virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture
def locks() -> Iterator[LockClient]:
    with memory_locks():
        yield LockClient(options=SingletonOptions(renewal_interval=1))  # so that it hears soon of a loss


def test_each_call_acquires_anew_and_gives_back(locks: LockClient) -> None:
    @locks.lock("reports", owner="me")
    def report(number: int) -> tuple[int, int | None]:
        assert locks.locked("reports")
        return number, current_hold().token

    (_, first), (_, second) = report(1), report(2)
    assert first is not None
    assert second is not None
    assert first < second
    assert not locks.locked("reports")


def test_a_function_keeps_its_name_its_signature_and_its_text(locks: LockClient) -> None:
    @locks.lock("reports")
    def report(number: int, *, note: str = "none") -> str:
        """Make a report."""
        return f"{number} {note}"

    assert report.__name__ == "report"
    assert report.__doc__ == "Make a report."
    assert str(inspect.signature(report)) == "(number: 'int', *, note: 'str' = 'none') -> 'str'"
    assert report(1, note="x") == "1 x"


def test_so_does_a_coroutine_function(locks: LockClient) -> None:
    @AsyncLockClient().lock("reports")
    async def report(number: int) -> int:
        """Make a report."""
        return number

    assert inspect.iscoroutinefunction(report)
    assert report.__doc__ == "Make a report."
    assert list(inspect.signature(report).parameters) == ["number"]


def test_a_method_is_called_with_its_object(locks: LockClient) -> None:
    class Reports:
        made = 0

        @locks.lock("reports")
        def make(self) -> int:
            self.made += 1
            return self.made

        @staticmethod
        @locks.lock("reports")
        def plain(number: int) -> int:
            return number

    reports = Reports()
    assert [reports.make(), reports.make(), Reports.plain(7)] == [1, 2, 7]


def test_what_the_function_raises_comes_out_and_the_lock_is_free(locks: LockClient) -> None:
    @locks.lock("reports")
    def report() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        report()
    assert not locks.locked("reports")


def test_a_call_that_does_not_get_the_lock_raises(locks: LockClient) -> None:
    @locks.lock("reports", timeout=0)
    def report() -> None:
        pytest.fail("ran")

    with locks.lock("reports"), pytest.raises(LockNotAcquired):
        report()


def test_a_semaphore_lets_its_limit_in(locks: LockClient) -> None:
    @locks.semaphore("reports", 2, timeout=0)
    def report(depth: int) -> int:
        return depth if depth == 2 else report(depth + 1)

    assert report(1) == 2
    with pytest.raises(LockNotAcquired):
        report(0)


def test_a_set_of_locks_is_held_around_each_call_also_where_names_come_from_a_generator(locks: LockClient) -> None:
    @locks.lock_all(name for name in ("a", "b"))
    def move() -> list[bool]:
        with pytest.raises(RuntimeError, match="outside a function guarded"):
            current_hold()
        return [locks.locked(name) for name in ("a", "b")]

    assert [move(), move()] == [[True, True], [True, True]]


# --- try_lock ---------------------------------------------------------------------------------------------------------


def test_a_call_that_finds_the_lock_taken_is_skipped(locks: LockClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    @locks.try_lock("reports")
    def report(number: int) -> int:
        return number

    with locks.lock("reports"):
        assert report(1) is None
    assert "report skipped: this process has lock reports; held on" in caplog.text
    assert report(2) == 2


@virtual_time
async def test_so_is_a_coroutine() -> None:
    locks = AsyncLockClient()

    @locks.try_lock("reports", timeout=5)
    async def report(number: int) -> int:
        return number

    async with locks.lock("reports"):
        assert await report(1) is None
    assert await report(2) == 2


# --- a lock that is lost ----------------------------------------------------------------------------------------------


def test_a_function_whose_lock_is_lost_fails_as_it_returns(locks: LockClient) -> None:
    @locks.lock("reports")
    def report() -> str:
        locks.break_("reports", notice=0)
        assert current_hold().lost.wait(60)
        return "done"

    with pytest.raises(LockLost, match="reports"):
        report()


@virtual_time
async def test_a_coroutine_whose_lock_is_lost_is_cancelled() -> None:
    locks = AsyncLockClient()
    seen: list[str] = []

    @locks.lock("reports")
    async def report() -> None:
        await locks.break_("reports", notice=0)
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with pytest.raises(LockLost, match="reports"):
        await report()
    assert seen == ["cancelled"]


@virtual_time
async def test_a_coroutine_that_swallows_its_cancellation_fails_as_it_returns() -> None:
    locks = AsyncLockClient()

    @locks.lock("reports")
    async def report() -> str:
        await locks.break_("reports", notice=0)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        return "done"

    with pytest.raises(LockLost, match="reports"):
        await report()


@virtual_time
async def test_a_coroutine_with_several_locks_is_cancelled_as_one_is_lost() -> None:
    locks = AsyncLockClient()

    @locks.lock_all(["a", "b"])
    async def move() -> None:
        await locks.break_("a", notice=0)
        await asyncio.sleep(3600)

    with pytest.raises(LockLost, match="'a'"):
        await move()
    assert not await locks.locked("b")


# --- refused at once --------------------------------------------------------------------------------------------------


async def a_coroutine_function() -> None: ...


def a_function() -> None: ...


def a_generator() -> Iterator[int]:
    yield 1


async def an_async_generator() -> AsyncIterator[int]:
    yield 1


def takes_the_class(kind: type) -> None: ...


class AClass: ...


@pytest.mark.parametrize(
    ("kind", "what", "why"),
    [
        (LockClient, a_coroutine_function, "can't decorate a_coroutine_function: .* use AsyncLockClient"),
        (LockClient, functools.partial(a_coroutine_function), "is a coroutine function: use AsyncLockClient"),
        (LockClient, a_generator, "is a generator, .*: take the lock inside it"),
        (LockClient, an_async_generator, "is a generator"),
        (LockClient, AClass, "can't decorate AClass: it is a class, and this is no pattern for classes"),
        (AsyncLockClient, AClass, "is a class, .* one object in each process, use a global"),
        (LockClient, AClass(), "which is no function"),
        (LockClient, None, "decorates None, which is no function"),
        (LockClient, staticmethod(a_function), "is a staticmethod: put the lock below that decorator"),
        (LockClient, classmethod(takes_the_class), "is a classmethod"),
        (AsyncLockClient, a_function, "is no coroutine function: make it `async def`, or use LockClient"),
        (AsyncLockClient, an_async_generator, "is a generator"),
        (AsyncLockClient, a_generator, "is a generator"),
    ],
)
@pytest.mark.parametrize("way", ["lock", "try_lock", "semaphore", "lock_all"])
def test_what_cannot_be_decorated_is_refused_at_once(way: str, kind: Any, what: Any, why: str) -> None:
    with memory_locks():
        client = kind()
        block = {
            "lock": lambda: client.lock("job"),
            "try_lock": lambda: client.try_lock("job"),
            "semaphore": lambda: client.semaphore("job", 2),
            "lock_all": lambda: client.lock_all(["job"]),
        }[way]()
        with pytest.raises(ConfigurationError, match=why):
            block(what)


def test_a_function_that_has_its_trigger_already_is_refused_as_its_host_would_call_it_without_the_lock(
    locks: LockClient,
) -> None:
    app = func.FunctionApp()

    @app.timer_trigger(arg_name="timer", schedule="0 * * * * *")
    def tick(timer: func.TimerRequest) -> None: ...

    with pytest.raises(ConfigurationError, match="Put it below decorators that make something else of a function"):
        locks.lock("job")(tick)


def test_a_function_that_returns_a_coroutine_is_refused_as_it_would_run_without_the_lock(locks: LockClient) -> None:
    @locks.lock("job")
    def make() -> Any:
        return a_coroutine_function()

    with pytest.raises(ConfigurationError, match="returned a coroutine, which would run after the lock is released"):
        make()
    assert not locks.locked("job")


@pytest.mark.parametrize("kind", [contextlib.contextmanager, contextlib.asynccontextmanager])
def test_nor_one_that_returns_a_context_manager(locks: LockClient, kind: Any) -> None:
    entered: list[str] = []

    def with_a_block() -> Any:
        entered.append("inside")
        yield

    opened = locks.lock("job")(kind(with_a_block))
    with pytest.raises(
        ConfigurationError,
        match=r"which would run after the lock is released.* a context manager: take the lock inside",
    ):
        opened()
    assert entered == []
    assert not locks.locked("job")


def test_decorating_sends_nothing_and_starts_nothing() -> None:
    """A worker imports an app's modules at its start: the first call is soon enough."""
    from singleton.runtime import lock_thread

    lock_thread.shutdown()
    AsyncLockClient("UseDevelopmentStorage=true").lock("job")(a_coroutine_function)
    LockClient("UseDevelopmentStorage=true", options=SingletonOptions()).try_lock("job")(a_function)
    assert lock_thread._current is None


def test_a_block_that_decorates_can_be_entered_too(locks: LockClient) -> None:
    block = locks.lock("job")
    decorated = block(lambda: locks.locked("job"))
    with block as hold:
        assert hold.lock == "job"
    assert decorated()
