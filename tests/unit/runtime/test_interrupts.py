"""An interrupt at any call between the end of a body and its release: the lock is free, though a variable has the hold.

An interrupt is raised as a Python function is entered, which is where CPython looks for signals.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import sys
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, LockClient, SingletonOptions, current_hold, once, singleton
from tests.support.lock_thread import LockThread, an_app
from tests.support.waiters import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    from singleton import Hold

OPTIONS = SingletonOptions(lock_acquisition_min_polling_interval=0.01)
MANY = 150
"""More calls than any release takes."""


class Interrupt(KeyboardInterrupt):
    """Not to be taken for one of the user at the test."""


class Interrupts:
    """Raises an interrupt at the call with this number after ``begin``."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.kept: list[Any] = []

    def begin(self, kept: object) -> None:
        """Keep the hold, as a variable of the user's does; the interrupt may come from now on."""
        self.kept.append(kept)
        sys.setprofile(self._call)

    def end(self) -> None:
        """No interrupt comes any more."""
        sys.setprofile(None)

    def _call(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "singleton" in frame.f_code.co_filename and frame.f_code.co_name != "__del__":
            self.left -= 1
            if self.left < 0:
                sys.setprofile(None)
                raise Interrupt


@pytest.fixture
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


def in_lock(interrupts: Interrupts) -> None:
    with LockClient(options=OPTIONS).lock("job") as hold:
        interrupts.begin(hold)


def in_a_kept_block(interrupts: Interrupts) -> None:
    block = LockClient(options=OPTIONS).lock("job")
    interrupts.kept.append(block)
    with block as hold:
        interrupts.begin(hold)


def in_try_lock(interrupts: Interrupts) -> None:
    with LockClient(options=OPTIONS).try_lock("job") as hold:
        interrupts.begin(hold)


def in_semaphore(interrupts: Interrupts) -> None:
    with LockClient(options=OPTIONS).semaphore("job", 2) as hold:
        interrupts.begin(hold)


def in_lock_all(interrupts: Interrupts) -> None:
    with LockClient(options=OPTIONS).lock_all(["a", "job", "z"]) as holds:
        interrupts.begin(holds)


def in_an_inner_block(interrupts: Interrupts) -> None:
    locks = LockClient(options=OPTIONS)
    with locks.lock("job", reentrant=True), locks.lock("job", reentrant=True) as hold:
        interrupts.begin(hold)


def after_an_error(interrupts: Interrupts) -> None:
    with LockClient(options=OPTIONS).lock("job") as hold:
        interrupts.begin(hold)
        raise ZeroDivisionError


def in_a_decorated_call(interrupts: Interrupts) -> None:
    @LockClient(options=OPTIONS).lock("job")
    def work() -> None:
        interrupts.begin(current_hold())

    work()


def in_a_guarded_call(interrupts: Interrupts) -> None:
    @singleton
    def job(interrupts: Interrupts) -> None:
        interrupts.begin(current_hold())

    job(interrupts)


def in_a_coroutine(interrupts: Interrupts) -> None:
    async def work() -> None:
        async with AsyncLockClient(options=OPTIONS).lock("job") as hold:
            interrupts.begin(hold)

    asyncio.run(work())


def in_a_guarded_coroutine(interrupts: Interrupts) -> None:
    @singleton
    async def job(interrupts: Interrupts) -> None:
        interrupts.begin(current_hold())

    asyncio.run(job(interrupts))


def in_once(interrupts: Interrupts) -> None:
    with once(LockClient(options=OPTIONS), "job") as operation:
        interrupts.begin(operation)


def in_a_once_coroutine(interrupts: Interrupts) -> None:
    async def work() -> None:
        async with once(AsyncLockClient(options=OPTIONS), "job") as operation:
            interrupts.begin(operation)

    asyncio.run(work())


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "work",
    [
        in_lock,
        in_a_kept_block,
        in_try_lock,
        in_semaphore,
        in_lock_all,
        in_an_inner_block,
        after_an_error,
        in_a_decorated_call,
        in_a_guarded_call,
        in_a_coroutine,
        in_a_guarded_coroutine,
        in_once,
        in_a_once_coroutine,
    ],
)
def test_wherever_an_interrupt_comes_the_lock_is_free_though_a_variable_has_the_hold(
    thread: LockThread, work: Callable[[Interrupts], None]
) -> None:
    came = 0
    gc.disable()
    try:
        for number in range(MANY):
            interrupts = Interrupts(number)
            try:
                contextvars.copy_context().run(work, interrupts)
            except (Interrupt, ZeroDivisionError):
                pass
            finally:
                sys.setprofile(None)
            assert interrupts.kept
            if work in (in_a_coroutine, in_a_guarded_coroutine, in_a_once_coroutine):
                gc.collect()  # a task and its error refer to one another
            eventually(lambda: not thread.leased())
            if interrupts.left >= 0:
                break
            came += 1
    finally:
        gc.enable()
    assert 5 < came < MANY
    gc.collect()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "ask",
    [
        lambda locks: locks.lock("job"),
        lambda locks: locks.lock("job", reentrant=True),
        lambda locks: locks.lock_all(["a", "job"]),
        lambda locks: once(locks, "job"),
    ],
    ids=["lock", "reentrant", "lock_all", "once"],
)
def test_wherever_an_interrupt_comes_as_a_kept_block_begins_the_lock_is_free(
    thread: LockThread, ask: Callable[[LockClient], Any]
) -> None:
    came = 0
    gc.disable()
    try:
        for number in range(10 * MANY):
            interrupts, block = Interrupts(number), ask(LockClient(options=OPTIONS))
            try:
                interrupts.begin(block)
                with block:
                    sys.setprofile(None)
            except Interrupt:
                came += 1
            finally:
                sys.setprofile(None)
            eventually(lambda: not thread.leased())
            if interrupts.left >= 0:
                break
    finally:
        gc.enable()
    assert 5 < came < 10 * MANY


# --- the same lock again, at once -------------------------------------------------------------------------------------


def excludes(locks: LockClient, hold: Hold | None) -> None:
    """Fail if the body which runs under the hold runs without its lock. The requests come behind each release."""
    assert hold is not None
    with locks.try_lock("job") as other:
        assert other is None
    assert hold.owned


def again_in_a_block(interrupts: Interrupts, locks: LockClient) -> None:
    with contextlib.suppress(Interrupt), locks.lock("job", reentrant=True, timeout=10) as hold:
        interrupts.begin(hold)
    interrupts.end()
    with locks.lock("job", reentrant=True, timeout=10) as again:
        excludes(locks, again)


def again_while_the_interrupt_is_handled(interrupts: Interrupts, locks: LockClient) -> None:
    try:
        with locks.lock("job", reentrant=True, timeout=3) as hold:
            interrupts.begin(hold)
    except Interrupt:
        with locks.lock("job", reentrant=True, timeout=3) as again:
            excludes(locks, again)


def again_three_deep(interrupts: Interrupts, locks: LockClient) -> None:
    def deep(number: int, body: Callable[[Hold], None]) -> None:
        with locks.lock("job", reentrant=True, timeout=10) as hold:
            if number:
                deep(number - 1, body)
            else:
                body(hold)

    with contextlib.suppress(Interrupt):
        deep(2, interrupts.begin)
    interrupts.end()
    deep(2, lambda hold: excludes(locks, hold))


def again_inside_the_outer_block(interrupts: Interrupts, locks: LockClient) -> None:
    with locks.lock("job", reentrant=True, timeout=10) as outer:
        with contextlib.suppress(Interrupt), locks.lock("job", reentrant=True, timeout=10) as hold:
            interrupts.begin(hold)
        interrupts.end()
        with locks.lock("job", reentrant=True, timeout=10) as again:
            excludes(locks, again)
        excludes(locks, outer)
    assert not outer.owned


def again_inside_an_outer_block_entered_by_hand(interrupts: Interrupts, locks: LockClient) -> None:
    with contextlib.ExitStack() as stack:
        outer = stack.enter_context(locks.lock("job", reentrant=True, timeout=10))
        with contextlib.suppress(Interrupt), locks.lock("job", reentrant=True, timeout=10) as hold:
            interrupts.begin(hold)
        interrupts.end()
        excludes(locks, outer)
    interrupts.kept.append(outer)
    assert not outer.owned


def again_in_a_decorated_call(interrupts: Interrupts, locks: LockClient) -> None:
    @locks.lock("job", reentrant=True, timeout=10)
    def work(first: bool) -> None:
        if first:
            interrupts.begin(current_hold())
        else:
            excludes(locks, current_hold())

    with contextlib.suppress(Interrupt):
        work(True)
    interrupts.end()
    work(False)


def again_in_a_coroutine(interrupts: Interrupts, locks: LockClient) -> None:
    async def work() -> None:
        mine = AsyncLockClient(options=OPTIONS)
        with contextlib.suppress(Interrupt):
            async with mine.lock("job", reentrant=True, timeout=10) as hold:
                interrupts.begin(hold)
        interrupts.end()
        async with mine.lock("job", reentrant=True, timeout=10) as again:
            excludes(locks, again)

    asyncio.run(work())


def again_in_a_decorated_coroutine(interrupts: Interrupts, locks: LockClient) -> None:
    @AsyncLockClient(options=OPTIONS).lock("job", reentrant=True, timeout=10)
    async def work(first: bool) -> None:
        if first:
            interrupts.begin(current_hold())
        else:
            excludes(locks, current_hold())

    async def run() -> None:
        with contextlib.suppress(Interrupt):
            await work(True)
        interrupts.end()
        await work(False)

    asyncio.run(run())


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "work",
    [
        again_in_a_block,
        again_while_the_interrupt_is_handled,
        again_three_deep,
        again_inside_the_outer_block,
        again_inside_an_outer_block_entered_by_hand,
        again_in_a_decorated_call,
        again_in_a_coroutine,
        again_in_a_decorated_coroutine,
    ],
)
def test_a_block_which_follows_an_interrupt_at_once_has_its_lock(
    thread: LockThread, work: Callable[[Interrupts, LockClient], None]
) -> None:
    came = 0
    for number in range(MANY):
        interrupts = Interrupts(number)
        try:
            with contextlib.suppress(Interrupt):
                contextvars.copy_context().run(work, interrupts, LockClient(options=OPTIONS))
        finally:
            interrupts.end()
        gc.collect()
        eventually(lambda: not thread.leased())
        if interrupts.left >= 0:
            break
        came += 1
    assert 5 < came < MANY


def test_a_lost_hold_whose_block_an_interrupt_ended_fails_no_later_call(thread: LockThread) -> None:
    interrupts, locks = Interrupts(0), LockClient(options=OPTIONS)

    @singleton
    def later() -> str:
        return "done"

    def work() -> str:
        with contextlib.suppress(Interrupt), locks.lock("job") as hold:
            hold.lost.fire("expired")
            interrupts.begin(hold)
        eventually(lambda: hold.record.over)  # type: ignore[attr-defined]
        return later()

    assert contextvars.copy_context().run(work) == "done"


def test_a_hold_that_was_entered_by_hand_is_kept_without_its_block(thread: LockThread) -> None:
    sync = LockClient(options=OPTIONS).lock("job").__enter__()

    async def enter() -> Any:
        return await AsyncLockClient(options=OPTIONS).lock("another").__aenter__()

    coroutine = asyncio.run(enter())
    gc.collect()
    assert sync.owned
    assert coroutine.owned
    assert thread.leased() == {"job", "another"}
    del sync, coroutine
    eventually(lambda: not thread.leased())


@pytest.mark.parametrize("looks", [hasattr, getattr])
def test_a_block_may_be_looked_at(thread: LockThread, looks: Callable[[object, str], object]) -> None:
    block = LockClient(options=OPTIONS).lock("job")
    looks(block, "__exit__")
    with block as hold:
        looks(block, "__exit__")
        gc.collect()
        assert hold.owned
    assert not thread.leased()


def test_the_rest_of_at_least_outlives_the_statement(thread: LockThread) -> None:
    with LockClient(options=OPTIONS).lock("job", at_least=3600):
        pass
    gc.collect()
    with LockClient(options=OPTIONS).lock("another"):  # behind it on the lock thread
        assert "job" in thread.leased()
