"""Planted bugs in coalescing: an invocation leaves, and nobody waits whose body has not begun."""

from __future__ import annotations

from tests.simulation.planted.mutant import Mutant

SEAT = "singleton/locking/seat.py"
ARRIVAL = "singleton/functions/coalescing.py"

COALESCING: tuple[Mutant, ...] = (
    Mutant(
        name="begun is written after the body has begun",
        file=ARRIVAL,
        old="""\
            try:
                await seat.begin()
            except BaseException:
                try:
                    await registry.drop(hold)  # first: the seat may wait for answers for seconds
                finally:
                    await seat.leave()
                raise
            try:
                await seat.leave()
                seat.refuse_closed(self._owner)
""",
        new="""\
            try:
                loop.call_later(1.0, lambda: loop.create_task(seat.leave()))
""",
        breaks="invocations leave for a body that has begun before their change",
        among="coalesce",
    ),
    Mutant(
        name="an unanswered begun counts as written",
        file=SEAT,
        old='        raise storage_error(self.name, failure, what="seat") from failure\n\n    async def _said',
        new="        return\n\n    async def _said",
        breaks="a body begins, and its process's word still says that it waits",
        by=("tests/unit/functions/test_coalesce.py",),
        why="it takes several requests for a seat that go wrong one after another, and worlds have that too seldom",
    ),
    Mutant(
        name="a lost seat counts as one that was left",
        file=SEAT,
        old="        if lease is not None:\n            self._lease = None\n",
        new="        if lease is None or not lease.alive():\n            return True\n        if lease is not None:\n"
        "            self._lease = None\n",
        breaks="a body begins, and its process's word still says that it waits",
        by=("tests/unit/functions/test_coalesce_schedules.py",),
        why="it takes several requests for a seat that go wrong one after another, and worlds have that too seldom",
    ),
    Mutant(
        name="an unanswered waiting counts as not written",
        file=ARRIVAL,
        old="                self._again = True  #",
        new="                pass  #",
        breaks="a body begins without a seat, and its process's word says that it waits",
        by=("tests/unit/functions/test_coalesce.py",),
        why="it takes several requests for a seat that go wrong one after another, and worlds have that too seldom",
    ),
    Mutant(
        name="the lease of a seat counts as a waiter",
        file=SEAT,
        old='        return state.held and metadata_value(state, WORD_KEY) == "waiting"\n',
        new="        return state.held\n",
        breaks="an invocation leaves for one whose body has begun, or for a late request of nobody",
        by=("tests/unit/functions/test_coalesce.py",),
        why="it takes several requests for a seat that go wrong one after another, and worlds have that too seldom",
    ),
    Mutant(
        name="a waiter that times out is a success",
        file=ARRIVAL,
        old="        raise contended\n    finally:\n",
        new="        return None\n    finally:\n",
        breaks="the message of a waiter is deleted without its body, and with it the changes of those who left",
        among="coalesce",
    ),
    Mutant(
        name="a granted waiter counts",
        file=ARRIVAL,
        old="            if seat.waits and not self._again:\n",
        new="            if seat._owner and not self._again:  # noqa: SLF001\n",
        breaks="an invocation leaves for one of its process whose body has begun",
        among="coalesce",
    ),
    Mutant(
        name="trouble is read as taken",
        file=ARRIVAL,
        old="                        raise\n",
        new="                        raise\n                    taken = False\n",
        breaks="an invocation leaves because the storage does not answer",
        among="coalesce",
    ),
    Mutant(
        name="a repeated delivery counts as new",
        file=ARRIVAL,
        old="    return call.tried > 0 or not (is_new or Contention.over(call, trigger).dequeue_count == 1)\n",
        new="    return False\n",
        breaks="the message of a dead waiter leaves for the waiter's own word",
        among="coalesce",
    ),
    Mutant(
        name="a waiter that is cancelled as it leaves its seat keeps the lock",
        file=ARRIVAL,
        old="                await registry.drop(hold)\n                raise\n",
        new="                raise\n",
        breaks="the lock is renewed for ever, with nobody inside",
        among="coalesce",
    ),
    Mutant(
        name="a process that closes leaves its seat to lapse",
        file="singleton/runtime/registry.py",
        old="(*(seat.aclose() for seat in self._seats.values()))",
        new="()",
        breaks="invocations leave for a waiter whose process has ended, and its message waits for the end of the lease",
        among="coalesce",
    ),
    Mutant(
        name="an error of the store lets a seat be renewed for ever",
        file=SEAT,
        old="with suppress(Exception):",
        new="with suppress(StoreFailure):",
        breaks="a lease is renewed after its holder has left",
        among="coalesce",
    ),
    Mutant(
        name="a failed waiter leaves its word on the seat",
        file=SEAT,
        old="                if not self._begun and lease.alive():\n",
        new="                if lease.owner is None:\n",
        breaks="with a late request for the seat an invocation leaves for nobody",
        by=("tests/unit/functions/test_coalesce.py",),
        why="each message of a world is delivered again, with its body",
    ),
)
