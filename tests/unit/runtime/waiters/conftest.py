"""A lock thread on a store that counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.lock_thread import LockThread
from tests.support.waiters import CountingStore

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
def thread(store: CountingStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")
    with LockThread(store) as thread:
        thread.memory = store
        yield thread
