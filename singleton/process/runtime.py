"""The lock thread: one daemon thread per process with an event loop of its own, on which all locks live.

A user function that blocks its event loop, or uses up the worker's threads, can't starve a renewal there. Its clock
counts suspended time too, so a machine that slept knows that its leases are gone.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from singleton.base.errors import SingletonError
from singleton.process.calls import CLOSING, Calls, Phase
from singleton.process.lockloop import LockLoop

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.process.logthread import LogThread
    from singleton.process.registry import Registry

_LAST_CALLS = 1.0
_LAST_LINES = 1.0


class Runtime(Calls):
    """The lock thread of this process and the registry on it."""

    _loop: LockLoop

    def __init__(
        self, registry: Registry, *, prepare: Callable[[], None] = lambda: None, log: LogThread | None = None
    ) -> None:
        """Start the thread; it calls ``prepare`` before its loop begins to run. ``log``: where its lines are logged."""
        super().__init__(registry, LockLoop())
        self._log = log
        self._prepare = prepare
        self._thread = threading.Thread(target=self._run, name="singleton-locks", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close locks and stores and end the thread. Waiting calls and later calls get ``LockClosed``."""
        if (closed := self.begin_closing()) is not None:
            closed.wait(CLOSING)
            if self.end():
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSING)

    def _refuse_itself(self, what: str) -> None:
        if threading.get_ident() == self._thread.ident:
            raise RuntimeError(
                f"can't {what} on the lock thread, where callbacks of hold.lost run: it would wait for itself for "
                "ever. Do it on another thread"
            )

    # --- on the lock thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        if self._log is not None:
            self._log.serve()
        try:
            if self._prepared():
                self._loop.run_forever()
            self._loop.run_until_complete(self._drain())
        finally:
            self._loop.close()
            if self._log is not None:
                self._log.close(_LAST_LINES)

    def _prepared(self) -> bool:
        """Prepare the thread; where that fails, nobody may wait for it."""
        try:
            self._prepare()
        except Exception as error:  # noqa: BLE001 - a library's import may raise anything
            self._failure = SingletonError(f"the lock thread could not start: {error!r}")
            self._failure.__cause__ = error
            with self._door:
                self.phase = Phase.OVER
            return False
        return True

    async def _drain(self) -> None:
        """Let the last calls come to their ends; cut off what does not."""
        await asyncio.sleep(0)  # what was asked for at the last moment has begun
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left and self._failure is None:
            _, left = await asyncio.wait(left, timeout=_LAST_CALLS)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_LAST_CALLS)
