"""A campaign: one candidate's attempts to get a lock, and to keep it, until somebody ends them (W-99 to W-110)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from singleton.base.errors import LockClosed, LockNotAcquired, SingletonError
from singleton.base.invocation import log as _log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from singleton.base.hold import Hold


_PAUSE = 60.0
"""Seconds before a candidate asks again that asks once, and whose lock was taken away."""


class Campaign:
    """Tries to get a lock every ``recovery`` seconds, and then keeps it.

    When the hold is lost, it goes on: at once if the lease ran out, else, as somebody took it away, after that
    interval. With ``recovery`` None there is one attempt. What it needs of the candidate is called on its loop.

    Args:
        name: name of the lock.
        recovery: seconds between attempts.
        ask: makes one attempt to acquire the lock, and takes the hold.
        give_back: releases the hold when it is lost, or the campaign ends.
        finished: told, with the reason, that there will be no more attempts.
        pause: sleeps between two attempts.
    """

    def __init__(
        self,
        name: str,
        *,
        recovery: float | None,
        ask: Callable[[], Awaitable[Hold]],
        give_back: Callable[[Hold], Awaitable[None]],
        finished: Callable[[SingletonError], None],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._name = name
        self._recovery = recovery
        self._ask = ask
        self._give_back = give_back
        self._finished = finished
        self._pause = pause
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> asyncio.Task[None]:
        """Begin to try; return the task, which ``end`` ends."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"leadership {self._name}")
        return self._task

    async def end(self) -> None:
        """Stop trying; give the lock back, if the candidate has it."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        over: SingletonError = LockClosed(f"leadership {self._name!r} is over", lock=self._name)
        try:
            while True:
                reason = await self._lead()
                if reason == "closed":
                    return
                if reason != "expired":
                    await self._pause(_PAUSE if self._recovery is None else self._recovery)
        except LockNotAcquired as error:
            _log.info(
                *(
                    "leadership %s: another process has it, and recovery is off: this process will not ask again",
                    self._name,
                ),
                extra={"lock": self._name},
            )
            over = error
        except LockClosed as error:
            over = error
        finally:
            self._finished(over)

    async def _lead(self) -> str | None:
        """Try to get the lock; if that succeeds, keep it until it is lost, and return why."""
        try:
            hold = await self._ask()
        except LockNotAcquired:
            if self._recovery is None:
                raise
            _log.debug("leadership %s: another process has it", self._name)
            return None
        except LockClosed:
            raise
        except Exception as error:  # noqa: BLE001 - a credential may raise anything
            _log.warning(
                *("leadership %s: it could not be asked for (%s); trying again", self._name, error),
                extra={"lock": self._name, "cause": str(error)},
            )
            return None
        try:
            _log.info("leadership %s: this process leads", self._name, extra={"lock": self._name})
            return await hold.lost
        finally:
            await self._give_back(hold)
