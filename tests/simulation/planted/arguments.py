"""Planted bugs in what arguments of guards and of lock clients promise."""

from __future__ import annotations

from tests.simulation.planted.mutant import Mutant

ARGUMENTS: tuple[Mutant, ...] = (
    Mutant(
        name="trouble is one waiter too many",
        file="singleton/functions/guard.py",
        old="                if trouble is not None:\n",
        new="                if trouble is None and contended is None:\n",
        breaks="an invocation that may not wait is told of contention when the storage does not answer",
        among="arguments",
    ),
    Mutant(
        name="one waiter more than max_waiting",
        file="singleton/runtime/waiter_count.py",
        old="(waiting := self.of(blob)) < most:",
        new="(waiting := self.of(blob)) <= most:",
        breaks="more invocations of a process wait than max_waiting allows",
        among="arguments",
    ),
    Mutant(
        name="max_hold is told three seconds late",
        file="singleton/runtime/hold_end.py",
        old="loop.call_at(loop.time() + seconds,",
        new="loop.call_at(loop.time() + seconds + 3,",
        breaks="a hold goes on after its max_hold",
        among="clients",
    ),
    Mutant(
        name="a block that only tells fails",
        file="singleton/clients/blocks.py",
        old='[hold for hold in self._holds if self.on_loss == "raise" and hold.own_lost.is_set()]',
        new="[hold for hold in self._holds if hold.own_lost.is_set()]",
        breaks="a block with on_loss='tell' ends with LockLost",
        among="clients",
    ),
    Mutant(
        name="an inner block is refused by a reentrant lock",
        file="singleton/clients/blocks.py",
        old="outer = None if self._again is None else enter_again(self._again.find_lock())",
        new="outer = None",
        breaks="an inner block of a reentrant lock is refused, or waits for its own outer block",
        among="clients",
    ),
    Mutant(
        name="the lock's old name is not taken",
        file="singleton/functions/guard.py",
        old="        if old:\n            return lambda registry, within, by=math.inf: acquire_both(\n",
        new="        if not address:\n            return lambda registry, within, by=math.inf: acquire_both(\n",
        breaks="a function with also= takes the new lock only, beside the version before",
        among="arguments",
    ),
    Mutant(
        name="one more than max_waiting waits",
        file="singleton/runtime/waiter_count.py",
        old=":= self.of(blob)) < most",
        new=":= self.of(blob)) <= most",
        breaks="a caller waits although max_waiting callers wait already",
        among="arguments",
    ),
    Mutant(
        name="periodic drops max_hold",
        file="singleton/baseclient.py",
        old='attempt = self._try(name, owner, None, at_least, max_hold, use="periodic")',
        new='attempt = self._try(name, owner, None, at_least, use="periodic")',
        breaks="a hold of periodic work has no end",
        among="clients",
    ),
    Mutant(
        name="an inner block shortens at_least",
        file="singleton/runtime/registry.py",
        old="self._not_before[hold] = max(due, self._not_before.get(hold, due))",
        new="self._not_before[hold] = due",
        breaks="an inner block of a reentrant lock with a shorter at_least gives the lock back too soon",
        among="clients",
    ),
)
