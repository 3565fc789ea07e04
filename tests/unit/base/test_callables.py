"""Which callables are async: one function says so, for every place of the package."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_type_hints
from unittest.mock import AsyncMock, Mock

import pytest

import singleton
from singleton import AsyncLockClient, ConfigurationError, LockClient, once
from singleton import singleton as guarded
from singleton.base.callables import returns_coroutine
from singleton.base.events import subscribe
from singleton.base.invocation import call_watcher
from singleton.patterns import handler_call
from singleton.testing import lose, memory_locks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ACCOUNT = "AzureWebJobsStorage"


async def sends(_: object) -> None: ...


def plain(_: object) -> None: ...


class Sender:
    async def __call__(self, _: object) -> None: ...

    async def send(self, _: object) -> None: ...

    @staticmethod
    async def send_for_all(_: object) -> None: ...


class Plain:
    def __call__(self, _: object) -> None: ...


ASYNC: dict[str, Callable[..., Any]] = {
    "a coroutine function": sends,
    "a method": Sender().send,
    "a static method": Sender.send_for_all,
    "an object": Sender(),
    "a partial": functools.partial(sends, 1),
    "a partial of a partial": functools.partial(functools.partial(sends, 1)),
    "a partial of an object": functools.partial(Sender(), 1),
    "a partial of a method": functools.partial(Sender().send, 1),
    "a mock": AsyncMock(),
}
SYNC: dict[str, Callable[..., Any]] = {
    "a function": plain,
    "a class whose objects are async": Sender,
    "an object": Plain(),
    "a partial": functools.partial(plain, 1),
    "a builtin": print,
    "a mock": Mock(),
}


@pytest.mark.parametrize("function", ASYNC.values(), ids=ASYNC)
def test_what_returns_a_coroutine_is_async(function: Callable[..., Any]) -> None:
    assert returns_coroutine(function)


@pytest.mark.parametrize("function", [*SYNC.values(), None, "a text"], ids=[*SYNC, "nothing", "no callable"])
def test_what_returns_none_is_not(function: object) -> None:
    assert not returns_coroutine(function)


def test_one_module_asks() -> None:
    root = Path(singleton.__file__).parent
    asking = [each.name for each in root.rglob("*.py") if "iscoroutinefunction" in each.read_text(encoding="utf-8")]
    assert asking == ["callables.py"]


@pytest.mark.parametrize("function", ASYNC.values(), ids=ASYNC)
def test_where_nobody_would_await_the_answer_an_async_function_is_refused(function: Callable[..., Any]) -> None:
    refused = "is the async function .*: give a plain function"
    with pytest.raises(ConfigurationError, match=f"on_contention {refused}"):
        guarded(on_contention=function)(plain)
    with pytest.raises(ConfigurationError, match=f"key {refused}"):
        once(key=function)(plain)
    with pytest.raises(ConfigurationError, match=f"connection {refused}"):
        LockClient(function)
    with pytest.raises(ConfigurationError, match=f"listener {refused}"):
        subscribe(function)


@pytest.mark.parametrize("work", [*ASYNC.values(), lambda _: sends(1)], ids=[*ASYNC, "a lambda"])
def test_once_of_a_sync_client_takes_no_async_work(work: Callable[..., Any]) -> None:
    with memory_locks(), pytest.raises(TypeError, match="give a plain one, or use AsyncLockClient"):
        once(LockClient(ACCOUNT), "42").run(work, SimpleNamespace())


async def test_once_of_an_async_client_awaits_the_work_of_an_object() -> None:
    async def charge(_: object) -> str:
        return "charged"

    forms: list[Callable[..., Any]] = [charge, functools.partial(charge), lambda value: charge(value or 0)]
    with memory_locks():
        for number, work in enumerate(forms):
            assert await once(AsyncLockClient(ACCOUNT), number).run(work, 1) == "charged"


def yields(_: object) -> Iterator[int]:
    yield 1


async def test_a_handler_that_returns_a_generator_has_not_handled_its_message() -> None:
    with pytest.raises(ConfigurationError, match="the handler returned a generator, and its body did not run"):
        handler_call.call(yields, "a message")
    with pytest.raises(ConfigurationError, match="give a function without yield"):
        await handler_call.call_async(yields, "a message")


async def test_a_handler_that_returns_an_iterator_over_its_work_has_not_handled_its_message() -> None:
    async def sends_later(message: str) -> object:
        return map(pytest.fail, [message])

    with pytest.raises(ConfigurationError, match="the handler returned a map, and its body did not run"):
        handler_call.call(lambda message: map(pytest.fail, [message]), "a message")
    with pytest.raises(ConfigurationError, match="which goes through a map, a filter or a zip itself"):
        await handler_call.call_async(sends_later, "a message")
    handler_call.call(lambda message: [message], "a message")


async def test_a_result_which_nobody_uses_fails_no_message_that_was_handled() -> None:
    class Reader:
        def __next__(self) -> str:
            raise StopIteration

    @contextlib.contextmanager
    def block() -> Iterator[None]:
        yield

    for result in (concurrent.futures.Future[None](), block(), Reader(), SimpleNamespace(background=print)):
        handler_call.call(lambda _, result=result: result, "a message")
        await handler_call.call_async(lambda _, result=result: result, "a message")


async def test_a_listener_that_begins_a_task_is_not_blamed(caplog: pytest.LogCaptureFixture) -> None:
    async def noted() -> None: ...

    begun: list[asyncio.Task[None]] = []

    def begins() -> object:
        begun.append(asyncio.create_task(noted()))
        return begun[0]

    call_watcher("a listener failed", begins)
    await begun[0]
    assert caplog.text == ""


def test_an_async_callback_on_a_loss_is_told_of_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with memory_locks(), LockClient(ACCOUNT).lock("import", on_loss="tell") as hold:
        hold.lost.add_callback(sends)  # type: ignore[arg-type]
        lose(hold, "expired")
    assert "a callback on the loss of a lock raised" in caplog.text
    assert "it returned an awaitable, which nobody awaits: give a plain function (def)" in caplog.text


@pytest.mark.skipif(sys.version_info < (3, 14), reason="such a def raises a NameError itself")
@pytest.mark.parametrize("decorator", ["singleton", "once", "ordered", "lock"])
def test_a_decorated_function_may_name_in_its_annotations_what_stands_below_it(decorator: str) -> None:
    locks = LockClient(ACCOUNT)
    inbox = singleton.Inbox("orders")
    decorate = {
        "singleton": guarded(scope="Id"),
        "once": once(key="{Id}"),
        "ordered": singleton.ordered(inbox),
        "lock": locks.lock("orders"),
    }[decorator]
    names: dict[str, Any] = {"decorate": decorate}
    source = "@decorate\ndef ship(msg: int, order: Below = None) -> Below: ...\nclass Below: ..."
    exec(compile(source, __file__, "exec", dont_inherit=True), names)  # noqa: S102 - the text above
    assert get_type_hints(names["ship"])["return"] is names["Below"]
