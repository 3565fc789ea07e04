"""A relay: callers of this process that use one lock one after the other hand it on without the lock thread.

While this process has the lease, a caller that asks for the lock joins the *runners*, from any thread and loop, for the
price of a mutex. The end of a section gives the lock to the first of them, and the lock thread has nothing to do. Where
there is something to decide, the lock thread decides as before:

* **Refused, not decided.** A section is handed on only under a lease that is not lost and not past its deadline, within
  the handoff window, with a token left of the epoch. Else the section ends on the lock thread.
* **In order.** Runners and waiters in the lock thread's line are served in the order in which they came.
* **The first one, too.** Who comes to a lock that idles waits here for the answer to the first request for its lease.
  Where that is no, he goes into the line like all others.
* **For a moment.** A runner waits here for about a second; then it asks on the lock thread, with the time at which it
  came. So time-outs and long waits are the lock thread's. A runner also goes there when the relay closes.

What several threads touch is touched under the mutex: who runs, who waits, whether the relay is open. A loss is
declared before the mutex is taken for it: it meets the runner of that moment, and nobody runs after it.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from singleton.base.mutex import new_mutex
from singleton.base.naming import log as _log
from singleton.locking.section import Section, Turn
from singleton.locking.waiter import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.hold import LossSignal
    from singleton.locking.fencing import FencingCounter
    from singleton.locking.lease import Lease
    from singleton.locking.line import Line
    from singleton.locking.waiter import Runner
    from singleton.locking.wheel import Wheel

_HERE: Final = 1.0
"""Seconds that a runner waits here before he asks on the lock thread."""
_LOOK: Final = 0.5
"""Seconds between two looks at how long they have waited."""


class Relayed(Section):
    """A hold that a runner got."""

    __slots__ = ()

    def __init__(
        self, lock: str, token: int | None, lease: Lease, relay: Relay, turn: Turn | None, who: Runner
    ) -> None:
        super().__init__(lock, who.owner, token, lease, turn, mutex=relay.mutex)
        self.when_dropped(relay.collected)
        if turn is None:
            self.turn.context = who.context
        self.concerns(who.whose)
        lease.serve(who.owner)


class Relay:
    """Those who wait for one lock where they asked for it, and who runs. Open while the lock thread has the lease.

    Args:
        name, line: of the lock, and of those who wait on the lock thread.
        fencing: counts tokens; None: there are none.
        dropped: called on the lock thread when a runner's hold was dropped.
        wheel: says when to look at how long they have waited.
    """

    __slots__ = (
        "_context",
        "_dropped",
        "_fencing",
        "_joined",
        "_lease",
        "_line",
        "_loop",
        "_moving",
        "_name",
        "_runners",
        "_turn",
        "_until",
        "_watched",
        "_wheel",
        "mutex",
        "ticket",
    )

    def __init__(
        self,
        name: str,
        line: Line,
        fencing: FencingCounter | None,
        dropped: Callable[[str, Turn, LossSignal], None],
        wheel: Wheel,
    ) -> None:
        self.mutex = new_mutex()
        self.ticket = 0
        self._moving = False
        self._wheel = wheel
        self._name = name
        self._line = line
        self._fencing = fencing
        self._dropped = dropped
        self._runners: deque[Runner] | None = None  # a deque of nobody takes half a kilobyte, and each lock has a relay
        self._turn: Turn | None = None
        self._lease: Lease | None = None
        self._until = -math.inf
        self._loop: asyncio.AbstractEventLoop
        self._context: contextvars.Context
        self._watched = False
        self._joined = False

    @property
    def is_open(self) -> bool:
        """Tell whether somebody may join; that may have changed when he does."""
        return self._lease is not None

    @property
    def turn(self) -> Turn | None:
        """The turn of whoever runs."""
        return self._turn

    @property
    def is_passed_by(self) -> bool:
        """Tell from any thread whether somebody stands in the line beside it."""
        return bool(self._line)

    @property
    def spent(self) -> bool:
        """Tell whether the tokens of the epoch are used up."""
        return self._fencing is not None and self._fencing.spent

    # --- from any thread ----------------------------------------------------------------------------------------------

    def join(self, runner: Runner) -> bool:
        """Wait here; False: the relay is closed."""
        with self.mutex:
            if self._lease is None:
                return False
            watched = self._come(runner)
        if not watched:
            self._loop.call_soon_threadsafe(self._watch, context=self._context.copy())
        return True

    def leave(self, runner: Runner) -> bool:
        """Wait no longer; False: he did not wait here any more."""
        with self.mutex:
            return self._take_out(runner)

    def pass_on(self, hold: Section) -> bool:
        """End this section, and begin that of the first runner; False: it is to be ended on the lock thread."""
        claimed: list[Runner] = []
        turn = following = None
        try:
            with self.mutex:
                turn, lease = self._turn, self._lease
                if turn is None or lease is None or not turn.is_of(hold.lost) or not self._goes_on(turn, lease):
                    return False
                self._claim_first(claimed)
                if not claimed:
                    return False
                (runner,) = claimed
                following = self._relayed(runner, self._token(), lease, turn)
                about = self._name, runner.owner, following.token, runner.whose.function if runner.whose else ""
                told = turn.follow(following.lost, about, runner.context)
            hold.lost.finish()
            for context, each in told:
                context.run(each)
            if _log.logger.isEnabledFor(logging.DEBUG):
                _log.debug("lock %s: released", self._name)
                runner.context.run(_log.debug, "lock %s: acquired", self._name)
        finally:
            for runner in claimed:
                try:
                    if following is None or turn is None or not turn.is_of(following.lost):
                        runner.drop()  # this thread was interrupted before the turn was his
                    else:
                        runner.give(following)
                except BaseException:
                    self._interrupted(runner, following)
                    raise
        return True

    def _interrupted(self, runner: Runner, hold: Section | None) -> None:
        """This thread was interrupted as it gave this hold to the runner: end his wait, and the section."""
        with suppress(RuntimeError):  # its loop is closed: the lease lapses
            if runner.drop() and hold is not None:
                self._loop.call_soon_threadsafe(hold.end)

    def collected(self, lock: str, turn: Turn, lost: LossSignal) -> None:
        """The hold of a runner was collected."""
        with suppress(RuntimeError):  # its loop is closed: the lease lapses
            self._loop.call_soon_threadsafe(self._dropped, lock, turn, lost, context=turn.context.copy())

    # --- on the lock thread -------------------------------------------------------------------------------------------

    def open(self, lease: Lease, until: float) -> None:
        """Let runners join, as long as this lease is good. ``until``: the end of the handoff window."""
        self._loop, self._context = asyncio.get_running_loop(), lease.context
        with self.mutex:
            self._lease, self._until = lease, until

    def expect(self, runner: Runner) -> None:
        """Have the first who comes to a lock that idles wait here, before the relay is open."""
        with self.mutex:
            watched = self._come(runner)
        if not watched:
            self._watch()

    async def into_line(self) -> None:
        """Have those who wait here before it is open stand in line, where they are told what is known."""
        if self._runners:
            self.close()
        if self._moving:
            await self.next()

    async def next(self) -> Waiter | Runner | None:
        """Return who is next, as ``first``, with all those in line who are on their way there."""
        while self._moving:  # others may be moved meanwhile
            self._moving = False
            await asyncio.sleep(0)  # in this round of the loop their tasks begin,
            await asyncio.sleep(0)  # and in this one they stand in line
        return self.first()

    def first(self) -> Waiter | Runner | None:
        """Return who is next, here or in line; where that is nobody, the relay is closed."""
        waiter = self._line.first()
        with self.mutex:
            self._turn = None
            if self._runners and (waiter is None or self._runners[0].since <= waiter.since):
                return self._runners[0]
            if waiter is None:
                self._lease = None
        return waiter

    def takes(self, first: Waiter | Runner) -> bool:
        """Take who is next out of those who wait; False: he has gone."""
        if isinstance(first, Waiter):
            return True
        late = self._loop.time() >= first.deadline
        if not self.leave(first):
            return False
        if late:
            first.move()
        return not late and first.claim()

    def begin(self, first: Waiter | Runner, lease: Lease) -> Section:
        """Begin the section of who was taken, in a turn of its own."""
        token = self._token()
        if isinstance(first, Waiter):
            hold = Section(self._name, first.owner, token, lease, mutex=self.mutex)
            hold.concerns(first.whose)
            lease.serve(first.owner)
        else:
            hold = self._relayed(first, token, lease, None)
        hold.hand_on, hold.fencing = self.pass_on, self._fencing
        with self.mutex:
            self._turn = hold.turn
        return hold

    def grant(self, first: Waiter | Runner, hold: Section) -> None:
        """End the wait of who was taken with this hold."""
        if isinstance(first, Waiter):
            self._line.grant(first, hold)
        else:
            _log.debug("lock %s: acquired", self._name)
            first.give(hold)

    def close(self) -> None:
        """Let nobody join; who waits here asks on the lock thread."""
        self._context = contextvars.Context()  # an idle lock keeps nothing of its last caller
        with self.mutex:
            self._lease = self._turn = None
            moving, self._runners = self._runners or (), None
            self._moving = self._moving or bool(moving)
        for runner in moving:
            runner.move()

    def forget(self) -> None:
        """Be closed, in a forked child: the thread that had the mutex is not there."""
        self.mutex = new_mutex()
        self._lease = self._turn = None

    def look(self, now: float) -> float:
        """Have those ask on the lock thread who have waited here for long enough. See ``Wheel``."""
        with self.mutex:
            moving = []
            while self._runners and self._runners[0].since <= now - _HERE:
                moving.append(self._runners.popleft())
            self._watched = again = bool(self._runners) or self._joined
            self._joined = False
            self._moving = self._moving or bool(moving)
        for runner in moving:
            runner.move()
        return now + _LOOK if again else math.inf

    def _watch(self) -> None:
        """Look at how long they wait; noted only now, as whoever was to ask for that may have been interrupted."""
        with self.mutex:
            self._watched = True
        self._wheel.look_at(self, asyncio.get_running_loop().time() + _LOOK)

    # --- under the mutex ----------------------------------------------------------------------------------------------

    def _come(self, runner: Runner) -> bool:
        """Have him wait here; tell whether somebody looks already at how long they have waited."""
        if self._runners is None:
            self._runners = deque()
        self._runners.append(runner)
        self._joined = True
        return self._watched

    def _take_out(self, runner: Runner) -> bool:
        """Have him wait here no longer; False: he did not, or has left in this very moment."""
        if not self._runners or runner not in self._runners:
            return False
        self._runners.remove(runner)
        return True

    def _goes_on(self, turn: Turn, lease: Lease) -> bool:
        """Tell whether one more section may begin without the lock thread, which joins what uses the lock's blob."""
        return lease.alive() and self._loop.time() < self._until and not self.spent and not turn.in_use

    def _claim_first(self, claimed: list[Runner]) -> None:
        """Claim the first runner, if it is his turn, and not that of somebody in line, or on his way there."""
        oldest, now = self._line.oldest(), self._loop.time()
        while self._runners and not self._moving:
            runner = self._runners[0]
            if runner.since > oldest or now >= runner.deadline:
                return
            claimed.append(runner)  # before all else: an interrupt may come at any moment
            if self._take_out(runner) and runner.claim():
                return
            claimed.clear()

    def _token(self) -> int | None:
        return self._fencing.next_token() if self._fencing is not None and self._fencing.counts else None

    def _relayed(self, runner: Runner, token: int | None, lease: Lease, turn: Turn | None) -> Relayed:
        hold = Relayed(self._name, token, lease, self, turn, runner)
        hold.waited = self._loop.time() - runner.since
        hold.hand_on, hold.fencing = self.pass_on, self._fencing
        return hold
