"""A seat, in which an invocation waits (``on_contention="coalesce"``): shown with its lock, and no lock of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from singleton import LockClient
from singleton.locking.seat import seat_name
from tests.support.lock_thread import FOREIGN
from tests.support.locks_command import stamped

if TYPE_CHECKING:
    from tests.support.lock_thread import LockThread
    from tests.support.locks_command import Command

LOCK = "locks/app/refresh.42"
SEAT = seat_name(LOCK)


def waited_for(thread: LockThread, word: str = "waiting") -> None:
    """Have the lock held, and an invocation of another process in its seat."""
    thread.taken_by_another_process(LOCK)
    stamped(thread, SEAT, SingletonNext=word, SingletonHost="i2", SingletonPid="7", FunctionInstance="inv-9")
    thread.do(lambda: thread.memory.acquire(SEAT, FOREIGN, 60))


def test_a_listing_shows_who_waits_under_the_name_of_the_lock(thread: LockThread, locks: Command) -> None:
    waited_for(thread)
    for extra in ((), ("--held",), ("--function", "refresh")):
        assert locks("list", *extra) == 0
        _, held, waits = locks.out.splitlines()
        assert held.split()[0] == "held"
        assert waits.startswith("waits")
        assert "instance i2, pid 7" in waits
        assert "inv-9" in waits
        assert waits.endswith(LOCK)
        assert locks.err.startswith("1 lock, 1 held, 1 waited for; 2 blobs read")
    held, waits = locks.json("list")
    assert [(each["name"], each["held"], each["waits"]) for each in (held, waits)] == [
        (LOCK, True, False),
        (LOCK, False, True),
    ]
    assert waits["holder"]["invocation"] == "inv-9"
    assert waits["holder"]["token"] is None


def test_a_lease_without_an_end_on_a_seat_is_shown_and_broken(thread: LockThread, locks: Command) -> None:
    stamped(thread, LOCK)
    stamped(thread, SEAT, SingletonNext="begun", SingletonHost="i2", FunctionInstance="inv-9")
    thread.do(lambda: thread.memory.acquire(SEAT, FOREIGN, -1))
    assert locks("list") == 0
    assert "seat held for ever" in locks.out
    assert locks("show", LOCK) == 0
    told = " ".join(locks.out.split())
    assert f"seat a lease without an end: nothing ends it but its owner, or `singleton-locks break '{SEAT}'" in told
    assert locks("break", SEAT) == 2
    assert "has no end: give --now" in locks.err
    assert locks("break", SEAT, "--yes", "--wait") == 0
    assert thread.leased() == set()


def test_the_lock_is_shown_with_who_waits_for_it(thread: LockThread, locks: Command) -> None:
    waited_for(thread)
    assert locks("show", LOCK) == 0
    assert "  waits        instance i2, pid 7, inv-9\n" in locks.out
    assert locks.json("show", LOCK)["waiter"]["invocation"] == "inv-9"
    thread.given_back_by_the_other(SEAT)
    assert locks.json("show", LOCK)["waiter"] is None


def test_a_seat_whose_body_has_begun_or_that_is_free_is_shown_nowhere(thread: LockThread, locks: Command) -> None:
    waited_for(thread, "begun")
    assert [each["name"] for each in locks.json("list")] == [LOCK]
    thread.given_back_by_the_other(SEAT)
    assert locks("list") == 0
    assert locks.err.startswith("1 lock, 1 held; 2 blobs read")


@pytest.mark.parametrize(
    "command",
    [
        ("show", SEAT),
        ("break", SEAT, "--now"),
        ("state", SEAT, "--remove"),
        ("hold", SEAT, "--reason", "x", "--for", "0s"),
        ("hold", "locks/app/refresh~next", "--new", "--reason", "x", "--for", "0s"),
    ],
)
def test_a_seat_is_refused_where_a_lock_is_named(thread: LockThread, locks: Command, command: tuple[str, ...]) -> None:
    waited_for(thread)
    assert locks(*command) == 2
    assert "Name the lock" in locks.err
    assert thread.leased() == {LOCK, SEAT}


def test_a_seat_is_no_lock_for_clients_watching_comparing_and_lifting(thread: LockThread, locks: Command) -> None:
    waited_for(thread)
    with LockClient("AzureWebJobsStorage") as client:
        assert [each.name for each in client.locks()] == [LOCK]
    assert LOCK in str(locks.lines("watch", "--for", "0s"))
    assert SEAT not in str(locks.lines("watch", "--for", "0s"))
    thread.given_back_by_the_other(LOCK)
    thread.given_back_by_the_other(SEAT)
    assert locks.json("lift-epochs")["kept"] == 1, "a lease of the command on a seat would stand for a waiter"
    stamped(thread, "locks/app/send.42~next", SingletonNext="begun", SingletonEpoch="9999999999999")
    stamped(thread, "locks/app/send.42")
    assert locks.json("ahead", "locks/app/send", "locks/app/refresh")["ahead"] == []


def test_an_old_seat_is_swept_and_a_seat_with_a_waiter_is_not(thread: LockThread, locks: Command) -> None:
    waited_for(thread)
    thread.push_clock(120)
    thread.do(lambda: thread.memory.acquire(SEAT, FOREIGN, 60))
    assert locks.json("sweep", "--older-than", "1m")["in_use"] == 1
    thread.given_back_by_the_other(SEAT)
    thread.push_clock(120)
    assert locks.json("sweep", "--older-than", "1m", "--dry-run")["swept"] == 1
