"""``limit``: at most so many invocations at a time, as a semaphore."""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from singleton import (
    AsyncLockClient,
    ConfigurationError,
    LockLost,
    LockNotAcquired,
    SingletonError,
    SingletonOptions,
    current_hold,
    singleton,
)
from singleton.decorator import guards_of
from singleton.locking.semaphore import slot_name
from singleton.operating.name_parts import read_name
from singleton.testing import Headcount, held_elsewhere, virtual_time
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import InlineHost
from tests.support.lock_thread import Context, LockThread, a_job, an_app, call
from tests.support.network import FINE, LOST_REPLY, LOST_REQUEST, Fate, Request
from tests.support.virtual import run_virtual
from tests.support.world import now, until, virtual

if TYPE_CHECKING:
    from pathlib import Path

    from singleton import Hold

LOCK = "locks/app/job"


@pytest.fixture(autouse=True)
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_never_more_than_the_limit_over_all_processes_and_as_many_where_they_come(limit: int) -> None:
    @virtual
    async def run() -> None:
        service, inside = MemoryLeaseStore(), Headcount()

        @singleton(limit=limit)
        async def job() -> None:
            with inside:
                await asyncio.sleep(5)

        tasks = []
        for seed in range(3):
            with InlineHost(service, seed).here():
                tasks += [asyncio.create_task(job()) for _ in range(4)]
        await asyncio.gather(*tasks)
        assert (inside.total, inside.most) == (12, limit)
        assert service.leased() == {}

    run()


@virtual
async def test_each_scope_has_a_limit_of_its_own() -> None:
    counts = {"a": Headcount(), "b": Headcount()}

    @singleton(scope="Tenant", limit=2)
    async def job(msg: bytes) -> None:
        with counts[json.loads(msg)["Tenant"]]:
            await asyncio.sleep(5)

    with InlineHost(MemoryLeaseStore()).here():
        await asyncio.gather(*(job(b'{"Tenant": "%s"}' % t) for t in [b"a", b"b"] * 4))
    assert [count.most for count in counts.values()] == [2, 2]


@virtual
async def test_its_hold_has_no_token_and_no_state_and_skipping_works() -> None:
    seen: list[Any] = []

    @singleton(limit=2, on_contention="skip")
    async def job() -> None:
        hold = current_hold()
        seen.append((hold.token, hold.lock))
        with pytest.raises(ConfigurationError, match="keeps no state: with limit=2, several have it at a time"):
            _ = hold.state
        await asyncio.sleep(5)

    with InlineHost(MemoryLeaseStore()).here():
        await asyncio.gather(*(job() for _ in range(5)))
    assert sorted(seen) == [(None, f"{LOCK}/slot-0"), (None, f"{LOCK}/slot-1")]


@virtual
async def test_its_slots_are_those_of_the_clients_semaphore_of_that_name() -> None:
    with InlineHost(MemoryLeaseStore(), options=SingletonOptions(host_id="app")).here() as locks:
        job = singleton(limit=2, on_contention="raise")(_nothing)
        name = locks.lock_name("job", limit=2)
        async with locks.semaphore(name, 2) as hold:
            assert hold.token is not None, "the client's has a token, as ever"
            await job()
            async with locks.semaphore(name, 2):
                with pytest.raises(LockNotAcquired, match="all of its 2 slots are taken"):
                    await job()


async def _nothing() -> None: ...


_nothing.__name__ = "job"


@virtual
async def test_at_least_and_max_hold_are_of_each_slot() -> None:
    service, inside = MemoryLeaseStore(), Headcount()

    @singleton(limit=2, at_least=20, max_hold=40)
    async def job(seconds: float) -> None:
        with inside:
            await asyncio.sleep(seconds)

    with InlineHost(service).here():
        began = now()
        ends = await asyncio.gather(job(100), job(1), job(1), return_exceptions=True)
        assert isinstance(ends[0], LockLost)
        assert ends[0].reason == "too long"
        assert 39 < now() - began < 45
        await until(now() + 20)
    assert inside.most == 2
    assert service.leased() == {}


@virtual_time
async def test_all_its_slots_may_be_held_elsewhere_in_a_test() -> None:
    job = singleton(limit=3, on_contention="raise")(_nothing)
    with held_elsewhere(job), pytest.raises(LockNotAcquired):
        await job()
    await job()


def test_threads() -> None:
    with LockThread() as thread:
        assert call(a_job("sync", lambda: current_hold().token, limit=2)) is None
        assert thread.leased() == set()


def test_the_longest_names_have_room_for_the_slots_and_are_read_again() -> None:
    def job(msg: str) -> None: ...

    scopes = ["x" * 225, "y" * 239, "z" * 500, "z" * 500 + "a"]
    (guard,) = guards_of(singleton(scope_id="{v}", limit=10**9)(job))
    names = [guard.call({"msg": f'{{"v": "{scope}"}}'}, Context()).lock for scope in scopes]
    assert len(set(names)) == len(names)
    for name, scope in zip(names, scopes, strict=True):
        slot = slot_name(name, 10**9 - 1)
        assert len(slot) <= 250
        read = read_name(slot)
        assert read is not None
        assert (read.function, read.slot) == ("job", 10**9 - 1)
        assert scope.startswith(read.scopes[0])
    locks = AsyncLockClient("UseDevelopmentStorage=true", options=SingletonOptions(host_id="app"))
    assert [locks.lock_name("job", scope, limit=5) for scope in scopes] == names


# --- random schedules -------------------------------------------------------------------------------------------------

FATES = [LOST_REQUEST, LOST_REPLY, Fate(up=1.2, down=1.2), Fate(up=4.5), Fate(up=20.0)]
comings = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.floats(0, 40),
        st.sampled_from([0.1, 3.0, 15.0, 60.0]),
        st.booleans(),
    ),
    min_size=2,
    max_size=9,
)
breaks = st.lists(
    st.tuples(st.integers(0, 2), st.floats(0, 60), st.sampled_from([0.5, 6.0, 16.0, 40.0]), st.sampled_from(FATES)),
    max_size=4,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(comings, breaks, st.sampled_from([None, 1, 2]), st.sampled_from([None, 2.0, 10.0, 29.0]))
def test_whatever_happens_no_more_believe_to_be_inside_than_the_limit_nor_for_longer_than_max_hold(
    who: list[tuple[int, float, float, bool]],
    faults: list[tuple[int, float, float, Fate]],
    limit: int | None,
    max_hold: float | None,
) -> None:
    """Bodies that are deaf to their loss go on; what counts is who believes in its hold, and who has the leases."""

    async def run() -> None:
        service = MemoryLeaseStore()
        inside: set[Hold] = set()

        def judge() -> None:
            believers = [hold for hold in inside if not hold.lost.is_set()]
            assert len(believers) <= (limit or 1), believers
            leased = service.leased()
            assert all(leased.get(hold.lock) == hold.lease_id for hold in believers)

        @singleton(limit=limit, max_hold=max_hold, timeout=60)
        async def job(seconds: float, *, deaf: bool) -> None:
            hold, began = current_hold(), now()
            inside.add(hold)
            judge()
            try:
                while (left := began + seconds - now()) > 0:
                    try:
                        await asyncio.sleep(min(left, 0.5))
                    except asyncio.CancelledError:
                        if not deaf:
                            raise
                    judge()
                    if max_hold is not None and now() - began > max_hold + 0.01:
                        assert hold.lost.is_set(), "it is held for longer than max_hold"
            finally:
                inside.discard(hold)

        async def come(host: InlineHost, at: float, seconds: float, deaf: bool) -> None:
            await until(at)
            with host.here():
                try:
                    await job(seconds, deaf=deaf)
                except SingletonError:
                    return

        hosts = []
        for number in range(3):
            host = InlineHost(service, number)
            own = [fault for fault in faults if fault[0] == number]

            def fate(request: Request, own: list[Any] = own) -> Fate:
                return next((f for _, start, long, f in own if start <= request.sent < start + long), FINE)

            host.network.decide = fate
            hosts.append(host)
        await asyncio.gather(*(come(hosts[n], *rest) for n, *rest in who))  # type: ignore[arg-type]
        await asyncio.gather(*(host.registry.aclose() for host in hosts))
        await asyncio.sleep(60)
        assert service.leased() == {}

    random.seed(1)
    run_virtual(run())


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"limit": 0}, "limit is 0: give a whole number from 1 to 2,147,483,647"),
        ({"limit": 1.0}, r"limit is 1\.0"),
        ({"limit": True}, "limit is True"),
        ({"limit": 2, "layout": "webjobs"}, "limit=2 is for layout='default' only"),
        ({"limit": 2, "layout": "dequeueable", "scope": "Id"}, "limit=2 is for layout='default' only"),
        ({"limit": 2, "mode": "listener"}, "limit=2 is for mode='function' only"),
        ({"limit": 2, "failover": 5}, "failover is 5, and can't be used with limit=2"),
    ],
)
def test_what_can_not_be_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        a_job("sync", **arguments)
