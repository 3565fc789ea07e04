"""Acts of a test on the locks in memory: busy locks, locks switched off, locks held elsewhere, lost holds."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Literal

from singleton.base.callables import signature_of
from singleton.decorator import guards_of
from singleton.functions.guard import Guard
from singleton.functions.triggers import ONCE_MARK, is_builder, user_function
from singleton.locking.semaphore import slot_name
from singleton.testing.memory import Manner, current, in_use, manners, memory_locks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from singleton.base.hold import Hold


class Headcount:
    """Counts the threads or tasks that are inside a block at the same time. Put the block around the work.

    Attributes:
        now: number inside now.
        most: greatest number inside at once.
        total: number of entries so far.

    Example:
        >>> inside = Headcount()
        >>> with inside:
        ...     pass
        >>> inside.most, inside.total
        (1, 1)
    """

    def __init__(self) -> None:
        self.now = self.most = self.total = 0
        self._door = threading.Lock()

    def __enter__(self) -> None:
        with self._door:
            self.now += 1
            self.total += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._door:
            self.now -= 1

    def __repr__(self) -> str:
        return f"<Headcount: {self.now} inside, {self.most} at most, {self.total} in all>"


def always_busy() -> contextlib.AbstractContextManager[None]:
    """Let another instance hold every lock, inside the block.

    Every acquire is refused at once, with any timeout. A function with ``skip`` skips. With ``wait`` or ``raise`` it
    fails with ``LockNotAcquired``. Earlier holds go on. The ``dequeueable`` layout makes the attempts and pauses of
    the layout's settings.
    """
    return _answered("busy")


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Switch locking off inside the block: bodies run at once, under a hold that locks nothing.

    ``once`` with a lock client, inboxes and ``@ordered`` keep in memory what they keep, and do their work.

    For the whole process use the option ``enabled``: the setting ``AzureFunctionsJobHost__singleton__enabled``.
    """
    before = Guard.switched_off
    Guard.switched_off = True
    try:
        with _answered("off"):
            yield
    finally:
        Guard.switched_off = before


@contextlib.contextmanager
def _answered(manner: Manner) -> Iterator[None]:
    with contextlib.nullcontext() if in_use() else memory_locks():
        manners.append(manner)
        try:
            yield
        finally:
            manners.pop()


@contextlib.contextmanager
def held_elsewhere(function: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Let another instance hold a lock, inside the block.

    Args:
        function: a guarded function: an invocation with the further arguments runs on the other instance. Or the name
            of a lock client's lock. Of a function with a ``limit`` all slots are held.

    Raises:
        LockNotAcquired: the lock is held here.
        TypeError: the function is not guarded by ``@singleton`` or ``@once``.
        RuntimeError: no locks are kept in memory here.

    Example::

        with held_elsewhere(ship, message):
            assert ship(message) is None  # it skips
    """
    names = [function] if isinstance(function, str) else _locks_of(function, args, kwargs)
    locks = current()
    locks.do(lambda: locks.take_elsewhere(names))
    try:
        yield
    finally:
        locks.do(lambda: locks.give_back_elsewhere(names))


def _locks_of(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    target = user_function(function) if is_builder(function) else function
    guards = [*guards_of(target)]
    if (once := getattr(target, ONCE_MARK, None)) is not None:
        guards.append(once())
    if not guards:
        raise TypeError(
            f"{function!r} has neither @singleton nor @once: give a function that has, or the name of a lock"
        )
    named = signature_of(target).bind(*args, **kwargs).arguments
    locks = []
    for guard in guards:
        name = guard.call(named, named.get("context")).lock
        locks += [name] if guard.limit is None else [slot_name(name, number) for number in range(guard.limit)]
    return locks


def lose(hold: Hold, reason: Literal["expired", "stolen", "broken", "blob gone", "too long"] = "expired") -> None:
    """Lose a hold, as if the network was away for too long. Call it while the guarded body works.

    An async body is cancelled, ``hold.raise_if_lost()`` raises, and its invocation fails with ``LockLost``.

    Raises:
        RuntimeError: the hold has ended, or no locks are kept in memory here.

    Example::

        def book_parcel(order):  # stands for the real one
            lose(current_hold())
    """
    locks = current()
    locks.do(lambda: locks.lose(hold, reason))


def assert_no_leases_left() -> None:
    """Check that every hold so far was released or lost. ``memory_locks`` and ``virtual_time`` check at the end, too.

    Raises:
        AssertionError: a hold is left; the message has lock and owner. A hold dropped without a release counts, too.
        RuntimeError: no locks are kept in memory here.
    """
    current().refuse_leftovers()
