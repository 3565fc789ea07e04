"""What is known of the app's functions: how they are triggered and guarded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Mode = Literal["function", "listener"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function of the app, as its hosts indexed it.

    Attributes:
        how: whether the trigger is ``simulated`` by its rules, or only ``delivered``.
        route: the route of an HTTP trigger.
        mode: the mode of the guard around the body; a listener's guard may be around that guard.
        lease: how long the lease of a lock around an invocation lasts.
        failover: after how many seconds of silence another process may take such a lock; None: after its lease.
        poll: how long a waiter leaves such a lock alone.
        listener_lease: how long the lease of its listener lasts.
        recovery: how long a candidate for the listener leaves the listener's lock alone.
        tick: the longest pause between two ticks of its timer.
        at_once: how many invocations may be inside at a time, in all processes.
        several: whether the function has such a limit: the lock is a semaphore then, and a hold has a slot.
        at_least: seconds for which its lock is kept from its acquisition on.
        max_hold: seconds after which its hold is lost; None: it may last.
        max_waiting: how many invocations of one process may wait for one lock; None: as many as come.
        when_full: what a further one does.
    """

    name: str
    trigger: str = ""
    queue: str = ""
    how: str = "simulated"
    route: str = ""
    guarded: bool = False
    mode: Mode = "function"
    on_contention: str = "wait"
    lease: float = 15.0
    failover: float | None = None
    poll: float = 5.0
    listener_lease: float = 60.0
    renewal: float | None = None  # how long after each renewal of a lease the next; None: half the lease
    recovery: float = 60.0
    tick: float = 0.0
    away: float = 0.0  # how long a message that is put back stays away at most
    timeout: float | None = None  # how long an invocation waits for its lock; None: as long as it takes
    limit: float | None = None  # how long its host lets an invocation take: the functionTimeout
    cancels: bool = False  # whether an async body is asked to end when its lock is lost
    tokens: bool = False  # whether its holds have fencing tokens
    merges: bool = False  # whether its layout may give one lock to several scopes
    sync: bool = False  # a thread runs its body: nobody can end that
    idle: str = ""  # why its host does not run it
    at_once: int = 1
    several: bool = False
    at_least: float = 0.0
    max_hold: float | None = None
    max_waiting: int | None = None
    when_full: str = "raise"
    # By the app itself, too: that may run the body again or not, and make of errors what it likes.
    decorated: bool = False

    def lease_in(self, mode: Mode) -> float:
        """Return how long the lease of its lock of this mode lasts."""
        return self.listener_lease if mode == "listener" else self.lease

    def silence_in(self, mode: Mode) -> float:
        """Return for how long its holder may be silent before another process gets its lock of this mode."""
        return min(self.lease_in(mode), self.failover or math.inf)

    def renewal_in(self, mode: Mode) -> float:
        """Return how long after each renewal of its lock of this mode the next is due."""
        return self.lease_in(mode) / 2 if self.renewal is None else self.renewal

    @property
    def gives_up_after(self) -> float:
        """Seconds for which an invocation waits for its lock, as it was declared."""
        return math.inf if self.timeout is None else self.timeout

    @property
    def cut_after(self) -> float:
        """Seconds after an invocation's begin at which it waits no longer, as its host would end its worker."""
        if self.limit is None:
            return math.inf
        return self.limit - min(max(0.1 * self.limit, 5.0), 0.5 * self.limit)

    def poll_in(self, mode: Mode) -> float:
        """Return how long who wants its lock of this mode leaves it alone between two attempts."""
        return self.recovery if mode == "listener" else self.poll
