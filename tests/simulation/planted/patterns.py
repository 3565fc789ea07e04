"""Planted bugs in the patterns for SQL databases: the outbox and its relay, the states of rows."""

from __future__ import annotations

from tests.simulation.planted.mutant import Mutant

RELAY = "singleton/patterns/outbox.py"
OUTBOX = "singleton/patterns/sql/sql_outbox.py"
ROWS = "singleton/patterns/sql/rowstates.py"
SUITE = "tests/conformance/test_sqlite_patterns.py"

PATTERNS: tuple[Mutant, ...] = (
    Mutant(
        name="fence lets smaller tokens in",
        file=OUTBOX,
        old="where(fence.c.id == 1, fence.c.token <= token).values(token=token)",
        new="where(fence.c.id == 1).values(token=token)",
        breaks="a relay that was paused past its lease writes over its successor",
        among="outbox",
    ),
    Mutant(
        name="fence not raised",
        file=OUTBOX,
        old="fence.c.token <= token).values(token=token)",
        new="fence.c.token <= token).values(token=fence.c.token)",
        breaks="the database does not remember the last token",
        among="outbox",
    ),
    Mutant(
        name="noted as sent before it is",
        file=RELAY,
        old="        hold.raise_if_lost()\n        try:\n",
        new="        hold.raise_if_lost()\n        await self._ask(self._outbox.sent, message)\n        try:\n",
        breaks="a crash loses the message that was being sent",
        among="outbox",
    ),
    Mutant(
        name="given up one attempt too soon",
        file=RELAY,
        old="        poison = message.attempt >= self._attempts\n",
        new="        poison = message.attempt >= self._attempts - 1\n",
        breaks="a message is put aside that had an attempt left",
        among="outbox",
    ),
    Mutant(
        name="attempts not counted",
        file=OUTBOX,
        old="counted.values(attempts=message.attempt, token=message.token)",
        new="counted.values(attempts=message.attempt - 1, token=message.token)",
        breaks="a message that always fails is tried for ever",
        among="outbox",
    ),
    Mutant(
        name="no wait before the next attempt",
        file=OUTBOX,
        old="table.state == _PENDING, table.due_at <= Now(), ~",
        new="table.state == _PENDING, ~",
        breaks="a receiver that is down is asked without a pause, and all attempts are used up at once",
        among="outbox",
    ),
    Mutant(
        name="sent and not noted",
        file=OUTBOX,
        old=".values(state=_SENT, sent_at=Now(), error=null())",
        new=".values(sent_at=Now(), error=null())",
        breaks="a message is sent again and again",
        among="outbox",
    ),
    Mutant(
        name="poison does not stop its key",
        file=OUTBOX,
        old='            values["state"] = _STOPPED if stops else _POISON\n',
        new='            values["state"] = _POISON\n',
        breaks="later messages of a key are sent though an earlier one was to stop them",
        among="outbox",
    ),
    Mutant(
        name="a failure puts the message aside",
        file=OUTBOX,
        old="        if again_in is None:\n",
        new="        if again_in is None or message.attempt > 1:\n",
        breaks="a message is not tried as often as it should be",
        among="outbox",
    ),
    Mutant(
        name="an earlier message of the key is not looked for",
        file=OUTBOX,
        old="            if connection.execute(first).scalar() != message.position:\n",
        new="            if connection.execute(first).scalar() is None:\n",
        breaks="a message may be sent before one that came back in the middle of a batch",
        by=(f"{SUITE}::test_patterns[it_is_not_a_messages_turn_while_an_earlier_one_of_its_key_is_pending]",),
        why="a relay leaves out the rest of a key by itself; it takes a message that comes back within a batch",
    ),
    Mutant(
        name="stale claimers write",
        file=ROWS,
        old='column["version"] == claim.version, column["status"]',
        new='column["status"]',
        breaks="a claimer whose row was claimed again writes over its successor",
        among="rows",
    ),
    Mutant(
        name="rows in hand are taken",
        file=ROWS,
        old="age = self._column, self._state, Now() - literal(self._stuck_after)",
        new="age = self._column, self._state, Now() - literal(self._stuck_after / 2)",
        breaks="a row is claimed from a claimer that works on it",
        among="rows",
    ),
    Mutant(
        name="rows whose claimers die are claimed for ever",
        file=ROWS,
        old="        last = row[",
        new="        last = False and row[",
        breaks="a row that kills its claimers kills them all",
        among="rows",
    ),
    Mutant(
        name="a stale claimer is not told",
        file=ROWS,
        old="values(values)) != 1:\n            raise StaleClaim",
        new="values(values)) > 1:\n            raise StaleClaim",
        breaks="the effect of a stale claimer is committed, and its successor's too",
        among="rows",
    ),
    Mutant(
        name="renewing renews nothing",
        file=ROWS,
        old="        return self._set(claimed_at=Now())\n",
        new='        return self._set(claimed_at=self._column["claimed_at"])\n',
        breaks="long work loses its row though it renews",
        among="rows",
    ),
    Mutant(
        name="a failed row does not rest",
        file=ROWS,
        old='status=self._state["pending"], claimed_at=Now() + literal(wait), error=text)',
        new='status=self._state["pending"], claimed_at=null(), error=text)',
        breaks="a row that fails uses up its attempts at once",
        by=(f"{SUITE}::test_patterns[a_row_that_fails_comes_again_after_its_rest_and_is_failed_in_the_end]",),
        why="claimers of a world look once a second, and no promise is about that rest",
    ),
)
