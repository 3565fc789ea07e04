"""Planted bugs in state that is kept with a lock."""

from __future__ import annotations

from tests.simulation.planted.mutant import Mutant

FENCING = "singleton/locking/fencing.py"
STAMPS = "singleton/stores/stamps.py"
CONTENT = "singleton/locking/section_state.py"
_KEPT = "tests/unit/locking/test_state_kept.py"

STATES: tuple[Mutant, ...] = (
    Mutant(
        name="a write of state without an answer is forgotten",
        file=FENCING,
        old="        before, self._doubtful = self._doubtful, True\n",
        new="        before = self._doubtful\n",
        breaks="it is carried out in a later section under the same lease",
        among="state",
    ),
    Mutant(
        name="a write of state without an answer is no content",
        file=FENCING,
        old="        return self._doubtful or self._foreign > 0 or any(",
        new="        return self._foreign > 0 or any(",
        breaks="a lease is handed on under which the first write of a lock may still come",
        among="state",
    ),
    Mutant(
        name="state read while a write of it may still come",
        file=FENCING,
        old="            if self._doubtful:\n",
        new="            if not self.counts:\n",
        breaks="what was read is not what stays",
        among="state",
    ),
    Mutant(
        name="a refusal makes good a write without an answer",
        file=FENCING,
        old="            self._doubtful = before or failure",
        new="            self._doubtful = failure",
        breaks="the first of two writes is carried out after somebody has read",
        by=(f"{_KEPT}::test_a_refusal_says_nothing_of_the_write_before_it",),
        why="it takes a write that is refused after one without an answer, and a read of the same section",
    ),
    Mutant(
        name="owner and state written at one time",
        file=FENCING,
        old="        if self._order is None:\n            self._order = asyncio.Lock()\n",
        new="        self._order = asyncio.Lock()\n",
        breaks="each replaces all metadata, and one undoes the other",
        by=(f"{_KEPT}::test_owner_touches_and_state_are_written_one_after_the_other",),
        why="conditions make good what order prevents, for a request more",
    ),
    Mutant(
        name="stamps drop the mark of state",
        file=STAMPS,
        old="MARK_KEY, WORD_KEY),\n",
        new="MARK_KEY, WORD_KEY, STATE_KEY),\n",
        breaks="what is kept is lost with the next stamp",
        among="state",
    ),
    Mutant(
        name="lock handed on while state is written",
        file="singleton/locking/lock.py",
        old="                if record.uses:\n                    await record.until_unused()\n",
        new="",
        breaks="a section's write is carried out in the next one",
        among="state",
    ),
    Mutant(
        name="state used after the release",
        file="singleton/locking/record.py",
        old="        if self.over:\n            return False\n",
        new="",
        breaks="a hold that was released writes under the lease of its successor",
        by=(f"{_KEPT}::test_who_gives_the_lock_back_uses_it_no_more_even_while_another_use_is_joined",),
        why="no world uses a hold that it has released",
    ),
    Mutant(
        name="state read without the lease",
        file=FENCING,
        old="self._store.get(self._name, lease_id, MOST_STATE)",
        new="self._store.get(self._name, None, MOST_STATE)",
        breaks="a holder that does not know of its loss reads what the next holder wrote",
        by=(f"{_KEPT}::test_a_read_too_is_refused_by_the_service_once_the_lease_is_gone",),
        why="what is read is newer, so it is no step back",
    ),
    Mutant(
        name="state keeps the date of what it replaces",
        file=STAMPS,
        old="if not tells_of_content(key)}",
        new="if key != 'SingletonState'}",
        breaks="a sweep deletes a cursor",
        by=(_KEPT,),
        why="no world sweeps",
    ),
    Mutant(
        name="a hold outlives its block with at_least",
        file="singleton/runtime/registry.py",
        old="            hold.own_lost.freeze(kept=True)\n",
        new="",
        breaks="code after the block reads and writes state",
        by=("tests/unit/runtime/test_lock_at_least.py",),
        why="no world uses a hold that it has released",
    ),
    Mutant(
        name="who waits for state is not told of the loss",
        file=CONTENT,
        old="lost.add_callback(lambda _: end_in(0.0))\n",
        new="lost.add_callback(lambda _: None)\n",
        breaks="a body stays inside after its lease has ended",
        among="state",
    ),
    Mutant(
        name="requests for state hold up touches",
        file=CONTENT,
        old="            seconds = min(seconds, failover / TOUCHES)",
        new="            seconds = max(seconds, failover / TOUCHES)",
        breaks="one lost request loses the hold",
        among="state",
    ),
    Mutant(
        name="a loss that a read or write meets is not told",
        file=CONTENT,
        old="            self._lease.lose(failure.loss, failure)\n",
        new="            pass\n",
        breaks="a body goes on until its next renewal",
        by=(f"{_KEPT}::test_the_service_refuses_whoever_lost_the_lease_whatever_his_clock_says",),
        why="as late as a renewal is allowed to find it",
    ),
    Mutant(
        name="content written over another's",
        file="singleton/testing/storage/memory_store.py",
        old="        blob = self._as_known(name, etag)\n        _check_lease(blob, lease_id, now)\n"
        "        blob.body = body\n",
        new="        blob = self._blob(name)\n        _check_lease(blob, lease_id, now)\n        blob.body = body\n",
        breaks="a write that comes late or twice undoes the one after it",
        among="state",
    ),
    Mutant(
        name="empty bytes are read as nothing",
        file="singleton/base/state.py",
        old="    if kind is None:\n        return default\n    if kind == ",
        new="    if not kept.body:\n        return default\n    if kind == ",
        breaks="a holder that kept empty bytes reads the default",
        among="state",
    ),
)
"""Each needs a write or read that goes wrong: the kind of fault that only worlds of state have."""
