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
        with self._taken[0].entering():
            try:
                await asyncio.gather(*(seat.begin(last - loop.time()) for seat in self._taken))
            except BaseException:  # silence, a cancellation, the closing of the process
                self._leave_seats(registry)
                registry.dropping(hold)
                raise
        return hold
""",
        new="""\
        for seat in self._taken:
            asyncio.get_running_loop().call_later(1.0, seat.leave)
        self._taken = []
        return hold
""",
        breaks="invocations leave for a body that has begun before their change",
        among="coalesce",
    ),
    Mutant(
        name="an unanswered begun counts as written",
        file=SEAT,
        old="        self.refuse_closed(self._owner)\n        if not self._begun and",
        new="        if not self.waits:\n            return\n        if not self._begun and",
        breaks="a body begins, and its process's word still says that it waits",
        among="small-coalesce",
    ),
    Mutant(
        name="a lost seat counts as one that was left",
        file=SEAT,
        old="                self._lease = None\n                await",
        new="                self._begun, self._lease = True, None\n                await",
        breaks="a body begins, and its process's word still says that it waits",
        among="small-coalesce",
    ),
    Mutant(
        name="an unanswered waiting counts as not written",
        file=ARRIVAL,
        old="            self._again = True  #",
        new="            pass  #",
        breaks="a body begins without a seat, and its process's word says that it waits",
        among="small-coalesce",
    ),
    Mutant(
        name="the lease of a seat counts as a waiter",
        file=SEAT,
        old="        return state.held and _waits(state)\n",
        new="        return state.held\n",
        breaks="an invocation leaves for one whose body has begun, or for a late request of nobody",
        among="small-seat",
    ),
    Mutant(
        name="an invocation leaves while one of two seats says waiting",
        file=ARRIVAL,
        old="            elif answer is None:\n",
        new="            elif answer is False and not self._taken:\n                return False\n            else:\n",
        breaks="the body of a dead waiter begins in a version with another name, and its word still lets others leave",
        among="coalesce",
    ),
    Mutant(
        name="begun is written on one of two seats",
        file=ARRIVAL,
        old="(last - loop.time()) for seat in self._taken)",
        new="(last - loop.time()) for seat in self._taken[:1])",
        breaks="invocations of a version with the other name leave for a body that has begun",
        among="small-renamed",
    ),
    Mutant(
        name="a repeated delivery takes one of two seats",
        file=ARRIVAL,
        old="                return None if self._again or not self._taken else True\n",
        new="                return True if self._taken else None\n",
        breaks="a dead waiter's word lets invocations leave after the body of its message has begun",
        by=("tests/unit/functions/test_coalesce.py",),
        why="it takes a waiter apart from one seat, and a third host that comes before the lease ends",
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
        old="all(seat.lets_leave(came) for seat in seats):\n",
        new="all(seat._owner for seat in seats):  # noqa: SLF001\n",
        breaks="an invocation leaves for one of its process whose body has begun",
        among="coalesce",
    ),
    Mutant(
        name="trouble is read as taken",
        file=ARRIVAL,
        old="                    self._note(loop.time(), trouble=error)\n",
        new="                    answer = False\n                    self._note(loop.time(), trouble=error)\n",
        breaks="an invocation leaves because the storage does not answer",
        among="coalesce",
    ),
    Mutant(
        name="trouble with a look at a seat is read as a waiter",
        file=SEAT,
        old="""\
                return False
            raise self._trouble(failure, owner) from error
""",
        new="""\
                return False
            return True
""",
        breaks="an invocation leaves because the storage does not answer",
        among="small-seat",
    ),
    Mutant(
        name="a look at a seat counts for who comes after the look",
        file=SEAT,
        old="self._found > came",
        new="self._found > 0.0",
        breaks="an invocation leaves for one whose body has begun",
        among="coalesce",
    ),
    Mutant(
        name="a look at a seat counts from its answer on",
        file=SEAT,
        old="        self._found = sent\n",
        new="        self._found = asyncio.get_running_loop().time()\n",
        breaks="an invocation leaves that came after the look, for one whose body had begun by then",
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
        name="a waiter whose body does not begin keeps the lock",
        file=ARRIVAL,
        old="                registry.dropping(hold)\n",
        new="",
        breaks="the lock is kept, with nobody inside",
        by=("tests/unit/functions/test_coalesce.py",),
        why="the hold is collected, which gives the lock back soon after",
    ),
    Mutant(
        name="who goes away while it asks for a seat keeps the seat",
        file=SEAT,
        old="            self.leave()\n            raise\n",
        new="            raise\n",
        breaks="invocations leave for a waiter that was cancelled, until its process ends",
        among="small-coalesce",
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
        name="a last look that is not answered in time is silence",
        file="singleton/functions/coalescing.py",
        old="if refused is None and not self._held:",
        new="if refused is None:",
        breaks="a repeated delivery whose time is up is told that the storage did not answer, and it did",
        among="coalesce",
    ),
    Mutant(
        name="a failed waiter leaves its word on the seat",
        file=SEAT,
        old="            if not self._begun and lease.alive():\n",
        new="            if lease.owner is None:\n",
        breaks="with a late request for the seat an invocation leaves for nobody",
        by=("tests/unit/functions/test_coalesce.py",),
        why="each message of a world is delivered again, with its body",
    ),
    Mutant(
        name="a delivery without a count is the first",
        file="singleton/functions/coalescing.py",
        old="dequeue_count == 1)",
        new="dequeue_count <= 1)",
        breaks="where no count of deliveries is shown, a message that comes again leaves for its own dead waiter",
        among="coalesce",
    ),
    Mutant(
        name="an invocation whose seat gave no answer is new",
        file=ARRIVAL,
        old="            self._again = True  # the word of this invocation may stand on the seat, or come late\n",
        new="",
        breaks="it leaves for its own word, which a late request keeps on the seat for nobody",
        among="coalesce",
    ),
    Mutant(
        name="what is known of one of two seats is enough to leave",
        file=ARRIVAL,
        old="all(seat.lets_leave(came) for seat in seats)",
        new="any(seat.lets_leave(came) for seat in seats)",
        breaks="an invocation leaves by the word on one seat, and nobody waits on the other",
        among="coalesce",
    ),
)
