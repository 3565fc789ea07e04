"""Leadership: kept for a process's life, tried for while another has it, lost with a reason and tried for again."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from singleton import AsyncLockClient, ConfigurationError, LockClient, LockClosed, LockNotAcquired, SingletonOptions
from singleton.clients.leadership import LeadershipClaim
from singleton.locking.lease import Lease
from singleton.runtime.calls import Calls
from singleton.runtime.registry import Registry
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import CONNECTION, InlineHost, on
from tests.support.lock_thread import LockThread, an_app
from tests.support.network import LOST_REQUEST, Network, answered
from tests.support.steps import SteppedLoop, at_every_step
from tests.support.world import foreign_id, now, occupy, until, virtual

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import FrameType

    from singleton import Hold
    from singleton.clients.leadership import Leadership
    from singleton.runtime.calls import Work

JOB = "poller"


@pytest.fixture
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


# --- on virtual time --------------------------------------------------------------------------------------------------


@virtual
async def test_of_several_processes_one_leads_for_as_long_as_it_lives() -> None:
    service = MemoryLeaseStore()
    hosts = [InlineHost(service, seed) for seed in range(3)]
    candidacies = []
    for host in hosts:
        with host.here() as locks:
            candidacies.append(await locks.leadership(JOB, owner=f"host {host}").__aenter__())
    await until(500)
    leaders = [each for each in candidacies if each.hold is not None]
    assert len(leaders) == 1
    hold = await leaders[0]
    assert hold is leaders[0].hold
    assert hold.lock == JOB
    for host, each in zip(hosts, candidacies, strict=True):
        with host.here():
            await each.__aexit__()
    assert service.leased() == {}
    assert not hold.lost.is_set()


@virtual
async def test_its_lease_is_the_listeners_and_it_asks_once_in_a_recovery_interval() -> None:
    service = MemoryLeaseStore()
    await occupy(service, JOB, 60)
    host = InlineHost(service)
    with host.here() as locks:
        async with locks.leadership(JOB) as leadership:
            await until(59)
            assert leadership.hold is None
            assert len(host.network.sent("acquire")) == 1
            await asyncio.wait_for(leadership, 10)
            assert 60 <= now() < 61
            await until(85)
            assert len(host.network.sent("renew")) == 0
            await until(91)
            assert len(host.network.sent("renew")) == 1  # half of sixty seconds


@virtual
async def test_when_the_leader_dies_another_leads_within_its_lease_and_an_interval() -> None:
    service = MemoryLeaseStore()
    dead, alive = InlineHost(service, 1), InlineHost(service, 2)
    with dead.here() as locks:
        first = await locks.leadership(JOB).__aenter__()
        await first
    with alive.here() as locks:
        async with locks.leadership(JOB) as second:
            await until(100)
            dead.network.fail_all(LOST_REQUEST)
            await second
            assert now() < 100 + 60 + 60 + 1
            assert first.hold is None
    with dead.here():
        await first.__aexit__()


@virtual
async def test_a_loss_is_told_with_its_reason_and_the_lease_that_ran_out_is_tried_for_at_once() -> None:
    service = MemoryLeaseStore()
    host = InlineHost(service)
    with host.here() as locks:
        async with locks.leadership(JOB) as leadership:
            hold = await leadership
            reasons: list[str] = []
            hold.lost.add_callback(reasons.append)
            await until(20)
            host.network.fail_all(LOST_REQUEST)
            assert await hold.lost == "expired"
            assert leadership.hold is None
            host.network.heal()
            again = await leadership
            assert now() < 20 + 60 + 11
            assert again is not hold
            assert again.token is not None
            assert hold.token is not None
            assert again.token > hold.token
            assert reasons == ["expired"]


@virtual
async def test_who_was_deposed_by_an_operator_lets_others_have_their_chance_first() -> None:
    service = MemoryLeaseStore()
    host = InlineHost(service)
    with host.here() as locks:
        async with locks.leadership(JOB) as leadership:
            hold = await leadership
            await until(10)
            assert await locks.break_(JOB, 0)
            assert await hold.lost == "broken"
            deposed = now()
            await leadership
            assert now() - deposed >= 60


@virtual
async def test_storage_that_fails_or_refuses_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    host = InlineHost(MemoryLeaseStore())
    host.network.plan("acquire", answered(403, "AuthorizationFailure"))
    with host.here() as locks:
        async with locks.leadership(JOB) as leadership:
            await leadership
            assert 60 <= now() < 61
    assert "AuthorizationFailure" in caplog.text


@virtual
async def test_whatever_an_attempt_raises_is_told_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    host = InlineHost(MemoryLeaseStore())
    failures = [ValueError("Invalid tenant id provided")]

    def open_store(_: object) -> Network:
        if failures:
            raise failures.pop()
        return host.network

    host.registry = Registry(open_store, random.Random(1))
    with host.here() as locks:
        async with locks.leadership(JOB) as leadership:
            assert (await leadership).lock == JOB
            assert 60 <= now() < 61
    assert "Invalid tenant" in caplog.text


@virtual
async def test_with_recovery_off_it_tries_once_and_says_so_to_who_waits() -> None:
    service = MemoryLeaseStore()
    await service.create(JOB)
    await service.acquire(JOB, foreign_id(), -1)
    options = SingletonOptions(listener_lock_recovery_polling_interval=None, lock_acquisition_timeout=20)
    host = InlineHost(service, 1, options)
    with host.here() as locks:
        async with locks.leadership(JOB) as leadership:
            with pytest.raises(LockNotAcquired):
                await leadership
            assert 20 <= now() < 21
            with pytest.raises(LockNotAcquired):
                await leadership
            asked = len(host.network.requests)
            await until(500)
            assert len(host.network.requests) == asked


@virtual
async def test_a_wait_that_is_cancelled_takes_nothing_from_the_others() -> None:
    service = MemoryLeaseStore()
    await occupy(service, JOB, 30)
    with InlineHost(service).here() as locks:
        async with locks.leadership(JOB) as leadership:

            async def wait() -> Hold:
                hold: Hold = await leadership
                return hold

            waiting = [asyncio.create_task(wait()) for _ in range(3)]
            await until(5)
            waiting[1].cancel()
            await asyncio.wait(waiting)
            assert waiting[1].cancelled()
            assert waiting[0].result() is waiting[2].result() is leadership.hold


@virtual
async def test_closing_the_client_ends_the_waits_and_not_a_leadership() -> None:
    service = MemoryLeaseStore()
    leader, follower = InlineHost(service, 1), InlineHost(service, 2)
    with leader.here() as locks:
        first = await locks.leadership(JOB).__aenter__()
        hold = await first
        locks.close()
        await asyncio.sleep(100)
        assert first.hold is hold
    with follower.here() as locks:
        second = await locks.leadership(JOB).__aenter__()
        await asyncio.sleep(1)
        locks.close()
        with pytest.raises(LockClosed):
            await second
        await second.__aexit__()
    with leader.here():
        await first.__aexit__()
    assert service.leased() == {}


@pytest.mark.parametrize("again", [None, 1, 3, 6])
def test_who_is_cancelled_at_any_step_leaves_no_candidate_behind(again: int | None) -> None:
    """Also while entering: the block is not entered then, and nobody would end the candidacy."""

    async def scenario(loop: SteppedLoop) -> None:
        network = Network()
        registry = Registry(lambda _: network, random.Random(1))
        led: list[Hold] = []

        async def lead() -> None:
            async with AsyncLockClient(CONNECTION).leadership(JOB) as leadership:
                led.append(await leadership)
                await asyncio.sleep(1)

        with on(Calls(registry, loop)):
            await asyncio.wait({loop.victim(lead())})
            await asyncio.sleep(1)
        assert network.service.leased() == {}
        assert not registry._companions, "a candidate goes on, and nobody can end it"
        assert all(hold.lost.ended for hold in led), "the release was cut off"

    assert at_every_step(scenario, again=again) > 10


async def test_a_claim_that_is_collected_while_its_campaign_ends_cuts_off_no_release() -> None:
    begun, released = asyncio.Event(), asyncio.Event()

    async def campaign() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            released.set()

    task = asyncio.create_task(campaign())
    claim = LeadershipClaim(task)
    await begun.wait()
    task.cancel()
    del claim
    await asyncio.wait({task})
    assert released.is_set()


# --- in threads -------------------------------------------------------------------------------------------------------


def test_a_thread_leads_until_its_block_ends(thread: LockThread) -> None:
    with LockClient().leadership(JOB, owner="me") as leadership:
        hold = leadership.wait(5)
        assert hold is not None
        assert hold is leadership.wait() is leadership.hold
        assert hold.owner == "me"
        assert thread.leased() == {JOB}
    assert thread.leased() == set()
    with pytest.raises(LockClosed, match="is over"):
        leadership.wait()
    leadership.stop()


def test_a_thread_that_waits_is_told_when_it_leads_when_its_time_is_up_and_when_it_is_over(
    thread: LockThread,
) -> None:
    thread.taken_by_another_process(JOB)
    leadership = LockClient().leadership(JOB)
    leadership.start()
    assert leadership.wait(0.05) is None
    assert leadership.hold is None
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(leadership.wait)
        time.sleep(0.05)
        thread.given_back_by_the_other(JOB)
        thread.push_clock(61)
        hold = one.result(60)
        assert hold is not None
        thread.deleted(JOB)
        thread.push_clock(31)
        assert hold.lost.wait(60)
        assert hold.lost.reason == "blob gone"
        two = pool.submit(leadership.wait, 10_675_199 * 86_400.0)  # longer than a thread can wait
        time.sleep(0.05)
        leadership.stop()
        assert isinstance(two.exception(5), LockClosed)


def test_the_end_of_the_process_ends_a_candidacy_at_once_and_tells_the_leader(thread: LockThread) -> None:
    thread.taken_by_another_process("other")
    leader, follower = LockClient().leadership(JOB), LockClient().leadership("other")
    leader.start()
    follower.start()
    hold = leader.wait(5)
    assert hold is not None
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(follower.wait)
        time.sleep(0.05)
        thread.runtime.close()
        assert isinstance(waiting.exception(5), LockClosed)
    assert hold.lost.reason == "closed"
    leader.stop()
    follower.stop()


def test_what_was_not_started_or_was_started_elsewhere_does_not_wait_for_ever(thread: LockThread) -> None:
    leadership = LockClient().leadership(JOB)
    with pytest.raises(LockClosed, match="not started in this process"):
        leadership.wait()
    with leadership, pytest.raises(RuntimeError, match="started before"):
        leadership.start()
    leadership._process = os.getpid() + 1  # as a forked child sees it
    with pytest.raises(LockClosed, match="not started in this process"):
        leadership.wait()
    leadership.stop()


@pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])
def test_a_name_that_is_none(thread: LockThread, kind: type[LockClient | AsyncLockClient]) -> None:
    with pytest.raises(ConfigurationError, match="has 0 characters"):
        kind().leadership("")


def test_a_leader_whose_lease_has_run_out_leads_no_more_even_if_the_lock_thread_had_no_time_to_say_so(
    thread: LockThread,
) -> None:
    with LockClient().leadership(JOB) as leadership:
        hold = leadership.wait(5)
        assert hold is not None
        assert isinstance(hold.lost._lease, Lease)
        hold.lost._lease.deadline = 0.0  # what a machine that slept finds, before any timer has run
        assert leadership.hold is None


def test_who_is_cancelled_while_entering_on_an_event_loop_leaves_no_leader_behind(thread: LockThread) -> None:
    async def lead(leadership: Leadership) -> None:
        async with leadership:
            pass

    async def cancelled_at_once() -> None:
        for _ in range(10):
            entering = asyncio.create_task(lead(LockClient().leadership(JOB)))
            await asyncio.sleep(0)
            entering.cancel()
            await asyncio.wait({entering})
            assert entering.cancelled()

    asyncio.run(cancelled_at_once())
    assert thread.leased() == set()
    assert not thread.runtime.registry._companions


def test_who_is_interrupted_while_starting_leaves_no_leader_behind(
    thread: LockThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = thread.runtime.call
    interrupts = [KeyboardInterrupt()]

    def interrupted(work: Work[None]) -> None:
        call(work)
        if interrupts:
            raise interrupts.pop()

    monkeypatch.setattr(thread.runtime, "call", interrupted)
    leadership = LockClient().leadership(JOB)
    with pytest.raises(KeyboardInterrupt):
        leadership.start()
    assert not thread.runtime.registry._companions


@pytest.mark.filterwarnings("ignore:coroutine 'Leadership._end' was never awaited:RuntimeWarning")
def test_who_is_interrupted_while_stopping_leads_no_more(thread: LockThread) -> None:
    calls = 0

    def interrupt(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        ours = "singleton" in frame.f_globals["__name__"] and frame.f_code.co_name != "__del__"
        calls += event == "call" and ours
        if calls > moment:
            sys.settrace(None)
            raise KeyboardInterrupt

    for moment in itertools.count():
        calls = 0
        with suppress(KeyboardInterrupt), LockClient().leadership(JOB) as leadership:
            assert leadership.wait(60) is not None
            sys.settrace(interrupt)
        sys.settrace(None)
        deadline = time.monotonic() + 60
        while leadership.hold is not None and time.monotonic() < deadline:
            time.sleep(0.001)
        assert leadership.hold is None, f"interrupted at call {moment} of the end"
        if calls <= moment:
            break
    assert moment > 10


def test_many_threads_may_wait(thread: LockThread) -> None:
    thread.taken_by_another_process(JOB)
    seen: list[Hold | None] = []
    with LockClient().leadership(JOB) as leadership:
        waiting = [threading.Thread(target=lambda: seen.append(leadership.wait(5))) for _ in range(20)]
        for each in waiting:
            each.start()
        time.sleep(0.05)
        thread.given_back_by_the_other(JOB)
        thread.push_clock(61)
        for each in waiting:
            each.join()
        assert len(seen) == 20
        assert set(seen) == {leadership.hold}


def test_who_has_stopped_leads_no_more(thread: LockThread) -> None:
    with LockClient().leadership(JOB) as leadership:
        assert leadership.wait(60) is not None
        assert leadership.hold is not None
    assert leadership.hold is None


def test_a_leader_keeps_state_with_its_lock(thread: LockThread) -> None:
    with LockClient().leadership(JOB) as leadership:
        hold = leadership.wait(10)
        assert hold is not None
        hold.state.write({"cursor": 1})
        assert hold.state.read() == {"cursor": 1}
