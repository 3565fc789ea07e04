"""Asking for one lock without the lock thread where possible: the caller becomes a runner of the lock's relay."""

from __future__ import annotations

import asyncio
import contextvars
import math
import threading
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import SingletonError
from singleton.base.naming import whose
from singleton.process.reentry import this_caller

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from singleton.base.hold import Hold
    from singleton.locking.lock import Lock
    from singleton.locking.relay import Relay
    from singleton.locking.section import Section
    from singleton.process.address import Address
    from singleton.process.answer import Answer
    from singleton.process.door import Door
    from singleton.process.registry import Registry

SHORTEST: Final = 2.0
"""Seconds that who runs may wait, at least: he asks on the lock thread before they are over."""


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

    def patience(self, now: float) -> float:
        """Return for how many seconds it may wait as a runner, by the lock thread's clock; 0: not at all."""
        del now
        return math.inf if self.timeout is None else self.timeout

    def __call__(self, registry: Registry) -> Coroutine[Any, Any, Hold]:
        """Do it all on the lock thread."""
        return self.go_on(registry, None)

    def begin(self, registry: Registry) -> None:
        """Tell that a runner asks for the lock. What this raises ends his wait."""

    def go_on(self, registry: Registry, since: float | None) -> Coroutine[Any, Any, Hold]:
        """Do the rest on the lock thread, for who has waited since then; None: from now on."""
        return registry.acquire(self.address, timeout=self.timeout, owner=self.owner, since=since)

    def got(self, hold: Hold) -> None:
        """Tell that a runner got it."""

    def failed(self, error: BaseException) -> None:
        """Tell that a runner goes away."""

    def returned(self) -> None:
        """Hear that the call of a runner ends, however that is."""


class Runner:
    """Who waits for a lock where he asked for it. See ``Runner`` of ``locking/waiter.py``."""

    __slots__ = (
        "__weakref__",
        "_again",
        "_end",
        "_relay",
        "answer",
        "ask",
        "caller",
        "context",
        "deadline",
        "owner",
        "since",
        "whose",
    )

    def __init__(
        self,
        ask: Ask,
        answer: Answer[Any],
        since: float,
        patience: float,
        relay: Relay,
        again: Callable[[Runner], None],
    ) -> None:
        self.ask = ask
        self.answer = answer
        self.owner = ask.owner
        self.since = since
        self.deadline = since + patience
        self.whose = whose()
        self.caller = this_caller()
        self.context = contextvars.copy_context()
        self._relay = relay
        self._again = again
        self._end = threading.Lock()  # taken, for good, by who tells his end

    def enter_door(self) -> None:
        """Hear from now on if the door is closed."""
        if self.ask.door is not None:
            self.ask.door.enter(self)

    def start(self) -> None:
        """Wait with the others; where that has become impossible meanwhile, ask on the lock thread."""
        self._go_on(waits=self._relay.join(self))

    def come(self, registry: Registry, lock: Lock) -> None:
        """Wait, on the lock thread, for a lock that idles; where it does no more, ask there as others do."""
        if self.answer.cancelled:
            self.gone()
            return
        self._go_on(waits=registry.welcome(self.ask.address, lock, self))
        if self.answer.cancelled:  # by now; who cancels it looks for him here afterwards
            self.leave()

    def _go_on(self, *, waits: bool) -> None:
        if not waits:
            self.move()
        elif self.ask.door is not None and self.ask.door.is_closed:
            self.show_out()

    def show_out(self) -> None:
        """The door is closed: hear that on the lock thread, unless the wait is over."""
        if self.leave():
            self.move()

    def leave(self) -> bool:
        """Wait no longer; False: that was over, or goes on on the lock thread."""
        return self._relay.leave(self)

    def withdraw(self) -> None:
        """Stop waiting: the answer is cancelled."""
        self.leave()
        self.gone()

    def gone(self) -> None:
        """Tell that he has gone without the lock, once, unless the lock thread is to tell what becomes of him."""
        if self._end.acquire(blocking=False):
            self.context.run(self.ask.failed, asyncio.CancelledError())

    def returned(self) -> None:
        """His call ends: he stands behind the door no longer."""
        self.ask.returned()
        if self.ask.door is not None:
            self.ask.door.leave(self)

    def claim(self) -> bool:
        """Decide that he gets the hold, once; False: he has gone."""
        return self.answer.claim()

    def give(self, hold: Section) -> None:
        """End his wait with this hold."""
        try:
            self.context.run(self.ask.got, hold)
        finally:
            self.answer.give(hold)

    def refuse(self, error: SingletonError) -> None:
        """End his wait with this error, and tell so."""
        self._end.acquire(blocking=False)
        self.ask.failed(error)
        if self.answer.claim():
            self.answer.fail(error)

    def drop(self) -> bool:
        """End his wait with an error, whether he was claimed or not; False: he has gone, or has his answer."""
        name = self.ask.address.name
        error = SingletonError(f"lock {name!r} was not handed on: whoever released it was interrupted", lock=name)
        self.answer.claim()
        if self.answer.open:
            self.context.run(self.ask.failed, error)
            self.answer.fail(error)
            return True
        self.answer.tell()
        return False

    def move(self) -> None:
        """Have him ask on the lock thread, which tells what becomes of him; not if he has gone."""
        if self._end.acquire(blocking=False):
            self.context.run(self._again, self)
