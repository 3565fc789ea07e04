"""What a guard tells carries its times: when, how long it was waited for, held, and how long the body ran."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from singleton import StorageDenied
from singleton.base.clock import timed_by
from singleton.base.events import Call, LockEvent, subscribe, tell
from singleton.stores.protocol import StoreFailure
from singleton.testing import virtual_time
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import InlineHost
from tests.support.lock_thread import Context, LockThread, a_job, an_app, call
from tests.support.network import Fate
from tests.support.world import virtual

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


@pytest.fixture
def events() -> Iterator[list[LockEvent]]:
    told: list[LockEvent] = []
    unsubscribe = subscribe(told.append)
    yield told
    unsubscribe()


def test_each_duration_is_told_with_what_ends_it(events: list[LockEvent]) -> None:
    job = a_job("async", lambda: asyncio.sleep(2.0))

    @virtual_time
    async def two() -> None:
        await asyncio.gather(*(job(context=Context(f"inv-{number}")) for number in (1, 2)))

    two()
    by_kind = {kind: [event for event in events if event.kind == kind] for kind in ("acquired", "released")}
    assert [event.waited for event in by_kind["acquired"]] == pytest.approx([0.0, 2.0], abs=0.1)
    assert [event.held for event in by_kind["released"]] == pytest.approx([2.0, 2.0], abs=0.1)
    assert [event.ran for event in events if event.kind == "body_ended"] == pytest.approx([2.0, 2.0], abs=0.1)
    assert len({event.use for event in events}) == 2
    assert all(event.at > 1.7e9 for event in events)


@virtual
async def test_a_hold_is_timed_until_the_body_ended_and_not_until_the_release_was_answered(
    events: list[LockEvent],
) -> None:
    host = InlineHost(MemoryLeaseStore())
    host.network.always("release", Fate(up=3.0))
    with host.here(), timed_by(asyncio.get_running_loop().time):
        await a_job("async", lambda: asyncio.sleep(2.0))(context=Context())
    (released,) = [event for event in events if event.kind == "released"]
    assert released.held == pytest.approx(2.0, abs=0.01)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_wait_that_ends_by_an_error_is_told_with_its_name(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def denied(*_: object) -> str:
        raise StoreFailure(403, "AuthorizationFailure")

    with LockThread() as thread:
        monkeypatch.setattr(thread.memory, "acquire", denied)
        with pytest.raises(StorageDenied):
            call(a_job(kind))
    assert thread.kinds() == ["waiting", "failed:StorageDenied"]
    assert (thread.events[-1].waited or 0) > 0


def test_one_call_made_of_another_is_a_use_of_its_own(events: list[LockEvent]) -> None:
    first = Call("a", "job", "inv-1")
    tell("waiting", first)
    second = replace(first, owner="")
    tell("waiting", second)
    tell("acquired", second)
    assert len({event.use for event in events}) == 2
    assert first.times.waits
    assert not second.times.waits
