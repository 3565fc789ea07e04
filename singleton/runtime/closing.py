"""Closing a client: new calls are refused, and waiting calls end with an error."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from singleton.base.errors import LockClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_T = TypeVar("_T")


class Closing:
    """Open until ``close``, from any thread and for good. Uses no mutex, which a fork could leave taken."""

    def __init__(self) -> None:
        self._closed = False
        # In the order of arrival: a virtual world must run the same way every time.
        self._waiting: dict[tuple[asyncio.AbstractEventLoop, asyncio.Timeout], None] = {}
        self._behind: list[tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = []

    @property
    def is_closed(self) -> bool:
        """Tell whether the client is closed."""
        return self._closed

    def check(self, name: str) -> None:
        """Raise ``LockClosed`` if the client is closed."""
        if self._closed:
            raise LockClosed(f"lock {name!r}: its client is closed: make a new client", lock=name)

    async def through(self, name: str, wait: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Await ``wait()``, until the client is closed at most: then the wait is cancelled, with ``LockClosed``."""
        stay = asyncio.timeout(None)
        entry = (asyncio.get_running_loop(), stay)
        try:
            async with stay:
                self._waiting[entry] = None
                try:
                    self.check(name)
                    return await wait()
                finally:
                    self._waiting.pop(entry, None)
        except TimeoutError:
            if stay.expired():
                self.check(name)
            raise
        finally:
            del stay, entry  # they refer to the task, which has the error, which has this frame

    def when_closed(self, call: Callable[[], None]) -> None:
        """Call ``call`` on the running loop at the closing, when the waiting coroutines were told to end."""
        loop = asyncio.get_running_loop()
        self._behind.append((loop, call))
        if self._closed:
            loop.call_soon(call)

    def close(self) -> None:
        """Close the client; every coroutine in ``through`` ends with ``LockClosed``."""
        already, self._closed = self._closed, True
        if already:
            return
        for entry in self._waiting.copy():
            with suppress(RuntimeError):  # a closed loop has no waiters
                entry[0].call_soon_threadsafe(self._show_out, entry)
        for loop, call in self._behind.copy():
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(call)

    def _show_out(self, entry: tuple[asyncio.AbstractEventLoop, asyncio.Timeout]) -> None:
        loop, stay = entry
        if entry in self._waiting:
            stay.reschedule(loop.time())
