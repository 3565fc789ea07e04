"""A lock thread on a store that counts, and callers that may wait in the relay for long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from singleton.locking import relay
from tests.support.lock_thread import LockThread
from tests.support.relays import CountingStore

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


@pytest.fixture
def forever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runners wait where they are for as long as it takes, however slow this machine is."""
    monkeypatch.setattr(relay, "_HERE", 1e9)
