"""A failure that is counted for ``"defer"``: whatever goes wrong there, the caller hears the body's own error."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import azure.functions as func
import pytest

from singleton import ConfigurationError, singleton
from singleton.settings import hostjson
from tests.support.deferrals import LOCK, Queue, TooBad, a_function, call, failing
from tests.support.lock_thread import Context, LockThread, outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("thread")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_error_of_host_json_does_not_take_the_place_of_the_bodys(
    queue: Queue, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    function = failing(kind)
    (tmp_path / "host.json").write_text('{"extensions": {"queues": {"maxDequeueCount": 0}}}')
    with pytest.raises(TooBad):
        call(function, queue.message())
    assert warnings(caplog) == ["job failed, and its failure was not counted"]
    assert "maxDequeueCount is 0" in caplog.text
    (tmp_path / "host.json").write_text("{}")
    caplog.clear()
    with pytest.raises(TooBad):
        call(function, queue.message())
    assert warnings(caplog) == []


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_no_error_whatsoever_takes_the_place_of_the_bodys(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("client_id should be the id of a Microsoft Entra application")

    monkeypatch.setattr("singleton.functions.message_deferral.resolve_queue_account", refuse)
    with pytest.raises(TooBad):
        call(failing(kind), queue.message())
    assert warnings(caplog) == ["job failed, and its failure was not counted"]


async def test_who_is_cancelled_while_a_failure_is_counted_hears_that(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = asyncio.Event()

    async def forever(*_: object, **__: object) -> None:
        counting.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("singleton.functions.message_deferral._Unfinished.done_by", forever)
    function = failing("async")
    message = await asyncio.to_thread(queue.message)
    task = asyncio.create_task(function(msg=message, context=Context("inv-1")))
    await counting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def with_policy(annotation: Any, policy: Callable[[object], Any]) -> Callable[..., Any]:
    app = func.FunctionApp()

    def job(msg: Any) -> None:
        raise TooBad

    job.__annotations__["msg"] = annotation
    builder = app.queue_trigger(arg_name="msg", queue_name="orders", connection="Orders")(job)
    singleton(on_contention=policy)(builder)
    found: Callable[..., Any] = builder._function.get_user_function()
    return found


def test_a_policy_of_ones_own_needs_no_message_unless_it_defers(
    thread: LockThread, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    function = with_policy(str, lambda _: "defer")
    with pytest.raises(TooBad):
        outcome(function(msg='{"Id": 1}', context=Context("inv-1")))
    assert warnings(caplog) == []
    assert queue.opened == []
    thread.taken_by_another_process(LOCK)
    with pytest.raises(ConfigurationError, match=r"Annotate the parameter as func\.QueueMessage"):
        outcome(function(msg='{"Id": 1}', context=Context("inv-1")))


def test_a_message_that_could_not_be_put_back_is_not_counted(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TooBad):
        call(failing("sync"), queue.message("caf\N{REPLACEMENT CHARACTER}".encode()))
    assert warnings(caplog) == []


def test_host_json_is_read_once_for_all_that_is_put_back_and_fails(
    thread: LockThread, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = [failing("sync"), a_function()]
    read = Mock(wraps=hostjson.read_object)
    monkeypatch.setattr(hostjson, "read_object", read)
    for _ in range(3):
        with pytest.raises(TooBad):
            call(functions[0], queue.message())
    first = read.call_count
    thread.taken_by_another_process(LOCK)
    for _ in range(3):
        call(functions[1], queue.message())
    # One for each option and one for functionTimeout, once for each declaration.
    assert first == read.call_count - first == 4
