"""The renewals of a process on one store: on time, and the earliest deadline first.

* **A deadline waits for no request.** Each lease has a timer of the loop for its next renewal, and for its deadline
  while a renewal is queued or under way. One hop of the loop declares the lease lost.
* **The earliest deadline first.** Renewals that are due together, as all are after a stall of the loop, are queued
  before the first request is sent.
* **At most ``AT_A_TIME`` requests.** Each request takes a connection. Ten thousand requests at once would use up the
  time that the leases have left.
* **No request holds up another lease for long.** A request without an answer counts for ``PATIENCE`` only. So 512
  requests a second can be sent however slow the storage is, and also while no request is answered: 3,000 leases of 15 s
  get their tries in time. A request ends after half of the time that the lease has left (``Lease.renew``).
* **A late loop waits once.** If the loop is late by ``LATE``, the answers may have arrived already: the requests under
  way count for one more ``PATIENCE``. A loop which is always late sends at half the rate, and never stops.
* **Waiting costs no safety.** The new deadline of a lease counts from when its request is sent.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import contextvars

AT_A_TIME: Final = 64
"""Requests under way at a time, without those that are older than ``PATIENCE``."""
PATIENCE: Final = 0.125
"""Seconds after which a request without an answer lets another request go."""
LATE: Final = 0.05
"""Seconds by which a busy loop may be late."""


class Renewable(ABC):
    """A request that is sent again and again: the renewals of a lease, or the touches of a hold.

    Attributes:
        context: copied for the task of each request.
        due: when to send the next request, by the loop's clock; infinite: a request is queued or under way, or none
            follows.
        task: the request under way.
        queued: the number of the request in the queue; 0: none is queued.
    """

    __slots__ = ("context", "due", "queued", "task")

    def __init__(self, due: float, context: contextvars.Context) -> None:
        self.context = context
        self.due = due
        self.queued = 0
        self.task: asyncio.Task[None] | None = None

    @property
    @abstractmethod
    def task_name(self) -> str:
        """The name of each request's task."""

    @abstractmethod
    async def renew(self) -> float:
        """Send the request; return when the next one is due, infinite: never."""

    @abstractmethod
    def set_timer(self) -> None:
        """Set the timer anew: ``due`` has changed."""


class Renewals:
    """Sends renewals that are due. An instance belongs to the loop on which it is used."""

    __slots__ = ("_numbers", "_patience", "_queue", "_sends_soon", "_under_way")

    def __init__(self) -> None:
        self._queue: list[tuple[float, int, Renewable]] = []
        self._numbers = 0
        self._under_way: dict[Renewable, float] = {}
        self._sends_soon = False
        self._patience: asyncio.TimerHandle | None = None

    def ask(self, renewable: Renewable, deadline: float) -> None:
        """Queue a request that is due. The requests with the earliest deadlines are sent first."""
        self._numbers += 1
        renewable.due, renewable.queued = math.inf, self._numbers
        heappush(self._queue, (deadline, self._numbers, renewable))
        self._send_soon()

    async def join(self, renewable: Renewable, task: asyncio.Task[None]) -> None:
        """Cancel the request under way, and wait for its end."""
        task.cancel()
        await asyncio.wait({task})
        self._is_over(renewable)

    def _send_soon(self) -> None:
        """Send requests after the timers and answers of this turn of the loop, when the due requests are queued."""
        if not self._sends_soon:
            self._sends_soon = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        loop, queue, under_way = asyncio.get_running_loop(), self._queue, self._under_way
        self._sends_soon = False
        now = loop.time()
        while queue and len(under_way) < AT_A_TIME:
            _, number, renewable = heappop(queue)
            if renewable.queued != number:
                continue
            renewable.queued = 0
            under_way[renewable] = now
            renewable.task = loop.create_task(
                self._once(renewable), name=renewable.task_name, context=renewable.context.copy()
            )
        if queue and self._patience is None:
            oldest = next(iter(under_way.values()))
            self._wait_until(oldest + PATIENCE)
        elif not queue and self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _wait_until(self, when: float, *, again: bool = False) -> None:
        self._patience = asyncio.get_running_loop().call_at(when, self._count_anew, when, again)

    def _count_anew(self, when: float, again: bool) -> None:  # noqa: FBT001 - called by a timer
        """Stop counting requests without an answer for ``PATIENCE``; a late loop waits once more (``again``)."""
        now = max(asyncio.get_running_loop().time(), when)  # asyncio's timers may come a hair too early
        self._patience = None
        if now - when >= LATE and not again:
            self._wait_until(now + PATIENCE, again=True)
            return
        for renewable in [each for each, sent in self._under_way.items() if sent + PATIENCE <= now]:
            del self._under_way[renewable]
        self._send()

    async def _once(self, renewable: Renewable) -> None:
        renewable.due = await renewable.renew()
        renewable.task = None
        renewable.set_timer()
        self._is_over(renewable)

    def _is_over(self, renewable: Renewable) -> None:
        self._under_way.pop(renewable, None)
        if self._queue:
            self._send_soon()
