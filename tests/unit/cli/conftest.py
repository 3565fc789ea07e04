"""An app whose locks are kept in memory, and the command that looks at them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.lock_thread import LockThread, an_app
from tests.support.locks_command import Command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("time.sleep", lambda _: None)
    with LockThread() as running:
        yield running


@pytest.fixture
def locks(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)
