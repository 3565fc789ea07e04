"""A section: a hold in use. It has two ends: its caller's release, and its end on the lock's loop."""

from __future__ import annotations

import asyncio
import contextvars
import math
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from singleton.base.clock import now
from singleton.base.errors import LockClosed
from singleton.base.hold import Hold, LossSignal
from singleton.base.holder import Holder
from singleton.base.mutex import new_mutex
from singleton.base.naming import current
from singleton.locking.content import SectionState
from singleton.stores.stamps import Highest, this_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.errors import LockLost
    from singleton.base.kinds import LossReason
    from singleton.base.mutex import Mutex
    from singleton.base.naming import Invocation
    from singleton.base.state import Keeper
    from singleton.locking.fencing import FencingCounter
    from singleton.locking.lease import Lease
    from singleton.stores.protocol import StoreFailure


About: TypeAlias = "tuple[str, str, int | None, str]"
"""Of a hold: lock, owner, token, function."""
Told: TypeAlias = "tuple[tuple[contextvars.Context, Callable[[], object]], ...]"
"""What is to be called as a section is settled, each in a context."""
Dropped: TypeAlias = "Callable[[str, Turn, LossSignal], object]"
"""What is called of a hold that was dropped."""
_RECENT: Final = 60.0
"""Seconds for which it is taken for granted who was read to have a lock."""


class Turn:
    """The two ends of a section: the caller's (``ended``) and the lock's (``settled``: handed on, or given back).

    A lock keeps this and not the hold, so that a hold which its caller dropped can be told (M-37). Of the hold it has
    what tells others whose it is. Where runners hand the lock on (``relay.py``), their sections share one turn, which
    ends with the last of them; the loss signal says whose it is.

    Attributes:
        lost: the loss signal of the hold that has the turn.
        context: in which it is told what becomes of that.
        over, settled: whether the section has had its two ends.
        given_up: when its user ended the section, by ``now``; None before.
    """

    __slots__ = (
        "_about",
        "_began",
        "_ending",
        "_loop",
        "_mutex",
        "_told",
        "_used",
        "_uses",
        "_waiting",
        "context",
        "given_up",
        "lost",
        "over",
        "settled",
    )

    def __init__(self, lost: LossSignal, about: About, mutex: Mutex) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self.lost = lost
        self.context = contextvars.copy_context()
        self._began = loop.time()
        self._about = about
        self._mutex = mutex
        self.over = self.settled = False
        self._waiting: asyncio.Future[None] | None = None
        self._ending: asyncio.Future[None] | None = None
        self.given_up: float | None = None
        self._told: Told = ()
        self._uses = 0
        self._used: asyncio.Future[None] | None = None

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done as soon as the section is over; made for who waits for that."""
        if self._ending is None:
            self._ending = self._loop.create_future()
            if self.over:
                self._ending.set_result(None)
        return self._ending

    @property
    def holder(self) -> Holder:
        """Who has the lock: somebody of this process."""
        lock, owner, token, function = self._about
        since = datetime.now(UTC) - timedelta(seconds=self._loop.time() - self._began)
        return Holder(
            lock=lock,
            owner=owner or None,
            host=this_host(),
            pid=os.getpid(),
            function=function or None,
            since=since,
            token=token,
        )

    def is_of(self, lost: LossSignal) -> bool:
        """Tell whether the hold with this signal has the turn, and its section has not ended."""
        return self.lost is lost and not self.over

    def end(self, lost: LossSignal) -> bool:
        """The caller's end: its section is over. False: it was handed on before, and the turn is another's."""
        with self._mutex:
            if self.lost is not lost:
                return False
            self.over = True
            self.given_up = now()
        for waiting in (self._waiting, self._ending):
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
        return True

    async def until_ended(self) -> None:
        """Wait for the caller's end, once. A cancellation of this wait leaves ``ended`` as it is."""
        if not self.over:
            self._waiting = self._loop.create_future()
            await self._waiting

    def follow(self, lost: LossSignal, about: About, context: contextvars.Context) -> Told:
        """Go over to the next hold, at once; return what is to be called as the last is settled. Under the mutex."""
        told, began = self._told, self._loop.time()  # first, as an interrupt may come with a call
        self.lost, self._about, self.context, self._began, self._told = lost, about, context, began, ()
        return told

    def begin_use(self, lost: LossSignal) -> bool:
        """Let the section of this hold use the lock's blob; False: it is over. On the lock's loop, as the other two."""
        with self._mutex:
            going = self.is_of(lost)
            self._uses += going
        return going

    def end_use(self) -> None:
        """One use is over."""
        with self._mutex:
            self._uses -= 1
            unused = not self._uses
        if unused and self._used is not None:
            if not self._used.done():  # as it is where the lock was closed meanwhile
                self._used.set_result(None)
            self._used = None

    async def unused(self) -> None:
        """Wait until the section, which has ended, does not use the blob any more."""
        if self._uses:
            self._used = self._loop.create_future()
            await self._used

    @property
    def in_use(self) -> bool:
        """Tell whether the section uses the lock's blob. Under the mutex."""
        return self._uses > 0

    def fire(self, reason: LossReason) -> None:
        """Declare the hold lost that has the turn."""
        with self._mutex:
            lost = self.lost
        lost.fire(reason)

    def when_settled(self, lost: LossSignal, call: Callable[[], object]) -> None:
        """Call this, in the context of now, when the section of this hold is settled; at once if it is."""
        told = contextvars.copy_context(), call
        with self._mutex:
            waits = self.lost is lost and not self.settled
            if waits:
                self._told = (*self._told, told)
        if not waits:
            told[0].run(call)

    async def until_settled(self) -> None:
        """Wait for the lock's end of a section that has ended, before whose end nobody gets the turn."""
        waiting: asyncio.Future[None] = self._loop.create_future()
        with self._mutex:
            if self.settled:
                return
            told = contextvars.copy_context(), lambda: None if waiting.done() else waiting.set_result(None)
            self._told = (*self._told, told)
        await waiting

    def settle(self) -> None:
        """The lock's end: it is handed on, or given back."""
        with self._mutex:
            told, self._told, self.settled, self.context = self._told, (), True, contextvars.Context()
        for context, call in told:
            context.run(call)


@dataclass(frozen=True, slots=True)
class Reading:
    """The answer to the question who has a lock.

    Attributes:
        at: when it was asked, by the loop's clock.
        holder: who had it; None: nobody, or that is not known.
        failure: why it is not known.
    """

    at: float
    holder: Holder | None = None
    failure: StoreFailure | None = None


class Gate:
    """What all locks of this process on one blob go through, whatever their options: their sections never overlap.

    Their leases don't either; but a section may outlive its lease.

    Attributes:
        reading: the last answer to who has it.
        asking: the task that asks this now, and stores the answer.
        highest: the highest epoch in which they may have given tokens.
    """

    __slots__ = ("__weakref__", "_turn", "asking", "highest", "reading")

    def __init__(self) -> None:
        self.reading: Reading | None = None
        self.asking: asyncio.Task[None] | None = None
        self.highest = Highest()
        self._turn: Turn | None = None

    @property
    def inside(self) -> Turn | None:
        """The turn whose section has not ended, if there is one."""
        return None if self._turn is None or self._turn.over else self._turn

    def enter(self, turn: Turn) -> None:
        """Let a section begin."""
        self._turn = turn

    def holder(self, since: float = math.inf) -> Holder | None:
        """Return who has the lock, as far as that is known here; what was read before ``since`` must be recent."""
        if (turn := self.inside) is not None:
            return turn.holder
        oldest = min(since, asyncio.get_running_loop().time() - _RECENT)
        return None if self.reading is None or self.reading.at < oldest else self.reading.holder


class Section(Hold):
    """A hold of a lock that is in use, with its turn: one of its own, or that of the hold which it follows.

    Attributes:
        turn: its turn.
        lease: that covers it.
        hand_on: ends the section by handing the lock on, from any thread; False: it must be ended by the lock.
            None where that is never done.
        fencing: through which all is written to the lock's blob; None where it is not for this section to write.
    """

    __slots__ = ("_dropped", "fencing", "hand_on", "lease", "turn")

    def __init__(
        self,
        lock: str,
        owner: str,
        token: int | None,
        lease: Lease,
        turn: Turn | None = None,
        *,
        mutex: Mutex | None = None,
    ) -> None:
        self._dropped: Dropped | None = None
        super().__init__(lock, owner=owner, token=token, lease=lease)
        self.lease = lease
        self.turn = turn or Turn(self.lost, self.about, mutex or new_mutex())
        self.hand_on: Callable[[Section], bool] | None = None
        self.fencing: FencingCounter | None = None

    def __del__(self) -> None:
        """Its caller let go of it (M-37). It runs anywhere, so it takes no lock of ours."""
        if self._dropped is not None and not self.over and self.lost.reason != "closed":
            self._dropped(self.lock, self.turn, self.lost)

    def when_dropped(self, tell: Dropped) -> None:
        """Call this, on whichever thread, when the hold is collected before its section has ended."""
        self._dropped = tell

    def keeper(self) -> Keeper:
        """See ``Hold.keeper``."""
        if self.token is None:
            raise self._stateless("it has no fencing tokens (see the option fencing_tokens; layout='webjobs' has none)")
        if self.fencing is None:
            raise self._stateless("it is shared, as by the holders of a semaphore or the invocations of a listener")
        return SectionState(self, self.fencing, self.lease)

    @property
    def about(self) -> About:
        """What tells others whose it is."""
        asking = current()
        return self.lock, self.owner, self.token, "" if asking is None else asking.function

    @property
    def over(self) -> bool:
        """Tell from any thread whether the section has ended."""
        return not self.turn.is_of(self.lost)

    def concerns(self, invocation: Invocation | None) -> None:
        """Have what becomes of the lease logged in the name of this invocation: of whoever has it now."""
        self.lease.whose = invocation

    def shared(self, owner: str) -> Section:
        """Return one more hold under this one's lease, with its token, for whoever sees to its turn."""
        return Section(self.lock, owner, self.token, self.lease)

    def end(self) -> bool:
        """The caller's end: its section is over. False: it was handed on before."""
        return self.turn.end(self.lost)

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done when the section has been ended on the lock's loop."""
        return self.turn.ended

    def begin_use(self) -> bool:
        """See ``Turn.begin_use``."""
        return self.turn.begin_use(self.lost)

    def end_use(self) -> None:
        """See ``Turn.end_use``."""
        self.turn.end_use()

    def released(self) -> LockLost:
        """Make the error of who uses the hold after its end."""
        return self._lost("was released", "released")


CLOSED = "the locks of this process are closed, because the process ends"
"""What those are told who wait at the end of a process, or come after it."""


def closed_error(what: str, name: str, owner: str | None = None) -> LockClosed:
    """Make the error of a wait that the end of the process ended."""
    return LockClosed(f"{what} {name!r}: {CLOSED}", lock=name, owner=owner)
