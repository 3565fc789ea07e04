"""``singleton-locks`` where a name, a prefix or a function matches no lock: a mistake, but for an empty container."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from singleton.base.errors import StorageUnavailable
from tests.support.lock_thread import FOREIGN
from tests.support.locks_command import made, stamped

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.lock_thread import LockThread
    from tests.support.locks_command import Command

SHIP = "locks/app/ship.42"
WRONG = (
    ("list", "--function", "shipp"),
    ("list", "--prefix", "lock/"),
    ("list", "--prefix", "locks/app/shop."),
    ("list", "--prefix", "app"),
    ("list", "--held", "--older-than", "1h", "--prefix", "lock/"),
    ("list", "--prefix", "locks/app/s", "--function", "shipp"),
    ("sweep", "--older-than", "1m", "--prefix", "lock/"),
    ("sweep", "--older-than", "1m", "--prefix", "lock/", "--dry-run"),
)


def a_turn(monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], object]) -> None:
    """Do one thing at each pause, and press Ctrl-C at the one after the last."""
    left = iter(steps)

    def pause(_: float) -> None:
        step = next(left, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr("time.sleep", pause)


@pytest.mark.parametrize("command", WRONG, ids=" ".join)
def test_what_matches_no_lock_at_all_is_a_mistake_and_the_right_one_is_suggested(
    thread: LockThread, locks: Command, command: tuple[str, ...]
) -> None:
    stamped(thread, SHIP)
    assert locks(*command) == 2
    assert locks.out == ""
    assert locks.err.count("\n") == 1
    assert "id you mean" in locks.err
    wanted = "'ship'?" if "--function" in command else "'locks/"
    assert wanted in locks.err
    error = locks.json(*command, code=2)
    assert set(error) == {"error", "exit"}
    assert thread.do(lambda: thread.memory.read(SHIP)).metadata["SingletonEpoch"] == "7"


@pytest.mark.parametrize("command", WRONG, ids=" ".join)
def test_where_there_is_no_lock_yet_nothing_is_a_mistake(
    thread: LockThread, locks: Command, command: tuple[str, ...]
) -> None:
    thread.do(lambda: thread.memory.note("deferred/1", {"failures": "2"}))
    assert locks(*command) == 0
    assert "mean" not in locks.err


def test_who_gives_a_function_like_no_other_is_told_which_there_are(thread: LockThread, locks: Command) -> None:
    for name in (SHIP, "locks/app/pay"):
        stamped(thread, name)
    assert locks("list", "--function", "invoice") == 2
    assert "there is no lock of function 'invoice' in container 'webjobshost'. Those that have any: 'pay', 'ship'" in (
        locks.err
    )


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("ship.contoso", "locks/app/ship.contoso"),
        ("ship/contoso", "locks/app/ship.contoso"),
        ("ship contoso", "locks/app/ship.contoso"),
        ("ship(contoso)", "locks/app/ship.contoso"),
        ("ship.contso", "locks/app/ship.contoso"),
        ("contoso", "locks/app/ship.contoso"),
        ("app/ship.contoso", "locks/app/ship.contoso"),
        ("load", "locks/app/load"),
        ("pay.a b", "locks/app/pay.a%20b"),
        ("load #3", "locks/app/load/slot-3"),
        ("tick (listener)", "locks/app/tick~listener"),
    ],
)
def test_a_lock_by_its_function_and_scope_as_a_user_or_the_simulator_writes_them_is_suggested(
    thread: LockThread, locks: Command, typed: str, name: str
) -> None:
    for known in ("load", "load/slot-3", "other.42", "pay.a%20b", "ship.contoso", "tick~listener"):
        stamped(thread, f"locks/app/{known}")
    assert locks("show", typed) == 2
    assert f"'{name}'" in locks.err.partition("Did you mean ")[2]


def test_the_function_of_the_typed_name_goes_before_a_lock_with_a_similar_name(
    thread: LockThread, locks: Command
) -> None:
    for known in ("locks/app/report", "locks/app/report-x", "report-x", "nightly/report"):
        stamped(thread, known)
    assert locks("show", "report") == 2
    assert "Did you mean 'locks/app/report', 'nightly/report'?" in locks.err
    assert locks("show", "reprt-x") == 2
    assert "Did you mean 'report-x'?" in locks.err


def test_what_matches_locks_of_which_none_is_wanted_is_no_mistake(thread: LockThread, locks: Command) -> None:
    stamped(thread, SHIP)
    assert locks.json("list", "--prefix", "locks/app/s", "--held") == []
    assert locks.json("list", "--function", "ship", "--older-than", "1h") == []
    assert locks("sweep", "--older-than", "7d", "--prefix", "locks/app/s") == 0


@pytest.mark.parametrize("command", [["show"], ["break"], ["hold", "--reason", "x"]])
def test_a_semaphores_own_name_is_told_apart_from_a_mistyped_one_and_its_slots_are_named(
    thread: LockThread, locks: Command, command: list[str]
) -> None:
    for number in (10, 2, 0):
        made(thread, f"sem/slot-{number}")
    for number in (0, 10):
        thread.do(lambda number=number: thread.memory.acquire(f"sem/slot-{number}", FOREIGN, 60))  # type: ignore[misc]
    stamped(thread, "sem/slot-2")
    stamped(thread, "sem/slot-x")
    assert locks(*command, "sem") == 2
    assert "'sem' is a semaphore, and each of its slots is a lock. Name one of them: " in locks.err
    assert "'sem/slot-0' (held), 'sem/slot-2' (free), 'sem/slot-10' (held)\n" in locks.err
    assert "mistyped" not in locks.err
    assert locks(*command, "locks/app/sem") == 2
    assert "its name is wrong" in locks.err


def test_a_semaphores_own_name_is_not_held_as_a_new_lock(thread: LockThread, locks: Command) -> None:
    thread.taken_by_another_process("sem/slot-0")
    assert locks("hold", "sem", "--reason", "x", "--new", "--for", "0s") == 2
    assert "'sem' is a semaphore, and each of its slots is a lock. Name one of them: 'sem/slot-0' (held)" in locks.err
    assert "sem" not in thread.memory._blobs
    assert locks("hold", "other", "--reason", "x", "--new", "--for", "0s") == 0


@pytest.mark.parametrize(
    "command", [["show"], ["break", "--now"], ["hold", "--reason", "x", "--for", "0s"]], ids=lambda each: each[0]
)
def test_a_lock_with_the_name_of_a_semaphore_does_not_hide_its_slots(
    thread: LockThread, locks: Command, command: list[str]
) -> None:
    stamped(thread, "sem")
    thread.taken_by_another_process("sem/slot-0")
    assert locks(*command, "sem") in (0, 1)
    assert "'sem' is also the name of a semaphore, and each of its slots is a lock: 'sem/slot-0' (held)" in locks.err


def test_a_lock_that_may_be_anothers_functions_is_not_left_out_in_silence(thread: LockThread, locks: Command) -> None:
    who = {"SingletonHost": "vm", "SingletonPid": "7", "SingletonFunction": "h1", "SingletonHeld": "0"}
    stamped(thread, "locks/app/~north", **who)
    thread.do(lambda: thread.memory.acquire("locks/app/~north", FOREIGN, 60))
    assert locks.json("list", "--held", "--function", "h2") == []
    assert "1 held lock left out: their function is not certain yet" in locks.err
    assert len(locks.json("list", "--held", "--function", "h1")) == 1
    assert "left out" not in locks.err


def test_where_no_lock_is_a_functions_that_is_said(thread: LockThread, locks: Command) -> None:
    stamped(thread, "job")
    assert locks("list", "--function", "ship") == 2
    assert "there is no lock of function 'ship' in container 'webjobshost': no function has a lock there" in locks.err


def test_whose_lease_ran_out_is_listed_with_who_had_it(thread: LockThread, locks: Command) -> None:
    stamped(thread, SHIP, SingletonHost="vm", SingletonPid="7")
    thread.do(lambda: thread.memory.acquire(SHIP, FOREIGN, 15))
    thread.push_clock(20)
    assert locks("list") == 0
    assert "was instance vm, pid 7" in locks.out


def test_a_pause_that_is_too_short_is_refused_with_the_shortest_one(locks: Command) -> None:
    assert locks("watch", "--every", "0s") == 2
    assert "'0s' is too short: give at least 0.1 s" in locks.err


def test_an_outage_while_the_end_is_waited_for_leaves_it_open_who_has_the_lock_then(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread.taken_by_another_process(SHIP)

    def away(*_: object) -> None:
        raise StorageUnavailable("away")

    monkeypatch.setattr("singleton.cli.holder_commands._ended", away)
    told = locks.json("break", SHIP, "--wait", code=3)
    assert told["broken"]
    assert told["now"] is None


def test_of_many_slots_ten_are_named(thread: LockThread, locks: Command) -> None:
    for number in range(25):
        stamped(thread, f"locks/app/ship/slot-{number}")
    assert locks("show", "locks/app/ship") == 2
    assert "'locks/app/ship/slot-9' (free) and 15 more" in locks.err


def test_watching_a_semaphore_is_watching_its_slots(thread: LockThread, locks: Command) -> None:
    for name in ("sem/slot-0", "sem/slot-1", "semaphore", "sem/slot-x"):
        thread.taken_by_another_process(name)
    seen = locks.lines("watch", "sem", "--for", "0s")
    assert [each["lock"]["name"] for each in seen] == ["sem/slot-0", "sem/slot-1"]
    assert "there is no lock" not in locks.err


@pytest.mark.parametrize("as_json", [False, True])
def test_watching_a_lock_that_is_not_there_says_so_once_and_goes_on(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch, *, as_json: bool
) -> None:
    stamped(thread, SHIP)
    name = "locks/app/shp.42"
    a_turn(monkeypatch, lambda: None, lambda: thread.taken_by_another_process(name), lambda: None)
    assert locks("watch", name, *(["--json"] if as_json else [])) == 130
    said = f"there is no lock {name!r} in container 'webjobshost': its name is wrong, or it was never taken, or "
    said += "it was swept."
    assert locks.err.count(said) == 1
    assert f"Did you mean {SHIP!r}? Waiting for it\n" in locks.err
    if as_json:
        missing, got = map(json.loads, locks.out.splitlines())
        assert (missing["seen"], missing["lock"]) == ("missing", None)
        assert datetime.fromisoformat(missing["at"]).tzinfo is not None
        assert missing["said"].startswith(said)
        assert (got["seen"], got["lock"]["name"]) == ("got", name)
    else:
        assert "got it" in locks.out


@pytest.mark.parametrize("options", [("--function", "shipp"), ("--prefix", "lock/")])
def test_watching_a_function_or_a_prefix_without_locks_says_so_too(
    thread: LockThread, locks: Command, options: tuple[str, ...]
) -> None:
    assert locks("watch", *options, "--for", "0s") == 0
    assert "Waiting for it" not in locks.err, "no lock is there yet"
    stamped(thread, SHIP)
    assert locks("watch", *options, "--for", "0s") == 0
    assert locks.err.count("Waiting for it") == 1
    assert "id you mean" in locks.err
    stamped(thread, "locks/app/free.1")
    assert locks("watch", "--function", "free", "--for", "0s") == 0
    assert "Waiting for it" not in locks.err, "a free lock is there"


def test_that_a_lock_is_not_there_is_told_when_the_storage_has_answered(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from singleton.stores.protocol import StoreFailure

    monkeypatch.setattr("singleton.cli.view_commands.READING", 0.0)
    page, away = thread.memory.page, [True]

    async def maybe(prefix: str, marker: str | None = None, most: int = 5000) -> object:
        if away[0]:
            raise StoreFailure(503, "ServerBusy")
        return await page(prefix, marker, most)

    monkeypatch.setattr(thread.memory, "page", maybe)
    a_turn(monkeypatch, lambda: away.__setitem__(0, False), lambda: None)
    assert locks("watch", SHIP) == 130
    assert locks.err.count("there is no lock") == 1
