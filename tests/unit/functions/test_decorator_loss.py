"""A guarded body whose hold is lost, or whose task is cancelled: who is told what, and nothing else is disturbed."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal

import pytest

from singleton import (
    LockLost,
    current_hold,
    singleton,
)
from singleton.testing import disabled
from tests.support.lock_thread import LockThread, a_job, an_app, call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK = "locks/app/job"
Contention = Literal["wait", "skip", "raise"]
both_kinds = pytest.mark.parametrize("kind", ["sync", "async"])


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch, '{"singleton": {"lockAcquisitionMinPollingInterval": "00:00:00.01"}}')
    with LockThread() as running:
        yield running


def test_a_sync_body_is_told_and_its_invocation_fails(thread: LockThread) -> None:
    def body() -> str:
        hold = current_hold()
        thread.deleted(LOCK)
        assert hold.lost.wait(60)
        with pytest.raises(LockLost):
            hold.raise_if_lost()
        return "done all the same"

    with pytest.raises(LockLost, match=r"is lost \(blob gone\): another process may be inside") as caught:
        call(a_job("sync", body))
    assert (caught.value.lock, caught.value.owner, caught.value.reason) == (LOCK, "inv-1", "blob gone")
    ends = ["lost:blob gone", "body_ended:lost", "released"]
    assert thread.kinds() == ["waiting", "acquired", "body_started", *ends]


def test_a_loss_that_the_bodys_own_look_sees_first_is_told_as_a_loss(thread: LockThread) -> None:
    def body() -> None:
        hold = current_hold()
        hold.lost.add_callback(heard.append)
        hold.lease.deadline = 0.0  # type: ignore[attr-defined]  # its process stood still
        hold.raise_if_lost()

    heard: list[str] = []
    with pytest.raises(LockLost, match="expired"):
        call(a_job("sync", body))
    assert heard == ["expired"]
    assert thread.kinds()[-3:] == ["body_ended:lost", "lost:expired", "released"]


def test_an_async_body_is_cancelled_and_its_invocation_fails_with_lock_lost(thread: LockThread) -> None:
    async def body() -> None:
        thread.deleted(LOCK)
        try:
            await asyncio.sleep(20)
        finally:
            cleaned.append(current_hold().lost.reason)

    cleaned: list[str | None] = []
    with pytest.raises(LockLost, match="blob gone") as caught:
        call(a_job("async", body))
    assert cleaned == ["blob gone"]
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    assert thread.kinds()[-3:] == ["lost:blob gone", "body_ended:lost", "released"]


def test_the_option_leaves_an_async_body_alone(thread: LockThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__cancelOnLoss", "false")

    async def body() -> None:
        thread.deleted(LOCK)
        assert await current_hold().lost == "blob gone"
        await asyncio.sleep(0.01)
        ran.append(True)

    ran: list[bool] = []
    with pytest.raises(LockLost):
        call(a_job("async", body))
    assert ran == [True]


@pytest.mark.parametrize("answer", ["returns", "raises"])
def test_a_body_that_swallows_the_cancellation_still_fails(thread: LockThread, answer: str) -> None:
    async def body() -> str:
        thread.deleted(LOCK)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(20)
        if answer == "raises":
            raise KeyError("of its own")
        await asyncio.sleep(0.01)
        return "done"

    with pytest.raises(LockLost if answer == "returns" else KeyError):
        call(a_job("async", body))


async def test_the_callers_task_is_as_uncancelled_as_before(thread: LockThread) -> None:
    async def body() -> None:
        thread.deleted(LOCK)
        await asyncio.sleep(20)

    with pytest.raises(LockLost):
        await a_job("async", body)()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0.01)


async def test_a_cancellation_from_outside_goes_on_and_the_lock_is_given_back(thread: LockThread) -> None:
    inside = asyncio.Event()

    async def body() -> None:
        inside.set()
        await asyncio.sleep(20)

    task = asyncio.create_task(a_job("async", body)())
    await inside.wait()
    task.cancel("from outside")
    with pytest.raises(asyncio.CancelledError, match="from outside"):
        await task
    assert thread.leased() == set()
    assert thread.kinds()[-2:] == ["body_ended:error", "released"]


async def test_a_cancellation_from_outside_together_with_a_loss_stays_a_cancellation(thread: LockThread) -> None:
    inside = asyncio.Event()

    async def body() -> None:
        inside.set()
        try:
            await asyncio.sleep(20)
        finally:
            thread.deleted(LOCK)
            await current_hold().lost
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1)

    task = asyncio.create_task(a_job("async", body)())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_time_out_around_the_invocation_stays_a_time_out(thread: LockThread) -> None:
    async def invoked() -> None:
        async with asyncio.timeout(None) as limit:

            async def body() -> None:
                limit.reschedule(asyncio.get_running_loop().time())
                await asyncio.sleep(20)

            await a_job("async", body)()

    with pytest.raises(TimeoutError):
        await invoked()
    assert thread.leased() == set()


async def test_a_time_out_inside_the_body_is_the_bodys(thread: LockThread) -> None:
    async def body() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(20)
        except TimeoutError:
            return "noticed"
        return "not"

    assert await a_job("async", body)() == "noticed"


async def test_when_both_of_two_nested_holds_are_lost_the_outer_invocation_fails_with_lock_lost(
    thread: LockThread,
) -> None:
    async def innermost() -> None:
        thread.memory.delete(LOCK)
        thread.deleted(f"{LOCK}.1")
        await asyncio.sleep(20)

    inner = a_job("async", innermost, scope="Id")
    with pytest.raises(LockLost) as caught:
        await a_job("async", lambda: inner(msg='{"Id": 1}'))()
    assert caught.value.reason == "blob gone"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


def test_a_machine_that_slept_knows_at_once(thread: LockThread) -> None:
    def body() -> None:
        thread.push_clock(20)
        assert current_hold().lost.reason == "expired"
        current_hold().raise_if_lost()
        pytest.fail("it went on")

    with pytest.raises(LockLost, match="expired"):
        call(a_job("sync", body))


@both_kinds
def test_after_a_loss_the_next_invocation_gets_the_lock_with_a_higher_token(thread: LockThread, kind: str) -> None:
    tokens: list[int] = []

    def body() -> None:
        tokens.append(current_hold().token or 0)
        if len(tokens) == 1:
            thread.push_clock(20)

    job = a_job(kind, body)
    with pytest.raises(LockLost):
        call(job)
    call(job)
    assert tokens[0] < tokens[1]


# --- what the worker would never answer for ---------------------------------------------------------------------------


@both_kinds
def test_a_cancellation_that_nobody_asked_for_fails_the_invocation(thread: LockThread, kind: str) -> None:
    def body() -> None:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="job raised CancelledError, but nobody cancelled it"):
        call(a_job(kind, body))
    assert thread.leased() == set()


async def test_a_close_of_an_invocation_ends_its_body_and_is_no_error() -> None:
    ended: list[BaseException] = []

    @singleton(scope_id="job")
    async def job(_: Any) -> None:
        try:
            await asyncio.Event().wait()
        except GeneratorExit as error:
            ended.append(error)
            raise

    with disabled():
        invocation = job(None)
        assert asyncio.isfuture(invocation.send(None))
        invocation.close()
    assert len(ended) == 1


class PanicError(BaseException):
    """An error like that of a Rust library (PyO3), which is no ``Exception``."""


@both_kinds
def test_a_panic_of_a_library_fails_the_invocation_with_its_cause(thread: LockThread, kind: str) -> None:
    def body() -> None:
        raise PanicError("index out of bounds")

    with pytest.raises(
        RuntimeError, match="job raised PanicError, which is no Exception: index out of bounds"
    ) as caught:
        call(a_job(kind, body))
    assert isinstance(caught.value.__cause__, PanicError)
    assert thread.leased() == set()


def test_an_interrupt_of_the_main_thread_stays_one_and_one_of_another_thread_fails_the_invocation() -> None:
    @singleton
    def job(msg: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job(msg="{}")
    with ThreadPoolExecutor() as pool, pytest.raises(RuntimeError, match="job raised KeyboardInterrupt"):
        pool.submit(job, msg="{}").result()


@both_kinds
def test_an_exit_fails_the_invocation_and_the_worker_lives(kind: str) -> None:
    def body() -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match=r"job called exit\(3\)"):
        call(a_job(kind, body))
