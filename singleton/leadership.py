"""Leadership: a lock that a process keeps for its life, and tries to get while another has it (W-99 to W-110)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import logging
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from singleton.errors import LockClosed, LockNotAcquired, SingletonError
from singleton.runtime import runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from singleton.hold import Hold
    from singleton.registry import Registry

_log = logging.getLogger("singleton")


class Leadership:
    """A candidacy for a lock that one process is to have for as long as it lives. Made by ``leadership``.

    From ``start`` (or the start of ``with`` or ``async with``) to ``stop``, it tries to get the lock every
    ``listener_lock_recovery_polling_interval`` seconds, and then keeps it. When the hold is lost, ``hold.lost`` tells
    why, and the candidacy goes on: at once if the lease ran out, else, as somebody took it away, after that interval.

    Example::

        with locks.leadership("poller") as leadership:
            while hold := leadership.wait():
                while not hold.lost.wait(1):
                    poll()

    Attributes:
        name: name of the lock.
    """

    def __init__(
        self,
        name: str,
        *,
        attempt: Callable[[Registry], Coroutine[Any, Any, Hold]],
        recovery: float | None,
    ) -> None:
        self.name = name
        self._attempt = attempt
        self._recovery = recovery
        self._guard = threading.Lock()
        self._hold: Hold | None = None
        self._over: SingletonError | None = None
        self._waiting: set[concurrent.futures.Future[Hold]] = set()
        self._process = 0
        self._campaign: asyncio.Task[None] | None = None

    @property
    def hold(self) -> Hold | None:
        """The hold while this process leads; None while it does not."""
        hold = self._hold
        return None if hold is None or hold.lost.is_set() else hold

    def wait(self, timeout: float | None = None) -> Hold | None:
        """Block this thread until this process leads, at most ``timeout`` seconds; return the hold, or None.

        Raises:
            LockClosed: the candidacy was stopped, or the client closed, or this is a forked process.
            LockNotAcquired: recovery is off, and the one attempt has failed.
        """
        waiting = self._ask()
        try:
            return waiting.result(timeout)
        except concurrent.futures.TimeoutError as error:
            if isinstance(error, LockNotAcquired):
                raise
            return None
        finally:
            self._waiting.discard(waiting)

    def __await__(self) -> Generator[Any, None, Hold]:
        return self._wait_async().__await__()

    async def _wait_async(self) -> Hold:
        waiting = self._ask()
        try:
            return await asyncio.wrap_future(waiting)
        finally:
            self._waiting.discard(waiting)

    def start(self) -> None:
        """Begin to try, on the lock thread."""
        self._enter()
        runtime().call(self._begin)

    def stop(self) -> None:
        """End the candidacy; give the lock back, if this process has it. A second time does nothing."""
        if self._mine():
            with suppress(LockClosed):
                runtime().call(self._end)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        self._enter()
        await runtime().call_async(self._begin)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._mine():
            with suppress(LockClosed):
                await runtime().call_async(self._end)

    def _enter(self) -> None:
        if self._process:
            raise RuntimeError(f"leadership {self.name!r} was started before: make a new one")
        self._process = os.getpid()

    def _mine(self) -> bool:
        return self._process == os.getpid()

    def _ask(self) -> concurrent.futures.Future[Hold]:
        """Make a future that gets the hold when there is one."""
        waiting: concurrent.futures.Future[Hold] = concurrent.futures.Future()
        if not self._mine():
            raise LockClosed(f"leadership {self.name!r} was not started in this process", lock=self.name)
        with self._guard:
            if self._over is not None:
                raise copy.copy(self._over)
            if (hold := self.hold) is not None:
                waiting.set_result(hold)
            else:
                self._waiting.add(waiting)
        return waiting

    # --- on the lock thread -------------------------------------------------------------------------------------------

    async def _begin(self, registry: Registry) -> None:
        self._campaign = asyncio.get_running_loop().create_task(self._run(registry), name=f"leadership {self.name}")
        registry.accompany(self._campaign)

    async def _end(self, _: Registry) -> None:
        assert self._campaign is not None
        self._campaign.cancel()
        await asyncio.wait({self._campaign})

    async def _run(self, registry: Registry) -> None:
        over: SingletonError = LockClosed(f"leadership {self.name!r} is over", lock=self.name)
        try:
            while True:
                reason = await self._lead(registry)
                if reason == "closed":
                    return
                if reason != "expired":
                    await self._pause()
        except LockNotAcquired as error:
            _log.info("leadership %s: another process has it, and recovery is off: idle from now on", self.name)
            over = error
        except LockClosed as error:
            over = error
        finally:
            self._finish(over)

    async def _lead(self, registry: Registry) -> str | None:
        """Try to get the lock; if that succeeds, keep it until it is lost, and return why."""
        try:
            hold = await self._attempt(registry)
        except LockNotAcquired:
            if self._recovery is None:
                raise
            _log.debug("leadership %s: another process has it", self.name)
            return None
        except LockClosed:
            raise
        except SingletonError as error:
            _log.warning("leadership %s: no answer whether it is free (%s); trying again", self.name, error)
            return None
        try:
            self._elect(hold)
            return await hold.lost
        finally:
            self._hold = None
            await self._give_back(registry, hold)

    async def _give_back(self, registry: Registry, hold: Hold) -> None:
        await registry.release(hold)

    async def _pause(self) -> None:
        await asyncio.sleep(60.0 if self._recovery is None else self._recovery)

    def _elect(self, hold: Hold) -> None:
        _log.info("leadership %s: this process leads", self.name)
        with self._guard:
            self._hold = hold
            waiting, self._waiting = self._waiting, set()
        for each in waiting:
            if each.set_running_or_notify_cancel():
                each.set_result(hold)

    def _finish(self, over: SingletonError) -> None:
        with self._guard:
            self._over = over
            waiting, self._waiting = self._waiting, set()
        for each in waiting:
            if each.set_running_or_notify_cancel():
                each.set_exception(copy.copy(over))
