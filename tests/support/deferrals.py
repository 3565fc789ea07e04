"""A queue function that defers, and its queue, for tests without storage."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import azure.functions as func

from simulator.host.app.app_model import Parameter
from simulator.host.triggers.bindings import queue_input
from simulator.host.triggers.queue import QueueMessage
from simulator.host.worker import RetryContext
from singleton import singleton
from singleton.stores.protocol import StoreFailure
from singleton.testing.storage.memory_queue import MemoryMessageStore
from tests.support.lock_thread import Context, LockThread, outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.settings.connection import StorageAccount

LOCK = "locks/app/job"
LATER = datetime(2036, 11, 28, 12, 0, tzinfo=UTC)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class Queue:
    """The queue of the app under test, as its host receives from it."""

    def __init__(self, thread: LockThread) -> None:
        self.thread = thread
        self.store = MemoryMessageStore()
        self.poison = MemoryMessageStore()
        self.opened: list[tuple[StorageAccount, str]] = []
        thread.runtime.registry._open_queue = self._open

    def _open(self, account: StorageAccount, name: str) -> MemoryMessageStore:
        self.opened.append((account, name))
        return self.poison if name.endswith("-poison") else self.store

    async def texts(self) -> list[str]:
        return [message.text for message in self.store.messages()]

    def message(self, body: bytes = b"{}", **changes: Any) -> Any:
        """Put a message into the queue and receive it: as the host does, with the body's names over its own."""

        async def receive() -> Any:
            self.store.put(base64.b64encode(body).decode())
            return self.store.receive()

        return self._given(self.thread.do(receive), body, **changes)

    def delivered(self, *, count: int | None = None) -> Any:
        """Receive the one message that is in the queue, whatever its delay; ``count``: it was received before."""

        async def receive() -> Any:
            (stored,) = self.store.messages()
            stored.visible = 0.0
            return self.store.receive()

        stored = self.thread.do(receive)
        return self._given(stored, base64.b64decode(stored.text), dequeue_count=count or stored.dequeued)

    def _given(self, stored: Any, body: bytes, *, binary: bool = False, **changes: Any) -> Any:
        self._last = (stored.id, stored.receipt)
        inserted = datetime.fromtimestamp(stored.inserted, UTC)
        known = {"pop_receipt": stored.receipt, "dequeue_count": 1, "inserted": inserted}
        ends = {"expires": LATER, "next_visible": LATER}
        trigger = Parameter(
            name="msg", binding="queueTrigger", converter="queueTrigger", data_type=2 if binary else None
        )
        return queue_input(trigger, QueueMessage(id=stored.id, text="", body=body, **{**known, **ends, **changes}))

    def ended_by_the_host(self) -> bool:
        """Delete the message that was received last, as the host does after a success; tell whether it was there."""

        async def delete() -> bool:
            try:
                await self.store.delete(*self._last)
            except StoreFailure:
                return False
            return True

        return self.thread.do(delete)

    def left(self, name: str = "orders") -> list[tuple[str, bytes, int]]:
        """Return id, body and dequeue count of what is in the queue."""
        store = self.poison if name.endswith("-poison") else self.store

        async def look() -> list[tuple[str, bytes, int]]:
            return [(each.id, base64.b64decode(each.text), each.dequeued) for each in store.messages()]

        return self.thread.do(look)


def a_function(kind: str = "sync", *, trigger: dict[str, Any] | None = None, **arguments: Any) -> Callable[..., Any]:
    """Return a queue's function with @singleton above its trigger, as the worker calls it."""
    app = func.FunctionApp()

    def job(msg: func.QueueMessage) -> None: ...

    async def async_job(msg: func.QueueMessage) -> None: ...

    async_job.__name__ = "job"
    declared = trigger or {"queue_name": "%QUEUE%", "connection": "Orders"}
    builder = app.queue_trigger(arg_name="msg", **declared)(async_job if kind == "async" else job)
    arguments = {"on_contention": "defer", **arguments}
    singleton(**arguments)(builder)
    found: Callable[..., Any] = builder._function.get_user_function()
    return found


def call(function: Callable[..., Any], message: Any, *, tried: int = 0, retries: int = 0) -> Any:
    return outcome(function(msg=message, context=Context("inv-1", retry=RetryContext(tried, retries))))


class TooBad(Exception):
    pass


def failing(kind: str) -> Callable[..., Any]:
    app = func.FunctionApp()

    def job(msg: func.QueueMessage) -> None:
        raise TooBad

    async def async_job(msg: func.QueueMessage) -> None:
        raise TooBad

    async_job.__name__ = "job"
    builder = app.queue_trigger(arg_name="msg", queue_name="orders", connection="Orders")(
        async_job if kind == "async" else job
    )
    singleton(on_contention="defer")(builder)
    found: Callable[..., Any] = builder._function.get_user_function()
    return found
