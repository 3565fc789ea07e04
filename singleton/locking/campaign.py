"""A campaign: the attempts of a candidate to get a lock and to keep it, until the candidate ends (W-99 to W-110)."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from singleton.base.caller import serving
from singleton.base.errors import LockClosed, LockNotAcquired, SingletonError, text_of
from singleton.base.invocation import log as _log

if TYPE_CHECKING:
    from singleton.base.caller import Caller
    from singleton.base.hold import Hold

_PAUSE = 60.0
"""Seconds before the next attempt with ``recovery`` None: after a loss to another process, or failing storage."""


class Campaign(ABC):
    """Asks for a lock every ``recovery`` seconds, and then keeps the lock. A subclass asks, and gives back.

    After a loss the campaign goes on: at once if the lease ran out; after ``recovery`` seconds if another process took
    the lock. With ``recovery`` None, a lock in another process ends the campaign. All methods run on the lock thread.
    """

    def __init__(self, name: str, *, recovery: float | None) -> None:
        self.name = name
        self._recovery = recovery
        self._task: asyncio.Task[None] | None = None
        self._caller: Caller | None = None  # whoever begins a campaign does not wait for its end

    def _begin_campaign(self) -> asyncio.Task[None]:
        """Begin to ask; return the task, which ``_end_campaign`` ends."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"leadership {self.name}")
        return self._task

    async def _end_campaign(self) -> None:
        """Stop asking; give the lock back, if the candidate has the lock."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    @abstractmethod
    async def _ask(self) -> Hold:
        """Make one attempt to acquire the lock, and take the hold."""

    @abstractmethod
    async def _give_back(self, hold: Hold) -> None:
        """Release the hold after a loss, or at the end of the campaign."""

    @abstractmethod
    async def _pause(self, seconds: float) -> None:
        """Sleep between two attempts."""

    @abstractmethod
    def _finished(self, over: SingletonError) -> None:
        """Learn that no attempt follows, and the reason."""

    async def _run(self) -> None:
        serving.set(self._caller)
        over: SingletonError = LockClosed(f"leadership {self.name!r} is over", lock=self.name)
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
                    self.name,
                ),
                extra={"lock": self.name},
            )
            over = error
        except LockClosed as error:
            over = error
        finally:
            self._finished(over)

    async def _lead(self) -> str | None:
        """Make an attempt; return the reason of the loss after a success, None after a failure."""
        try:
            hold = await self._ask()
        except LockNotAcquired:
            if self._recovery is None:
                raise
            _log.debug("leadership %s: another process has it", self.name)
            return None
        except LockClosed:
            raise
        except Exception as error:  # noqa: BLE001 - a credential may raise anything
            _log.warning(
                *("leadership %s: it could not be asked for (%s); trying again", self.name, error),
                extra={"lock": self.name, "cause": text_of(error)},
            )
            return None
        try:
            _log.info("leadership %s: this process leads", self.name, extra={"lock": self.name})
            return await hold.lost
        finally:
            await self._give_back(hold)
