"""What a log line is about stands in its fields, for whoever reads logs by machine."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from singleton import LockLost, current_hold
from singleton.testing import held_elsewhere, lose, virtual_time
from tests.support.lock_thread import Context, a_job, an_app

if TYPE_CHECKING:
    from pathlib import Path

LOCK = "locks/app/job"


@pytest.fixture(autouse=True)
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    an_app(tmp_path, monkeypatch)
    caplog.set_level(logging.INFO, "singleton")


def fields(caplog: pytest.LogCaptureFixture, words: str) -> dict[str, Any]:
    (record,) = [record for record in caplog.records if words in record.getMessage()]
    return vars(record)


@virtual_time
async def test_a_skip_is_one_info_line_with_its_lock_and_who_has_it(caplog: pytest.LogCaptureFixture) -> None:
    job = a_job("async", lambda: asyncio.sleep(5.0), on_contention="skip")
    await asyncio.gather(*(job(context=Context(f"inv-{number}", "job")) for number in (1, 2)))
    told = fields(caplog, "skipped")
    assert told["levelno"] == logging.INFO
    assert (told["lock"], told["function"], told["owner"]) == (LOCK, "job", "inv-2")
    assert (told["holder"], told["holder_function"]) == ("inv-1", "job")


@virtual_time
async def test_so_is_that_of_a_listener(caplog: pytest.LogCaptureFixture) -> None:
    with held_elsewhere(f"{LOCK}~listener"):
        await a_job("async", mode="listener")(context=Context("inv-1", "job"))
    told = fields(caplog, "skipped")
    assert told["levelno"] == logging.INFO
    assert (told["lock"], told["function"], told["owner"]) == (f"{LOCK}~listener", "job", "inv-1")


@virtual_time
async def test_a_loss_is_one_warning_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    async def lost() -> None:
        await asyncio.to_thread(lose, current_hold(), "broken")
        await asyncio.sleep(100.0)

    with pytest.raises(LockLost):
        await a_job("async", lost)(context=Context("inv-1", "job"))
    told = fields(caplog, "hold lost")
    assert told["levelno"] == logging.WARNING
    assert (told["lock"], told["reason"], told["owner"], told["function"]) == (LOCK, "broken", "inv-1", "job")


@virtual_time
async def test_a_field_of_the_apps_own_is_left_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """``logging`` itself would refuse the line, with an exception in the middle of a lock's work."""
    before = logging.getLogRecordFactory()

    def made(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = before(*args, **kwargs)
        vars(record)["function"] = "the app's"
        return record

    logging.setLogRecordFactory(made)
    try:
        with held_elsewhere(f"{LOCK}~listener"):
            await a_job("async", mode="listener")(context=Context("inv-1", "job"))
    finally:
        logging.setLogRecordFactory(before)
    assert fields(caplog, "skipped")["function"] == "the app's"
    assert fields(caplog, "skipped")["lock"] == f"{LOCK}~listener"
