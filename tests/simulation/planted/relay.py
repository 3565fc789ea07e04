"""Planted bugs in the relay, in which those of one process hand a lock on to one another."""

from __future__ import annotations

from tests.simulation.planted.mutant import Mutant

_TESTS = "tests/unit/process/test_relay.py"
_PAST = "test_no_runner_gets_the_lock_past_the_deadline_even_if_the_lock_thread_had_no_time_to_say_so"

RELAY: tuple[Mutant, ...] = (
    Mutant(
        name="handed on under a lost lease",
        file="singleton/locking/relay.py",
        old="return lease.alive() and self._loop.time()",
        new="return self._loop.time()",
        breaks="a section begins under a lease that somebody else may have",
    ),
    Mutant(
        name="handed on past the deadline",
        file="singleton/locking/relay.py",
        old="return lease.alive() and self._loop.time()",
        new="return lease.lost is None and self._loop.time()",
        breaks="a process that slept hands on a lease that has expired meanwhile",
        by=(f"{_TESTS}::{_PAST}",),
        why="it takes a caller that wakes before the lock thread does",
    ),
    Mutant(
        name="a runner gets the token of the one before",
        file="singleton/locking/relay.py",
        old="self._relayed(runner, self._token(), lease, turn)",
        new="self._relayed(runner, hold.token, lease, turn)",
        breaks="tokens don't increase from section to section",
    ),
    Mutant(
        name="runners are forgotten when the relay closes",
        file="singleton/locking/relay.py",
        old="            moving, self._runners = self._runners or (), None\n",
        new="            moving, self._runners = (), None\n",
        breaks="a runner that waits when the lease is lost or released waits for ever",
    ),
    Mutant(
        name="runners have no window",
        file="singleton/locking/relay.py",
        old="lease.alive() and self._loop.time() < self._until and not self.spent",
        new="lease.alive() and not self.spent",
        breaks="a process whose callers come one after the other never gives the lock to others",
        among="crowd",
    ),
    Mutant(
        name="runners go before the line",
        file="singleton/locking/relay.py",
        old="        while self._runners and self._runners[0].since <= oldest and now",
        new="        while self._runners and oldest and now",
        breaks="a waiter starves behind callers that came later",
    ),
    Mutant(
        name="a runner's time-out is nobody's",
        file="singleton/locking/relay.py",
        old="            while self._runners and self._runners[0].since <= now - _HERE:\n",
        new="            while self._runners and self._runners[0].since <= now - 1e6:\n",
        breaks="a runner waits past its timeout, and no line is logged about a long wait",
    ),
    Mutant(
        name="a loss is told to who ran first",
        file="singleton/locking/section.py",
        old="        self.lost, self._about, self.context, self._began = lost,",
        new="        _, self._about, self.context, self._began = lost,",
        breaks="a runner is not told of the loss of its hold",
    ),
    Mutant(
        name="a second release ends the next one's section",
        file="singleton/locking/section.py",
        old="            if self.lost is not lost:\n                return False\n            self.over = True",
        new="            self.over = True",
        breaks="a second release releases the hold of a runner",
    ),
    Mutant(
        name="a hold that follows is not given back when it is dropped",
        file="singleton/locking/relay.py",
        old="        self.when_dropped(relay.collected)\n",
        new="",
        breaks="a runner's hold that was dropped keeps its lock",
    ),
    Mutant(
        name="a runner who goes away keeps his place",
        file="singleton/locking/relay.py",
        old="                self._runners.remove(runner)\n                return True\n",
        new="                return True\n",
        breaks="a cancelled runner blocks the runners behind it",
    ),
    Mutant(
        name="who is inside runs behind himself",
        file="singleton/process/calls.py",
        old="if is_inside(relay.turn) if is_open else lock.is_waited_for:",
        new="if not is_open and lock.is_waited_for:",
        breaks="a caller that asks again for its own lock is not told at once",
        by=(f"{_TESTS}::test_who_asks_again_inside_a_hold_that_was_handed_to_him_is_told_at_once",),
        why="it would ask on the lock thread, and be told, a second later",
    ),
    Mutant(
        name="what is kept for a while is handed on",
        file="singleton/process/registry.py",
        old="            hold.hand_on = None\n",
        new="            pass\n",
        breaks="a hold with at_least is handed on as soon as its block ends",
        among="clients",
    ),
    Mutant(
        name="a runner is late where he moved",
        file="singleton/locking/line.py",
        old="            self._waiters.move_to_end(each)",
        new="            pass",
        breaks="a runner that asks on the lock thread is behind callers that came later",
        among="crowd",
    ),
    Mutant(
        name="a runner waits from anew where he moved",
        file="singleton/locking/line.py",
        old="now = loop.time() if since is None else since",
        new="now = loop.time()",
        breaks="a time-out lasts longer than it was given",
    ),
)
