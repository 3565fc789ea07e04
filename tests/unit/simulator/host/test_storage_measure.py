"""What a run measures of its storage: an answer that takes long, and no answer at all."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

from simulator.history.journal import read_journal
from simulator.host import storage_measure
from simulator.host.storage_measure import measure_storage

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Storage:
    """A storage that takes so long for each answer, on a clock that jumps; None: it does not answer."""

    def __init__(self, *answers: float | None) -> None:
        self.now = 100.0
        self.answers = list(answers)
        self.asked: list[tuple[str, str]] = []

    def open(self, address: str, timeout: float) -> Storage:
        assert (address, timeout) == ("127.0.0.1:10000", 60.0)
        return self

    def request(self, method: str, target: str) -> None:
        self.asked.append((method, target))
        seconds = self.answers.pop(0)
        self.now += 5.0 if seconds is None else seconds
        if seconds is None:
            raise TimeoutError

    def getresponse(self) -> Storage:
        return self

    def read(self) -> bytes:
        return b""

    def close(self) -> None: ...

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def parent(self) -> int:
        return int(bool(self.answers))


def measured(storage: Storage, path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    monkeypatch.setattr(storage_measure, "HTTPConnection", storage.open)
    monkeypatch.setattr(storage_measure, "clock", lambda: storage.now)
    monkeypatch.setattr("time.sleep", storage.sleep)
    monkeypatch.setattr("os.getppid", storage.parent)
    before = signal.getsignal(signal.SIGTERM)
    try:
        measure_storage("http://127.0.0.1:10000/devstoreaccount1/", str(path / "storage.jsonl"))
    finally:
        signal.signal(signal.SIGTERM, before)
    records = read_journal(path / "storage.jsonl")
    assert {record.host for record in records} <= {"storage"}
    return [{"event": record.event, **record.fields} for record in records]


def test_a_slow_answer_is_a_delay_and_a_quick_one_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage(0.01, 0.5, 0.3, 0.02)
    (slow,) = measured(storage, tmp_path, monkeypatch)
    assert slow["measures"] == [[0.11, 0.0], [0.6, 0.5], [0.4, 0.3]]
    assert set(storage.asked) == {("HEAD", "/devstoreaccount1/locks?restype=container")}


def test_a_storage_that_does_not_answer_is_not_called_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured(Storage(None, 0.01), tmp_path, monkeypatch) == []
