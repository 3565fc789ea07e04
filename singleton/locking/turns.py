"""Turns for the requests that keep the leases on one store: the earliest deadline first, and a few at a time.

After a stall all leases of a process are due at once. If all of them asked at once, each over a connection of its own,
then what they cost would take the time that they need. So:

* **Some at a time.** ``FEWEST`` requests are under way; the others wait, and who has the earliest deadline is next. So
  few keep a loop busy whose answers come at once, and what more of them took (objects, connections) is saved.
* **More where answers are slow.** While somebody waits, and the oldest has had no answer for ``SOON``, there are twice
  as many places, up to ``PLACES``: no rate that a processor can keep is out of reach.
* **No request holds up the others for long.** One without an answer after ``PATIENCE`` goes on, but not in a place. So
  where nothing is answered at all, ``PLACES / PATIENCE`` leases a second still get their try.
* **Fewer where the loop is late.** More requests would make it later, until none is answered in time: there are fewer
  places then, and more patience.
* **Waiting for a turn costs no safety.** A lease's clock begins when its request is sent; its deadline is kept by the
  wheel, which waits for no turn.
"""

from __future__ import annotations

import asyncio
import math
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, Protocol

from singleton.locking.wheel import Wheel

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Coroutine
    from typing import Any

PLACES: Final = 256
"""Requests under way at a time that are younger than ``PATIENCE``, at most."""
PATIENCE: Final = 0.5
"""Seconds after which a request without an answer lets another one go."""
FEWEST: Final = 32
"""Places, where answers come soon, or the loop is late."""
SOON: Final = 0.01
"""Seconds without an answer after which there are more places."""
_LATE: Final = 0.05
"""Seconds by which the loop may be late before there are fewer places."""
_BUSY: Final = 4.0
"""Times that the loop is late, which come on top of ``SOON`` and ``PATIENCE``."""


class Obliged(Protocol):
    """Who has a duty."""

    @property
    def context(self) -> contextvars.Context:
        """A copy of it is that of each request's task."""

    @property
    def task_name(self) -> str:
        """The name of each request's task."""

    def ask(self) -> Coroutine[Any, Any, float]:
        """Make the request; return when it is due again."""

    def limit(self, now: float) -> float:
        """Return when a request that is sent now ends at the latest; infinite: ``ask`` sees to that."""

    def arm(self) -> None:
        """Hear that ``due`` or ``ends`` has changed; not during the look that asked for the duty's turn."""


class Duty:
    """A request that is made again and again. It has a task while it is under way, and none in between.

    Attributes:
        of: who has it. It keeps no methods of theirs: there is one for each lock that is held.
        due: when to make it next, by the loop's clock; infinite: it waits for its turn, is under way, or has ended.
        ends: when to cut off the request that is under way; infinite: there is none, or never.
        number: its place among those that wait for their turn; 0: it does not wait.
        task: the request under way.
    """

    __slots__ = ("_is_cut_off", "_turns", "due", "ends", "number", "of", "task")

    def __init__(self, turns: Turns, of: Obliged, due: float) -> None:
        self.of = of
        self.due = due
        self.ends = math.inf
        self.number = 0
        self.task: asyncio.Task[None] | None = None
        self._turns = turns
        self._is_cut_off = False

    def begin(self, now: float) -> None:
        """Make the request."""
        self.number = 0
        of, loop = self.of, self._turns.wheel.loop
        assert loop is not None
        self.task = loop.create_task(self._once(), name=of.task_name, context=of.context.copy())
        self.ends = of.limit(now)

    def cut_off(self) -> None:
        """Have the request that is under way fail, as one that got no answer in time."""
        self.ends, self._is_cut_off = math.inf, True
        assert self.task is not None
        self.task.cancel()

    def answered(self) -> bool:
        """Note that the request has its answer, or failed; tell whether it was cut off."""
        self.ends = math.inf
        cut_off, self._is_cut_off = self._is_cut_off, False
        if cut_off and self.task is not None:
            self.task.uncancel()
        return cut_off

    def end(self) -> None:
        """Make it no more; ``join`` what is under way."""
        self.due, self.number = math.inf, 0

    async def join(self) -> None:
        """Cut off the request that is under way, and wait until it is over."""
        if (task := self.task) is not None:
            task.cancel()
            await asyncio.wait({task})
            self._turns.over(self)

    async def _once(self) -> None:
        due = await self.of.ask()
        self.due, self.ends, self.task = due, math.inf, None
        self.of.arm()
        self._turns.over(self)


class Turns:
    """Who of those that are due makes its request now. It belongs to the loop on which it is used.

    Attributes:
        wheel: looks at what is due; one for all that take turns.
    """

    __slots__ = ("_grown", "_made", "_most", "_places", "_waiting", "ticket", "wheel")

    def __init__(self) -> None:
        self.wheel = Wheel(self._send)
        self.ticket = 0
        self._waiting: list[tuple[float, int, Duty]] = []
        self._places: dict[Duty, float] = {}
        self._most = FEWEST
        self._grown = -math.inf
        self._made = 0

    def ask(self, duty: Duty, deadline: float, now: float) -> None:
        """Have this request made when it is its turn: now, if nobody else waits, and nothing else is due."""
        duty.due = math.inf
        if not self._waiting and len(self._places) < self._most and not self.wheel.is_due(now):
            self._places[duty] = now
            duty.begin(now)
            return
        self._made = duty.number = self._made + 1
        heappush(self._waiting, (deadline, self._made, duty))

    def over(self, duty: Duty) -> None:
        """Note that this request is over: its place is free."""
        self._places.pop(duty, None)
        if self._waiting:
            self._send(asyncio.get_running_loop().time())

    def look(self, now: float) -> float:
        """Leave it to what follows: the next place is free."""
        del now
        return math.inf

    def _send(self, now: float) -> None:
        """Send those for whom there is a place; where there is none, be looked at when there is, at the latest."""
        if not self._waiting:
            return
        late = self.wheel.late
        ceiling = PLACES if late <= _LATE else max(FEWEST, int(PLACES * _LATE / late))
        self._most = min(self._most, ceiling)
        while self._waiting:
            if len(self._places) >= self._most:
                oldest, sent = next(iter(self._places.items()))
                grows = self._most < ceiling
                until = (max(sent, self._grown) + SOON if grows else sent + PATIENCE) + _BUSY * late
                if until > now:
                    self.wheel.look_at(self, until)
                    return
                if grows:
                    self._most, self._grown = min(2 * self._most, ceiling), now
                else:
                    del self._places[oldest]
                continue
            _, number, duty = heappop(self._waiting)
            if duty.number == number:
                self._places[duty] = now
                duty.begin(now)
                if duty.ends < math.inf:
                    duty.of.arm()
        self._most = FEWEST
        self.wheel.forget(self)
