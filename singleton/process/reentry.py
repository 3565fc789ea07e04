"""A caller that waits for a lock which it holds itself waits for ever: it is told, at once if that is certain.

It is certain on the thread, or in the task, that is inside the lock's block: the block can't end before the call ends.
It is not certain in a task or thread that was started inside, or in a task of a loop that runs inside: the block need
not wait for these. And a hold without a block may be released by anybody.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from singleton.base.both import parts_of
from singleton.base.errors import LockNotAcquired
from singleton.base.valued import Valued
from singleton.locking.section import Section

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable, Iterator

    from singleton.base.hold import Hold
    from singleton.base.holder import Holder
    from singleton.locking.record import Turn

Caller: TypeAlias = "tuple[int, weakref.ref[asyncio.Task[object]] | None]"
"""A thread, and the task that runs on it."""


class Inside(NamedTuple):
    """A hold that code is inside of."""

    hold: weakref.ref[Hold]
    caller: Caller | None
    """Who is inside its block; None: it has none."""
    shared: Entry | None = None
    """Of a block that may be entered again by who is inside."""

    @property
    def goes_on(self) -> Section | None:
        """The hold, while its section lasts."""
        hold = self.hold()
        return hold if isinstance(hold, Section) and not hold.turn.over else None

    @property
    def key(self) -> tuple[int, ...]:
        """Which hold, and who is inside its block."""
        who = () if self.caller is None else (self.caller[0], id(self.caller[1]))
        return (id(self.hold()), *who, *(() if self.shared is None else (id(self.shared),)))

    def waits_for(self, other: Caller | None) -> bool:
        """Tell whether its block certainly can't end before what this caller does."""
        return self.caller is not None and self.caller == other


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One of the blocks that share a hold.

    Attributes:
        lock: which lock it is.
        blocks: all that are inside under this hold. The lock is given back as the last of them ends.
    """

    lock: Hashable
    blocks: set[Entry]


class Known:
    """What code is inside of: the last hold, and what it was inside of before.

    Contexts are copied with each lock, so ten thousand holds of one task must have all but the last in common.

    Attributes:
        tidy_at: length at which those that are over are looked for.
    """

    __slots__ = ("before", "last", "length", "tidy_at")

    def __init__(self, last: Inside, before: Known | None, tidy_at: int) -> None:
        self.last = last
        self.before = before
        self.length: int = 1 if before is None else before.length + 1
        self.tidy_at = tidy_at

    def __iter__(self) -> Iterator[Inside]:
        """The last one first."""
        known: Known | None = self
        while known is not None:
            yield known.last
            known = known.before


_FEW: Final = 8
"""So many are not looked through."""
_holds: ContextVar[Known | None] = ContextVar("singleton_holds", default=None)
_asks: ContextVar[Caller | None] = ContextVar("singleton_asks", default=None)


@contextmanager
def inside(*holds: Hold) -> Iterator[None]:
    """Know in the block, and in what it starts, that these locks are held by it."""
    entered = enter(*holds)
    try:
        yield
    finally:
        leave(entered)


def enter(*holds: Hold, shared: Entry | None = None) -> tuple[Inside, ...]:
    """Know from now on that these locks are held by a block that begins; return what ``leave`` needs."""
    caller = this_caller() if holds else None
    entered = tuple(Inside(weakref.ref(part), caller, shared) for hold in holds for part in parts_of(hold))
    _know(*entered)
    return entered


def leave(entered: tuple[Inside, ...]) -> None:
    """Know no more what ``enter`` noted: the block ends."""
    known = _holds.get()
    ending = len(entered)
    while known is not None and ending and known.last in entered:
        known, ending = known.before, ending - 1
    _holds.set(_chain(each for each in known if each not in entered) if known is not None and ending else known)


def from_now_on(hold: Hold) -> Hold:
    """Return the hold, and know here that its lock is held, until it is released by whomever."""
    _know(Inside(weakref.ref(hold), None))
    return hold


def _know(*holds: Inside) -> None:
    """Note them, and forget those that are over now and then: one that began here may have ended elsewhere."""
    known = _holds.get()
    while known is not None and not known.last.goes_on:
        known = known.before
    if known is not None and known.length >= known.tidy_at:
        known = _chain({each.key: each for each in known if each.goes_on}.values())
    for hold in holds:
        known = Known(hold, known, _FEW if known is None else known.tidy_at)
    _holds.set(known)


def _chain(lasts: Iterable[Inside]) -> Known | None:
    """Put together what is left, the last one first."""
    left = [*lasts]
    known: Known | None = None
    for each in reversed(left):
        known = Known(each, known, max(_FEW, 2 * len(left)))
    return known


def enter_again(lock: Hashable) -> tuple[Hold, Entry] | None:
    """Join the block of this lock that this thread, or this task, is inside of; None: it is inside of none.

    Raises:
        LockLost: its hold is lost.
    """
    caller = this_caller()
    for each in _holds.get() or ():
        joined = each.shared
        if joined is None or joined.lock != lock or not each.waits_for(caller) or (hold := each.goes_on) is None:
            continue
        if hold.lost.ended and not hold.lost.is_set():  # it was released, and its lock is kept for a while (at_least)
            continue
        hold.raise_if_lost()
        entry = Entry(lock, joined.blocks)
        joined.blocks.add(entry)
        return hold, entry
    return None


def asking() -> Valued[Caller]:
    """Note, for the lock thread, who asks for what the block begins there."""
    return Valued(_asks, this_caller())


def ask_for_nobody() -> None:
    """Know on the lock thread that nobody waits for what begins here, in a task that outlives its caller's call."""
    _asks.set(None)


def suspected(name: str, owner: str, *, turn: Turn | None, kept: Container[Hold]) -> str:
    """Check a caller that is about to wait for a lock, on the lock thread; ``turn``: of its holder in this process.

    A hold whose block is over, and that is ``kept`` for a while, can't wait for itself.

    Returns:
        what is to be said of the wait if it gets long: that it may wait for itself; nothing where it can't.

    Raises:
        LockNotAcquired: it certainly waits for itself.
    """
    known = None if turn is None else _holds.get()  # nobody is inside: of ten thousand holds none needs a look
    own = [each for each in known or () if (hold := each.goes_on) and hold.turn is turn and hold not in kept]
    if not own:
        return ""
    whose = _owned(own[0])
    if any(each.waits_for(_asks.get()) for each in own):
        raise LockNotAcquired(
            f"lock {name!r} was not acquired: its caller holds it already{whose}, and would wait for itself for ever. "
            "Don't acquire it a second time inside, give the inner call a lock of its own, or ask both times with "
            "lock(…, reentrant=True)",
            lock=name,
            owner=owner,
            reason="reentry",
            holder=_holder(own[0]),
        )
    return f"this wait began inside a block that holds the lock{whose}: if that block waits for it, it never ends"


def _owned(inside: Inside) -> str:
    hold = inside.hold()
    return f" as {hold.owner!r}" if hold is not None and hold.owner else ""


def _holder(inside: Inside) -> Holder | None:
    hold = inside.goes_on
    return None if hold is None else hold.turn.holder


def this_caller() -> Caller:
    """Return the thread, and the task, that run."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs on this thread
        task = None
    return threading.get_ident(), None if task is None else weakref.ref(task)
