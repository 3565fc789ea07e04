"""What a guard covers of an invocation: the body, and not what the host reads before it and writes after it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from singleton import singleton
from tests.support.lock_thread import LockThread, an_app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch, '{"singleton": {"lockAcquisitionMinPollingInterval": "00:00:00.01"}}')
    with LockThread() as running:
        yield running


async def test_additions_through_bindings_are_lost_and_additions_in_the_body_are_not() -> None:
    blob = {"bound": 0, "in the body": 0}

    @singleton
    async def add(bound: int, out: Any) -> None:
        before = blob["in the body"]
        await asyncio.sleep(0)
        blob["in the body"] = before + 1
        out.append(bound + 1)

    async def invoked() -> None:
        """Do what host and worker do: read the input, call the function, write the output."""
        bound, out = blob["bound"], [0]
        await add(bound, out)
        blob["bound"] = out[-1]

    await asyncio.gather(*(invoked() for _ in range(10)))
    assert blob == {"bound": 1, "in the body": 10}
