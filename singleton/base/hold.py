"""A hold: what the guarded body sees of its lock. Safe to use from any thread and any event loop."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from typing import TYPE_CHECKING, Protocol, TypeVar

from singleton.base.errors import ConfigurationError, LockLost
from singleton.base.naming import log as _log
from singleton.base.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from singleton.base.kinds import LossReason
    from singleton.base.state import Crossing, Keeper


_T = TypeVar("_T")


class Leased(Protocol):
    """What a hold asks of the lease that covers it."""

    @property
    def id(self) -> str:
        """Its id at the service."""

    @property
    def deadline(self) -> float:
        """The time, by its loop's clock, at which it counts as lost unless renewed."""

    def overdue(self) -> bool:
        """Tell from any thread whether the deadline has passed."""


class LossSignal:
    """Set once, when the hold is lost. ``await hold.lost``, ``hold.lost.wait(timeout)`` from a thread, ``is_set()``."""

    __slots__ = ("_callbacks", "_ended", "_guard", "_lease", "_reason", "_waiters")

    def __init__(self, lease: Leased | None) -> None:
        self._lease = lease
        self._reason: LossReason | None = None
        self._ended = False
        self._guard = threading.Lock()
        self._callbacks: list[Callable[[LossReason], None]] = []
        self._waiters: list[Callable[[], object]] = []

    def is_set(self) -> bool:
        """Tell whether the hold is lost, by the clock as well: a process that slept knows at once (B3)."""
        return self.reason is not None

    @property
    def reason(self) -> LossReason | None:
        """Why: expired, stolen, broken, blob gone, closed or too long; None while it is good, or after it ended well.

        Stolen is also a lease on a blob that was deleted, made again, and taken: the service answers the same.
        """
        lease = self._lease
        if self._reason is None and lease is not None and lease.overdue():
            return "expired"
        return self._reason

    @property
    def deadline(self) -> float:
        """The time, by the clock of the lock's loop, at which the hold counts as lost unless renewed."""
        return math.inf if self._lease is None else self._lease.deadline

    @property
    def ended(self) -> bool:
        """Tell whether the hold is over: lost, or released."""
        return self._ended or self.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block this thread until the hold is lost or has ended, at most ``timeout`` seconds; tell if it is lost."""
        over = threading.Event()
        forget = self._when_over(over.set)
        try:
            over.wait(timeout if timeout is None else min(timeout, threading.TIMEOUT_MAX))
            return self.is_set()
        finally:
            forget()

    def __await__(self) -> Generator[None, None, LossReason | None]:
        """Wait until the hold is lost or has ended; give the reason, or None if it ended well."""
        return self._wait_async().__await__()

    async def _wait_async(self) -> LossReason | None:
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        forget = self._when_over(lambda: loop.call_soon_threadsafe(over.set))
        try:
            await over.wait()
            return self.reason
        finally:
            forget()

    def add_callback(self, callback: Callable[[LossReason], None]) -> Callable[[], None]:
        """Call ``callback(reason)`` once when the hold is lost, at once if it is already; return a way to take it back.

        It runs on the lock thread: be quick. An exception that it raises is logged and goes no further (M-35).
        """
        with self._guard:
            reason = self._reason
            if reason is None:
                self._callbacks.append(callback)
        if reason is not None:
            _call(callback, reason)
        return lambda: _remove(self._callbacks, callback)

    def fire(self, reason: LossReason) -> None:
        """Declare the hold lost: for the lock, once."""
        with self._guard:
            if self._reason is not None:
                return
            self._reason = reason
            callbacks, self._callbacks = self._callbacks, []
            waiters, self._waiters = self._waiters, []
        for callback in callbacks:
            _call(callback, reason)
        for wake in waiters:
            _call(wake)

    def forget(self) -> None:
        """Declare the hold lost in a forked child, where no callback must run and whoever had the guard is not."""
        self._guard = threading.Lock()
        self._reason = "closed"

    def freeze(self, *, kept: bool = False) -> None:
        """End the signal with its hold: what the clock says later is no loss, and nobody waits for one any more.

        ``kept``: its lock is kept for a while, and callbacks are called if that is lost.
        """
        if (reason := self.reason) is not None:
            self.fire(reason)
        self.finish(kept=kept)

    def finish(self, *, kept: bool = False) -> None:
        """End the signal with a hold that is known to be good."""
        self._lease = None
        with self._guard:
            self._ended = True
            if not kept:
                self._callbacks.clear()  # they know the hold, which knows this: only a collection would free them
            waiters, self._waiters = self._waiters, []
        for wake in waiters:
            _call(wake)

    def _when_over(self, wake: Callable[[], object]) -> Callable[[], None]:
        with self._guard:
            over = self._ended or self._reason is not None
            if not over:
                self._waiters.append(wake)
        if over:
            wake()
        return lambda: _remove(self._waiters, wake)


def _call(callback: Callable[..., object], *arguments: object) -> None:
    try:
        callback(*arguments)
    except (Exception, asyncio.CancelledError):  # noqa: BLE001 - somebody else's code, on the lock thread
        _log.exception("a callback on the loss of a lock raised")


def _remove(entries: list[_T], entry: _T) -> None:
    with contextlib.suppress(ValueError):
        entries.remove(entry)


class Hold:
    """One section of one lock, from acquisition to release.

    Attributes:
        lock: name of the lock's blob.
        owner: who holds it: the invocation id, or what the caller gave.
        token: fencing token, strictly greater than that of every earlier hold of this lock, in any process. Hand it
            to the resource that you write, and let that refuse a smaller one. None when fencing tokens are off and
            in the layout ``webjobs``.
        lease_id: id of the lease that covers it, for writes of your own to the lock's blob (M-27); None while locking
            is switched off. Several holds in a row may share one.
        waited: seconds from asking for it to getting it (W-98).
        lost: the loss signal.
    """

    __slots__ = ("__weakref__", "crossing", "lease_id", "lock", "lost", "owner", "stateless", "token", "waited")

    def __init__(self, lock: str, *, owner: str = "", token: int | None = None, lease: Leased | None = None) -> None:
        self.lock = lock
        self.owner = owner
        self.token = token
        self.lease_id = None if lease is None else lease.id
        self.waited = 0.0
        self.lost = LossSignal(lease)
        # The way to where its lock lives; None before its caller has it.
        self.crossing: Crossing | None = None
        # Why `state` is refused to the body of a pattern that keeps its own there; empty: it is not.
        self.stateless = ""

    def __repr__(self) -> str:
        state = f"lost: {self.lost.reason}" if self.lost.is_set() else "released" if self.lost.ended else "held"
        return f"<Hold {self.lock!r} token={self.token} {state}>"

    @property
    def state(self) -> State:
        """The state kept with the lock, in its blob.

        Raises:
            ConfigurationError: no state is kept with this lock: locking is switched off, it is a semaphore, it has no
                fencing tokens, or a pattern keeps its own there.
        """
        if self.stateless:
            raise self._stateless(self.stateless)
        if self.crossing is None:
            raise self._stateless("locking is switched off")
        return State(self.lock, self.keeper(), self.crossing)

    def keeper(self) -> Keeper:
        """Return what keeps the state. Its coroutines run where the lock lives.

        :meta private:
        """
        raise self._stateless("locking is switched off")

    def _stateless(self, why: str) -> ConfigurationError:
        return ConfigurationError(f"lock {self.lock!r} keeps no state: {why}", lock=self.lock, owner=self.owner)

    @property
    def owned(self) -> bool:
        """Tell whether the lock is held by this hold: neither lost nor released. No request; call it on any thread."""
        return not self.lost.ended

    def raise_if_lost(self) -> None:
        """Check the hold just before a side effect (S-12).

        Raises:
            LockLost: exclusivity is not guaranteed any more; stop here. Also with a hold that was released (M-27).
        """
        if (reason := self.lost.reason) is not None:
            why = f"{reason}: its max_hold is over" if reason == "too long" else reason
            raise self._lost(f"is lost ({why})", reason)
        if self.lost.ended:
            raise self._lost("was released", "released")

    def _lost(self, how: str, reason: str) -> LockLost:
        text = f"the hold of lock {self.lock!r} {how}: another process may be inside"
        return LockLost(text, lock=self.lock, owner=self.owner, reason=reason)


def holds_in(answer: object) -> tuple[Hold, ...]:
    """Return the holds among what an acquisition brought: one, several, or none."""
    if isinstance(answer, Hold):
        return (answer,)
    return tuple(each for each in answer if isinstance(each, Hold)) if isinstance(answer, tuple) else ()
