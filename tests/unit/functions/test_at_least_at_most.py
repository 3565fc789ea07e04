"""``at_least`` and ``max_hold``: for how long an invocation keeps its lock, at least and at most."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from singleton import ConfigurationError, LockLost, LockNotAcquired, current_hold, singleton
from singleton.testing import Headcount, virtual_time
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import InlineHost
from tests.support.lock_thread import Context, LockThread, a_job, an_app, call
from tests.support.world import eventually, now, pending_timers, until, virtual

if TYPE_CHECKING:
    from pathlib import Path

LOCK = "locks/app/job"


@pytest.fixture(autouse=True)
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


def a_timer(seconds: float, ran: list[float], **arguments: Any) -> Any:
    @singleton(on_contention="skip", **arguments)
    async def job() -> None:
        ran.append(now())
        await asyncio.sleep(seconds)

    return job


# --- at least ---------------------------------------------------------------------------------------------------------


@virtual
async def test_two_instances_whose_ticks_are_apart_run_a_short_job_once() -> None:
    service = MemoryLeaseStore()
    ran: list[float] = []
    job = a_timer(1, ran, at_least=50)
    for seed in (1, 2):
        with InlineHost(service, seed).here():
            began = now()
            await job()
            assert now() < began + 1.5, "the invocation ends at once"
        await asyncio.sleep(20)
    assert len(ran) == 1
    await until(51)
    assert service.leased() == {}


@virtual
async def test_without_it_the_second_instance_runs_it_again() -> None:
    service = MemoryLeaseStore()
    ran: list[float] = []
    job = a_timer(1, ran)
    for seed in (1, 2):
        with InlineHost(service, seed).here():
            await job()
        await asyncio.sleep(20)
    assert len(ran) == 2


@virtual
async def test_a_body_that_fails_keeps_its_lock_all_the_same() -> None:
    service = MemoryLeaseStore()

    @singleton(at_least=30, on_contention="raise")
    async def job() -> None:
        raise KeyError

    with InlineHost(service, 1).here():
        with pytest.raises(KeyError):
            await job()
        failed = now()
        assert set(service.leased()) == {LOCK}
        with pytest.raises(LockNotAcquired):
            await job()
    await eventually(lambda: not service.leased())
    assert 29.9 < now() - failed < 30.1


@virtual
async def test_a_skip_says_that_the_lock_is_kept_and_until_when(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "singleton")
    with InlineHost(MemoryLeaseStore()).here():
        job = a_timer(1, [], at_least=50)
        await job()
        await job()
    (line,) = [record.getMessage() for record in caplog.records if "skipped" in record.getMessage()]
    assert line.startswith(f"job skipped: lock {LOCK} is kept until ")
    assert " UTC by at_least, by function job in this process, since " in line
    await asyncio.sleep(50)


@virtual
async def test_who_waits_in_the_same_process_gets_it_when_its_time_has_come() -> None:
    began: list[float] = []

    @singleton(at_least=timedelta(seconds=10))
    async def job() -> None:
        began.append(now())

    with InlineHost(MemoryLeaseStore()).here():
        await asyncio.gather(*(job() for _ in range(3)))
    assert began == pytest.approx([began[0], began[0] + 10, began[0] + 20])


@virtual
async def test_a_longer_body_gives_it_back_at_its_end() -> None:
    service = MemoryLeaseStore()
    with InlineHost(service).here():
        await a_timer(60, [], at_least=50)()
        assert service.leased() == {}


@virtual
async def test_who_loses_the_lease_keeps_nobody_out_any_more() -> None:
    """Others get the lock at once; so does who waits in the same process."""
    service = MemoryLeaseStore()
    began: list[float] = []

    @singleton(at_least=600)
    async def job() -> None:
        began.append(now())
        if len(began) == 1:
            await asyncio.sleep(60)

    with InlineHost(service).here() as locks:
        losing = asyncio.create_task(job())
        await asyncio.sleep(1)
        await locks.break_(LOCK, notice=0)
        with pytest.raises(LockLost):
            await losing
        lost = now()
        await job()
        assert began[1] - lost < 5, "its hold was lost in the body"
        await locks.break_(LOCK, notice=0)
        broken = now()
        await job()
        assert began[2] - broken < 15 + 5, "its lock was kept after the body, and was broken"
        await locks.break_(LOCK, notice=0)
        await until(now() + 20)


@virtual_time
async def test_the_test_mode_does_not_take_a_lock_that_is_kept_for_one_that_was_left() -> None:
    job = a_timer(1, [], at_least=50)
    await job()


# --- at most ----------------------------------------------------------------------------------------------------------


@virtual
async def test_a_body_that_hangs_is_cancelled_and_its_invocation_fails() -> None:
    service = MemoryLeaseStore()

    @singleton(max_hold=40)
    async def job() -> None:
        await asyncio.sleep(3600)

    with InlineHost(service).here():
        began = now()
        with pytest.raises(LockLost, match=r"too long: its max_hold is over") as lost:
            await job()
        assert lost.value.reason == "too long"
        assert 40 <= now() - began < 41
        await eventually(lambda: not service.leased(), within=1)


@virtual
async def test_nobody_gets_in_before_the_holder_was_told_and_the_lease_runs_out_by_itself() -> None:
    """A body that does not end keeps renewing nothing: its lease runs out, and then another process has the lock."""
    service = MemoryLeaseStore()
    told: list[float] = []
    entered: list[float] = []

    @singleton(max_hold=40)
    async def deaf() -> None:
        current_hold().lost.add_callback(lambda _: told.append(now()))
        while now() < 200:
            try:
                await asyncio.sleep(200 - now())
            except asyncio.CancelledError:
                continue

    deaf.__name__ = "job"

    @singleton(on_contention="wait", name="deaf")
    async def job() -> None:
        entered.append(now())

    async def first() -> None:
        with pytest.raises(LockLost):
            await deaf()

    with InlineHost(service, 1).here():
        running = asyncio.create_task(first())
    await asyncio.sleep(1)
    with InlineHost(service, 2).here():
        waiting = asyncio.create_task(job())
    await asyncio.wait({waiting})
    assert told == pytest.approx([40], abs=0.1)
    assert told[0] + 7 < entered[0] < told[0] + 15 + 5.1, "the lease was not given back under a running body"
    await running


@virtual
async def test_each_section_has_its_own_time_also_where_the_lease_is_handed_on() -> None:
    service = MemoryLeaseStore()
    inside = Headcount()

    @singleton(max_hold=20)
    async def job() -> None:
        with inside:
            await asyncio.sleep(12)

    with InlineHost(service).here():
        await asyncio.gather(*(job() for _ in range(5)))
    assert (inside.total, inside.most) == (5, 1)
    assert service.leased() == {}


@virtual
async def test_a_body_that_ends_in_time_leaves_no_timer_behind() -> None:
    with InlineHost(MemoryLeaseStore()).here():
        for _ in range(10):
            await a_timer(1, [], max_hold=86_400)()
        assert len(pending_timers()) <= 1


@virtual
async def test_a_lock_that_is_kept_after_its_body_is_not_held_for_too_long() -> None:
    service = MemoryLeaseStore()
    lost: list[str] = []

    @singleton(at_least=30, max_hold=30)
    async def job() -> None:
        current_hold().lost.add_callback(lost.append)

    with InlineHost(service).here():
        await job()
        await until(29)
        assert set(service.leased()) == {LOCK}
        await until(31)
    assert (lost, service.leased()) == ([], {})


@pytest.mark.parametrize(
    "layout", [{"layout": "webjobs"}, {"layout": "dequeueable", "scope": "Id", "max_waiting": 1}, {"limit": 1}]
)
def test_it_is_so_in_all_layouts_and_ways_to_wait(layout: dict[str, Any]) -> None:
    @virtual
    async def run() -> None:
        service = MemoryLeaseStore()

        @singleton(at_least=20, max_hold=30, **layout)
        async def job(msg: bytes) -> None:
            await asyncio.sleep(json.loads(msg)["Seconds"])

        with InlineHost(service).here():
            await job(b'{"Id": "a", "Seconds": 1}')
            assert len(service.leased()) == 1
            with pytest.raises(LockLost, match="max_hold"):
                await job(b'{"Id": "a", "Seconds": 100}')
            assert 50 <= now() < 120, "it waited for the first to be given back"
        assert service.leased() == {}

    run()


def test_a_sync_body_is_told_and_its_invocation_fails() -> None:
    def body() -> str:
        assert current_hold().lost.wait(60)
        return "done all the same"

    with LockThread() as thread:
        with pytest.raises(LockLost, match="max_hold"):
            call(a_job("sync", body, max_hold=0.2))
        assert "lost:too long" in thread.kinds()
        assert thread.leased() == set()


def test_threads_keep_it_at_least_and_at_most() -> None:
    with LockThread() as thread:
        job = a_job("sync", lambda: None, at_least=2.0, max_hold=30, on_contention="skip")
        call(job)
        assert thread.leased() == {LOCK}
        threads = [threading.Thread(target=job, kwargs={"context": Context(f"inv-{n}")}) for n in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert thread.kinds().count("contended:skip") == 3


def test_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    @virtual
    async def run() -> None:
        with InlineHost(MemoryLeaseStore()).here(), pytest.raises(LockLost):
            await a_timer(100, [], max_hold=25)()

    run()
    assert "hold lost (too long): it was held for 25.0 s, and its max_hold is over" in caplog.text


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"at_least": -1}, "at_least is -1"),
        ({"at_least": "5"}, "at_least is '5': it must be a number of seconds"),
        ({"max_hold": 0}, "max_hold is 0: it must be more than 0 seconds"),
        ({"max_hold": float("nan")}, "max_hold is nan"),
        (
            {"at_least": 60, "max_hold": 50},
            "at_least is 60 seconds, more than max_hold, 50 seconds.*lower at_least, or raise max_hold",
        ),
        ({"at_least": 5, "mode": "listener"}, "at_least=5 is for mode='function' only"),
        ({"max_hold": 5, "mode": "listener"}, "max_hold=5 is for mode='function' only"),
    ],
)
def test_what_can_not_be_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        a_job("sync", **arguments)
