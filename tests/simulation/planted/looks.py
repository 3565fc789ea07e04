"""Planted bugs that only the looks find which every workload takes: errors, records and ends that are not true."""

from __future__ import annotations

from typing import Final

from tests.simulation.planted.mutant import Mutant

PHASE: Final = "singleton/locking/phase.py"
LINE: Final = "singleton/locking/line.py"
LOCK: Final = "singleton/locking/lock.py"
HOLD: Final = "singleton/base/hold.py"
RECORD: Final = "singleton/locking/record.py"
HOLDER: Final = "singleton/locking/holder.py"
HOLDERS: Final = "singleton/runtime/holders.py"
HOLDS: Final = "singleton/base/holds.py"
EVENTS: Final = "singleton/base/events.py"
HOLD_END: Final = "singleton/runtime/hold_end.py"
REGISTRY: Final = "singleton/runtime/registry.py"
CALLS: Final = "singleton/runtime/calls.py"
COUNT: Final = "singleton/runtime/waiter_count.py"
SEMAPHORE: Final = "singleton/locking/semaphore.py"
_BEGUN: Final = (
    "        lease.whose, lease.owner, lease.began = waiter.invocation, waiter.owner, self._phases.loop.time()\n"
)

LOOKS: tuple[Mutant, ...] = (
    Mutant(
        name="waits end after twenty seconds of trouble",
        file=PHASE,
        old="self._failing_since >= PATIENCE",
        new="self._failing_since >= 20.0",
        breaks="callers are told that the storage does not answer, where a minute would have been enough for it",
        among="queue",
    ),
    Mutant(
        name="trouble of long ago counts",
        file=PHASE,
        old="            self._failing_since = self.loop.time()\n",
        new="            self._failing_since = self._failing_since or self.loop.time()\n",
        breaks="a second trouble ends every wait at once, as if it had lasted since the first",
        among="mutex",
    ),
    Mutant(
        name="a single attempt has three seconds",
        file=LINE,
        old="_TRY_ONCE: Final = 10.0",
        new="_TRY_ONCE: Final = 3.0",
        breaks="a single attempt gives up before its second request had a chance",
        among="skip",
    ),
    Mutant(
        name="a record names the first owner under its lease",
        file=LOCK,
        old=_BEGUN,
        new="        lease.whose, lease.began = waiter.invocation, self._phases.loop.time()\n"
        "        lease.owner = lease.owner or waiter.owner\n",
        breaks="who asks for the holder is told of somebody who has left",
        among="mutex",
    ),
    Mutant(
        name="a slot is recorded for whom it was asked",
        file=SEMAPHORE,
        old="hold.owner, hold.lease.owner, hold.record.caller = first.owner, first.owner, first.caller",
        new="hold.owner, hold.record.caller = first.owner, first.caller",
        breaks="the blob of a slot names a caller that has another slot, or none",
        among="semaphore",
    ),
    Mutant(
        name="a hold goes on after its end",
        file=LOCK,
        old="                record.lost.freeze()\n",
        new="",
        breaks="a hold says after its section that it is owned",
        among="mutex",
    ),
    Mutant(
        name="who waits for a loss is not told of the end",
        file=HOLD,
        old="in a circle\n            waiters = [*self._waiters]\n",
        new="in a circle\n            waiters: list[Callable[[], object]] = []\n",
        breaks="a task that waits for the loss of a hold waits for ever",
        among="mutex",
    ),
    Mutant(
        name="a callback outlives its hold",
        file=HOLD,
        old="            if not kept:\n                self._callbacks",
        new="            if kept:\n                self._callbacks",
        breaks="what a callback refers to is kept until the hold is collected",
        among="mutex",
    ),
    Mutant(
        name="an error of a hold comes two seconds early",
        file=HOLD,
        old="lease.loop.time() >= lease.deadline:\n            return",
        new="lease.loop.time() >= lease.deadline - 2.0:\n            return",
        breaks="a body that asks before a side effect is told of a loss that has not come",
        among="mutex",
    ),
    Mutant(
        name="the holder in this process is named by its function",
        file=RECORD,
        old="owner=owner or None,",
        new="owner=function or None,",
        breaks="who waits looks for an invocation that there is not",
        among="chain",
    ),
    Mutant(
        name="a hold of this process began just now",
        file=RECORD,
        old="since=zero + timedelta(seconds=self._began)",
        new="since=zero + timedelta(seconds=self.lock_loop.time())",
        breaks="a body that hangs seems to have begun just now",
        among="chain",
    ),
    Mutant(
        name="a hold began at its last record",
        file=HOLDER,
        old="else written - timedelta(seconds=int(held or 0.0))",
        new="else written",
        breaks="a hold of another process seems to be younger than it is",
        among="skip",
    ),
    Mutant(
        name="a reading of long ago names the holder",
        file=RECORD,
        old="None if self.reading is None or self.reading.at < oldest else",
        new="None if self.reading is None else",
        breaks="an error names who left the lock long ago",
        among="skip",
    ),
    Mutant(
        name="the holder is read once in ten minutes",
        file=HOLDERS,
        old="loop.time() - guard.reading.at >= _AGAIN",
        new="loop.time() - guard.reading.at >= 10 * _AGAIN",
        breaks="the line of a long wait tells who had the lock minutes ago",
        among="skip",
    ),
    Mutant(
        name="a lock that is held counts as free for those who ask",
        file=HOLDER,
        old="if state.held else None",
        new="if state.held and state.endless else None",
        breaks="the line of a long wait says that nobody held the lock",
        among="mutex",
    ),
    Mutant(
        name="holds() counts from the request",
        file=HOLDS,
        old="begun = times.asked if got is None else times.acquired",
        new="begun = times.asked",
        breaks="a hold seems to be as old as its wait",
        among="chain",
    ),
    Mutant(
        name="holds() lists what was released",
        file=EVENTS,
        old='        case "released":\n            _going.pop(id(call), None)\n',
        new='        case "released":\n            pass\n',
        breaks="a process that drains seems to hold locks",
        among="chain",
    ),
    Mutant(
        name="holds() leaves out bodies that have begun",
        file=EVENTS,
        old='        case "body_started":\n            times.began = at',
        new='        case "body_started":\n            _going.pop(id(call), None)',
        breaks="a process that drains seems to hold nothing",
        among="keys",
    ),
    Mutant(
        name="the timer of max_hold outlives its hold",
        file=HOLD_END,
        old="    hold.record.when_settled(timer.cancel)\n",
        new="",
        breaks="each hold leaves a timer and its lease for the length of max_hold",
        among="arguments",
    ),
    Mutant(
        name="the look-up of a holder outlives its wait",
        file=HOLDERS,
        old="            self._telling.cancel()\n",
        new="            pass\n",
        breaks="a wait that has ended is told of for ever",
        among="mutex",
    ),
    Mutant(
        name="what at_least has kept is kept for ever",
        file=REGISTRY,
        old="        await self.drop(hold)\n        del self._tails[hold]",
        new="        await self.drop(hold)",
        breaks="each hold with at_least stays in memory",
        among="arguments",
    ),
    Mutant(
        name="the answer of a release is kept",
        file=CALLS,
        old="await given_back.awaited()\n            finally:\n                self._waits.discard(given_back)",
        new="await given_back.awaited()\n            finally:\n                pass",
        breaks="each release stays in memory",
        among="mutex",
    ),
    Mutant(
        name="the record of the last section is kept",
        file=LOCK,
        old="                self._record = None\n\n    def _begin",
        new="\n    def _begin",
        breaks="a lock at rest keeps its last section, and what waits for it",
        among="mutex",
    ),
    Mutant(
        name="who has waited still counts",
        file=COUNT,
        old="            waiting.discard(who)\n",
        new="            pass\n",
        breaks="max_waiting is reached by those who wait no longer",
        among="mutex",
    ),
    Mutant(
        name="a cancelled wait has no end",
        file="singleton/clients/request_events.py",
        old="    except BaseException as error:\n        tell_failed(call, error)\n",
        new="    except Exception as error:\n        tell_failed(call, error)\n",
        breaks="the span of a wait that was cancelled is never ended",
        among="clients",
    ),
    Mutant(
        name="a seat of a listener goes on after its end",
        file="singleton/functions/candidacy.py",
        old="        record.lost.freeze()\n        record.settle()\n",
        new="        record.settle()\n",
        breaks="the hold of an invocation of a listener says after its end that it is owned",
        among="listener",
    ),
    Mutant(
        name="ended tasks are kept",
        file=REGISTRY,
        old="        task.add_done_callback(self._companions.pop)\n",
        new="",
        breaks="each look-up of a holder stays in memory",
        among="mutex",
    ),
    Mutant(
        name="high slots are asked for once",
        file=SEMAPHORE,
        old="(self._next + _AT_ONCE) % self._limit\n",
        new="(self._next + _AT_ONCE) % (self._limit - _AT_ONCE)\n",
        breaks="a slot above the first 32 stays free while somebody waits for one",
        among="semaphore",
    ),
    Mutant(
        name="a time-out in trouble is told as contention",
        file=LINE,
        old="        if phases.trouble is not None or not in_use:\n",
        new="        if not in_use:\n",
        breaks="a wait that ends while the storage fails says that somebody else has the lock",
        among="mixed",
    ),
)
