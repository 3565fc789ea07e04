"""@singleton twice on one function, once in each mode: both locks are held during an invocation (W-7, W-9, W-15)."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from singleton import ConfigurationError, LockLost, ScopeError, current_hold, singleton
from singleton.decorator import declared_guards, guards_of
from tests.support.lock_thread import Context, LockThread, an_app, outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LISTENER = "locks/app/job~listener"
BODY = "locks/app/job.7"
MESSAGE = '{"Id": 7}'
both_kinds = pytest.mark.parametrize("kind", ["sync", "async"])
both_orders = pytest.mark.parametrize("first", ["function", "listener"])


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch, '{"singleton": {"listenerLockPeriod": "00:00:15"}}')
    with LockThread() as running:
        yield running


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate as other libraries do."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    @functools.wraps(function)
    async def async_wrapper(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    return async_wrapper if asyncio.iscoroutinefunction(function) else wrapper


def twice(
    function: Callable[..., Any], first: str, between: Callable[[Callable[..., Any]], Callable[..., Any]] = plain
) -> Callable[..., Any]:
    """Declare both modes, this one nearer to the function."""
    around_body, for_life = singleton(scope="Id"), singleton(mode="listener")
    inner, outer = (around_body, for_life) if first == "function" else (for_life, around_body)
    return outer(between(inner(function)))


def a_job(kind: str, first: str, body: Callable[[], Any] = lambda: None) -> Callable[..., Any]:
    def job(msg: str) -> Any:
        return body()

    async def async_job(msg: str) -> Any:
        return body()

    async_job.__name__ = "job"
    return twice(async_job if kind == "async" else job, first)


def call(job: Callable[..., Any], msg: str = MESSAGE) -> Any:
    return outcome(job(msg=msg, context=Context()))


def about(thread: LockThread) -> list[tuple[str, str]]:
    names = {LISTENER: "listener", BODY: "body"}
    return [(event.kind, names[event.lock]) for event in thread.events]


@both_kinds
@both_orders
def test_both_locks_are_held_during_an_invocation_and_only_the_listeners_afterwards(
    thread: LockThread, kind: str, first: str
) -> None:
    assert call(a_job(kind, first, thread.leased)) == {LISTENER, BODY}
    assert thread.leased() == {LISTENER}


@both_kinds
@both_orders
def test_in_whatever_order_they_stand_it_is_asked_first_who_listens(thread: LockThread, kind: str, first: str) -> None:
    call(a_job(kind, first))
    assert about(thread) == [
        ("waiting", "listener"),
        ("acquired", "listener"),
        ("body_started", "listener"),
        ("waiting", "body"),
        ("acquired", "body"),
        ("body_started", "body"),
        ("body_ended", "body"),
        ("released", "body"),
        ("body_ended", "listener"),
    ]


@both_kinds
@both_orders
def test_a_process_that_does_not_listen_takes_no_lock_for_the_body(thread: LockThread, kind: str, first: str) -> None:
    thread.taken_by_another_process(LISTENER)
    with pytest.raises(Exception, match="another process is its listener"):
        call(a_job(kind, first, pytest.fail))
    assert about(thread) == [("waiting", "listener"), ("contended", "listener")]
    assert thread.leased() == {LISTENER}


@both_orders
def test_the_hold_of_the_body_is_that_of_its_own_lock(first: str) -> None:
    assert call(a_job("sync", first, lambda: current_hold().lock)) == BODY


@both_orders
def test_when_the_leadership_is_lost_the_body_is_cancelled_and_its_lock_given_back(
    thread: LockThread, first: str
) -> None:
    async def job(msg: str) -> None:
        thread.deleted(LISTENER)
        await asyncio.sleep(20)

    with pytest.raises(LockLost) as caught:
        call(twice(job, first))
    assert (caught.value.lock, caught.value.reason) == (LISTENER, "blob gone")
    assert thread.leased() == set()


@both_orders
def test_a_scope_that_is_not_there_fails_before_any_lock_is_asked_for(thread: LockThread, first: str) -> None:
    with pytest.raises(ScopeError):
        call(a_job("sync", first, pytest.fail), "{}")
    assert thread.kinds() == []


@both_orders
def test_another_librarys_decorator_may_stand_between_them(thread: LockThread, first: str) -> None:
    def job(msg: str) -> set[str]:
        return thread.leased()

    assert call(twice(job, first, between=traced)) == {LISTENER, BODY}


@both_orders
def test_they_stand_above_or_below_the_trigger(thread: LockThread, first: str) -> None:
    app = func.FunctionApp()

    def job(msg: func.QueueMessage) -> set[str]:
        return thread.leased()

    on_queue = app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
    builder: Any = twice(on_queue(job), first)
    guarded = builder._function.get_user_function()
    assert [guard.mode for guard in guards_of(guarded)] == ["listener", "function"]
    assert {guard.trigger.type for guard in guards_of(guarded) if guard.trigger} == {"queueTrigger"}
    message = func.QueueMessage(id="1", body=MESSAGE.encode(), pop_receipt="r")
    assert guarded(msg=message, context=Context()) == {LISTENER, BODY}


@both_orders
def test_the_worker_sees_one_function_with_its_own_signature(first: str) -> None:
    import inspect

    job = a_job("async", first)
    assert inspect.iscoroutinefunction(job)
    assert list(inspect.signature(job).parameters) == ["msg", "context"]
    assert {*guards_of(job)} <= {*declared_guards()}


@pytest.mark.parametrize("mode", ["function", "listener"])
@pytest.mark.parametrize("between", [plain, traced])
def test_one_mode_twice_is_refused(mode: Any, between: Callable[..., Any]) -> None:
    def job(msg: str) -> None: ...

    declared = between(singleton(mode=mode)(job))
    with pytest.raises(ConfigurationError, match=rf"declared twice on .*job with mode='{mode}': one of each mode"):
        singleton(mode=mode)(declared)


@pytest.mark.parametrize("mode", ["function", "listener"])
def test_a_third_declaration_is_refused(mode: Any) -> None:
    with pytest.raises(ConfigurationError, match="declared twice"):
        singleton(mode=mode)(a_job("sync", "function"))
