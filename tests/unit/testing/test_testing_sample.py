"""The sample app, tested as its users may test theirs: with singleton.testing, in milliseconds."""

from __future__ import annotations

import asyncio
import logging
import re
import tempfile
import time
from contextlib import closing
from typing import TYPE_CHECKING

import azure.functions as func
import pytest

import function_app
from singleton import LockLost, current_hold
from singleton.testing import disabled, held_elsewhere, lose, memory_locks, virtual_time

if TYPE_CHECKING:
    from pathlib import Path

    from azure.functions.timer import TimerRequest

import_eligibility = function_app.import_eligibility.build().get_user_function()
ship_order = function_app.ship_order.build().get_user_function()
TIMER: TimerRequest = func.timer.TimerRequest()


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "sample")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # a database of the test's own
    return caplog


def order(customer: int) -> func.QueueMessage:
    return func.QueueMessage(body=b'{"Customer": %d}' % customer)


def counted() -> list[int]:
    with closing(function_app.database()) as db:
        return [value for (value,) in db.execute("SELECT value FROM facts ORDER BY value")]


@virtual_time
async def test_orders_of_one_customer_take_turns_and_others_do_not_wait() -> None:
    loop = asyncio.get_running_loop()
    await asyncio.gather(*(ship_order(order(customer)) for customer in range(4)))
    assert loop.time() == pytest.approx(0.5)
    await asyncio.gather(*(ship_order(order(7)) for _ in range(4)))
    assert loop.time() == pytest.approx(0.5 + 4 * 0.5)
    assert counted() == [1, 1, 1, 1, 4]


@virtual_time
async def test_without_the_lock_orders_of_one_customer_are_not_counted() -> None:
    with disabled():
        await asyncio.gather(*(ship_order(order(7)) for _ in range(4)))
    assert counted() == [1]


@virtual_time
async def test_of_all_instances_one_imports_and_the_others_skip(log: pytest.LogCaptureFixture) -> None:
    with held_elsewhere(import_eligibility, TIMER):
        await asyncio.to_thread(import_eligibility, TIMER)
    assert "written" not in log.text


def test_a_host_that_lost_its_lock_writes_the_batch_it_is_at_and_no_further(
    monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    batches = iter(range(1, 21))

    def read(_: float) -> None:
        if next(batches) == 3:
            lose(current_hold(), "stolen")

    monkeypatch.setattr(time, "sleep", read)
    with memory_locks(), pytest.raises(LockLost):
        import_eligibility(TIMER)
    assert re.findall(r"import_eligibility = (\d+) written", log.text) == ["1", "2", "3"]


def test_the_database_refuses_a_host_that_wakes_after_its_successor_has_written(
    monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    asleep = True

    def read(_: float) -> None:
        nonlocal asleep
        if asleep:  # as if the host stood still in here, and woke when another one had run
            asleep = False
            hold = current_hold()
            later = {"lock": hold.lock, "value": 20, "token": (hold.token or 0) + 1}
            with closing(function_app.database()) as db, db:
                db.execute(function_app.WRITE, later)

    monkeypatch.setattr(time, "sleep", read)
    with (
        memory_locks(),
        pytest.raises(function_app.StaleToken, match=r"import_eligibility = 1 refused: .* token than [0-9]+$"),
    ):
        import_eligibility(TIMER)
    assert counted() == [20]
    assert "written" not in log.text


def test_the_next_holder_of_a_lock_writes_over_what_the_one_before_it_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with memory_locks():
        import_eligibility(TIMER)
        import_eligibility(TIMER)
    assert counted() == [20]
