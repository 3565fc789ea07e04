"""Planted bugs in failover: touches, what waiters read, breaks, and what stands on the blob."""

from __future__ import annotations

from tests.simulation.planted.mutant import Mutant

MARK = "singleton/base/failover_mark.py"
FAILOVER = "singleton/locking/failover.py"
FENCING = "singleton/locking/fencing.py"
LEASE = "singleton/locking/lease.py"
ACQUISITION = "singleton/locking/acquisition.py"
LOCK = "singleton/locking/lock.py"
TIMING = "singleton/locking/phase.py"
REGISTRY = "singleton/runtime/registry.py"

FAILOVERS: tuple[Mutant, ...] = (
    Mutant(
        name="touch good for the whole failover",
        file=MARK,
        old="    return failover * (1 - _DRIFT)\n",
        new="    return failover\n",
        breaks="a holder with a slow clock goes on after others may acquire its lock",
    ),
    Mutant(
        name="silent for no more than failover",
        file=MARK,
        old="    return failover * (1 + _DRIFT)\n",
        new="    return failover\n",
        breaks="a waiter with a fast clock takes the lock of a living holder",
    ),
    Mutant(
        name="silence measured from the sending of the first reading",
        file=FAILOVER,
        old="else replied + silent_for(failover)",
        new="else sent + silent_for(failover)",
        breaks="a first reading that took long makes a holder silent too soon",
    ),
    Mutant(
        name="silence measured to the reply to the second reading",
        file=FAILOVER,
        old="return sent >= self.due",
        new="return replied >= self.due",
        breaks="a touch that came after the second reading is not seen",
    ),
    Mutant(
        name="its own failover in the place of the holder's",
        file=FAILOVER,
        old="        return state, self._suspicion.read(state, sent=sent, replied=loop.time(), "
        "refuted=self._guard.refuted)\n",
        new="        silent = self._suspicion.read(state, sent=sent, replied=loop.time())\n"
        "        if self._suspicion.due < sent + 1000:\n"
        "            self._suspicion.due = min(self._suspicion.due, sent + 2.2 * self._call)\n"
        "        return state, silent\n",
        breaks="a holder with a longer failover loses its lock while it lives",
    ),
    Mutant(
        name="epoch of the mark not compared",
        file=MARK,
        old="    if match is None or int(match[2]) != epoch:\n",
        new="    if match is None:\n",
        breaks="a holder that does not touch loses its lock",
    ),
    Mutant(
        name="ETag not looked at",
        file=FAILOVER,
        old="        if state.etag == self.etag:\n",
        new="        if self.etag is not None:\n",
        breaks="a holder that touches loses its lock all the same",
    ),
    Mutant(
        name="take-over without a condition",
        file=FAILOVER,
        old="store.evict(self._name, lease_id, state.etag)",
        new="store.release(self._name, lease_id)",
        breaks="a touch on its way does not save its holder",
    ),
    Mutant(
        name="take-over without a condition from an older version",
        file=FAILOVER,
        old="store.break_(self._name, state.etag)",
        new="store.break_(self._name)",
        breaks="a touch on its way does not save its holder",
        among="failover",
    ),
    Mutant(
        name="lease broken whoever has it",
        file=FAILOVER,
        old="            if lease_id is None:\n",
        new="            if lease_id is None or lease_id:\n",
        breaks="the live lease of another library is broken where a mark was left",
        among="failover",
    ),
    Mutant(
        name="lease id of an earlier epoch",
        file=MARK,
        old="if number == str(epoch) and re",
        new="if number and re",
        breaks="a dead holder of an older version keeps its lock for the rest of its lease",
        among="failover",
    ),
    Mutant(
        name="mark without a lease id not understood",
        file=FAILOVER,
        old="                await within(self._call, store.break_(self._name, state.etag))\n",
        new="                return\n",
        breaks="a dead holder of an older version keeps its lock for the rest of its lease",
        by=("tests/unit/locking/test_failover.py",),
        why="a world shows it seldom: a host of an older version has to die while somebody able waits",
    ),
    Mutant(
        name="mark without a lease id trusted for ever",
        file=FAILOVER,
        old="    current = state.age <= _LONGEST_LEASE or",
        new="    current = state.age < math.inf or",
        breaks="the live lease of another library is broken where an older version had the lock long ago",
        by=("tests/unit/locking/test_failover.py",),
        why="no world has an older version and another library in one fleet",
    ),
    Mutant(
        name="a refused take-over says nothing",
        file=FAILOVER,
        old='            if failure.meaning == "lost":\n',
        new='            if failure.meaning == "":\n',
        breaks="a waiter asks for the end of a lease again and again that somebody else has",
        by=("tests/unit/locking/test_failover.py",),
        why="it costs requests, and nothing else",
    ),
    Mutant(
        name="reading not forgotten after a break",
        file=FAILOVER,
        old='that follows shows the outcome."""\n        self._suspicion.forget()\n',
        new='that follows shows the outcome."""\n',
        breaks="the next holder loses the lease before it can touch the lock",
        by=("tests/unit/locking/test_failover.py::test_after_a_break_what_was_read_is_forgotten",),
        why="few worlds have a break that fails: of those with failover, one in some dozens shows it",
    ),
    Mutant(
        name="warm shortcut in spite of failover",
        file=FENCING,
        old="spare = self.counts and self.failover is None and not (",
        new="spare = self.counts and not (",
        breaks="a hold begins on an ETag that somebody has read long ago",
    ),
    Mutant(
        name="touch extends the lease",
        file=LEASE,
        old="            self._touched, self._touch_ends = sent, sent + good\n"
        "            self.deadline = min(self._deadline, self._touch_ends)\n",
        new="            self._touched, self._touch_ends = sent, sent + good\n            self._extend(sent)\n",
        breaks="a holder whose renewals fail believes in a lease that has ended",
        among="failover",
    ),
    Mutant(
        name="renewal stands for a touch",
        file=LEASE,
        old="            self.cause = None\n            self._extend(sent)\n",
        new="            self.cause = None\n            self._touch_ends = sent + (self._touch_ends - self._touched)\n"
        "            self._extend(sent)\n",
        breaks="a holder whose touches fail goes on, and others take its lock",
    ),
    Mutant(
        name="deadline of touches ignored",
        file=LEASE,
        old="            self.deadline = min(self._deadline, self._touch_ends)\n            self.set_timer()\n",
        new="            self.set_timer()\n",
        breaks="a holder that can't touch its lock believes in it for the rest of its lease",
    ),
    Mutant(
        name="touch counted from its reply",
        file=FAILOVER,
        old="        lease.touched(sent, good_for(failover))\n",
        new="        lease.touched(asyncio.get_running_loop().time(), good_for(failover))\n",
        breaks="a touch whose reply was late is good for too long",
    ),
    Mutant(
        name="first touch counted from its reply",
        file=ACQUISITION,
        old="            lease.touched(fencing.touched, good)\n",
        new="            lease.touched(asyncio.get_running_loop().time(), good)\n",
        breaks="a hold whose stamp was answered late is good for too long",
    ),
    Mutant(
        name="late touch revives the hold",
        file=LEASE,
        old='        if self.overdue():\n            self.lose("expired")\n        elif self.lost is None and not',
        new="        if self.lost is None and not",
        breaks="a hold that was over goes on",
        by=("tests/unit/locking/test_failover.py::test_an_answer_to_a_touch_revives_no_hold_that_is_overdue",),
        why="a world runs timers that are due before what wakes up",
    ),
    Mutant(
        name="body begins before the first touch",
        file=ACQUISITION,
        old="            await within(min(_CALL, good), fencing.stamp(lease.id, etag, owner))\n",
        new="            task = asyncio.ensure_future(fencing.stamp(lease.id, etag, owner))\n"
        "            await asyncio.wait({task}, timeout=0.01)\n"
        "            fencing.touched = asyncio.get_running_loop().time()\n",
        breaks="a body runs under a lease that others may break",
    ),
    Mutant(
        name="body begins at the end of a touch",
        file=ACQUISITION,
        old="- fencing.touched) > failover / 2:",
        new="- fencing.touched) > good:",
        breaks="a body that has just begun is told that its hold is over",
        among="failover",
    ),
    Mutant(
        name="touch without the mark",
        file=FENCING,
        old="        if self.failover is not None:\n            metadata |=",
        new="        if self.failover is not None and self._section == 0:\n            metadata |=",
        breaks="a holder that died keeps its lock for the rest of its lease",
    ),
    Mutant(
        name="mark of the epoch before",
        file=FENCING,
        old="written_mark(self.failover, epoch, lease_id)",
        new="written_mark(self.failover, self._epoch, lease_id)",
        breaks="a holder that died before its second touch keeps its lock for a lease",
    ),
    Mutant(
        name="touch counts the epoch on",
        file=FENCING,
        old="            await self._put(lease_id, owner, self._epoch, held, kept)\n            return\n",
        new="            await self._put(lease_id, owner, self._epoch + 1, held, kept)\n            return\n",
        breaks="epochs on the blob run ahead of the tokens",
    ),
    Mutant(
        name="touch over another's stamp",
        file=FENCING,
        old="        if recorded_epoch(state) != self._epoch:\n",
        new="        if recorded_epoch(state) is None:\n",
        breaks="a late acquire and a touch put an epoch back",
        by=("tests/unit/locking/test_failover.py::test_a_touch_never_puts_an_epoch_back",),
        why="it takes an operator, and a request that arrives twice",
    ),
    Mutant(
        name="lost reply to a touch not made good",
        file=FENCING,
        old='            if failure.meaning != "changed":\n                raise\n        self._adopt(await',
        new="            raise\n        self._adopt(await",
        breaks="one lost reply loses the hold",
    ),
    Mutant(
        name="first failed touch is the last",
        file=FAILOVER,
        old='        lease.note(trouble, "touch")\n',
        new='        lease.note(trouble, "touch")\n        return math.inf\n',
        breaks="one lost request loses the hold",
    ),
    Mutant(
        name="loss at a touch not told",
        file=FAILOVER,
        old="        if trouble.loss is not None:\n            lease.lose(trouble.loss, trouble)\n",
        new="",
        breaks="a holder that lost its lock is told later than possible",
    ),
    Mutant(
        name="touches go on after the release",
        file=LEASE,
        old="        for each in requests:\n            each.due, each.queued = math.inf, 0\n"
        "        for each in requests:\n",
        new="        self._stopped = False\n        self.due, self.queued = math.inf, 0\n        self.set_timer()\n"
        "        for each in (self,):\n",
        breaks="requests are sent under a lease that was released",
    ),
    Mutant(
        name="touched as seldom as looked at",
        file=FAILOVER,
        old="super().__init__(fencing.touched + failover / TOUCHES, lease.context)\n",
        new="super().__init__(fencing.touched + failover * 0.9, lease.context)\n",
        breaks="one lost request loses the hold",
    ),
    Mutant(
        name="waiters look as seldom as they poll",
        file=TIMING,
        old="        return self.poll_max if self.failover is None else min(self.poll_max, self.failover / LOOKS)\n",
        new="        return self.poll_max\n",
        breaks="the lock of a dead holder is acquired late",
        among="failover",
    ),
    Mutant(
        name="next look not in time",
        file=LOCK,
        old="sleep_until(due if self._takeover is None else min(due, self.next_look))\n",
        new="sleep_until(due + self._timing.poll_max)\n",
        breaks="the lock of a dead holder is acquired late",
    ),
    Mutant(
        name="waiter never looks",
        file=FAILOVER,
        old='            if failure.meaning == "held" and self._suspicion.etag is None:\n',
        new='            if failure.meaning == "held" and self._suspicion.etag is not None:\n',
        breaks="nobody takes a dead holder's lock over",
    ),
    Mutant(
        name="a candidate sleeps past its look",
        file="singleton/runtime/registry.py",
        old="asyncio.sleep(min(seconds, due - asyncio.get_running_loop().time()))",
        new="asyncio.sleep(seconds)",
        breaks="a leader that died is replaced after the candidates' interval, and not after its failover",
        among="small-leader",
    ),
    Mutant(
        name="own lease waited out",
        file=FAILOVER,
        old="await self._is_held() and not self._acquisition.in_doubt:",
        new="await self._is_held():",
        breaks="a lease that was granted without our knowing blocks everybody",
        by=(
            "tests/unit/locking/test_failover.py::test_a_lease_of_ours_that_was_granted_late_is_asked_for_and_not_waited_out",
        ),
        why="it lasts until the silence shows, as after any death",
    ),
    Mutant(
        name="lease without end broken",
        file=FAILOVER,
        old="        if not state.held or state.endless:\n",
        new="        if not state.held:\n",
        breaks="a lease that somebody acquired by hand is broken",
        by=("tests/unit/locking/test_failover.py::test_a_lease_without_end_is_respected",),
        why="in worlds nobody takes a lease without end",
    ),
    Mutant(
        name="blob that is gone taken for held",
        file=FAILOVER,
        old='            if failure.meaning not in ("missing", "deleting"):\n                raise\n',
        new="            raise\n",
        breaks="a waiter whose lock was deleted waits for ever",
        by=("tests/unit/locking/test_failover.py",),
        why="the blob has to be deleted in the moment in which a waiter looks",
    ),
    Mutant(
        name="touch that finds itself is not made again",
        file="singleton/locking/fencing.py",
        old="self._name))\n        await self._put(lease_id, owner, self._epoch, held, kept)\n",
        new="self._name))\n        self.touched = asyncio.get_running_loop().time()\n",
        breaks="the deadline counts from a look, and not from a touch that succeeded",
        by=("tests/unit/locking/test_failover.py",),
        why="others have to see an ETag for longer than the holder's mistake lasts",
    ),
    Mutant(
        name="failed touches are made at the same pace",
        file=FAILOVER,
        old="min(left / 4, failover / TOUCHES / 2)",
        new="failover / TOUCHES",
        breaks="one more lost message ends a hold that was good",
        by=("tests/unit/locking/test_failover.py",),
        why="worlds count a failed touch as a cause",
    ),
    Mutant(
        name="a copy is noticed by clocks that go forward only",
        file="singleton/locking/fencing.py",
        old="return abs(self._clocks - before) <= _STEADY",
        new="return self._clocks - before <= _STEADY",
        breaks="two copies of a process give the same token",
        among="images",
    ),
    Mutant(
        name="alive by its renewals alone",
        file=LEASE,
        old="        return self.lost is None and self.loop.time() < self.deadline\n",
        new="        return self.lost is None and self.loop.time() < self._deadline\n",
        breaks="a section begins though others may have taken the lock meanwhile",
        by=(
            (
                "tests/unit/runtime/waiters/test_handed_on.py::"
                "test_nobody_gets_the_lock_past_the_deadline_of_its_last_touch_however_long_its_lease_is_good"
            ),
        ),
        why="the lock must be handed on while the loop is late: a world runs timers that are due before what wakes up",
    ),
    Mutant(
        name="the longest failover is none",
        file="singleton/base/failover_mark.py",
        old="SHORTEST <= failover <= LONGEST",
        new="SHORTEST <= failover < LONGEST",
        breaks="who waits knows no mark of ten seconds, and waits for the end of the lease",
        among="failover",
    ),
    Mutant(
        name="a refuted mark is tried again",
        file=FAILOVER,
        old="                self._guard.refuted, self._guard.reading = state.etag, None\n",
        new="                self._guard.reading = None\n",
        breaks="a holder without a stamp is named as the one before, and its lease is ended in vain again and again",
        among="failover",
    ),
)
