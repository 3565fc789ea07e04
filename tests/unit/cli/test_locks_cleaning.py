"""``sweep`` and ``lift-epochs``: what is said of how far they came and how fast, also where they end early."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from singleton.cli import output
from singleton.operating.container_pass import Sweep
from singleton.stores.protocol import StoreFailure
from tests.support.locks_command import stamped

if TYPE_CHECKING:
    from typing import Any

    from tests.support.lock_thread import LockThread
    from tests.support.locks_command import Command

WEEK = 8 * 86_400


@pytest.fixture
def ends_early(thread: LockThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container of five old locks; the third delete is refused."""
    for number in range(5):
        stamped(thread, f"locks/app/ship.{number}")
    thread.push_clock(WEEK)
    drop, deletes = thread.memory.drop, itertools.count(1)

    async def refused(name: str, etag: str) -> None:
        if next(deletes) == 3:
            raise StoreFailure(403, "AuthorizationPermissionMismatch")
        await drop(name, etag)

    monkeypatch.setattr(thread.memory, "drop", refused)


@pytest.mark.usefixtures("ends_early")
def test_a_sweep_that_ends_early_says_how_many_of_all_that_it_listed_it_deleted(locks: Command) -> None:
    assert locks("sweep", "--older-than", "7d", "--fast") == 3
    first, left = locks.out.splitlines()
    assert first.startswith("2 of 5 blobs deleted, in ")
    assert first.endswith("; ended early, there may be more")
    assert left.split(maxsplit=1) == ["3", "not worked on yet"]


@pytest.mark.usefixtures("ends_early")
def test_so_it_says_as_json(locks: Command) -> None:
    result = locks.json("sweep", "--older-than", "7d", "--fast", code=3)
    assert {key: result[key] for key in ("swept", "left", "seen", "complete")} == {
        "swept": 2,
        "left": 3,
        "seen": 5,
        "complete": False,
    }


def test_of_a_sweep_that_saw_all_nothing_is_left(thread: LockThread, locks: Command) -> None:
    stamped(thread, "locks/app/ship")
    thread.push_clock(WEEK)
    result = locks.json("sweep", "--older-than", "7d")
    assert (result["swept"], result["left"], result["seen"], result["complete"]) == (1, 0, 1, True)


def test_a_single_blob_is_counted_in_the_singular(
    thread: LockThread, locks: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stamped(thread, "locks/app/ship")
    assert locks("sweep", "--older-than", "7d") == 0
    assert locks.out.startswith("0 of 1 blob deleted, in ")
    progress = output.Progress("blobs seen")
    for count, said in ((1, "1 blob seen, "), (2, "2 blobs seen, ")):
        monkeypatch.setattr(progress, "_last", float("-inf"))
        progress.show(count)
        assert capsys.readouterr().err.startswith(said)


def test_a_sweep_may_be_told_not_to_rest(thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    stamped(thread, "locks/app/ship")
    asked: list[bool] = []
    begin = Sweep.__init__

    def noted(sweep: Sweep, *arguments: Any, fast: bool, **options: Any) -> None:
        asked.append(fast)
        begin(sweep, *arguments, fast=fast, **options)

    monkeypatch.setattr(Sweep, "__init__", noted)
    assert locks("sweep", "--older-than", "7d") == 0
    assert locks("sweep", "--older-than", "7d", "--fast") == 0
    assert asked == [False, True]


@pytest.mark.parametrize(
    ("many", "seconds", "said"),
    [(8, 19.5, "25 a minute"), (0, 5.0, "0 a second"), (3, 3.0, "1 a second"), (9000, 2.0, "4,500 a second")],
)
def test_what_is_slower_than_one_a_second_is_told_for_a_minute(many: int, seconds: float, said: str) -> None:
    assert output.rate(many, seconds) == said


def test_a_blob_without_an_epoch_may_be_a_lock_that_lost_it(thread: LockThread, locks: Command) -> None:
    thread.do(lambda: thread.memory.note("reports", {}))
    assert locks("lift-epochs") == 0
    assert "1  not a lock with tokens, or a lock with a name of your own that lost its epoch" in locks.out
