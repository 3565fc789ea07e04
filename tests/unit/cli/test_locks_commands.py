"""``singleton-locks`` over the model of the service: what each command says, as text and as JSON, and its exit code."""

from __future__ import annotations

import dataclasses
import doctest
import itertools
import json
import math
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from singleton.base.hold import LossSignal
from singleton.cli import output
from singleton.layouts.blob_name import lock_name
from singleton.stores.protocol import StoreFailure
from tests.support.lock_thread import FOREIGN, a_job, call
from tests.support.locks_command import made, stamped

if TYPE_CHECKING:
    from tests.support.lock_thread import LockThread
    from tests.support.locks_command import Command

ROOT = Path(__file__).resolve().parents[3]
SHIP = "locks/app/ship.42"


def held_by_a_function(thread: LockThread, locks: Command, *arguments: str) -> None:
    """Run a command while a guarded function is inside."""
    job = a_job("sync", lambda: locks(*arguments), scope="Id")
    call(job, owner="inv-7", msg='{"Id": "42"}')


# --- list and show ----------------------------------------------------------------------------------------------------


def test_a_listing_names_function_scope_instance_and_process(thread: LockThread, locks: Command) -> None:
    held_by_a_function(thread, locks, "list", "--json")
    (lock,) = json.loads(locks.out)
    assert (lock["app"], lock["function"], lock["scope"], lock["held"]) == ("app", "job", ["42"], True)
    holder = lock["holder"]
    assert (holder["invocation"], holder["function"]) == ("inv-7", "job")
    assert isinstance(holder["pid"], int)
    assert holder["instance"]
    assert (holder["since"], holder["renewed"]) == (None, False)
    assert datetime.fromisoformat(holder["recorded"]) <= datetime.now(UTC)


def test_of_a_lock_that_functions_share_the_stamp_tells_whose_invocation_has_it(
    thread: LockThread, locks: Command
) -> None:
    job = a_job("sync", lambda: locks("list", "--json"), scope_id="north", level="host")
    call(job)
    (lock,) = json.loads(locks.out)
    assert (lock["name"], lock["level"], lock["function"], lock["scope"]) == (
        "locks/app/~north",
        "host",
        "job",
        ["north"],
    )


def test_a_listing_for_people_has_a_line_for_each_lock_and_its_name_at_the_end(
    thread: LockThread, locks: Command
) -> None:
    stamped(thread, "locks/app/other")
    held_by_a_function(thread, locks, "list")
    head, held, free = locks.out.splitlines()
    assert head.split() == ["STATE", "FUNCTION", "SCOPE", "FOR", "HOLDER", "NAME"]
    assert held.startswith("held   job")
    assert held.endswith("locks/app/job.42")
    assert "invocation inv-7" in held
    assert free.startswith("free   other")
    assert locks.err.startswith("2 locks, 1 held; 2 blobs read")


INSTANCE = "5e9b6c0d" * 8
INVOCATION = "6f1e2d3c-7f11-4222-8333-94444555a666"


def held_in_azure(thread: LockThread) -> str:
    name = "locks/my-function-app-west-europe/ship_order.contoso-corporation"
    stamped(
        thread, name, SingletonHost=INSTANCE, SingletonPid="12918", SingletonFunction="s", FunctionInstance=INVOCATION
    )
    thread.do(lambda: thread.memory.acquire(name, FOREIGN, 60))
    return name


@pytest.mark.parametrize("columns", [80, 100, 300])
def test_a_listing_fits_the_terminal_and_leaves_names_whole(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    name = held_in_azure(thread)
    stamped(thread, "locks/app/other")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert locks("list") == 0
    lines = locks.out.splitlines()
    assert all(len(line) <= columns for line in lines)
    assert name in locks.out
    assert INVOCATION in locks.out
    assert (INSTANCE in locks.out) is (columns == 300)
    assert "pid 12918" in locks.out
    if columns == 80:
        assert lines[:2] == ["locks/app/other", "    free  other"]
        assert lines[2] == name
        assert lines[3].split()[0] == "held"
        assert re.fullmatch(rf"    instance 5e9\w*…\w*c0d, pid 12918, invocation {INVOCATION}", lines[4])


def test_what_is_read_by_a_program_is_never_cut(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name = held_in_azure(thread)
    for command in (["list"], ["watch", "--for", "0s"]):
        assert locks(*command) == 0
        assert name in locks.out
        assert INSTANCE in locks.out


def test_watching_on_a_terminal_leaves_out_the_middle_of_an_instance(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = held_in_azure(thread)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert locks("watch", "--for", "0s") == 0
    assert name in locks.out
    assert INSTANCE not in locks.out
    assert "…" in locks.out


def test_on_eighty_columns_no_line_of_words_is_longer(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True, raising=False)
    name = held_in_azure(thread)
    thread.taken_by_another_process("job")
    asked = (
        ("watch", "--for", "0s"),
        ("show", name),
        ("show", "locks/my-function-app-west-europe/ship_order.contoso-corpration"),
        ("break", name, "--notice", "5"),
        ("break", name, "--wait"),
        ("break", "job", "--now"),
        ("break", "job"),
        ("hold", name, "--reason", "läuft doppelt", "--for", "0s"),
        ("doctor"),
        ("name", "--function", "ship", "--host-id", "MyApp"),
    )
    monkeypatch.setattr("time.sleep", lambda _: thread.push_clock(30))
    for command in asked:
        locks(*command)
        for line in (locks.out + locks.err).splitlines():
            assert len(line) <= 80 or INSTANCE in line, (command, line)
        if name in command:
            assert name in locks.out


def test_what_is_no_lock_is_not_listed(thread: LockThread, locks: Command) -> None:
    thread.do(lambda: thread.memory.note("deferred/1", {"failures": "2"}))
    made(thread, "somebody's")
    assert locks.json("list") == []


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ((), ["locks/app/old", "locks/app/ship.1", "locks/app/ship.2"]),
        (("--function", "ship"), ["locks/app/ship.1", "locks/app/ship.2"]),
        (("--held",), ["locks/app/ship.2"]),
        (("--function", "old", "--held"), []),
        (("--prefix", "locks/app/s"), ["locks/app/ship.1", "locks/app/ship.2"]),
        (("--older-than", "1h"), ["locks/app/old"]),
        (("--older-than", "2d"), []),
    ],
)
def test_a_listing_can_be_narrowed(
    thread: LockThread, locks: Command, arguments: tuple[str, ...], found: list[str]
) -> None:
    stamped(thread, "locks/app/old")
    thread.push_clock(5000)
    stamped(thread, "locks/app/ship.1")
    thread.taken_by_another_process("locks/app/ship.2")
    assert [lock["name"] for lock in locks.json("list", *arguments)] == found


def test_a_hold_of_unknown_age_is_not_listed_as_an_old_one_and_that_is_said(thread: LockThread, locks: Command) -> None:
    """As of a holder with ``fencing_tokens`` off: it writes nothing, and the blob may be of years ago."""
    made(thread, "locks/app/ship.1")
    stamped(thread, "locks/app/ship.2", SingletonHost="vm", SingletonPid="7", SingletonHeld="60.0")
    thread.push_clock(5000)
    for number in (1, 2):
        thread.do(lambda number=number: thread.memory.acquire(f"locks/app/ship.{number}", FOREIGN, 60))  # type: ignore[misc]
    assert [lock["name"] for lock in locks.json("list", "--held", "--older-than", "1h")] == ["locks/app/ship.2"]
    assert "1 held lock left out: their holders don't record since when" in locks.err
    assert len(locks.json("list", "--held")) == 2
    assert "left out" not in locks.err
    assert locks.json("list", "--older-than", "3h") == []


def test_a_blob_without_a_stamp_is_said_to_be_written_and_not_stamped(thread: LockThread, locks: Command) -> None:
    made(thread, "locks/app/ship.1")
    stamped(thread, "locks/app/ship.2", SingletonHost="vm")
    locks("show", "locks/app/ship.1")
    assert "last written" in locks.out
    assert "last stamp" not in locks.out
    locks("show", "locks/app/ship.2")
    assert "last stamp" in locks.out


def test_the_function_of_a_shared_lock_is_in_doubt_as_long_as_the_invocation_is(
    thread: LockThread, locks: Command
) -> None:
    who = {"SingletonHost": "vm", "SingletonPid": "7", "SingletonFunction": "job", "FunctionInstance": "a"}
    for name in ("locks/app/~north", "locks/app/job.north"):
        stamped(thread, name, **who, SingletonHeld="0")
        thread.do(lambda name=name: thread.memory.acquire(name, FOREIGN, 60))  # type: ignore[misc]
    named, shared = locks.json("list")
    assert (named["function_sure"], shared["function_sure"], shared["function"]) == (True, False, "job")
    locks("list")
    assert [line.split()[1] for line in locks.out.splitlines()[1:]] == ["job", "job?"]
    locks("show", "locks/app/~north")
    assert re.search(r"function +job\?$", locks.out, re.MULTILINE)
    stamped(thread, "locks/app/~south", **who, SingletonHeld="8.0")
    assert locks.json("show", "locks/app/~south")["function_sure"]


def test_a_function_that_has_no_lock_there_is_told_apart_from_one_whose_locks_are_free(
    thread: LockThread, locks: Command
) -> None:
    stamped(thread, "locks/app/ship_order.1")
    assert locks("list", "--function", "SHIP_ORDER") == 2
    assert "there is no lock of function 'SHIP_ORDER' in container 'webjobshost'; did you mean" in locks.err
    assert "'ship_order'?" in locks.err
    assert locks.json("list", "--function", "other", code=2)["exit"] == 2
    assert locks.json("list", "--function", "ship_order", "--held") == []


def test_who_gives_a_scope_for_a_name_is_told_the_locks_with_that_scope(thread: LockThread, locks: Command) -> None:
    for name in ("ship_order.contoso", "invoice.eu.contoso", "ship_order.fabrikam"):
        stamped(thread, f"locks/app/{name}")
    assert locks("show", "contoso") == 2
    assert "Did you mean 'locks/app/invoice.eu.contoso', 'locks/app/ship_order.contoso'?" in locks.err


def test_a_text_that_could_take_over_a_terminal_is_shown_harmlessly(thread: LockThread, locks: Command) -> None:
    stamped(thread, lock_name("app", "ship", ["\x1b[2J\n\u202etxt"]))
    locks("list")
    assert "\\x1b[2J\\n\\u202etxt" in locks.out
    assert locks.out.isprintable() is False
    assert all(line.isprintable() for line in locks.out.splitlines())


def test_a_lock_is_shown_with_who_had_it_last(thread: LockThread, locks: Command) -> None:
    stamped(thread, SHIP, SingletonHost="vm-1", SingletonPid="812", FunctionInstance="inv", SingletonFunction="ship")
    assert locks("show", SHIP) == 0
    said = " ".join(locks.out.split())
    assert "state free app app function ship scope 42" in said
    assert "last holder instance vm-1, pid 812, invocation inv" in said


def test_a_mistyped_name_is_told_apart_from_a_free_lock(thread: LockThread, locks: Command) -> None:
    stamped(thread, SHIP)
    assert locks.json("show", SHIP)["state"] == "available"
    for command in (["show"], ["break"], ["hold", "--reason", "x"]):
        assert locks(*command, "locks/app/shp.42") == 2
        assert "there is no lock 'locks/app/shp.42' in container 'webjobshost'" in locks.err
        assert f"Did you mean '{SHIP}'?" in locks.err
        assert locks.err.count("\n") == 1
    assert thread.memory.names() == [SHIP]


def test_a_blob_that_is_no_lock_is_told_apart_too(thread: LockThread, locks: Command) -> None:
    made(thread, "somebody's")
    assert locks("show", "somebody's") == 2
    assert "it is not a lock" in locks.err


# --- watch ------------------------------------------------------------------------------------------------------------


def test_watching_tells_who_has_it_gets_it_had_it_and_when_it_is_free(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamped(thread, "locks/app/old")
    thread.taken_by_another_process("locks/app/first")
    thread.push_clock(30)

    looks = itertools.count(1)

    def step(_: float) -> None:
        match next(looks):
            case 1:
                thread.given_back_by_the_other("locks/app/first")
            case 2:
                stamped(thread, SHIP, FunctionInstance="quick")
                thread.push_clock(3)
            case 3:
                thread.do(lambda: thread.memory.acquire(SHIP, FOREIGN, 60))
            case 4:
                thread.push_clock(30)
            case _:
                raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", step)
    assert locks("watch", "--json") == 130
    seen = [json.loads(line) for line in locks.out.splitlines()]
    assert [(each["seen"], each["lock"]["name"]) for each in seen] == [
        ("holds", "locks/app/first"),
        ("free", "locks/app/first"),
        ("passed", SHIP),
        ("got", SHIP),
    ]
    assert seen[2]["lock"]["last"]["invocation"] == "quick"


def test_watching_tells_of_a_break_and_of_the_next_holder_though_it_left_no_stamp(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread.taken_by_another_process("job")
    looks = itertools.count(1)

    def step(_: float) -> None:
        match next(looks):
            case 1:
                thread.do(lambda: thread.memory.break_("job", None, 20))
            case 2:
                thread.push_clock(21)
                thread.do(lambda: thread.memory.acquire("job", FOREIGN, 60))
            case 3:
                thread.do(lambda: thread.memory.break_("job", None, 20))
            case 4:
                pass
            case 5:
                thread.push_clock(21)
            case _:
                raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", step)
    assert locks("watch", "--json") == 130
    told = [json.loads(line) for line in locks.out.splitlines()]
    assert [each["seen"] for each in told] == ["holds", "breaking", "got", "breaking", "free"]
    assert all(datetime.fromisoformat(each["at"]) for each in told), "as all other moments"
    assert told[1]["lock"]["state"] == "breaking"
    looks = itertools.count(3)
    thread.taken_by_another_process("job2")
    assert locks("watch", "job2", "--for", "0s") == 0
    assert "job2: a holder that is not recorded has it\n" in locks.out
    thread.do(lambda: thread.memory.break_("job2", None, 20))
    assert locks("watch", "job2", "--for", "0s") == 0
    assert "job2: a holder that is not recorded loses it: its lease was broken\n" in locks.out


def test_of_a_lock_that_gets_free_it_is_told_how_long_it_was_held(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamped(thread, "job", SingletonHost="vm", SingletonPid="7", SingletonHeld="23.0", FunctionInstance="a")
    thread.do(lambda: thread.memory.acquire("job", FOREIGN, 60))
    looks = itertools.count(1)

    def step(_: float) -> None:
        if next(looks) > 1:
            raise KeyboardInterrupt
        thread.given_back_by_the_other("job")

    monkeypatch.setattr("time.sleep", step)
    assert locks("watch") == 130
    held, free = locks.out.splitlines()
    assert re.search(r"a has it \(for 2[34] s\)$", held)
    assert re.search(r"job is free \(was held for 2[34] s\)$", free)


def test_watching_one_lock_for_a_while_ends_well(thread: LockThread, locks: Command) -> None:
    thread.taken_by_another_process(SHIP)
    thread.taken_by_another_process(f"{SHIP}0")
    assert locks("watch", SHIP, "--for", "0s") == 0
    assert locks.out.count("has it") == 1


# --- break ------------------------------------------------------------------------------------------------------------


def test_breaking_leaves_the_rest_of_the_lease_unless_a_notice_is_given(thread: LockThread, locks: Command) -> None:
    thread.taken_by_another_process("job")
    broken = locks.json("break", "job")
    assert (broken["broken"], broken["together"]) == (True, 0)
    assert 50 <= broken["free_in"] <= 60
    assert not broken["broken_before"]
    thread.push_clock(60)
    thread.taken_by_another_process("job")
    broken = locks.json("break", "job", "--notice", "20")
    assert broken["free_in"] == 20
    assert 30 <= broken["together"] <= 40
    thread.push_clock(60)
    thread.taken_by_another_process("job")
    assert locks("break", "job", "--now") == 0
    assert "A holder that can't be reached goes on for up to" in locks.out
    assert "two may be inside, and only tokens keep them apart" in locks.out
    assert locks.json("break", "job", code=1) == {"lock": "job", "broken": False, "holder": None}


OUR_RECORD = {"SingletonEpoch": "7", "SingletonHost": "vm", "FunctionInstance": "a"}
NO_RECORD = "Its holder left no record of this package."


@pytest.mark.parametrize(
    ("lock", "record", "words"),
    [
        ("locks/app/ship", OUR_RECORD, ""),
        ("job", OUR_RECORD, "The record is of this package, and perhaps of an earlier holder."),
        ("job", {"FunctionInstance": "a"}, NO_RECORD),  # as WebJobs writes, and our own locks with its layout
        ("job", {}, NO_RECORD),  # as DistributedLock leaves the blob
    ],
)
def test_the_default_says_that_nobody_gets_in_beside_the_holder_and_what_only_ours_keep(
    thread: LockThread, locks: Command, lock: str, record: dict[str, str], words: str
) -> None:
    stamped(thread, lock, **record)
    thread.do(lambda: thread.memory.acquire(lock, FOREIGN, 60))
    assert locks("break", lock) == 0
    assert locks.out.splitlines()[-1] == "A holder of this package stops before that: nobody gets in beside it."
    assert (f"{words} If another library has the lock, two may be inside" in locks.out) is bool(words)
    assert ("aborts its whole" in locks.out) is bool(words)
    thread.push_clock(61)
    thread.do(lambda: thread.memory.acquire(lock, FOREIGN, 60))
    assert locks.json("break", lock)["record_of_this_package"] is (record == OUR_RECORD)


def test_a_lock_that_went_on_to_the_next_one_is_not_said_to_be_nobodys(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten = thread.memory.break_

    def taken(epoch: str, owner: str) -> None:
        stamped(thread, "job", SingletonEpoch=epoch, SingletonHost="vm", FunctionInstance=owner)
        thread.do(lambda: thread.memory.acquire("job", FOREIGN, 60))

    async def too_late(name: str, etag: str | None = None, after: int | None = 0) -> int:
        await thread.memory.release("job", FOREIGN)
        next_one = {"SingletonEpoch": "8", "SingletonHost": "vm", "FunctionInstance": "b"}
        thread.memory.edit("job", next_one)
        await thread.memory.acquire("job", FOREIGN, 60)
        return await shorten(name, etag, after)

    taken("7", "a")
    monkeypatch.setattr(thread.memory, "break_", too_late)
    assert locks("break", "job") == 1
    assert locks.out.splitlines() == [
        "job changed hands before the break arrived; nothing was broken.",
        "It was held by instance vm, a.",
        "Now it is held by instance vm, b.",
    ]
    thread.given_back_by_the_other("job")
    thread.do(lambda: thread.memory.remove("job"))
    taken("7", "a")
    told = locks.json("break", "job", code=1)
    assert (told["broken"], told["holder"]["invocation"]) == (False, "b")


def test_of_a_lock_that_is_being_broken_already_no_safety_is_promised(thread: LockThread, locks: Command) -> None:
    thread.taken_by_another_process("job")
    locks("break", "job", "--notice", "20")
    broken = locks.json("break", "job")
    assert broken["broken_before"]
    assert broken["together"] >= 40
    assert locks("break", "job") == 0
    assert "It was being broken already. If that was without a notice, its holder stops before that." in locks.out
    assert "If not, a holder that can't be reached goes on for up to 4" in locks.out
    assert "nobody gets in beside it" not in locks.out


def test_breaking_can_wait_and_tell_as_json_who_has_it_then(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def next_one(_: float) -> None:
        thread.push_clock(70)
        stamped(thread, "job", FunctionInstance="next")
        thread.do(lambda: thread.memory.acquire("job", FOREIGN, 60))

    thread.taken_by_another_process("job")
    monkeypatch.setattr("time.sleep", next_one)
    told = locks.json("break", "job", "--wait")
    assert told["broken"]
    assert told["now"]["held"]
    assert told["now"]["holder"]["invocation"] == "next"


def test_breaking_can_wait_until_the_lease_has_ended(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread.taken_by_another_process("job")
    monkeypatch.setattr("time.sleep", lambda _: thread.push_clock(30))
    assert locks("break", "job", "--wait") == 0
    assert locks.out.endswith("Now it is free.\n")


def test_a_lease_without_end_is_broken_only_when_told_so(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless() -> None:
        made(thread, "job")
        thread.do(lambda: thread.memory.acquire("job", FOREIGN, -1))

    endless()
    said = "nothing ends it but its owner, or `singleton-locks break job --container webjobshost"
    assert locks("show", "job") == 0
    assert f"lease        without an end: {said}`" in locks.out
    assert locks("list") == 0
    assert "held for ever                        a lease without an end  job" in locks.out
    assert locks("break", "job") == 2
    assert "has no end: give --now, --notice SECONDS or --yes" in locks.err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.confirm", lambda *_, **__: pytest.fail("asked though nobody can answer"))
    assert locks("break", "job", "--json") == 2
    asked: list[str] = []
    answers = iter([False, True])

    def answer(question: str) -> bool:
        asked.append(question)
        return next(answers)

    monkeypatch.setattr("click.confirm", answer)
    assert locks("break", "job") == 1
    assert locks.out == "nothing was broken\n"
    assert locks("break", "job") == 0
    assert asked == ["The lease of job has no end, so breaking it ends it at once. Break it?"] * 2
    endless()
    assert locks("break", "job", "--yes") == 0
    endless()
    assert locks.json("break", "job", "--notice", "5")["together"] is None


# --- hold -------------------------------------------------------------------------------------------------------------


def test_an_operator_holds_a_lock_and_whoever_finds_it_taken_reads_why(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamped(thread, SHIP)
    seen: list[str] = []

    def look(*_: object) -> bool:
        seen.append(thread.do(lambda: thread.memory.read(SHIP)).metadata["FunctionInstance"])
        seen.extend(thread.leased())
        raise KeyboardInterrupt

    monkeypatch.setattr("singleton.base.hold.LossSignal.wait", look)
    assert locks("hold", SHIP, "--reason", "invoices go out twice") == 130
    assert seen == ["operator: invoices go out twice", SHIP]
    assert locks.out == f"{SHIP} held; Ctrl-C gives it back\n{SHIP} given back\n"
    assert thread.leased() == set()


@pytest.mark.parametrize(
    ("container", "left"),
    [("webjobshost", {"SingletonHeld", "SingletonHost", "SingletonPid"}), ("azure-webjobs-hosts", set())],
)
def test_the_reason_is_left_where_an_app_leaves_nothing_and_nothing_else_where_webjobs_has_its_locks(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch, container: str, left: set[str]
) -> None:
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__fencingTokens", "false")
    arguments = ["--reason", "x", "--new", "--for", "0s", "--container", container]
    assert locks("hold", "locks/app/Host.Functions.job", *arguments) == 0
    metadata = dict(thread.do(lambda: thread.memory.read("locks/app/Host.Functions.job")).metadata)
    assert metadata.pop("FunctionInstance") == "operator: x"
    assert set(metadata) == left


def test_ctrl_c_gives_the_lock_back(thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr("singleton.base.hold.LossSignal.wait", interrupt)
    assert locks("hold", "job", "--reason", "x", "--new") == 130
    assert thread.leased() == set()


def test_a_lock_that_is_not_to_be_had_in_time_is_not_held(thread: LockThread, locks: Command) -> None:
    thread.taken_by_another_process("job")
    assert locks("hold", "job", "--reason", "x", "--timeout", "0.2s") == 1
    assert "job waiting: a holder that is not recorded has it" in locks.out
    assert "job not acquired" in locks.out


def test_a_reason_is_kept_as_far_as_metadata_allows(thread: LockThread, locks: Command) -> None:
    assert locks("hold", "job", "--reason", "läuft doppelt:\nZoë ß 中", "--new", "--for", "0s") == 0
    kept = "lauft doppelt: Zoe ss ?"
    assert f"the reason is kept as '{kept}'" in locks.err
    assert thread.do(lambda: thread.memory.read("job")).metadata["FunctionInstance"] == f"operator: {kept}"


def test_holding_tells_as_json_who_has_the_lock_and_why_it_was_lost(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamped(thread, "job", FunctionInstance="inv-7")
    thread.do(lambda: thread.memory.acquire("job", FOREIGN, 60))
    assert (
        locks.lines("hold", "job", "--reason", "x", "--timeout", "0.1s", code=1)[0]["holder"]["invocation"] == "inv-7"
    )
    thread.given_back_by_the_other("job")

    wait, broken = LossSignal.wait, iter([True])

    def lose(signal: LossSignal, timeout: float | None = None) -> bool:
        if next(broken, False):
            thread.do(lambda: thread.memory.break_("job"))
            thread.push_clock(8)
            return wait(signal, 10)
        return wait(signal, timeout)

    monkeypatch.setattr(LossSignal, "wait", lose)
    told = locks.lines("hold", "job", "--reason", "x", "--for", "0.2s")
    lost = next(each for each in told if each["state"] == "lost")
    assert lost["reason"] == "broken"


def test_an_operator_who_loses_the_lock_asks_for_it_again(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([True])

    def lost_once(*_: object) -> bool:
        for lost in losses:
            return lost
        raise KeyboardInterrupt

    monkeypatch.setattr("singleton.base.hold.LossSignal.wait", lost_once)
    assert locks("hold", "job", "--reason", "x", "--new", "--json") == 130
    assert [json.loads(line)["state"] for line in locks.out.splitlines()] == ["held", "lost", "held", "given back"]


# --- sweep ------------------------------------------------------------------------------------------------------------


def test_a_sweep_says_what_became_of_all(thread: LockThread, locks: Command) -> None:
    for number in range(3):
        stamped(thread, f"locks/app/ship.{number}")
    thread.do(lambda: thread.memory.note("deferred/1", {"failures": "2"}))
    thread.push_clock(8 * 86_400)
    stamped(thread, "locks/app/young")
    thread.do(lambda: thread.memory.acquire("locks/app/ship.0", FOREIGN, 60))
    counted = {"swept": 2, "in_use": 1, "changed": 0, "gone": 0, "young": 1, "kept": 1, "seen": 5}
    for extra in (("--dry-run",), ()):
        result = locks.json("sweep", "--older-than", "7d", *extra)
        assert {key: result[key] for key in counted} == counted
        assert result["dry_run"] is bool(extra)
    assert sorted(thread.memory.names()) == ["deferred/1", "locks/app/ship.0", "locks/app/young"]
    assert locks("sweep", "--older-than", "1w") == 0
    assert locks.out.startswith("0 of 3 blobs deleted")
    assert "1  somebody has the lease" in locks.out


def test_a_sweep_of_what_is_less_than_a_minute_old_is_refused(locks: Command) -> None:
    assert locks("sweep", "--older-than", "59s") == 2
    assert "'59s' is too short: give at least 1 min" in locks.err


# --- lift-epochs ------------------------------------------------------------------------------------------------------


def epoch(thread: LockThread, name: str) -> int:
    return int(thread.do(lambda: thread.memory.read(name)).metadata["SingletonEpoch"])


def test_epochs_are_lifted_except_those_of_locks_that_somebody_has(thread: LockThread, locks: Command) -> None:
    for name in ("locks/app/ship.1", "locks/app/ship.2"):
        stamped(thread, name)
    thread.do(lambda: thread.memory.note("deferred/1", {"failures": "2"}))
    thread.do(lambda: thread.memory.acquire("locks/app/ship.2", FOREIGN, 60))
    counted = {"lifted": 1, "held": 1, "gone": 0, "kept": 1, "seen": 3}
    for extra, before in ((("--dry-run",), True), ((), False)):
        result = locks.json("lift-epochs", *extra, code=1)
        assert {key: result[key] for key in counted} == counted
        assert result["dry_run"] is bool(extra)
        assert (epoch(thread, "locks/app/ship.1") == 7) is before
    thread.given_back_by_the_other("locks/app/ship.2")
    assert locks("lift-epochs") == 0
    assert locks.out.startswith("2 of 3 blobs lifted, in ")
    assert "1  not a lock with tokens" in locks.out
    assert epoch(thread, "locks/app/ship.2") > 7
    assert thread.leased() == set()


def test_of_locks_that_could_not_be_lifted_it_is_said_to_run_it_again(thread: LockThread, locks: Command) -> None:
    thread.taken_by_another_process(SHIP)
    assert locks("lift-epochs") == 1
    assert locks.out.startswith("0 of 1 blob lifted")
    assert "1  somebody has the lock: run this again when it is free" in locks.out


# --- name -------------------------------------------------------------------------------------------------------------


def test_a_name_is_made(locks: Command) -> None:
    assert locks("name", "--function", "ship", "--scope", "4/2", "--scope", "x") == 0
    assert locks.out == "locks/app/ship.4%2F2.x\n"
    assert locks("name", "--scope", "north", "--level", "host", "--host-id", "shop") == 0
    assert locks.out == "locks/shop/~north\n"
    assert locks("name", "--function", "ship", "--container", "azure-webjobs-hosts", "--listener") == 0
    assert locks.out == "locks/app/Host.Functions.ship.Listener\n"
    assert locks("name", "--function", "ship", "--scope", "jane@example.com", "--hashed") == 0
    assert locks.out == "locks/app/ship.8c87b489ce35cf2e2f39f80e282cb2e804932a56\n"
    assert locks("name", "--function", "ship", "--hashed") == 2
    assert locks("name", "--function", "ship", "--scope", "4", "--hashed", "--container", "azure-webjobs-hosts") == 2
    assert locks("name") == 2


def test_of_a_function_with_a_limit_all_slots_are_named(locks: Command) -> None:
    assert locks("name", "--function", "ship", "--scope", "4", "--limit", "2") == 0
    assert locks.out == "locks/app/ship.4/slot-0\nlocks/app/ship.4/slot-1\n"
    told = locks.json("name", "--function", "ship", "--limit", "1")
    assert (told["name"], told["slots"]) == ("locks/app/ship", ["locks/app/ship/slot-0"])
    assert locks("name", "--function", "ship", "--limit", "0") == 2
    assert locks("name", "--function", "ship", "--limit", "2", "--listener") == 2
    assert locks("name", "--function", "ship", "--limit", "2", "--container", "azure-webjobs-hosts") == 2


def test_a_name_says_whose_host_id_it_has(locks: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert locks("name", "--function", "ship") == 0
    assert locks.err == "", "a setting says it"
    monkeypatch.delenv("AzureFunctionsWebHost__hostid")
    assert locks("name", "--function", "ship") == 0
    app = locks.out.split("/")[1]
    assert f"host id '{app}' is made of this machine and folder. In Azure it is made of the app's name" in locks.err
    assert "--host-id" in locks.err
    told = locks.json("name", "--function", "ship")
    assert told["host_id"] == app
    assert "this machine" in locks.err
    for given in ("myapp", "my-app-2"):
        assert locks("name", "--function", "ship", "--host-id", given) == 0
        assert (locks.out, locks.err) == (f"locks/{given}/ship\n", "")
    for given in ("MyApp", "a" * 33, "app-"):
        assert locks("name", "--function", "ship", "--host-id", given) == 0
        assert locks.out == f"locks/{given}/ship\n"
        assert f"host id '{given}' is used as it is" in locks.err
    assert locks("name", "--function", "ship", "--host-id", "") == 2
    assert "give a text that is not blank" in locks.err
    (tmp_path / "host.json").write_text('{"version": "2.0", "singleton": {"hostId": "Orders"}}')
    assert locks("name", "--function", "ship") == 0
    assert (locks.out, locks.err) == ("locks/Orders/ship\n", "")
    monkeypatch.delenv("AzureWebJobsScriptRoot")
    monkeypatch.setenv("WEBSITE_INSTANCE_ID", "x")
    monkeypatch.setenv("WEBSITE_SITE_NAME", "Shop")
    (tmp_path / "host.json").write_text('{"version": "2.0"}')
    assert locks("name", "--function", "ship") == 0
    assert (locks.out, locks.err) == ("locks/shop/ship\n", "")


def test_a_name_of_more_scopes_than_a_function_can_have_is_refused(locks: Command) -> None:
    scopes = [text for value in "abc" for text in ("--scope", value)]
    assert locks("name", "--function", "ship", *scopes) == 2
    assert "scope has 3 values, and a function's lock has two at most" in locks.err


# --- doctor -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def _the_models_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the clock of the model, which began with the lock thread, for the machine's."""
    monkeypatch.setattr("singleton.operating.checks._REFUSED", math.inf)


@pytest.mark.usefixtures("_the_models_clock")
def test_the_model_of_the_service_is_healthy(thread: LockThread, locks: Command) -> None:
    report = locks.json("doctor")
    assert report["healthy"]
    outcomes = {found["check"]: found["outcome"] for found in report["findings"]}
    assert {outcomes.pop(hidden) for hidden in ("hierarchy", "versions", "soft delete")} == {"unknown"}
    assert outcomes.pop("clock") in ("ok", "note"), "it is that of the lock thread here"
    assert set(outcomes.values()) == {"ok"}
    assert thread.memory.names() == [], "its blobs are gone"


@pytest.mark.parametrize(
    ("minutes", "outcome", "said"),
    [
        (20, "failed", "1200 s behind the service's: from 15 minutes on the service refuses signed requests"),
        (-16, "failed", "960 s ahead of the service's: from 15 minutes on"),
        (14, "note", "locks still work"),
        (0, "ok", "within a second or two"),
    ],
)
def test_a_clock_that_is_off_by_a_quarter_of_an_hour_fails(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch, minutes: int, outcome: str, said: str
) -> None:
    there = thread.memory.page

    async def page(*arguments: Any) -> Any:
        return dataclasses.replace(await there(*arguments), at=time.time() - 0.5 + minutes * 60)

    monkeypatch.setattr(thread.memory, "page", page)
    report = locks.json("doctor", code=1 if outcome == "failed" else 0)
    (found,) = (each for each in report["findings"] if each["check"] == "clock")
    assert (found["outcome"], report["healthy"]) == (outcome, outcome != "failed")
    assert said in found["said"]


@pytest.mark.usefixtures("_the_models_clock")
def test_a_missing_right_is_named_and_what_is_left_behind_is_said(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def denied(*_: object) -> None:
        raise StoreFailure(403, "AuthorizationPermissionMismatch")

    monkeypatch.setattr(thread.memory, "drop", denied)
    assert locks("doctor", "--scratch", "webjobshost") == 0
    assert "note    rights               locks work, but not all that" in locks.out
    assert locks.out.endswith("Locks can use this account.\n")
    assert "could not be deleted: blobs beneath singleton-doctor-" in locks.err
    monkeypatch.setattr(thread.memory, "acquire", denied)
    monkeypatch.setattr(thread.memory, "page", denied)
    assert locks("doctor") == 1
    assert "FAILED  rights" in locks.out
    assert "?       clock                can't be tried: List Blobs is denied" in locks.out
    assert "1 check failed. 1 check could not be made." in locks.out


def test_storage_that_does_not_answer_is_no_failed_check(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise StoreFailure(detail="no answer in time")

    monkeypatch.setattr(thread.memory, "acquire", away)
    assert locks("doctor") == 3
    assert "FAILED" not in locks.out
    assert "the storage does not answer as it should (no answer in time)" in locks.err


# --- what goes wrong --------------------------------------------------------------------------------------------------

KEY = "c2VjcmV0"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("list", "--connection", f"AccountName=x;AccountKey={KEY}=;Oops"), "is no name with a value"),
        (("list", "--connection", KEY + "/+=="), "names no account"),
        (("list", "--connection", "nowhere"), "there is no app setting"),
        (("list", "--account", "No!"), "--account is 'No!': an account's name"),
        (("list", "--older-than", "soon"), "'soon' is not a time span"),
        (("lst",), "No such command"),
        (("break", "x", "--now", "--notice", "3"), "--now and --notice are both given"),
        (("hold", "x", "--reason", "中文"), "use ASCII letters"),
        (("hold", "x", "--reason", " "), "--reason is empty: say why"),
        (("break", "x", "--notice", "abc"), "'abc' is not a number of seconds from 0 to 60"),
        (("break", "x", "--notice", "61"), "'61' is not a number of seconds from 0 to 60"),
        (("list", "--account", "abc", "--connection", "X"), "--account and --connection are both given"),
        (("name", "--level", "host", "--function", "f", "--scope", "x"), "--level host and --function are both given"),
        (("show",), "Missing argument"),
    ],
)
def test_a_wrong_option_is_named_in_one_line(locks: Command, arguments: tuple[str, ...], said: str) -> None:
    assert locks(*arguments) == 2
    assert said in locks.err
    assert locks.err.count("\n") == 1
    assert locks.out == ""
    assert KEY not in locks.err


def test_storage_that_refuses_is_exit_code_three(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def denied(*_: object) -> None:
        raise StoreFailure(403, "AuthorizationFailure")

    monkeypatch.setattr(thread.memory, "page", denied)
    assert locks("list") == 3
    assert "denies access" in locks.err


def test_a_container_that_is_not_there_is_a_wrong_name(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def missing(*_: object) -> None:
        raise StoreFailure(404, "ContainerNotFound")

    monkeypatch.setattr(thread.memory, "page", missing)
    assert locks("list", "--container", "webjobhost") == 2
    assert "there is no container 'webjobhost'" in locks.err


def test_what_nobody_expected_is_told_in_one_line_without_secrets(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise RuntimeError(f"AccountKey={KEY}")

    monkeypatch.setattr("singleton.cli.view_commands.next_page", crash)
    assert locks("list") == 3
    assert "unexpected RuntimeError: AccountKey=***" in locks.err
    log = Path(locks.err.rsplit(" ", 1)[1].strip())
    assert KEY not in log.read_text()
    assert "Traceback" in log.read_text()
    log.unlink()


@pytest.mark.process
def test_without_click_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['click'] = None; from singleton.__main__ import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == "singleton-locks: click (the extra [cli]) is not installed: pip install click\n"


@pytest.mark.process
def test_whoever_reads_only_the_beginning_gets_no_error() -> None:
    command = [sys.executable, "-m", "singleton", "name", "--function", "f", "--host-id", "h"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert (running.stderr.read(), running.wait()) == (b"", 0)


@pytest.mark.process
def test_an_app_imports_nothing_of_it() -> None:
    code = (
        "import sys, singleton.decorator, singleton.functions.guard, singleton.client\n"
        "import singleton.runtime.accounts.stores\n"
        "print([name for name in sys.modules if name.split('.')[:2] in (['singleton', 'cli'], "
        "['singleton', 'operating'], ['click']) or name == 'singleton.operating.container'])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True) == "[]\n"


def test_without_a_command_it_says_which_there_are(locks: Command) -> None:
    assert locks() == 2
    assert locks.err.startswith("Usage: singleton-locks [OPTIONS] COMMAND [ARGS]...\n")
    assert "lift-epochs" in locks.err
    assert locks.out == ""


def test_it_tells_its_version(locks: Command) -> None:
    assert locks("--version") == 0
    assert locks.out.startswith("singleton-locks, version ")


def test_summaries_are_whole_on_eighty_columns(locks: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert locks("--help") == 0
    assert "..." not in locks.out.partition("Commands:")[2]


def test_help_is_there_for_every_command(locks: Command) -> None:
    for command in ("list", "show", "watch", "break", "hold", "sweep", "lift-epochs", "ahead", "name", "doctor"):
        assert locks(command, "--help") == 0
        assert "--json" in locks.out
        assert "--connection" in locks.out


def test_what_is_said_of_time_spans() -> None:
    assert doctest.testmod(output).failed == 0
