"""Whoever does not get the lock says who has it: an error in its text, a skip in the fields of its log line."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from singleton.base.errors import LockNotAcquired
from tests.support.lock_thread import LockThread, a_job, an_app, call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK = "locks/app/job"


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        running.do(lambda: running.memory.create(LOCK))

        async def stamp() -> None:
            stamped = {"SingletonEpoch": "7", "SingletonHost": "vm-1", "FunctionInstance": "operator: incident 4711"}
            running.memory.edit(LOCK, stamped)

        running.do(stamp)
        running.taken_by_another_process(LOCK)
        yield running


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("arguments", [{"on_contention": "raise"}, {"timeout": 0.1}], ids=["raise", "time-out"])
def test_an_invocation_that_fails_says_who_has_the_lock(kind: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(LockNotAcquired, match=r"; held by 'operator: incident 4711' on vm-1, since ") as caught:
        call(a_job(kind, **arguments))
    assert caught.value.holder is not None


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_line_of_a_skip_says_who_has_the_lock_and_has_it_in_its_fields(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "singleton")
    call(a_job(kind, on_contention="skip"))
    (line,) = [record for record in caplog.records if "skipped" in record.getMessage()]
    assert "is held by another invocation; held by 'operator: incident 4711' on vm-1, since" in line.getMessage()
    assert vars(line)["holder"] == "operator: incident 4711"
    assert vars(line)["holder_host"] == "vm-1"
