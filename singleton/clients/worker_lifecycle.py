"""A worker runs until ``stop``: in a thread of its own, or on the running event loop. A worker starts once."""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from singleton.base.errors import LockClosed
from singleton.base.invocation import log as _log
from singleton.base.tasks import to_its_end

if TYPE_CHECKING:
    from collections.abc import Callable


class Running:
    """The start and the end of a worker. ``label`` is the name in logs and of the thread."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._stopping = threading.Event()
        self._started = False
        self._thread: threading.Thread | None = None
        self._running: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None

    # --- in a thread ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Run in a thread of its own, until ``stop``."""
        self._begin()
        self._thread = threading.Thread(target=self._main, name=self._label, daemon=True)
        self._thread.start()

    @abstractmethod
    def stop(self, timeout: float | None = None) -> bool:
        """End the worker; tell whether the end has come."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except LockClosed:
            self._tell_of_closing()

    # --- on an event loop -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run here, until ``stop``."""
        self._begin()
        await self._run()

    async def __aenter__(self) -> Self:
        self._begin()
        self._running = asyncio.get_running_loop().create_task(self._run(), name=self._label)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._running is not None
        self.stop()
        await to_its_end(self._running)
        if not self._running.cancelled() and isinstance(self._running.exception(), LockClosed):
            self._tell_of_closing()

    # --- both -------------------------------------------------------------------------------------------------------

    @abstractmethod
    async def _run(self) -> None:
        """Work until ``_stopped`` is set, after ``_prepare``."""

    def _begin(self) -> None:
        if self._started:
            raise RuntimeError(f"{self._label!r} was started before: make a new one")
        self._started = True

    def _prepare(self) -> asyncio.Event:
        """Return the event that ``stop`` sets."""
        self._stopped, self._loop = asyncio.Event(), asyncio.get_running_loop()
        return self._stopped

    def _end(self, halt: Callable[[], object], timeout: float | None) -> bool:
        """Set the stop, call ``halt`` on the loop, and wait for the thread; tell whether the worker has ended."""
        self._stopping.set()
        if self._loop is not None:
            with suppress(RuntimeError):  # its loop is closed: it has ended
                self._loop.call_soon_threadsafe(halt)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
            return not self._thread.is_alive()
        return self._running is None or self._running.done()

    def _halt(self) -> None:
        if self._stopped is not None:
            self._stopped.set()

    def _tell_of_closing(self) -> None:
        _log.warning("%s ends: its client was closed", self._label)
