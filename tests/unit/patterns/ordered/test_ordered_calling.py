"""Handlers of an inbox: what they return, and what becomes of a message of which their process dies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from singleton import (
    ConfigurationError,
    Inbox,
    LockClosed,
    LockLost,
    LockNotAcquired,
    StorageDenied,
    StorageUnavailable,
    current_hold,
)
from singleton.patterns.ordered import visit
from singleton.patterns.ordered.bells import Bell, bell_in
from singleton.stores.protocol import StoreFailure
from singleton.testing import lose, memory, virtual_time
from tests.unit.patterns.ordered.test_inbox import BELL, Handler, queue, send, store

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton import InboxMessage

AGAIN = Bell("orders", "k", 1).text("base64")


async def ship(message: InboxMessage, seen: list[Any]) -> None:
    await asyncio.sleep(0)
    seen.append(message.body)


async def death() -> None:
    """Cancel all that this is in, as if its process had died."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def dies(inbox: Inbox, handler: Callable[[InboxMessage], Any], bell: str) -> None:
    """Answer a bell; the handler's process dies."""
    task = asyncio.create_task(inbox.ahandle(bell, handler))
    await asyncio.wait({task})
    assert task.cancelled()


class Unsayable(Exception):
    """An error that can't be told."""

    def __str__(self) -> str:
        raise TypeError


class Panic(BaseException):
    """An error like that of a Rust library (PyO3), which is no ``Exception``."""


OUR_ERRORS = tuple(
    kind("of another lock of the handler")
    for kind in (LockLost, LockClosed, LockNotAcquired, StorageDenied, StorageUnavailable, ConfigurationError)
)


class Deadly:
    """A handler whose process dies of one message; what it is given is in ``tried``."""

    def __init__(self) -> None:
        self.tried: list[tuple[Any, int]] = []

    async def __call__(self, message: InboxMessage) -> None:
        self.tried.append((message.body, message.attempt))
        if message.body == 1:
            await death()


@virtual_time
async def test_a_message_that_kills_its_process_each_time_is_put_aside_and_the_rest_goes_on() -> None:
    inbox, handler = Inbox("orders"), Deadly()
    await send(inbox, k=3)
    for bell in (BELL, AGAIN, AGAIN, AGAIN):
        await dies(inbox, handler, bell)
    assert handler.tried == [(0, 1), (1, 1), (1, 1), (1, 2), (1, 3)], "the first death may have been before it began"
    await inbox.ahandle(AGAIN, handler, attempts=3)
    assert handler.tried[5:] == [(2, 1)]
    (kept,) = await inbox.aaside()
    assert (kept.body, "its process ended" in kept.error) == (1, True)


@virtual_time
async def test_a_key_stops_at_a_message_that_kills_its_process_each_time_where_it_is_told_to() -> None:
    inbox, handler = Inbox("orders"), Deadly()
    await send(inbox, k=3)
    for bell in (BELL, AGAIN, AGAIN):
        await dies(inbox, handler, bell)
    with pytest.raises(RuntimeError, match="its process ended"):
        await inbox.ahandle(AGAIN, handler, attempts=2, on_poison="stop")
    (still,) = await inbox.astopped()
    assert (still.failures, "its process ended" in still.error) == (2, True)
    await inbox.aresume("k", skip=True)
    await inbox.ahandle(BELL, handler)
    assert handler.tried[4:] == [(2, 1)]


@virtual_time
async def test_what_a_process_died_of_before_is_forgotten_once_it_is_done() -> None:
    inbox, seen = Inbox("orders"), list[Any]()
    await send(inbox, k=6)

    async def handle(message: InboxMessage) -> None:
        seen.append(message.body)
        if seen.count(message.body) < 3:
            await death()

    for _ in range(12):
        await dies(inbox, handle, AGAIN)
    await inbox.ahandle(AGAIN, handle, attempts=3)
    assert seen == [body for body in range(6) for _ in range(3)]
    assert await inbox.aaside() == []


@pytest.mark.parametrize(("delivered", "again"), [(None, 0), (1, 0), (2, 1), (5, 4)])
def test_a_bell_that_its_host_delivers_again_came_again(delivered: int | None, again: int) -> None:
    message = SimpleNamespace(get_body=BELL.encode, dequeue_count=delivered)
    assert bell_in(message, "orders").again == again


DEEP = '{"inbox":' + "[" * 60_000


@pytest.mark.parametrize("message", ["", "x", "[]", '{"inbox":1}', DEEP, b"\xff", None, 7], ids=range(8))
def test_what_is_no_bell_is_refused_in_words(message: object) -> None:
    with pytest.raises(ConfigurationError, match="is not a message of inbox 'orders': only"):
        bell_in(message, "orders")


@virtual_time
async def test_a_bell_that_came_again_costs_one_request_more() -> None:
    inbox = Inbox("orders")
    await send(inbox, k=5)
    await inbox.ahandle(AGAIN, Handler().__call__)
    assert store().calls["put"] == 5 + 1


@virtual_time
@pytest.mark.parametrize("found_by", ["its bell", "a look"])
async def test_workers_that_die_of_a_message_each_time_put_it_aside(found_by: str) -> None:
    inbox, handler = Inbox("orders"), Deadly()
    await send(inbox, k=3)

    class Dies:
        async def __call__(self, message: InboxMessage) -> None:
            with contextlib.suppress(asyncio.CancelledError):
                await handler(message)
                return
            died.set()
            await asyncio.Event().wait()

    for _ in range(4):
        died = asyncio.Event()
        worker = asyncio.create_task(inbox.worker(Dies(), attempts=3, look_every=1_000_000).run())
        await died.wait()
        worker.cancel()
        await asyncio.wait({worker})
        if found_by == "a look":
            await asyncio.sleep(1)
            queue()._messages.clear()
            await inbox.alook()
    async with inbox.worker(handler, attempts=3, look_every=1_000_000):
        await asyncio.sleep(60)
    assert handler.tried == [(0, 1), (1, 1), (1, 1), (1, 2), (1, 3), (2, 1)]


@virtual_time
async def test_a_message_that_fails_once_its_lock_is_lost_is_its_successors() -> None:
    inbox = Inbox("orders")
    await inbox.asend("k", 0)

    def handle(_: InboxMessage) -> None:
        lose(current_hold(), "stolen")
        raise ValueError

    with pytest.raises(LockLost):
        await asyncio.to_thread(inbox.handle, BELL, handle, attempts=1)
    assert await inbox.aaside() == []


@virtual_time
async def test_a_failure_that_was_noted_by_a_clock_that_is_ahead_holds_nobody_back_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inbox, handler = Inbox("orders"), Handler(fails=lambda _: True)
    await inbox.asend("k", 0)

    async def ahead(registry: Any) -> float:
        return registry.wall() + 3600.0  # type: ignore[no-any-return]

    with monkeypatch.context() as patched:
        patched.setattr(visit, "_wall", ahead)
        with pytest.raises(ValueError, match="no 0"):
            await inbox.ahandle(BELL, handler.__call__)
    handler.fails = lambda _: False
    async with inbox.worker(handler.__call__):
        await asyncio.sleep(15)
    assert handler.of("k") == [0, 0]


@virtual_time
async def test_a_worker_awaits_whatever_is_called_as_a_coroutine_function() -> None:
    inbox, handler = Inbox("orders"), Handler()
    await send(inbox, k=2)
    async with inbox.worker(handler):
        await asyncio.sleep(2)
    assert handler.of("k") == [0, 1]


@virtual_time
async def test_a_sync_handler_whose_work_nobody_awaits_has_failed() -> None:
    inbox, seen = Inbox("orders"), list[Any]()
    await inbox.asend("k", 0)
    async with inbox.worker(lambda message: ship(message, seen), attempts=2):
        await asyncio.sleep(10)
    assert seen == []
    (kept,) = await inbox.aaside()
    assert (kept.body, "give a coroutine function" in kept.error) == (0, True)


@virtual_time
async def test_handle_refuses_a_coroutine_function_and_ahandle_takes_both_kinds() -> None:
    inbox, seen = Inbox("orders"), list[Any]()
    await inbox.asend("k", 0)
    with pytest.raises(ConfigurationError, match="await ahandle"):
        await asyncio.to_thread(inbox.handle, BELL, Handler().__call__)
    await inbox.ahandle(BELL, lambda message: ship(message, seen))
    await inbox.asend("k", 1)
    plain: Any = lambda message: seen.append(message.body)  # noqa: E731
    await inbox.ahandle(BELL, plain)
    assert seen == [0, 1]
    assert not [name for name in store().names() if "/logs/" in name]


@virtual_time
async def test_a_message_that_was_handled_and_whose_offset_could_not_be_kept_is_handled_again_and_not_put_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inbox, handler = Inbox("orders"), Handler()
    await inbox.asend("k", 0)
    there, put = store(), store().put
    refused = [False, True]  # the count before it is kept, the offset behind it is not

    async def kept(*args: Any) -> str:
        if refused and refused.pop(0):
            raise StoreFailure(403, "AuthorizationFailure")
        return await put(*args)

    monkeypatch.setattr(there, "put", kept)
    with pytest.raises(StorageDenied):
        await inbox.ahandle(AGAIN, handler.__call__, attempts=1)
    await inbox.ahandle(AGAIN, handler.__call__, attempts=1)
    assert handler.seen == [("k", 0), ("k", 0)]
    assert await inbox.aaside() == []


@virtual_time
@pytest.mark.parametrize(
    "error",
    [SystemExit(3), asyncio.CancelledError(), Panic(), ValueError("\udcff"), Unsayable(), *OUR_ERRORS],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_a_handler_raises_counts_as_its_failure(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "singleton")  # no report can carry such a line
    inbox = Inbox("orders")
    await inbox.asend("k", 0)

    async def handle(_: InboxMessage) -> None:
        raise error

    for _ in range(2):
        with contextlib.suppress(Exception):
            await inbox.ahandle(BELL, handle, attempts=2)
        await asyncio.sleep(2)
    (kept,) = await inbox.aaside()
    assert kept.error


@virtual_time
async def test_a_message_that_has_failed_more_often_than_is_allowed_by_now_is_put_aside_for_that() -> None:
    inbox, handler = Inbox("orders"), Handler(fails=lambda _: True)
    await inbox.asend("k", 0)
    for _ in range(3):
        with contextlib.suppress(ValueError):
            await inbox.ahandle(BELL, handler.__call__, attempts=5)
        await asyncio.sleep(10)
    await inbox.ahandle(BELL, handler.__call__, attempts=2)
    (kept,) = await inbox.aaside()
    assert "it has failed 3 times" in kept.error


@virtual_time
async def test_a_consumer_whose_lock_is_lost_as_an_attempt_is_counted_does_not_begin_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inbox, handler = Inbox("orders"), Handler()
    await inbox.asend("k", 0)
    there, put = store(), store().put

    async def kept_and_lost(*args: Any) -> str:
        etag = await put(*args)
        for hold in memory.current().registry.acquired:
            lose(hold, "expired")
        return etag

    monkeypatch.setattr(there, "put", kept_and_lost)
    with pytest.raises(LockLost):
        await inbox.ahandle(AGAIN, handler.__call__)
    assert handler.seen == []


@virtual_time
async def test_what_is_kept_of_an_error_has_no_credentials() -> None:
    inbox = Inbox("orders")
    await inbox.asend("k", 0)

    def handle(_: InboxMessage) -> None:
        raise ValueError("https://acme.example/orders?sv=1&sig=secret refused")

    await asyncio.to_thread(inbox.handle, BELL, handle, attempts=1)
    (kept,) = await inbox.aaside()
    assert kept.error == "ValueError: https://acme.example/orders?sv=1&sig=*** refused"
