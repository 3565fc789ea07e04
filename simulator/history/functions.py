"""A function of the app, as its hosts indexed it: its trigger and its guards, with the options in force."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Mode = Literal["function", "listener", "also"]  # also: the older name of a lock, which also= takes besides


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function of the app, as its hosts indexed it: its trigger and its guards."""

    name: str
    trigger: str = ""
    queue: str = ""
    how: str = "simulated"  # whether the trigger is ``simulated`` by its rules, or only ``delivered``
    route: str = ""
    guarded: bool = False
    mode: Mode = "function"  # the mode of the guard around the body; a listener's guard may be around that guard
    on_contention: str = "wait"
    lease: float = 15.0  # how long the lease of a lock around an invocation lasts
    failover: float | None = None  # seconds of silence before another process may take such a lock; None: its lease
    poll: float = 5.0  # how long a waiter leaves such a lock alone
    window: float = 30.0  # how long a process hands such a lock on among its own waiters
    listener_lease: float = 60.0  # how long the lease of its listener lasts
    renewal: float | None = None  # how long after each renewal of a lease the next; None: half the lease
    recovery: float = 60.0  # how long a candidate for the listener leaves the listener's lock alone
    tick: float = 0.0  # the longest pause between two ticks of its timer, or of who asks for a client's lock
    away: float = 0.0  # how long a message that is put back stays away at most
    hides: float = 0.0  # how long its queue hides a message that has failed
    tries: float = math.inf  # how often it may fail for a message: the maxDequeueCount
    timeout: float | None = None  # how long an invocation waits for its lock; None: as long as it takes
    limit: float | None = None  # how long its host lets an invocation take: the functionTimeout
    cancels: bool = False  # whether an async body is asked to end when its lock is lost
    tokens: bool = False  # whether its holds have fencing tokens
    merges: bool = False  # whether its layout may give one lock to several scopes
    sync: bool = False  # a thread runs its body, and can't be ended
    idle: str = ""  # why its host does not run it
    at_once: int = 1  # how many invocations may be inside at a time, in all processes
    several: bool = False  # whether the function has such a limit: the lock is a semaphore then, and a hold has a slot
    at_least: float = 0.0  # seconds for which its lock is kept from its acquisition on
    max_hold: float | None = None  # seconds after which its hold is lost; None: it may last
    max_waiting: int | None = None  # how many invocations of one process may wait for one lock; None: as many as come
    when_full: str = "raise"  # the policy for an invocation beyond ``max_waiting``
    decorated: bool = False  # also by the app itself, whose decorator may run the body again or not, and change errors
    narrow: str = ""  # its decorator that takes no ``context``, though the guard below asks for it
    direct: bool = False  # whether nothing is between its guard, or the lock of a decorator, and its body
    declared: tuple[str, ...] = ()  # the names of its guards, if the worker calls the function by another name
    once: bool = False  # whether `@once` may answer in place of its body
    keep: float = math.inf  # seconds for which `@once` keeps a result
    ordered: bool = False  # whether `@ordered` handles the messages of an inbox
    blob: str = ""  # container and blob of a lock of a lock client; its ``trigger`` is the client's method

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
