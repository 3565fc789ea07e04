"""A waiter for a leadership, beside the code that began it.

left waiting            a leadership was ended, and somebody still waits for it
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.virtual.oracle.callers import AT_ONCE
from singleton.base.errors import LockClosed

if TYPE_CHECKING:
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.clients.leadership import Leadership


@dataclass(slots=True)
class LeaderWaiter:
    """Waits in a task of its own, through all terms, until it is told that the leadership is over."""

    world: World
    machine: Machine
    _task: asyncio.Task[None] | None = None

    def wait_for(self, leadership: Leadership) -> None:
        """Begin to wait."""
        self._task = asyncio.create_task(_wait(leadership), name=f"witness of {leadership.name}")

    async def must_know(self, *, excused: bool = False) -> None:
        """Receive the end of the leadership: the waiter is told at once."""
        if self._task is None:
            return
        try:
            await asyncio.wait({self._task}, timeout=0.0 if excused else AT_ONCE)
            excused |= self.machine.leaving or self.machine.stopped_since(2 * AT_ONCE)
            if self._task.done():
                self._task.result()
            elif not excused:
                self.blame_waiting(self._task.get_name())
        finally:
            self._task.cancel()

    def blame_waiting(self, who: str) -> None:
        """Judge a wait for what is over."""
        self.world.oracle.blame("left waiting", f"the {who} still waits on {self.machine.name}, and it is over")


async def _wait(leadership: Leadership) -> None:
    with suppress(LockClosed):
        while True:
            hold = await leadership
            await hold.lost
