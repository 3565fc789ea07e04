"""A hold: the guarded body's view of its lock. Safe on every thread and event loop."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from singleton.base.attribute_names import with_explained_attributes
from singleton.base.errors import ConfigurationError, LockLost
from singleton.base.invocation import call_watcher
from singleton.base.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from singleton.base.kinds import LossReason
    from singleton.base.state import Crossing, Keeper

_T = TypeVar("_T")


class Leased(Protocol):
    """The lease of a hold, as far as the hold needs the lease."""

    @property
    def id(self) -> str:
        """The lease id at the service."""

    @property
    def deadline(self) -> float:
        """Time of the loss without a renewal, by the clock of ``loop``."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the lock. Its clock may be read on any thread."""


class LossSignal:
    """Set once, by the loss of the hold: ``await hold.lost``, ``hold.lost.wait(timeout)`` in a thread, ``is_set()``."""

    __slots__ = ("_callbacks", "_ended", "_guard", "_lease", "_reason", "_waiters", "_whose")

    def __init__(self, lease: Leased | None, whose: tuple[str, str] = ("", "")) -> None:
        """``whose``: lock and owner of the hold."""
        self._lease = lease
        self._whose = whose
        self._reason: LossReason | None = None
        self._ended = False
        self._guard = threading.Lock()
        self._callbacks: list[Callable[[LossReason], None]] = []
        self._waiters: list[Callable[[], object]] = []

    def is_set(self) -> bool:
        """Tell whether the hold is lost. The clock is read too: after a suspend the answer is right at once (B3)."""
        return self.reason is not None

    @property
    def reason(self) -> LossReason | None:
        """Reason of the loss: expired, stolen, broken, blob gone, closed or too long.

        None while the hold is good, or after a release. A lease on a blob which was deleted, created again and leased
        again is also ``stolen``: the service gives the same answer.
        """
        lease = self._lease
        if self._reason is None and lease is not None and lease.loop.time() >= lease.deadline:
            return "expired"
        return self._reason

    @property
    def deadline(self) -> float:
        """Time of the loss without a renewal, by the clock of the lock's loop."""
        return math.inf if self._lease is None else self._lease.deadline

    @property
    def ended(self) -> bool:
        """Tell whether the hold is over: lost, or released."""
        return self._ended or self.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the hold is lost or released, at most ``timeout`` seconds; return True after a loss."""
        over = threading.Event()
        forget = self._when_over(over.set)
        try:
            over.wait(timeout if timeout is None else min(timeout, threading.TIMEOUT_MAX))
            return self.is_set()
        finally:
            forget()

    def __await__(self) -> Generator[None, None, LossReason | None]:
        """Wait until the hold is lost or released; return the reason of the loss, or None after a release."""
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
        """Call ``callback(reason)`` once, at the loss of the hold; at once if the hold is lost already.

        The callback runs on the lock thread: be quick. An error of the callback, even ``sys.exit()``, is logged and has
        no other effect (M-35).

        Returns:
            a function which removes the callback.
        """
        with self._guard:
            reason = self._reason
            if reason is None:
                self._callbacks.append(callback)
        if reason is not None:
            _call(callback, reason)
        return partial(_remove, self._callbacks, callback)

    def fire(self, reason: LossReason) -> None:
        """Declare the hold lost. Called by the lock; a second call has no effect."""
        with self._guard:
            if self._reason is not None:
                return
            self._reason = reason
            callbacks, waiters = [*self._callbacks], [*self._waiters]
            self._callbacks.clear()
            self._waiters.clear()
        for callback in callbacks:
            _call(callback, reason)
        for wake in waiters:
            _call(wake)

    def forget(self) -> None:
        """Declare the hold lost in a forked child. No callback runs; the thread with the mutex does not exist there."""
        self._guard = threading.Lock()
        self._reason = "closed"

    def freeze(self, *, kept: bool = False) -> None:
        """End the signal at the end of the hold: a later deadline is no loss, and waiters wake.

        ``kept``: the lock is kept for ``at_least``; a loss in this time still calls the callbacks.
        """
        if (reason := self.reason) is not None:
            self.fire(reason)
        self.finish(kept=kept)

    def finish(self, *, kept: bool = False) -> None:
        """End the signal of a hold which is known to be good."""
        self._lease = None
        with self._guard:
            self._ended = True
            if not kept:
                self._callbacks.clear()  # callback, hold and signal refer to one another in a circle
            waiters = [*self._waiters]
            self._waiters.clear()
        for wake in waiters:
            _call(wake)

    def raise_if_over(self) -> None:
        """Raise ``LockLost`` if the hold is lost or released.

        :meta private:
        """
        if (reason := self.reason) is not None:
            why = f"{reason}: its max_hold is over" if reason == "too long" else reason
            raise self._lost_one().error(f"is lost ({why})", reason)
        if self._ended:
            raise self.error("was released", "released")

    def error(self, how: str, reason: str) -> LockLost:
        """Make the error for a use of the hold after its end.

        :meta private:
        """
        lock, owner = self._whose
        text = f"the hold of lock {lock!r} {how}: another process may be inside"
        return LockLost(text, lock=lock, owner=owner, reason=reason)

    def _lost_one(self) -> LossSignal:
        return self

    def _when_over(self, wake: Callable[[], object]) -> Callable[[], None]:
        with self._guard:
            over = self._ended or self._reason is not None
            if not over:
                self._waiters.append(wake)
        if over:
            wake()
        return partial(_remove, self._waiters, wake)


_call = partial(call_watcher, "a callback on the loss of a lock raised")


def _remove(entries: list[_T], entry: _T) -> None:
    with contextlib.suppress(ValueError):
        entries.remove(entry)


@with_explained_attributes
class Hold:
    """One section of one lock, from acquisition to release.

    Attributes:
        lock: name of the lock's blob.
        owner: the invocation id, or the ``owner=`` of a lock client.
        token: fencing token, strictly greater than the tokens of earlier holds of the lock, in every process. Write it
            to the protected resource, and have the resource refuse a smaller token. None with fencing tokens off and
            in the layout ``webjobs``.
        lease_id: id of the lease, for your own writes to the lock's blob (M-27); None while locking is switched off.
            Consecutive holds may share a lease.
        waited: seconds from the request to the hold (W-98).
        lost: the loss signal. In a guarded function the signal answers for the holds around the function, too.
    """

    __slots__ = (
        "__weakref__",
        "crossing",
        "lease_id",
        "lock",
        "lost",
        "own_lost",
        "owner",
        "stateless",
        "token",
        "waited",
    )

    _parts: tuple[Hold, ...] = ()
    """The holds of the single locks in a hold of two; empty: a single lock."""

    def __init__(self, lock: str, *, owner: str = "", token: int | None = None, lease: Leased | None = None) -> None:
        self.lock = lock
        self.owner = owner
        self.token = token
        self.lease_id = None if lease is None else lease.id
        self.waited = 0.0
        # The signal of this hold alone; ``lost`` is another signal while a body runs under further holds.
        self.own_lost = self.lost = LossSignal(lease, (lock, owner))
        # The way to the lock thread; None until the caller has the hold.
        self.crossing: Crossing | None = None
        # Why `state` is refused, in a pattern which keeps its own state in the blob; empty: `state` is allowed.
        self.stateless = ""

    def __repr__(self) -> str:
        state = f"lost: {self.lost.reason}" if self.lost.is_set() else "released" if self.lost.ended else "held"
        return f"<Hold {self.lock!r} token {self.token} {state}>"

    @property
    def state(self) -> State:
        """The state kept with the lock, in the lock's blob.

        Raises:
            ConfigurationError: the lock keeps no state: locking is switched off, the lock is a semaphore or has no
                fencing tokens, or a pattern keeps its own state in the blob.
        """
        if self.stateless:
            raise self._stateless(self.stateless)
        if self.crossing is None:
            raise self._stateless("locking is switched off")
        return State(self.lock, self.keeper(), self.crossing)

    def keeper(self) -> Keeper:
        """Return the keeper of the state; its coroutines run on the lock thread.

        :meta private:
        """
        raise self._stateless("locking is switched off")

    def _stateless(self, why: str) -> ConfigurationError:
        return ConfigurationError(f"lock {self.lock!r} keeps no state: {why}", lock=self.lock, owner=self.owner)

    @property
    def owned(self) -> bool:
        """Tell whether the hold is neither lost nor released. No request; call on any thread.

        In a guarded function False also after the loss of a hold around the function.
        """
        return not self.lost.ended

    def raise_if_lost(self) -> None:
        """Check the hold just before a side effect (S-12).

        Raises:
            LockLost: exclusivity is not guaranteed any more; stop. Also for a released hold (M-27), and in a guarded
                function for the lost hold of a lock around the function. The error names the lock.
        """
        self.lost.raise_if_over()


shown_hold: Final[ContextVar[Hold | None]] = ContextVar("singleton_hold", default=None)
"""The hold of the running guarded call; None outside, and on the lock thread."""


_ON_A_THREAD: Final = (
    ". A thread that such a function started does not see its hold (this is thread {!r}): call current_hold() before, "
    "and pass the hold on, or start the work by contextvars.copy_context().run"
)


def current_hold() -> Hold:
    """Return the hold of the guarded call around the caller.

    Raises:
        RuntimeError: the caller runs outside a function guarded by ``@singleton``, ``@once``, ``@ordered`` or a lock
            client's decorator. A thread started by the function counts as outside: pass the hold to the thread.
    """
    if (hold := shown_hold.get()) is None:
        here = threading.current_thread()
        raise RuntimeError(
            "current_hold() was called outside a function guarded by @singleton, @once, @ordered or a lock client's "
            "decorator. A block gives its hold itself: `with locks.lock(name) as hold:`"
            + ("" if here is threading.main_thread() else _ON_A_THREAD.format(here.name))
        )
    return hold


def single_holds(hold: Hold) -> tuple[Hold, ...]:
    """Return the holds of the single locks in this hold: two with ``also=``."""
    return hold._parts or (hold,)  # noqa: SLF001 - no member for users


def holds_in(answer: object) -> tuple[Hold, ...]:
    """Return the holds in the result of an acquisition: a hold, a tuple with holds, or anything else."""
    if isinstance(answer, Hold):
        return (answer,)
    return tuple(each for each in answer if isinstance(each, Hold)) if isinstance(answer, tuple) else ()
