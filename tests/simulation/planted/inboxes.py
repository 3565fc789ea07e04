"""Planted bugs in inboxes: their logs, their readers and senders, their bells, what is put aside."""

from __future__ import annotations

from tests.simulation.planted.mutant import Mutant

_ORDERED = "singleton/patterns/ordered"
ANSWERING = f"{_ORDERED}/visit.py"
BELLS = f"{_ORDERED}/bells.py"
OPERATING = f"{_ORDERED}/operators.py"
POSITION = f"{_ORDERED}/log_reader.py"
PROTOCOL = f"{_ORDERED}/protocol.py"
READING = f"{_ORDERED}/log_reader.py"
SENDING = f"{_ORDERED}/service.py"
SERVICE = f"{_ORDERED}/service.py"
VISIT = f"{_ORDERED}/visit.py"
WORKER = f"{_ORDERED}/worker.py"
TESTS = "tests/unit/patterns/ordered/test_inbox.py"

INBOXES: tuple[Mutant, ...] = (
    Mutant(
        name="repeats are handled",
        file=POSITION,
        old="entry.number <= self.senders.get(entry.sender, 0)",
        new="False",
        breaks="a message whose send was repeated is handled twice",
        among="ordered",
    ),
    Mutant(
        name="a pause of any length is obeyed",
        file=VISIT,
        old=" <= _LONGEST_PAUSE:  # more was said by another clock",
        new=":",
        breaks="a key stands still for as long as the wall clock of its last consumer was ahead",
        among="ordered",
    ),
    Mutant(
        name="a log that has changed counts as gone",
        file=READING,
        old='return failure.meaning == "missing"',
        new="return True",
        breaks="a message that was sent as its log was deleted waits for the next bell, without one",
        among="ordered",
    ),
    Mutant(
        name="an offset is kept without a label",
        file=READING,
        old="if position.log or is_short:",
        new="position.log = 'x'\n        if position.log or is_short:",
        breaks="an offset of one log is read as one of the next log",
        among="ordered",
    ),
    Mutant(
        name="any first log is taken for the chain's",
        file=PROTOCOL,
        old="if chain_of(found) == chain:",
        new="if True:",
        breaks="a sender that ends a chain late deletes the log after it, unread",
        among="ordered",
    ),
    Mutant(
        name="the last part is not marked",
        file=READING,
        old="if await self._asked(lambda: self._store.create(name, {LOG_KEY: ENDED})) is None:",
        new="if not name:",
        breaks="a sender that comes late makes a part again that nobody reads",
        among="ordered",
    ),
    Mutant(
        name="what follows a full log is not read",
        file=READING,
        old="if seen.full:",
        new="if False:",
        breaks="a full log is deleted, and nobody finds what follows it",
        among="ordered",
    ),
    Mutant(
        name="a lost lock is not noticed before a message",
        file=VISIT,
        old="        hold.raise_if_lost()\n        try:\n            message =",
        new="        try:\n            message =",
        breaks="a consumer that stood still takes messages that another has handled",
        among="ordered",
    ),
    Mutant(
        name="a bell that finds its key in use is dropped",
        file=ANSWERING,
        old="again=self.bell.pause",
        new="again=None",
        breaks="a message that came during a visit waits for a look",
        among="ordered",
    ),
    Mutant(
        name="no bell for a dead consumer",
        file=VISIT,
        old="                await self.insurance.begin()\n",
        new="",
        breaks="the key of a consumer that died waits for its host's bell, or a look",
        by=(f"{TESTS}::test_a_consumer_that_dies_leaves_a_bell_that_rings_when_its_lease_has_ended",),
        why="in a world another bell comes first, or a look: none of 1,000 shows it",
    ),
    Mutant(
        name="a repeat forgets failures",
        file=POSITION,
        old='""\n            self.failures, self.begun, self.until = 0, 0, 0.0\n        self.at',
        new='""\n        self.failures, self.begun, self.until = 0, 0, 0.0\n        self.at',
        breaks="a message that always fails is tried for ever, where a repeat stands before it",
        among="ordered",
    ),
    Mutant(
        name="no bell for the first message of a log",
        file=SENDING,
        old="if offset and now",
        new="if now",
        breaks="a message waits for a look",
        among="ordered",
    ),
    Mutant(
        name="a failed message is tried at once",
        file=VISIT,
        old="position.until - at",
        new="position.until - 1e18",
        breaks="all attempts are used up at once",
        among="ordered",
    ),
    Mutant(
        name="offsets are kept for the visit, not for the message",
        file=VISIT,
        old="        await self._keep(hold, position)\n        return outcome",
        new=(
            "        if outcome is not None or position.entries % 2:\n"
            "            await self._keep(hold, position)\n"
            "        return outcome"
        ),
        breaks="a crash repeats more than the message in hand",
        among="ordered",
    ),
    Mutant(
        name="put aside before that is kept",
        file=VISIT,
        old="        if error is not None:\n            await self._keep(hold, position)\n        putting",
        new="        putting",
        breaks="a message is handled, and put aside as well",
        among="ordered",
    ),
    Mutant(
        name="a key that stands still goes on",
        file=VISIT,
        old="        if position.stopped:\n",
        new="        if position.stopped and not position.failures:\n",
        breaks="messages behind a failed one are handled though it was to stop them",
        among="ordered",
    ),
    Mutant(
        name="put aside one attempt too soon",
        file=VISIT,
        old="return position.failures >= self.rules.attempts or",
        new="return position.failures >= self.rules.attempts - 1 or",
        breaks="a message is put aside that had an attempt left",
        among="ordered",
    ),
    Mutant(
        name="a log is deleted whatever was added",
        file=READING,
        old="await self._asked(lambda: self._store.drop(self._name, etag))",
        new="await self._asked(lambda: self._store.read(self._name)), await self._store.remove(self._name)",
        breaks="messages that were added as a log was deleted are lost",
        among="ordered",
    ),
    Mutant(
        name="a log is deleted before all of it was read",
        file=READING,
        old="if seen is None or seen.blocks != position.entries:",
        new="if seen is None:",
        breaks="messages are lost that one read did not reach",
        among="ordered",
    ),
    Mutant(
        name="all messages of a sender have one number",
        file=SENDING,
        old="entry = replace(entry, sender=self._named(), number=next(self._numbers))",
        new="entry = replace(entry, sender=self._named(), number=1)",
        breaks="the second message of a sender counts as a repeat of the first",
        among="ordered",
    ),
    Mutant(
        name="a message is numbered before its turn",
        file=SENDING,
        old="        offset = await self._appended(spot, entry)\n",
        new=(
            "        if not entry.sender:\n"
            "            entry = replace(entry, sender=self._named(), number=next(self._numbers))\n"
            "        await asyncio.sleep(0.01 * (entry.number % 3))\n"
            "        offset = await self._appended(spot, entry)\n"
        ),
        breaks="if a process sends two messages at the same time, one of them counts as a repeat",
        among="ordered",
    ),
    Mutant(
        name="senders do not look whether a log is full",
        file=SENDING,
        old="        if failure.code == FULL:\n",
        new="        if failure.code == FULL and not place.part:\n",
        breaks="a key stands still behind two full logs: each message is refused",
        among="ordered",
    ),
    Mutant(
        name="a mark is taken for trouble",
        file=SENDING,
        old="        if failure.code == NO_LOG and place.part:\n",
        new="        if failure.code == NO_LOG and not place.part:\n",
        breaks="a sender that comes late to a chain that has ended never sends again",
        among="ordered",
    ),
    Mutant(
        name="a sent message is acknowledged before it is there",
        file=SENDING,
        old='            if failure.meaning in ("denied", "refused") or loop.time() + pause >= ends:\n',
        new=(
            "            if loop.time() + pause >= ends:\n"
            "                return 1\n"
            '            if failure.meaning in ("denied", "refused"):\n'
        ),
        breaks="send returns, and its message is lost",
        among="ordered",
    ),
    Mutant(
        name="resent messages have a new number each time",
        file=SENDING,
        old="            if not entry.sender:\n",
        new="            if entry:\n",
        breaks="a message that is sent again twice is handled twice",
        among="ordered",
    ),
    Mutant(
        name="a look rings for nobody",
        file=SERVICE,
        old="                if not await self._is_read(store, spot):",
        new="                if await self._is_read(store, spot):",
        breaks="a message whose sender died before its bell is never handled",
        by=(f"{TESTS}::test_a_message_without_a_bell_is_found_by_a_look",),
        why="each later message rings as well, so the last of a key has to be the one without a bell",
    ),
    Mutant(
        name="a visit that was told to stop drops its bell",
        file=VISIT,
        old="() or clock.now() >= ends:\n                    return VisitOutcome(again=0)",
        new="() or clock.now() >= ends:\n                    return VisitOutcome()",
        breaks="the rest of a key waits for a look where a worker stops",
        among="ordered",
    ),
    Mutant(
        name="a failure has no bell",
        file=VISIT,
        old="            return VisitOutcome(again=pause, error=error)\n",
        new="            return VisitOutcome(error=error)\n",
        breaks="a message that failed waits for a look",
        among="ordered",
    ),
    Mutant(
        name="a resumed key waits for its next attempt",
        file=OPERATING,
        old='position.failures, position.begun, position.until, position.stopped = 0, 0, 0.0, ""',
        new='position.failures, position.begun, position.stopped = 0, 0, ""',
        breaks="a message is tried as late after an operator's resume as without it",
        among="ordered",
    ),
    Mutant(
        name="a resumed key has no bell",
        file=OPERATING,
        old="    if not await service.is_drained(registry, spot):\n",
        new="    if await service.is_drained(registry, spot):\n",
        breaks="a key that was resumed waits for a look",
        among="ordered",
    ),
    Mutant(
        name="a visit that ends early deletes its bell",
        file="singleton/patterns/ordered/visit.py",
        old="queue.delete(*known) if again is None else",
        new="queue.delete(*known) if not again else",
        breaks="the messages that a worker leaves as it stops wait for a look",
        among="ordered",
    ),
)
