"""What an outbox promises, on any SQL database: a scenario gets an engine and a table that is empty."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from singleton import LockLost
from singleton.patterns.outbox import Message, OutboxRelay, StaleClaim
from singleton.patterns.sql import SqlOutbox
from tests.support.patterns import Receiver, add, column, go_by, held

if TYPE_CHECKING:
    from sqlalchemy import Engine


def made(engine: Engine) -> SqlOutbox:
    outbox = SqlOutbox(engine)
    outbox.create_table()
    return outbox


def all_is_sent_once_in_the_order_of_each_key(engine: Engine) -> None:
    outbox, receiver = made(engine), Receiver()
    add(engine, outbox, "a1", "b1", "1", "a2", "b2", "2")
    OutboxRelay(outbox, receiver, batch=2).work(held(5))
    assert receiver.got == ["a1", "b1", "1", "a2", "b2", "2"]
    assert {(each.attempt, each.token) for each in receiver.messages} == {(1, 5)}
    assert [each.key for each in receiver.messages] == ["a", "b", None, "a", "b", None]
    OutboxRelay(outbox, receiver).work(held(6))
    assert len(receiver.got) == 6


def what_is_rolled_back_is_not_sent_and_a_session_will_do(engine: Engine) -> None:
    outbox, receiver = made(engine), Receiver()
    with Session(engine) as session:
        outbox.add(session, "no", key="a")
        session.rollback()
        outbox.add(session, "yes", key="a", destination="there")
        session.commit()
    OutboxRelay(outbox, receiver).work(held())
    assert [(each.body, each.destination) for each in receiver.messages] == [("yes", "there")]


def a_second_message_of_one_id_is_refused(engine: Engine) -> None:
    outbox = made(engine)
    add(engine, outbox, "a1")
    with pytest.raises(IntegrityError):
        add(engine, outbox, "a1")


def a_message_that_fails_waits_longer_each_time_and_its_key_with_it(engine: Engine) -> None:
    outbox, receiver = made(engine), Receiver(refuses=lambda each: each.body == "a1" and each.attempt < 4)
    add(engine, outbox, "a1", "b1", "a2", "b2")
    relay = OutboxRelay(outbox, receiver, backoff=10, longest=25)
    for wait in (10, 20, 25):
        relay.work(held())
        assert receiver.got == ["b1", "b2"]
        go_by(engine, outbox.table, wait - 1)
        relay.work(held())
        assert receiver.got == ["b1", "b2"]
        go_by(engine, outbox.table, 1.1)
    relay.work(held())
    assert receiver.got == ["b1", "b2", "a1", "a2"]
    assert [each.attempt for each in receiver.messages if each.key == "a"] == [4, 1]
    assert column(engine, outbox.table, "error") == [None] * 4


def poison_is_kept_with_its_error_and_the_key_goes_on(engine: Engine) -> None:
    outbox, bad = made(engine), {"a1"}
    receiver = Receiver(refuses=lambda each: each.body in bad)
    add(engine, outbox, "a1", "a2")
    relay = OutboxRelay(outbox, receiver, attempts=1)
    relay.work(held())
    assert receiver.got == ["a2"]
    (poison,) = outbox.poisoned()
    assert (poison["id"], poison["state"], poison["attempts"]) == ("a1", "poison", 1)
    assert poison["error"] == "OSError: no way to the receiver of a1"
    bad.clear()
    assert outbox.put_back("a1")
    assert not outbox.put_back("a1")
    relay.work(held())
    assert receiver.got == ["a2", "a1"]
    assert outbox.poisoned() == []


def an_error_that_no_database_takes_holds_up_nobody(engine: Engine) -> None:
    outbox, got = made(engine), list[str]()
    add(engine, outbox, "a1", "b1")

    def send(message: Message) -> None:
        if message.body == "a1":
            raise OSError("in \0 and \udcff")
        got.append(message.body)

    OutboxRelay(outbox, send).work(held())
    assert (got, column(engine, outbox.table, "error")) == (["b1"], ["OSError: in ? and ?", None])


def poison_stops_its_key_where_that_is_wanted_until_somebody_says_what_becomes_of_it(engine: Engine) -> None:
    outbox, bad = made(engine), {"a1", "c1"}
    receiver = Receiver(refuses=lambda each: each.body in bad)
    add(engine, outbox, "a1", "c1", "a2", "c2", "b1")
    relay = OutboxRelay(outbox, receiver, attempts=1, on_poison="stop")
    relay.work(held())
    relay.work(held())
    assert receiver.got == ["b1"]
    assert [each["state"] for each in outbox.poisoned()] == ["stopped", "stopped"]
    bad.clear()
    assert outbox.put_back("a1")
    assert outbox.set_aside("c1")
    assert not outbox.set_aside("c1")
    relay.work(held())
    assert receiver.got == ["b1", "a1", "a2", "c2"]
    assert [each["id"] for each in outbox.poisoned()] == ["c1"]


def a_process_that_ends_in_the_middle_of_each_attempt_does_not_try_for_ever(engine: Engine) -> None:
    outbox = made(engine)
    add(engine, outbox, "a1", "a2", "b1")

    def dies(message: Message) -> None:
        if message.body == "a1":
            raise KeyboardInterrupt

    receiver = Receiver(sees=dies)
    relay = OutboxRelay(outbox, receiver, attempts=2)
    for token in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            relay.work(held(token))
    relay.work(held(3))
    assert receiver.got == ["a2", "b1"]
    assert [each["error"] for each in outbox.poisoned()] == ["the process ended in the middle of the last attempt"]


def a_relay_that_was_paused_past_its_lease_writes_nothing(engine: Engine) -> None:
    outbox = made(engine)
    add(engine, outbox, "a1", "a2")
    old = outbox.claim(1, 10)
    assert outbox.attempt(old[0])
    new = outbox.claim(2, 10)
    assert new[0].attempt == 2
    for late in (
        lambda: outbox.claim(1, 10),
        lambda: outbox.attempt(old[0]),
        lambda: outbox.attempt(old[1]),
        lambda: outbox.sent(old[0]),
        lambda: outbox.failed(old[0], "late", again_in=None, stops=True),
        lambda: outbox.tidy(1, 0.0),
    ):
        with pytest.raises(StaleClaim, match="greater token than 1"):
            late()
    assert column(engine, outbox.table, "state") == ["pending", "pending"]
    assert column(engine, outbox.table, "attempts") == [1, 0]
    receiver = Receiver()
    OutboxRelay(outbox, receiver).work(held(2))
    assert receiver.got == ["a1", "a2"]


def a_relay_that_is_overtaken_while_it_sends_ends_its_batch_as_lost(engine: Engine) -> None:
    outbox, successor = made(engine), Receiver()
    add(engine, outbox, "a1", "a2", "b1")
    overtaken = Receiver(sees=lambda _: OutboxRelay(outbox, successor).work(held(2)))
    with pytest.raises(LockLost, match="a greater token than 1") as caught:
        OutboxRelay(outbox, overtaken).work(held(1))
    assert (caught.value.lock, caught.value.reason) == ("relay", "stolen")
    assert isinstance(caught.value.__cause__, StaleClaim)
    assert overtaken.got == ["a1"]
    assert [(each.body, each.attempt) for each in successor.messages] == [("a1", 2), ("a2", 1), ("b1", 1)]


def nothing_is_sent_once_the_hold_is_lost(engine: Engine) -> None:
    outbox, hold = made(engine), held()
    add(engine, outbox, "a1", "a2")
    receiver = Receiver(sees=lambda _: hold.lost.fire("expired"))
    with pytest.raises(LockLost, match="expired"):
        OutboxRelay(outbox, receiver).work(hold)
    assert receiver.got == ["a1"]
    assert column(engine, outbox.table, "state") == ["sent", "pending"]  # it was sent, and nobody else was there


def nothing_is_sent_that_was_counted_while_the_hold_was_lost(engine: Engine) -> None:
    outbox, hold, receiver = made(engine), held(), Receiver()
    add(engine, outbox, "a1")
    attempt = outbox.attempt

    def stands_still(message: Message, /) -> bool:
        counted = attempt(message)
        hold.lost.fire("expired")
        return counted

    outbox.attempt = stands_still  # type: ignore[method-assign]
    with pytest.raises(LockLost):
        OutboxRelay(outbox, receiver).work(hold)
    assert receiver.got == []


def a_loss_that_is_not_the_relays_own_is_a_failure_of_the_one_message(engine: Engine) -> None:
    outbox = made(engine)
    add(engine, outbox, "a1", "a2", "b1")

    def loses_its_own(message: Message) -> None:
        if message.key == "a":
            raise LockLost("the hold of lock 'partner/a' is lost (expired)", lock="partner/a", reason="expired")

    receiver = Receiver(sees=loses_its_own)
    OutboxRelay(outbox, receiver).work(held())
    assert receiver.got == ["b1"]
    assert column(engine, outbox.table, "state") == ["pending", "pending", "sent"]
    assert column(engine, outbox.table, "error") == [
        "LockLost: the hold of lock 'partner/a' is lost (expired)",
        None,
        None,
    ]


def the_loss_of_the_relays_own_hold_ends_the_run_in_send_too(engine: Engine) -> None:
    outbox, hold = made(engine), held()
    add(engine, outbox, "a1", "b1")

    def sees(_: Message) -> None:
        hold.lost.fire("expired")
        hold.raise_if_lost()

    receiver = Receiver(sees=sees)
    with pytest.raises(LockLost, match="'relay'"):
        OutboxRelay(outbox, receiver).work(hold)
    assert column(engine, outbox.table, "attempts") == [1, 0]
    assert column(engine, outbox.table, "error") == [None, None]


def while_locking_is_switched_off_all_is_sent_and_the_fence_stays(engine: Engine) -> None:
    outbox, receiver = made(engine), Receiver()
    add(engine, outbox, "a1")
    OutboxRelay(outbox, receiver).work(held(7))
    add(engine, outbox, "a2")
    OutboxRelay(outbox, receiver, keep=0).work(held(None))
    add(engine, outbox, "a3")
    OutboxRelay(outbox, receiver).work(held(8))
    assert [(each.body, each.token) for each in receiver.messages] == [("a1", 7), ("a2", 0), ("a3", 8)]
    OutboxRelay(outbox, receiver).work(held(None))
    with pytest.raises(StaleClaim, match="greater token than 7"):
        outbox.claim(7, 1)


def messages_without_a_key_wait_for_nobody(engine: Engine) -> None:
    outbox, receiver = made(engine), Receiver(refuses=lambda message: message.body == "1")
    add(engine, outbox, "1", "2", "a1")
    OutboxRelay(outbox, receiver).work(held())
    assert receiver.got == ["2", "a1"]


def it_is_not_a_messages_turn_while_an_earlier_one_of_its_key_is_pending(engine: Engine) -> None:
    outbox = made(engine)
    add(engine, outbox, "a1", "a2", "b1")
    first, second, other = outbox.claim(1, 10)
    assert not outbox.attempt(second)
    assert outbox.attempt(other)
    assert outbox.attempt(first)
    assert not outbox.attempt(first)  # that attempt is counted
    outbox.sent(first)
    assert outbox.attempt(second)
    assert not outbox.attempt(first)


def what_was_sent_is_deleted_after_a_while(engine: Engine) -> None:
    outbox, receiver = made(engine), Receiver(refuses=lambda each: each.body == "b1")
    add(engine, outbox, "a1", "b1")
    relay = OutboxRelay(outbox, receiver, attempts=1, keep=timedelta(hours=1))
    relay.work(held())
    go_by(engine, outbox.table, 3590)
    relay.work(held())
    assert column(engine, outbox.table, "id") == ["a1", "b1"]
    go_by(engine, outbox.table, 20)
    relay.work(held())
    assert column(engine, outbox.table, "id") == ["b1"]
    OutboxRelay(outbox, receiver, keep=None).work(held())


def a_body_of_many_kilobytes_arrives_whole(engine: Engine) -> None:
    outbox, receiver = made(engine), Receiver()
    with engine.begin() as connection:
        outbox.add(connection, "顧客" * 50_000)
    OutboxRelay(outbox, receiver).work(held())
    assert receiver.got == ["顧客" * 50_000]


def ids_and_keys_are_values_and_never_sql(engine: Engine) -> None:
    outbox, receiver = made(engine), Receiver()
    nasty = "'; DROP TABLE outbox; --"
    with engine.begin() as connection:
        outbox.add(connection, nasty, key=nasty, id=nasty, destination=nasty)
    OutboxRelay(outbox, receiver).work(held())
    (message,) = receiver.messages
    assert {message.id, message.key, message.body, message.destination} == {nasty}
    assert not outbox.put_back(nasty)
    with engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(outbox.table)).scalar() == 1


SCENARIOS: tuple[Any, ...] = (
    all_is_sent_once_in_the_order_of_each_key,
    what_is_rolled_back_is_not_sent_and_a_session_will_do,
    a_second_message_of_one_id_is_refused,
    a_message_that_fails_waits_longer_each_time_and_its_key_with_it,
    poison_is_kept_with_its_error_and_the_key_goes_on,
    an_error_that_no_database_takes_holds_up_nobody,
    poison_stops_its_key_where_that_is_wanted_until_somebody_says_what_becomes_of_it,
    a_process_that_ends_in_the_middle_of_each_attempt_does_not_try_for_ever,
    a_relay_that_was_paused_past_its_lease_writes_nothing,
    a_relay_that_is_overtaken_while_it_sends_ends_its_batch_as_lost,
    nothing_is_sent_once_the_hold_is_lost,
    nothing_is_sent_that_was_counted_while_the_hold_was_lost,
    a_loss_that_is_not_the_relays_own_is_a_failure_of_the_one_message,
    the_loss_of_the_relays_own_hold_ends_the_run_in_send_too,
    while_locking_is_switched_off_all_is_sent_and_the_fence_stays,
    messages_without_a_key_wait_for_nobody,
    it_is_not_a_messages_turn_while_an_earlier_one_of_its_key_is_pending,
    what_was_sent_is_deleted_after_a_while,
    a_body_of_many_kilobytes_arrives_whole,
    ids_and_keys_are_values_and_never_sql,
)
