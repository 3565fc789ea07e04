"""One timer for all leases on one store: it says when to look at each of them.

Ten thousand leases have ten thousand deadlines, and each is renewed twice in its period. A lease that idles has a
ticket here, and neither a task nor a timer. The timer is set for the earliest ticket. What is found past its deadline
is lost at once: a look waits for no request, and for no turn (``turns.py``).

A request and a wait that may last for too long have one, too: nearly all of them are over long before. A timer that is
cancelled costs more than a ticket that is forgotten.

Tickets for the same time are looked at in the order in which they were made: virtual time is deterministic.
"""

from __future__ import annotations

import asyncio
import math
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

_FEW: Final = 64
"""Tickets of nobody that may lie among the others before they are looked for."""


class Watched(Protocol):
    """What a wheel looks at.

    Attributes:
        ticket: number of its ticket; 0: it has none. The wheel's own.
    """

    ticket: int

    def look(self, now: float) -> float:
        """Do what is due by ``now``, the loop's time; return when to look again, infinite: never."""


_Ticket: TypeAlias = "tuple[float, int, Watched]"
"""When to look, the ticket's number, and at what; nobody's if that has another number by now."""


class Patience:
    """A block that ends what its task waits for at a time by the loop's clock, as ``asyncio.timeout_at`` does."""

    __slots__ = ("_before", "_is_over", "_task", "_wheel", "_when", "ticket")

    def __init__(self, wheel: Wheel, when: float) -> None:
        task = asyncio.current_task(wheel.loop)
        assert task is not None
        self.ticket = 0
        self._wheel = wheel
        self._when = when
        self._task = task
        self._before = 0
        self._is_over = False

    def __enter__(self) -> None:
        self._before = self._task.cancelling()
        self._wheel.look_at(self, self._when)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._wheel.forget(self)
        if self._is_over and self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def look(self, now: float) -> float:
        """End the wait. See ``Wheel``."""
        del now
        self._is_over = True
        self._task.cancel()
        return math.inf


class Wheel:
    """Looks at what it is told to, when it is time. It belongs to the loop on which it is used.

    Attributes:
        late: seconds by which it came too late of late: so busy is the loop, or its machine. Half of that is forgotten
            at each turn, and in each second.
        loop: on which it is used, as soon as it has been.
    """

    __slots__ = (
        "_after",
        "_made",
        "_set_by",
        "_set_for",
        "_tickets",
        "_timer",
        "_turned",
        "_turning",
        "_watched",
        "late",
        "loop",
    )

    def __init__(self, after: Callable[[float], object]) -> None:
        """``after(now)`` is called when all has been looked at whose time had come."""
        self.late = 0.0
        self._after = after
        self._turned = -math.inf
        self._turning = False
        self._tickets: list[_Ticket] = []
        self._watched = 0
        self._made = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._set_for = math.inf
        self._set_by = 0

    def __len__(self) -> int:
        """Return how many have a ticket."""
        return self._watched

    def now(self) -> float:
        """Return the time by the loop's clock; to ask which loop runs costs a system call (Python 3.11)."""
        if self.loop is None:
            self.loop = asyncio.get_running_loop()
        return self.loop.time()

    def look_at(self, what: Watched, when: float) -> None:
        """Look at this then, and not at the time that was named before.

        The timer is moved to an earlier time, and to a later one only if it was set for this. Of others it stays where
        it is, though nobody may need it there any more: that costs less.
        """
        before = what.ticket
        if not before:
            self._watched += 1
        self._made = what.ticket = number = self._made + 1
        heappush(self._tickets, (when, number, what))
        if len(self._tickets) > 2 * self._watched + _FEW:
            self._drop_those_of_nobody()
        if self._turning:
            return
        if when < self._set_for:
            self._set(when, number)
        elif before and before == self._set_by:
            self._set_for_earliest()

    def forget(self, what: Watched) -> None:
        """Do not look at this any more."""
        if not what.ticket:
            return
        what.ticket = 0
        self._watched -= 1
        if not self._watched:
            self._tickets.clear()

    def is_due(self, now: float) -> bool:
        """Tell whether something else may have to be looked at by now."""
        return bool(self._tickets) and self._tickets[0][0] <= now

    def _drop_those_of_nobody(self) -> None:
        self._tickets[:] = [each for each in self._tickets if each[1] == each[2].ticket]
        heapify(self._tickets)

    def _set_for_earliest(self) -> None:
        """Set the timer for the earliest ticket that is somebody's."""
        tickets = self._tickets
        while tickets and tickets[0][1] != tickets[0][2].ticket:
            heappop(tickets)
        if tickets and tickets[0][0] < math.inf:
            self._set(tickets[0][0], tickets[0][1])

    def _set(self, when: float, number: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.loop is None:
            self.loop = asyncio.get_running_loop()
        self._set_for, self._set_by = when, number
        self._timer = self.loop.call_at(when, self._turn)

    def _turn(self) -> None:
        """Look at all whose time has come."""
        assert self.loop is not None
        set_for, tickets = self._set_for, self._tickets
        now = max(self.loop.time(), set_for)  # asyncio's timers may come a hair too early
        quiet, self._turned = now - self._turned, now
        # Also where nobody is left to look at, and where hardly anything is: else it stays late.
        self.late = max(now - set_for, self.late * 0.5 ** (1 + quiet))
        self._timer, self._set_for, self._set_by = None, math.inf, 0
        if not tickets:
            return
        self._turning = True
        try:
            while tickets and tickets[0][0] <= now:
                _, number, what = heappop(tickets)
                if what.ticket != number:
                    continue
                what.ticket = 0
                self._watched -= 1
                if (again := what.look(now)) < math.inf:
                    self._watched += 1
                    self._made = what.ticket = number = self._made + 1
                    heappush(tickets, (again, number, what))
            self._after(now)
        finally:  # where one of them raises, the others get their look next
            self._turning = False
            self._set_for_earliest()
