"""``max_waiting`` with ``when_full="defer"``: one invocation too many puts its message back."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import azure.functions as func
import pytest

from singleton import ConfigurationError, LockNotAcquired, singleton
from tests.support.deferrals import LOCK, Queue, a_function, call
from tests.support.lock_thread import LockThread, a_job, guard_of

pytestmark = pytest.mark.usefixtures("thread")
both_kinds = pytest.mark.parametrize("kind", ["sync", "async"])
TOO_MANY: dict[str, Any] = {"on_contention": "wait", "max_waiting": 0, "when_full": "defer"}


@both_kinds
def test_the_message_goes_back_and_the_invocation_ends_as_a_success(
    thread: LockThread, queue: Queue, kind: str
) -> None:
    thread.taken_by_another_process(LOCK)
    message = queue.message(b'{"Key": 7}')
    assert call(a_function(kind, **TOO_MANY), message) is None
    ((copy, body, _),) = queue.left()
    assert body == b'{"Key": 7}'
    assert copy != message.id
    assert thread.kinds() == ["waiting", "contended:defer", "deferred"]


def test_those_that_may_wait_do_and_the_others_go_back(thread: LockThread, queue: Queue) -> None:
    thread.taken_by_another_process(LOCK)
    function = a_function(on_contention="wait", max_waiting=2, when_full="defer")
    messages = [queue.message() for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(call, function, message) for message in messages]
        while sum(map(len, thread.runtime.registry.waiters._waiting.values())) < 2:
            threading.Event().wait(0.01)
        call(function, queue.message())
        assert thread.kinds().count("deferred") == 1
        thread.given_back_by_the_other(LOCK)
        for each in waiting:
            each.result(60)
    assert thread.kinds().count("body_started") == 2


def test_one_too_many_goes_back_also_where_a_policy_says_that_it_waits(thread: LockThread, queue: Queue) -> None:
    thread.taken_by_another_process(LOCK)
    call(a_function(on_contention=lambda _: "wait", max_waiting=0, when_full="defer"), queue.message())
    assert thread.kinds() == ["waiting", "contended:defer", "deferred"]


def test_raise_is_the_default_and_defer_where_that_is_the_policy(thread: LockThread, queue: Queue) -> None:
    assert guard_of(a_job("sync", max_waiting=1)).when_full == "raise"
    thread.taken_by_another_process(LOCK)
    with pytest.raises(LockNotAcquired, match="max_waiting is 0"):
        call(a_function(on_contention="wait", max_waiting=0), queue.message())
    assert queue.opened == []
    call(a_function(on_contention="defer", timeout=5, max_waiting=0), queue.message())
    assert thread.kinds().count("deferred") == 1


def test_what_can_not_be_deferred_is_refused_when_the_app_lists_its_functions() -> None:
    app = func.FunctionApp()

    @singleton(**TOO_MANY)  # type: ignore[call-overload, untyped-decorator, unused-ignore]
    @app.timer_trigger(arg_name="msg", schedule="0 * * * * *")
    def job(msg: str) -> None: ...

    with pytest.raises(ConfigurationError, match="only messages of a storage queue"):
        app.get_functions()


def test_beside_an_output_that_can_not_be_none_it_is_refused() -> None:
    app = func.FunctionApp()

    @singleton(**TOO_MANY)  # type: ignore[call-overload, untyped-decorator, unused-ignore]
    @app.queue_output(arg_name="$return", queue_name="out", connection="AzureWebJobsStorage")
    @app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
    def job(msg: func.QueueMessage) -> str:
        return ""

    with pytest.raises(ConfigurationError, match="when_full='defer' ends an invocation without a result"):
        app.get_functions()
