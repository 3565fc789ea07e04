"""``state``: what is kept with a lock, shown and removed."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from singleton import LockClient
from tests.support.locks_command import stamped

if TYPE_CHECKING:
    from tests.support.lock_thread import LockThread
    from tests.support.locks_command import Command

LOCK = "locks/app/cursor"


def keep(value: Any) -> None:
    with LockClient("AzureWebJobsStorage").lock(LOCK) as hold:
        hold.state.write(value)


def kept() -> Any:
    with LockClient("AzureWebJobsStorage").lock(LOCK) as hold:
        return hold.state.read("nothing")


def test_it_shows_what_is_kept_while_somebody_has_the_lock(locks: Command) -> None:
    with LockClient("AzureWebJobsStorage").lock(LOCK) as hold:
        hold.state.write({"after": "2026-01-01", "ä": [1, None]})
        assert locks("state", LOCK) == 0
    assert json.loads(locks.out) == {"after": "2026-01-01", "ä": [1, None]}
    shown = locks.json("state", LOCK)
    assert (shown["kind"], shown["value"]["ä"]) == ("json", [1, None])


def test_on_a_terminal_it_is_the_json_as_it_is_and_nothing_steers_the_terminal(
    locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = {"text": "two  spaces, and  a line that is  longer than the terminal", "evil": "\x9b31mred \u202eabc ä"}
    keep(value)
    monkeypatch.setattr("singleton.cli.output.terminal_width", lambda **_: 20)
    assert locks("state", LOCK) == 0
    assert json.loads(locks.out) == value
    assert locks.out.isprintable() is False
    assert all(char.isprintable() or char == "\n" for char in locks.out)
    assert "ä" in locks.out


def test_bytes_are_counted_and_written_as_base64(locks: Command) -> None:
    keep(b"\x00\xff!")
    assert locks("state", LOCK) == 0
    assert locks.out.startswith("3 bytes")
    shown = locks.json("state", LOCK)
    assert (base64.b64decode(shown["base64"]), shown["size"]) == (b"\x00\xff!", 3)


def test_where_nothing_is_kept_it_says_so(thread: LockThread, locks: Command) -> None:
    stamped(thread, LOCK)
    for arguments in (("state", LOCK), ("state", LOCK, "--remove")):
        assert locks(*arguments) == 0
        assert locks.out == f"nothing is kept with lock {LOCK}\n"
    assert locks.json("state", LOCK) == {"lock": LOCK, "kind": None}
    assert locks("state", "locks/app/curser") == 2
    assert LOCK in locks.err


def test_it_is_removed_under_the_lock_and_the_next_holder_finds_nothing(locks: Command) -> None:
    keep(5)
    assert locks.json("state", LOCK, "--remove") == {"lock": LOCK, "removed": True}
    assert kept() == "nothing"


def test_nothing_is_removed_under_the_hands_of_a_holder(locks: Command) -> None:
    keep(5)
    with LockClient("AzureWebJobsStorage").lock(LOCK, owner="somebody") as hold:
        assert locks("state", LOCK, "--remove") == 1
        assert "somebody" in locks.err
        assert hold.state.read() == 5
    assert kept() == 5


def test_a_sweep_leaves_it_alone(thread: LockThread, locks: Command) -> None:
    keep(5)
    thread.push_clock(8 * 86_400)
    assert locks("sweep", "--older-than", "7d", "--fast") == 0
    assert kept() == 5


@pytest.mark.parametrize("kind", ["json", "pickle"])
def test_content_that_nobody_can_understand_is_an_error_and_no_traceback(
    kind: str, thread: LockThread, locks: Command
) -> None:
    keep(b"\xff")
    thread.memory._blobs[LOCK].metadata["SingletonState"] = kind
    assert locks("state", LOCK) == 3
    assert "marked" in locks.err
    assert "Traceback" not in locks.err
    assert locks.json("state", LOCK, "--remove") == {"lock": LOCK, "removed": True}
    assert kept() == "nothing"
