"""The sample app, tested as its users may test theirs: with singleton.testing, in milliseconds."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from typing import TYPE_CHECKING

import azure.functions as func
import pytest

import function_app
from singleton import LockLost, current_hold
from singleton.testing import held_elsewhere, lose, memory_locks, virtual_time

if TYPE_CHECKING:
    from azure.functions.timer import TimerRequest

import_eligibility = function_app.import_eligibility.build().get_user_function()
ship_order = function_app.ship_order.build().get_user_function()
TIMER: TimerRequest = func.timer.TimerRequest()


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "sample")
    return caplog


def order(number: int) -> func.QueueMessage:
    return func.QueueMessage(body=b'{"Id": %d}' % number)


@virtual_time
async def test_messages_of_one_order_take_turns_and_others_do_not_wait() -> None:
    loop = asyncio.get_running_loop()
    await asyncio.gather(*(ship_order(order(number)) for number in range(4)))
    assert loop.time() == pytest.approx(0.5)
    await asyncio.gather(*(ship_order(order(7)) for _ in range(4)))
    assert loop.time() == pytest.approx(0.5 + 4 * 0.5)


@virtual_time
async def test_of_all_instances_one_imports_and_the_others_skip(log: pytest.LogCaptureFixture) -> None:
    with held_elsewhere(import_eligibility, TIMER):
        await asyncio.to_thread(import_eligibility, TIMER)
    assert "batch" not in log.text


def test_a_host_that_lost_its_lock_saves_no_further_batch(
    monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    batches = iter(range(1, 7))

    def read(_: float) -> None:
        if next(batches) == 3:
            lose(current_hold(), "stolen")

    monkeypatch.setattr(time, "sleep", read)
    with memory_locks(), pytest.raises(LockLost):
        import_eligibility(TIMER)
    assert re.findall(r"batch (\d) of 20 saved", log.text) == ["1", "2"]
