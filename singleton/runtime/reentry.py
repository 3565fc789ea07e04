"""The blocks around a caller with their holds: one list, which goes down with the call.

After the loss of a hold no body begins inside the block of the hold, and a wait for the lock of an inner body ends.
While an inner body runs, its hold answers for the holds around the body, too.

A wait for a lock which the caller holds is refused, if the wait certainly has no end. The endless wait is certain on
the thread, or in the task, inside the lock's block: the block can't end before the call. It is not certain in a task or
thread started inside the block, nor in a task of a loop which runs inside: the block need not wait for them. A hold
without a block may be released by any thread or task.
"""

from __future__ import annotations

import weakref
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from singleton.base.caller import Caller, serving, this_caller
from singleton.base.errors import LockNotAcquired
from singleton.base.hold import shown_hold, single_holds
from singleton.base.invocation import speak_in
from singleton.base.several import JointSignal, raise_the_lost
from singleton.locking.section import Section

if TYPE_CHECKING:
    from collections.abc import Hashable

    from singleton.base.hold import Hold, LossSignal
    from singleton.locking.record import SectionRecord
    from singleton.locking.section import SectionClaim


class Nesting:
    """A block under a hold, linked to its outer block.

    Every call to the lock thread copies the context; a linked list makes the copy a single reference.

    ``caller``: the thread, or task, inside the block; ``shared``: the entry of a reentrant block, else None.
    """

    __slots__ = ("_hold", "around", "caller", "over", "shared")

    def __init__(self, hold: Hold, caller: Caller, shared: SharedBlock | None, around: Nesting | None) -> None:
        self._hold = weakref.ref(hold)
        self.caller = caller
        self.shared = shared
        self.around = around
        self.over = False

    @property
    def hold(self) -> Hold | None:
        """The hold, during the block; None also for a dropped hold."""
        return None if self.over else self._hold()

    @property
    def section(self) -> Section | None:
        """The hold, during block and section; None also after a release, while ``at_least`` keeps the lock."""
        hold = self.hold
        if not isinstance(hold, Section) or hold.record.over or hold.given_up:
            return None
        return None if hold.own_lost.ended and not hold.own_lost.is_set() else hold


@dataclass(frozen=True, slots=True, eq=False)
class SharedBlock:
    """One of the blocks which share a hold.

    ``blocks``: entries of the blocks under the hold. The lock is released at the end of the last block.
    ``leaving``: the exit of the ``with`` statement, which an interrupt may end; None: the block was entered by hand.
    """

    lock: Hashable
    blocks: set[SharedBlock]
    leaving: weakref.ref[Any] | None


Joined: TypeAlias = "tuple[Section, SectionClaim | None, set[SharedBlock]]"
"""The hold of an outer block, its claim, and the blocks under the hold."""


REENTRY: Final = "reentry"
"""``reason`` of a ``LockNotAcquired`` whose caller would wait for a block of its own."""
_nesting: ContextVar[Nesting | None] = ContextVar("singleton_nesting", default=None)
left_out: Final[ContextVar[list[object] | None]] = ContextVar("singleton_left_out", default=None)
"""For ``@once`` above: the functions whose calls ended without the body, or with a body that is repeated.

With its error (a pair): a function whose body returned, and whose result was refused.
"""


def leave_out(call: object) -> None:
    """Tell ``@once`` above that a call of this function, or of the first in this pair, has no result."""
    if (calls := left_out.get()) is not None:
        calls.append(call)


class BodyContext:
    """A block around a body: the body's holds answer for the holds of outer blocks, too, as ``lost``.

    ``shown``: in the block ``current_hold`` returns the hold, if there is a single one. After the loss of an outer hold
    the block raises ``LockLost`` before the body.
    """

    __slots__ = ("_before", "_entered", "_holds", "_shown", "_token")

    def __init__(self, *holds: Hold, shown: bool = True) -> None:
        self._holds = holds
        self._shown = holds[0] if shown and len(holds) == 1 else shown_hold.get()
        self._before: list[tuple[Hold, LossSignal]] = []

    def __enter__(self) -> None:
        if outer := outer_signals():
            mine = [hold.own_lost for hold in self._holds]
            outer = tuple(each for each in outer if each not in mine)
        if outer:
            raise_the_lost(outer)  # a thread that waited can't be cancelled
            for hold in self._holds:
                self._before.append((hold, hold.lost))
                hold.lost = JointSignal(hold.own_lost, *outer)
        self._entered = enter(*self._holds)
        self._token = shown_hold.set(self._shown)  # last: an interrupt here would leave the hold to current_hold()

    def __exit__(self, *_: object) -> None:
        shown_hold.reset(self._token)
        leave(self._entered)
        for hold, before in self._before:
            joint, hold.lost = hold.lost, before
            joint.freeze()


def outer_signals() -> tuple[LossSignal, ...]:
    """Return the loss signals of the holds of the blocks around the caller, the innermost first."""
    signals: tuple[LossSignal, ...] = ()
    each = _nesting.get()
    while each is not None:
        hold = each.hold
        if hold is not None and not (isinstance(hold, Section) and hold.given_up):  # an interrupt ended the block
            signals += (hold.own_lost,)
        each = each.around
    return signals


def enter(*holds: Hold, shared: SharedBlock | None = None) -> tuple[Nesting, ...]:
    """Note the holds of a beginning block; return the argument for ``leave``."""
    if not holds:
        return ()
    caller, last = this_caller(), _innermost()
    entered: list[Nesting] = []
    for hold in holds:
        for part in single_holds(hold):
            last = Nesting(part, caller, shared, last)
            entered.append(last)
    _nesting.set(last)
    return tuple(entered)


def leave(entered: tuple[Nesting, ...]) -> None:
    """Drop the notes of ``enter`` at the end of the block."""
    for each in entered:
        each.over = True
    if entered:
        _nesting.set(_innermost())


def _innermost() -> Nesting | None:
    last = _nesting.get()
    while last is not None and (last.over or last.section is None):
        last = last.around
    return last


def enter_again(lock: Hashable) -> Joined | None:
    """Return the outer block of the lock on this thread or task, or None. ``LockLost``: the hold is lost."""
    caller, each = this_caller(), _nesting.get()
    while each is not None:
        joined, hold = each.shared, each.hold
        if joined is not None and joined.lock == lock and isinstance(hold, Section) and caller.is_inside(each.caller):
            claim = hold.kept  # taken before the look: a claim in hand can't be dropped any more
            if each.section is not None:
                hold.own_lost.raise_if_over()
                return hold, claim, joined.blocks
        each = each.around
    return None


def asking_context(*, blocks: bool) -> Context:
    """Return a context for work on the lock thread: the work knows its caller and the caller's invocation."""
    context = copy_context()
    context.run(serving.set, this_caller(blocks=blocks))
    context.run(shown_hold.set, None)  # the caller's hold, if dropped, must not wait for the end of this work (M-37)
    speak_in(context)
    return context


def refuse_reentry(name: str, owner: str, record: SectionRecord) -> None:
    """Refuse a wait for a block of the caller's own; ``record``: the running section in this process."""
    each, caller = _nesting.get(), serving.get()
    while each is not None and caller is not None:
        hold = each.section
        if hold is not None and hold.record is record and caller.is_inside(each.caller):
            mine = f" as {hold.owner!r}" if hold.owner else ""
            raise LockNotAcquired(
                f"lock {name!r} was not acquired: its caller holds it already{mine}, and would wait for itself for "
                "ever. Don't acquire it a second time inside, give the inner call a lock of its own, or ask both times "
                "with lock(…, reentrant=True)",
                lock=name,
                owner=owner,
                reason=REENTRY,
                holder=hold.record.holder,
            )
        each = each.around
