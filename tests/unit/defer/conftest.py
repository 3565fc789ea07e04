"""An app whose queue's messages are put back, and its lock thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.deferrals import Queue
from tests.support.lock_thread import LockThread, an_app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    monkeypatch.setenv("Orders", "UseDevelopmentStorage=true")
    monkeypatch.setenv("QUEUE", "Orders")
    with LockThread() as running:
        yield running


@pytest.fixture
def queue(thread: LockThread) -> Queue:
    return Queue(thread)
