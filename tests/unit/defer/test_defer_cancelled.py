"""An invocation that is cancelled while its message goes back, or to the poison queue: one message is left."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.deferrals import LOCK, a_function, failing
from tests.support.lock_thread import Context

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.testing.storage.memory_queue import MemoryMessageStore
    from tests.support.deferrals import Queue
    from tests.support.lock_thread import LockThread

NAMED = b'{"Id": "k"}'


class Held:
    """A request whose answer is late: it was carried out when ``begun`` is set, and is answered after ``go``."""

    def __init__(self, store: MemoryMessageStore, call: str, patch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        request = getattr(store, call)

        async def late(*args: Any, **named: Any) -> Any:
            answer = await request(*args, **named)
            self.begun.set()
            await asyncio.to_thread(self.go.wait)
            return answer

        patch.setattr(store, call, late)


async def cancelled_at(held: Held, function: Callable[..., Any], message: Any) -> None:
    invocation = asyncio.create_task(function(msg=message, context=Context("inv-1")))
    await asyncio.to_thread(held.begun.wait)
    invocation.cancel()
    await asyncio.sleep(0)
    held.go.set()
    with pytest.raises(asyncio.CancelledError):
        await invocation


@pytest.mark.parametrize("call", ["now", "send"])
async def test_a_copy_whose_original_only_the_host_could_delete_is_withdrawn(
    thread: LockThread, queue: Queue, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = await asyncio.to_thread(queue.message, NAMED)
    await asyncio.to_thread(thread.taken_by_another_process, LOCK)
    held = Held(queue.store, call, monkeypatch)
    await cancelled_at(held, a_function("async"), message)
    assert [name for name, _, _ in await asyncio.to_thread(queue.left)] == [queue._last[0]]


@pytest.mark.parametrize("call", ["hide", "send", "delete"])
async def test_a_message_that_its_function_can_delete_goes_back(
    thread: LockThread, queue: Queue, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = await asyncio.to_thread(queue.message)
    await asyncio.to_thread(thread.taken_by_another_process, LOCK)
    held = Held(queue.store, call, monkeypatch)
    await cancelled_at(held, a_function("async"), message)
    ((copy, _, _),) = await asyncio.to_thread(queue.left)
    assert copy != message.id


async def test_a_poisoned_copy_whose_original_only_the_host_could_delete_is_withdrawn_and_its_failures_are_known(
    thread: LockThread, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = failing("async")
    await asyncio.to_thread(queue.message, NAMED)
    for count in range(1, 5):
        message = await asyncio.to_thread(partial(queue.delivered, count=count))
        with pytest.raises(Exception):  # noqa: B017, PT011 - the body's own
            await function(msg=message, context=Context(f"inv-{count}"))
    await asyncio.to_thread(thread.taken_by_another_process, LOCK)
    assert (
        await function(msg=await asyncio.to_thread(partial(queue.delivered, count=5)), context=Context("back")) is None
    )
    assert await asyncio.to_thread(queue.ended_by_the_host)
    await asyncio.to_thread(thread.given_back_by_the_other, LOCK)
    before = sorted(thread.memory.names())
    message = await asyncio.to_thread(partial(queue.delivered, count=1))
    held = Held(queue.poison, "send", monkeypatch)
    await cancelled_at(held, function, message)
    assert await asyncio.to_thread(queue.left, "orders-poison") == []
    assert len(await asyncio.to_thread(queue.left)) == 1
    assert sorted(thread.memory.names()) == before
