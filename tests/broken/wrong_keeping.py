"""Locks that forget, mix up or repeat what is kept with them: state, results of ``once``, inboxes, outboxes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from singleton.base.state import Kept, written_as
from singleton.locking.section_state import SectionState
from singleton.patterns.once import once_guard
from singleton.patterns.once.block import BaseOperation, OnceBlock
from singleton.patterns.once.results import Look, Outcome
from singleton.patterns.ordered import trigger, visit
from singleton.patterns.ordered.aside_messages import remove_aside
from singleton.patterns.ordered.log_reader import LogReader
from singleton.patterns.ordered.visit import Visit
from singleton.patterns.outbox import OutboxRelay
from tests.broken.breaking import Now, around, broken

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.patterns.ordered.entries import Entry
    from singleton.patterns.outbox import Claim, Message
    from tests.broken.breaking import Patch


@broken("hold.state of 'count_up': a value that was kept is gone", app="keeping")
def a_write_of_state_is_dropped(patch: Patch) -> None:
    async def write(_: SectionState, __: Kept) -> None:
        return

    patch.setattr(SectionState, "write", write)


@broken("an older value was read", app="keeping")
def every_tenth_write_of_state_is_dropped(patch: Patch) -> None:
    now = Now(10)

    def made(real: Any) -> Any:
        async def write(self: SectionState, kept: Kept) -> None:
            if kept.marks.get("SingletonState") == "once" or not now():
                await real(self, kept)

        return write

    around(patch, SectionState, "write", made)


@broken("hold.state of 'count_up': a value of another key was read", app="keeping")
def all_locks_of_a_process_keep_one_state(patch: Patch) -> None:
    kept_here: list[Kept] = [Kept()]

    def made(_: Any) -> Any:
        async def write(_: SectionState, kept: Kept) -> None:
            kept_here[0] = replace(kept, marks={**kept.marks})

        return write

    async def read(_: SectionState) -> Kept:
        return kept_here[0]

    around(patch, SectionState, "write", made)
    patch.setattr(SectionState, "read", read)


@broken("hold.state of 'flag': a value was read that nobody had written", app="keeping")
def state_that_is_removed_is_null(patch: Patch) -> None:
    def made(real: Any) -> Any:
        return lambda self, kept: real(self, kept if kept.marks else written_as(None))

    around(patch, SectionState, "write", made)


@broken("a body ran again after its result was kept", app="keeping")
def what_was_done_once_is_done_again(patch: Patch) -> None:
    def outcome_in(*_: Any) -> None:
        return None

    patch.setattr(Look, "outcome_in", outcome_in)


@broken("a block of once in 'number': a value was read that nobody had written", app="keeping")
def a_block_of_once_that_raised_counts_as_done(patch: Patch) -> None:
    def made(real: Any) -> Any:
        def enter(self: Any) -> Any:
            operation, leave = real(self), self._block.__exit__

            def left(*how: Any) -> None:
                operation._end()
                leave(*how)

            self._block = SimpleNamespace(__exit__=left)
            return operation

        return enter

    around(patch, OnceBlock, "__enter__", made)


@broken("got from once(…).run something else than what its work had returned", app="keeping")
def a_run_of_once_keeps_another_result(patch: Patch) -> None:
    around(patch, BaseOperation, "_keeping", lambda real: lambda self, result: real(self, f"{result}!"))


@broken("@once of 'receipt': a value of another key was read", app="keeping")
def once_answers_with_the_result_of_another_key(patch: Patch) -> None:
    last: dict[str, Outcome] = {}

    def made(real: Any) -> Any:
        def replayed(call: Any, outcome: Outcome) -> Any:
            other = last.get(call.function, outcome)
            last[call.function] = outcome
            return real(call, other)

        return replayed

    around(patch, once_guard, "_replayed", made)


@broken("output 'out' of @once of 'bill': a value that was kept is gone", app="bills")
def a_repeat_sets_no_outputs(patch: Patch) -> None:
    def made(real: Any) -> Any:
        return lambda call, outcome: real(call, replace(outcome, outputs={}))

    around(patch, once_guard, "_replayed", made)


@broken("@once of 'receipt': a value was read that nobody had written", app="bills")
def a_repeat_gets_an_answer_without_its_headers(patch: Patch) -> None:
    def made(real: Any) -> Any:
        def replayed(call: Any, outcome: Outcome) -> Any:
            answer = real(call, outcome)
            if hasattr(answer, "headers"):
                answer.headers.clear()
            return answer

        return replayed

    around(patch, once_guard, "_replayed", made)


@broken("a message ran before an earlier one of its key was over", app="inboxes")
def an_inbox_swaps_two_messages(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def more(self: LogReader) -> list[Entry]:
            entries: list[Entry] = await real(self)
            for at in range(0, len(entries) - 1, 2):
                first, second = entries[at], entries[at + 1]
                entries[at : at + 2] = replace(first, body=second.body), replace(second, body=first.body)
            return entries

        return more

    around(patch, LogReader, "more", made)


@broken("a message ran before an earlier one of its key was over", app="inboxes")
def an_inbox_drops_a_message(patch: Patch) -> None:
    now = Now(6)

    def made(real: Any) -> Any:
        async def tried(self: Visit, *args: Any) -> Exception | None:
            return None if now() else await real(self, *args)

        return tried

    around(patch, Visit, "_tried", made)


@broken("which failed and is tried 5 times, was over", app="inboxes", options="--duration 14")
def an_inbox_passes_over_a_message_that_failed_once(patch: Patch) -> None:
    patch.setattr(Visit, "_is_spent", lambda _, position: position.failures > 0)


@broken("a message was tried again before the 1 s that follow its failure 1", app="inboxes", options="--duration 14")
def an_inbox_tries_a_message_again_without_a_pause(patch: Patch) -> None:
    patch.setattr(visit, "_FIRST_PAUSE", 0.0)


@broken("a message was tried more often than the 2 times that the app allows", app="attempts", options="--duration 8")
def an_inbox_tries_a_message_as_often_as_it_likes(patch: Patch) -> None:
    patch.setattr(Visit, "_is_spent", lambda _, position: position.failures >= 4)


@broken("which failed and stops its key, was over", app="attempts", options="--duration 8")
def an_inbox_goes_on_with_a_key_that_it_must_stop(patch: Patch) -> None:
    around(patch, trigger, "checked_rules", lambda real: lambda attempts, _: real(attempts, "skip"))


@broken("a message was told another number of its attempt than its own", app="attempts", options="--duration 8")
def handlers_are_told_that_each_attempt_is_the_first(patch: Patch) -> None:
    _handlers_are_told(patch, attempt=1)


@broken("a message was told another token than its hold's", app="attempts", options="--duration 8")
def handlers_are_told_no_token(patch: Patch) -> None:
    _handlers_are_told(patch, token=None)


@broken("a message was handled that nobody had sent with this key and body", app="attempts", options="--duration 8")
def handlers_are_told_another_key(patch: Patch) -> None:
    _handlers_are_told(patch, key="none")


@broken("was not tried again when it was due after failure 1", app="rests", options="--duration 25")
def an_inbox_lets_a_message_that_failed_rest_for_a_minute(patch: Patch) -> None:
    patch.setattr(visit, "_FIRST_PAUSE", 60.0)


@broken("a message failed for the last time, and was not put aside", app="attempts", options="--duration 12")
def an_inbox_puts_nothing_aside(patch: Patch) -> None:
    async def put_aside(*_: Any, **__: Any) -> str:
        return "nowhere"

    patch.setattr(visit, "put_aside", put_aside)


@broken("a message was put aside, and deleted by nobody's order", app="attempts", options="--duration 12")
def an_inbox_deletes_what_was_put_aside(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def put_aside(store: Any, *given: Any, **more: Any) -> str:
            name: str = await real(store, *given, **more)
            await remove_aside(store, name)
            return name

        return put_aside

    around(patch, visit, "put_aside", made)


def _handlers_are_told(patch: Patch, **wrong: Any) -> None:
    around(patch, visit, "InboxMessage", lambda real: lambda **told: real(**told | wrong))


@broken("a message ran again after it was done", app="inboxes")
def an_inbox_gives_a_message_to_its_handler_twice(patch: Patch) -> None:
    now = Now(6)

    def made(real: Any) -> Any:
        async def tried(self: Visit, *args: Any) -> Exception | None:
            if now():
                await real(self, *args)
            return await real(self, *args)  # type: ignore[no-any-return]

        return tried

    around(patch, Visit, "_tried", made)


@broken("vanished from its table, and nobody had noted it as sent", app="attempts", options="--duration 20")
def an_outbox_deletes_what_was_put_aside(patch: Patch) -> None:
    from sqlalchemy import delete

    from singleton.patterns.sql.sql_outbox import SqlOutbox

    def made(real: Any) -> Any:
        def tidy(self: SqlOutbox, connection: Any, *given: Any) -> Any:
            connection.execute(delete(self.table).where(self.table.c.state.in_(("poison", "stopped"))))
            return real(self, connection, *given)

        return tidy

    around(patch, SqlOutbox, "_tidy", made)


@broken("a message was sent with another key, destination or body than was added", app="outboxes")
def messages_of_an_outbox_lose_their_destination(patch: Patch) -> None:
    from singleton.patterns.sql import sql_outbox

    around(patch, sql_outbox, "_message", lambda real: lambda *args: replace(real(*args), destination=None))


@broken("a message was noted as sent before it was sent", app="outboxes")
def a_relay_notes_a_message_as_sent_before_it_sends(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def over(self: OutboxRelay, hold: Any, message: Message) -> bool:
            await self._ask(self._outbox.sent, message)
            return await real(self, hold, message)  # type: ignore[no-any-return]

        return over

    around(patch, OutboxRelay, "_over", made)


@broken("a message was given up before its attempts were used up", app="attempts", options="--duration 8")
def a_relay_gives_a_message_up_at_its_second_attempt(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def failed(self: OutboxRelay, message: Message, error: str) -> bool:
            self._attempts = min(self._attempts, 2)
            return await real(self, message, error)  # type: ignore[no-any-return]

        return failed

    around(patch, OutboxRelay, "_failed", made)


@broken("that had failed, not tried again when it was due", app="attempts", options="--duration 14")
def a_relay_lets_a_message_that_failed_rest_for_the_longest_pause(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def failed(self: OutboxRelay, message: Message, error: str) -> bool:
            self._backoff = self._longest
            return await real(self, message, error)  # type: ignore[no-any-return]

        return failed

    around(patch, OutboxRelay, "_failed", made)


def _rows_fail(patch: Patch, made: Callable[[Any, Claim, float], tuple[Claim, float]]) -> None:
    from singleton.patterns.sql.rowstates import RowStates

    def failing(real: Any) -> Any:
        def failure(self: Any, claim: Claim, error: object, retry_in: float) -> Any:
            claim, retry_in = made(self, claim, retry_in)
            return real(self, claim, error, retry_in)

        return failure

    around(patch, RowStates, "_failure", failing)


@broken("that had failed, not tried again when it was due", app="rows", options="--duration 14")
def a_row_fails_for_good_at_its_first_failure(patch: Patch) -> None:
    _rows_fail(patch, lambda rows, claim, retry_in: (replace(claim, attempt=rows._attempts), retry_in))


@broken("that had failed, tried again before its pause was over", app="rows", options="--duration 12")
def a_row_that_failed_is_claimed_again_at_once(patch: Patch) -> None:
    _rows_fail(patch, lambda _, claim, __: (claim, 0.0))


@broken("that had failed, tried again after its last attempt", app="rows", options="--duration 14")
def a_row_is_claimed_after_its_last_attempt(patch: Patch) -> None:
    _rows_fail(patch, lambda _, claim, retry_in: (replace(claim, attempt=1), retry_in))


@broken("a message was sent behind one that was given up and stops its key", app="attempts", options="--duration 20")
def a_key_of_an_outbox_goes_on_behind_the_message_that_stops_it(patch: Patch) -> None:
    from singleton.patterns.sql.sql_outbox import SqlOutbox

    around(patch, SqlOutbox, "_failed", lambda real: lambda *args, **more: real(*args, **{**more, "stops": False}))


def _tells(patch: Patch, **what: int) -> None:
    def made(real: Any) -> Any:
        async def call(self: OutboxRelay, function: Any, *given: Any, **named: Any) -> Any:
            given = (replace(given[0], **what),) if function is self._send else given
            return await real(self, function, *given, **named)

        return call

    around(patch, OutboxRelay, "_call", made)


@broken("shop.db': a message was told another number of its attempt than its own", app="attempts")
def a_message_of_an_outbox_tells_its_first_attempt_always(patch: Patch) -> None:
    _tells(patch, attempt=1)


@broken("a message was told another token than its relay's hold has", app="outboxes", options="--duration 8")
def a_message_of_an_outbox_tells_another_token(patch: Patch) -> None:
    _tells(patch, token=1)


@broken("a message was sent again after it was noted as sent", app="outboxes")
def a_relay_sends_twice(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def over(self: OutboxRelay, hold: Any, message: Message) -> bool:
            done: bool = await real(self, hold, message)
            self._send(message)
            return done

        return over

    around(patch, OutboxRelay, "_over", made)


@broken("a message was sent before an earlier one of its key", app="outboxes")
def a_relay_sends_the_newest_message_first(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def send_all(self: OutboxRelay, hold: Any, batch: list[Message], stopping: Any) -> None:
            for message in reversed(batch):
                self._send(message)
            await real(self, hold, batch, stopping)

        return send_all

    around(patch, OutboxRelay, "_send_all", made)
