"""A guarded body, sync and async alike: exclusion, contention, errors (W-82 to W-89)."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Literal

import pytest

from singleton import (
    ConfigurationError,
    Hold,
    LockNotAcquired,
    ScopeError,
    StorageDenied,
    StorageUnavailable,
    current_hold,
    singleton,
)
from singleton.stores.protocol import StoreFailure
from tests.support.lock_thread import LockThread, a_job, an_app, call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from singleton.testing.storage.memory_store import MemoryLeaseStore

LOCK = "locks/app/job"
Contention = Literal["wait", "skip", "raise"]
both_kinds = pytest.mark.parametrize("kind", ["sync", "async"])


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch, '{"singleton": {"lockAcquisitionMinPollingInterval": "00:00:00.01"}}')
    with LockThread() as running:
        yield running


def refused(store: MemoryLeaseStore, call: str, failure: StoreFailure) -> None:
    """Have the store answer each such call with this failure."""

    async def fail(*_: object) -> Any:
        store.calls[call] += 1
        raise failure

    setattr(store, call, fail)


# --- a section ------------------------------------------------------------------------------------------


@both_kinds
def test_the_body_runs_under_the_lock_and_its_result_is_returned(thread: LockThread, kind: str) -> None:
    seen: list[tuple[Hold, set[str]]] = []

    def body() -> str:
        seen.append((current_hold(), thread.leased()))
        return "done"

    assert call(a_job(kind, body)) == "done"
    ((hold, leased),) = seen
    assert leased == {LOCK}
    assert (hold.lock, hold.owner, hold.lost.reason) == (LOCK, "inv-1", None)
    assert hold.token
    assert thread.leased() == set()
    assert thread.kinds() == ["waiting", "acquired", "body_started", "body_ended:ok", "released"]
    assert {(event.lock, event.function, event.owner) for event in thread.events} == {(LOCK, "job", "inv-1")}


@both_kinds
def test_an_error_of_the_body_comes_through_and_the_lock_is_free_before_it_does(thread: LockThread, kind: str) -> None:
    def body() -> None:
        raise KeyError("the body's own")

    with pytest.raises(KeyError, match="the body's own"):
        call(a_job(kind, body))
    assert thread.leased() == set()
    assert thread.kinds() == ["waiting", "acquired", "body_started", "body_ended:error", "released"]


@both_kinds
def test_outside_a_body_there_is_no_current_hold(kind: str) -> None:
    call(a_job(kind))
    with pytest.raises(RuntimeError, match="outside a function guarded by @singleton"):
        current_hold()


@both_kinds
def test_a_thread_of_the_body_is_told_how_it_sees_the_hold(kind: str) -> None:
    seen: list[object] = []

    def body() -> None:
        with ThreadPoolExecutor(1, thread_name_prefix="writer") as pool:
            seen.append(pool.submit(current_hold).exception())
            seen.append(pool.submit(copy_context().run, current_hold).result() is current_hold())

    call(a_job(kind, body))
    error, in_the_context = seen
    assert isinstance(error, RuntimeError)
    for said in (
        "does not see its hold (this is thread 'writer_0')",
        "call current_hold() before",
        "contextvars.copy_context().run",
    ):
        assert said in str(error)
    assert in_the_context


def test_a_block_is_told_of_its_own_hold_and_the_main_thread_of_no_thread() -> None:
    with pytest.raises(RuntimeError, match="A block gives its hold itself: `with") as refused:
        current_hold()
    assert "thread" not in str(refused.value)


@both_kinds
def test_twenty_invocations_run_one_at_a_time_and_all_of_them_do(kind: str) -> None:
    inside, worst, tokens = 0, 0, list[int | None]()

    async def body() -> None:
        nonlocal inside, worst
        inside += 1
        worst = max(worst, inside)
        tokens.append(current_hold().token)
        await asyncio.sleep(0.001)
        inside -= 1

    job = a_job(kind, body if kind == "async" else lambda: asyncio.run(body()))
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda number: call(job, owner=f"inv-{number}"), range(20)))
    assert (worst, len(tokens)) == (1, 20)
    assert tokens == sorted(set(tokens), key=lambda token: token or 0)


@both_kinds
def test_other_scopes_run_at_the_same_time(kind: str) -> None:
    both_inside = threading.Barrier(2, timeout=60)
    job = a_job(kind, both_inside.wait, scope="Id")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda key: call(job, msg=f'{{"Id": {key}}}'), range(2)))


@both_kinds
def test_a_body_in_a_body_has_its_own_hold_and_the_outer_one_afterwards(kind: str) -> None:
    locks: list[str] = []
    inner = a_job("sync", lambda: locks.append(current_hold().lock), scope="Id")

    def body() -> None:
        locks.append(current_hold().lock)
        inner(msg='{"Id": 1}')
        locks.append(current_hold().lock)

    call(a_job(kind, body))
    assert locks == [LOCK, f"{LOCK}.1", LOCK]


async def test_tasks_and_threads_of_the_body_see_its_hold() -> None:
    async def body() -> list[str]:
        async def child() -> str:
            return current_hold().lock

        return [await asyncio.create_task(child()), await asyncio.to_thread(lambda: current_hold().lock)]

    assert await a_job("async", body)() == [LOCK, LOCK]


# --- contention -----------------------------------------------------------------------------------------------------


@both_kinds
def test_skip_returns_none_at_once_and_runs_nothing(thread: LockThread, kind: str) -> None:
    thread.taken_by_another_process(LOCK)
    assert call(a_job(kind, pytest.fail, on_contention="skip")) is None
    assert thread.kinds() == ["waiting", "contended:skip"]


@both_kinds
def test_skip_within_the_process_makes_no_request(thread: LockThread, kind: str) -> None:
    def call_inside() -> None:
        before = sum(thread.memory.calls.values())
        if len(thread.kinds()) < 5:
            with ThreadPoolExecutor(1) as pool:
                assert pool.submit(call, job).result() is None
        assert sum(thread.memory.calls.values()) == before

    job = a_job(kind, call_inside, on_contention="skip")
    call(job)
    assert thread.kinds().count("contended:skip") == 1


@both_kinds
@pytest.mark.parametrize("timeout", [None, 0.05])
@pytest.mark.parametrize("on_contention", ["raise", "wait"])
def test_raise_and_a_wait_that_ends_fail_the_invocation(
    thread: LockThread, kind: str, on_contention: Contention, timeout: float | None
) -> None:
    if (on_contention, timeout) == ("wait", None):
        return
    thread.taken_by_another_process(LOCK)
    how = "at once" if timeout is None else "within 0:00:00.05"
    with pytest.raises(LockNotAcquired, match=f"'{LOCK}' was not acquired {how}: somebody else has it") as caught:
        call(a_job(kind, pytest.fail, on_contention=on_contention, timeout=timeout))
    assert (caught.value.lock, caught.value.owner) == (LOCK, "inv-1")
    assert isinstance(caught.value, TimeoutError)
    assert thread.kinds() == ["waiting", f"contended:{'timeout' if on_contention == 'wait' else 'raise'}"]


@both_kinds
@pytest.mark.parametrize("on_contention", ["skip", "raise", "wait"])
def test_within_the_time_to_wait_the_body_still_runs(thread: LockThread, kind: str, on_contention: Contention) -> None:
    thread.taken_by_another_process(LOCK)
    job = a_job(kind, lambda: "done", on_contention=on_contention, timeout=30)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(call, job)
        while thread.memory.calls["acquire"] < 3:
            pass
        thread.given_back_by_the_other(LOCK)
        assert waiting.result(60) == "done"


# --- errors are no contention ---------------------------------------------------------------------------------------


@both_kinds
@pytest.mark.parametrize("on_contention", ["skip", "raise", "wait"])
@pytest.mark.parametrize("call_that_fails", ["acquire", "write", "create"])
def test_denied_access_fails_the_invocation_under_every_policy(
    thread: LockThread, kind: str, on_contention: Contention, call_that_fails: str
) -> None:
    if call_that_fails == "write":  # a blob that is not ours
        thread.do(lambda: thread.memory.create(LOCK))
    refused(thread.memory, call_that_fails, StoreFailure(403, "AuthenticationFailed"))
    with pytest.raises(StorageDenied, match="403 AuthenticationFailed") as caught:
        call(a_job(kind, pytest.fail, on_contention=on_contention))
    assert (caught.value.status, caught.value.code, caught.value.owner) == (403, "AuthenticationFailed", "inv-1")
    assert thread.leased() == set()


@both_kinds
@pytest.mark.parametrize("status", [500, 503, 429, None])
def test_storage_that_does_not_answer_is_no_reason_to_skip(thread: LockThread, kind: str, status: int | None) -> None:
    refused(thread.memory, "acquire", StoreFailure(status, None))
    with pytest.raises(StorageUnavailable, match=LOCK):
        call(a_job(kind, pytest.fail, on_contention="skip", timeout=0.2))
    assert "contended:skip" not in thread.kinds()


def test_invocations_behind_one_that_finds_storage_failing_are_not_skipped_either(thread: LockThread) -> None:
    refused(thread.memory, "acquire", StoreFailure(403, "AuthenticationFailed"))
    asked = threading.Event()
    answer = thread.memory.acquire

    async def slowly(name: str, lease_id: str, duration: int) -> str:
        asked.set()
        await asyncio.sleep(0.3)
        return await answer(name, lease_id, duration)

    thread.memory.acquire = slowly  # type: ignore[method-assign]
    job = a_job("sync", pytest.fail, on_contention="skip")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(call, job)
        assert asked.wait(60)
        second = pool.submit(call, job)
        assert isinstance(first.exception(10), StorageDenied)
        assert isinstance(second.exception(10), StorageDenied)


@both_kinds
def test_a_scope_that_is_not_there_fails_before_the_lock_is_asked_for(thread: LockThread, kind: str) -> None:
    with pytest.raises(ScopeError):
        call(a_job(kind, pytest.fail, scope="Id", on_contention="skip"), msg="{}")
    assert thread.memory.calls.total() == 0


@both_kinds
def test_a_connection_that_is_not_set_is_named_with_its_remedy(kind: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        call(a_job(kind, pytest.fail, connection="Orders", on_contention="skip"))
    assert "connection 'Orders'" in str(caught.value)
    assert "Set Orders to the account's connection string; or, to use an identity, set Orders__accountName" in str(
        caught.value
    )


@both_kinds
def test_with_locking_switched_off_bodies_run_and_are_reported(
    thread: LockThread, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__enabled", "false")
    monkeypatch.delenv("AzureWebJobsStorage")
    assert call(a_job(kind, lambda: (current_hold().token, current_hold().lost.is_set()))) == (None, False)
    assert thread.memory.calls.total() == 0
    assert thread.kinds() == ["body_started", "body_ended:ok"]


def test_a_body_that_raises_stop_iteration_fails_in_words() -> None:
    """No future can carry that exception, so no worker could answer."""

    @singleton
    def job(msg: str) -> None:
        next(iter(()))

    with pytest.raises(RuntimeError, match="job raised StopIteration"):
        job(msg="{}")
