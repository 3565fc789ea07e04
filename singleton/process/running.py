"""Asking for one lock without the lock thread where possible: the caller becomes a runner of the lock's relay."""

from __future__ import annotations

import asyncio
import contextvars
import math
from typing import TYPE_CHECKING, Any, Final

from singleton.base.naming import whose
from singleton.process.reentry import this_caller

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Callable, Coroutine

    from singleton.base.hold import Hold
    from singleton.locking.relay import Relay
    from singleton.locking.section import Section
    from singleton.process.address import Address
    from singleton.process.door import Door
    from singleton.process.registry import Registry

_SHORTEST: Final = 2.0
"""The shortest time-out with which somebody may run: he asks on the lock thread before it is over."""


class Ask:
    """Work for the lock thread that acquires one lock, and what of it is done elsewhere where others run.

    Calling it does it all on the lock thread.

    Attributes:
        address: of the lock.
        owner: who asks.
        timeout: seconds to wait; None: without end.
        door: ends the wait when it is closed; None: nothing does.
    """

    __slots__ = ("address", "door", "owner", "timeout")

    def __init__(self, address: Address, owner: str, timeout: float | None, door: Door | None = None) -> None:
        self.address = address
        self.owner = owner
        self.timeout = timeout
        self.door = door

    @property
    def may_run(self) -> bool:
        """Tell whether it may wait as a runner."""
        return self.timeout is None or self.timeout >= _SHORTEST

    def __call__(self, registry: Registry) -> Coroutine[Any, Any, Hold]:
        """Do it all on the lock thread."""
        return self.go_on(registry, None)

    def begin(self) -> None:
        """Tell that the lock is asked for."""

    def go_on(self, registry: Registry, since: float | None) -> Coroutine[Any, Any, Hold]:
        """Do the rest on the lock thread, for who has waited since then; None: from now on."""
        return registry.acquire(self.address, timeout=self.timeout, owner=self.owner, since=since)

    def got(self, hold: Hold) -> None:
        """Tell that a runner got it."""

    def failed(self, error: BaseException) -> None:
        """Tell that a runner goes away."""


class Runner:
    """Who waits for a lock where he asked for it. See ``Runner`` of ``locking/relay.py``."""

    __slots__ = ("_again", "_relay", "answer", "ask", "caller", "context", "deadline", "owner", "since", "whose")

    def __init__(
        self,
        ask: Ask,
        answer: concurrent.futures.Future[Any],
        since: float,
        relay: Relay,
        again: Callable[[Runner], None],
    ) -> None:
        self.ask = ask
        self.answer = answer
        self.owner = ask.owner
        self.since = since
        self.deadline = since + (math.inf if ask.timeout is None else ask.timeout)
        self.whose = whose()
        self.caller = this_caller()
        self.context = contextvars.copy_context()
        self._relay = relay
        self._again = again

    def start(self) -> None:
        """Wait with the others; where that has become impossible meanwhile, ask on the lock thread."""
        door = self.ask.door
        if door is not None:
            door.enter(self.show_out)
        if not self._relay.join(self):
            self.move()
        elif door is not None and door.is_closed:
            self.show_out()

    def show_out(self) -> None:
        """The door is closed: hear that on the lock thread, unless the wait is over."""
        if self.leave():
            self.move()

    def leave(self) -> bool:
        """Wait no longer; False: that was over, or goes on on the lock thread."""
        return self._relay.leave(self)

    def withdraw(self) -> None:
        """Stop waiting, and report that, unless the lock thread does."""
        if self.leave():
            self.ask.failed(asyncio.CancelledError())

    def leave_door(self) -> None:
        """Stand behind the door no longer."""
        if self.ask.door is not None:
            self.ask.door.leave(self.show_out)

    def claim(self) -> bool:
        """Decide that he gets the hold, once; False: he has gone."""
        return self.answer.set_running_or_notify_cancel()

    def give(self, hold: Section) -> None:
        """End his wait with this hold."""
        try:
            self.context.run(self.ask.got, hold)
        finally:
            self.answer.set_result(hold)

    def move(self) -> None:
        """Have him ask on the lock thread."""
        self.context.run(self._again, self)
