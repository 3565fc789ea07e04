"""Counts the requests of stores and queues by operation and status."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from singleton.base.callables import returns_coroutine
from singleton.base.invocation import call_watcher
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from singleton.stores.lock_keeping import BlobStore
    from singleton.stores.message_store import MessageStore

    CountRequest = Callable[[str, str], None]

_StoreT = TypeVar("_StoreT", bound="BlobStore | MessageStore")

_counters: tuple[CountRequest, ...] = ()


def count_requests(counter: CountRequest) -> Callable[[], None]:
    """Call ``counter(operation, status)`` after each request of the stores opened from now on; return a way to end it.

    The operation is such as ``blob.acquire`` or ``queue.send``. The status is ``ok``; of a failure its HTTP status; or
    ``none`` where no answer came.
    """
    global _counters  # noqa: PLW0603 - replaced as a whole
    _counters = (*_counters, counter)

    def end() -> None:
        global _counters  # noqa: PLW0603
        _counters = tuple(other for other in _counters if other is not counter)

    return end


def counted(store: _StoreT, service: str) -> _StoreT:
    """Return the store; with a counter, every request of the store is counted. ``service``: blob or queue."""
    if _counters:
        for name, method in inspect.getmembers(type(store), returns_coroutine):
            if not name.startswith("_") and name != "aclose":
                counting = _counting(f"{service}.{name.rstrip('_')}", functools.partial(method, store))
                setattr(store, name, functools.wraps(method)(counting))
    return store


def _counting(operation: str, send: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def request(*args: Any, **kwargs: Any) -> Any:
        status = "none"
        try:
            answer = await send(*args, **kwargs)
            status = "ok"
        except StoreFailure as failure:
            status = "none" if failure.status is None else str(failure.status)
            raise
        finally:
            for count in _counters:
                call_watcher("a counter of requests raised", count, operation, status)
        return answer

    return request
