"""Drain, then release (guarantee 5): how a lease goes back, whatever goes wrong with that."""

from __future__ import annotations

import asyncio

import pytest

from singleton.locking.lock import release
from tests.support.network import LOST_REPLY, LOST_REQUEST, Fate, Network, answered, raising
from tests.support.world import NAME, foreign_id, held, lock_on, now, section, settled, until, virtual


@virtual
async def test_the_lease_is_given_back_when_release_returns() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    await release(hold)
    assert network.service.leased() == {}
    assert network.calls()[-1] == "release"


@virtual
async def test_the_next_host_has_it_at_its_next_poll() -> None:
    network = Network()
    await section(lock_on(network, 1), 3.0)
    start = now()
    await section(lock_on(network, 2), timeout=0)
    assert now() - start < 0.2


@virtual
async def test_releasing_twice_does_nothing() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    await release(hold)
    async with held(lock) as second:
        await release(hold)
        assert network.service.leased() == {NAME: second.lease_id}
    await release(hold)
    await release(second)
    assert len(network.sent("release")) == 2


@virtual
async def test_releasing_from_two_tasks_at_once_releases_once() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    await asyncio.gather(*(release(hold) for _ in range(5)))
    assert len(network.sent("release")) == 1
    assert network.service.leased() == {}


@virtual
async def test_releasing_a_lost_hold_does_nothing_and_raises_nothing() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    await network.service.break_(NAME)
    await network.service.acquire(NAME, foreign_id(), 60)
    assert await hold.lost == "stolen"
    await release(hold)
    assert network.service.leased() == {NAME: foreign_id()}
    assert hold.lost.reason == "stolen"


@virtual
async def test_release_joins_the_renewal_that_is_under_way() -> None:
    """No renewal follows the release, or it would bring the lease back to life (B22)."""
    for moment in (7.4999, 7.5, 7.5001, 7.505, 7.51, 7.515, 7.52, 7.53):
        network = Network()
        lock = lock_on(network, fencing=False)
        await network.service.create(NAME)
        start = now()
        hold = await lock.acquire()
        await until(start + moment)
        await release(hold)
        await asyncio.sleep(20.0)
        assert network.calls()[-1] == "release"
        assert network.service.leased() == {}


@virtual
async def test_release_does_not_wait_for_a_renewal_that_hangs() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    network.always("renew", LOST_REQUEST)
    await until(8.0)
    await release(hold)
    assert now() < 8.1
    await settled(network.service, lock)


@pytest.mark.parametrize(
    "fate",
    [
        answered(409, "LeaseIdMismatchWithLeaseOperation"),
        answered(409, "LeaseNotPresentWithLeaseOperation"),
        answered(404, "BlobNotFound"),
        answered(404, "ContainerNotFound"),
        answered(409, "ContainerBeingDeleted"),
        answered(403, "AuthorizationFailure"),
        answered(400, "InvalidHeaderValue"),
        answered(412, "ConditionNotMet"),
    ],
    ids=lambda fate: str(fate.failure),
)
@virtual
async def test_a_release_that_is_refused_is_not_repeated_and_raises_nothing(fate: Fate) -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    network.always("release", fate)
    start = now()
    await release(hold)
    assert now() - start < 0.1
    assert len(network.sent("release")) == 1
    assert hold.lost.reason is None, "a hold that was released is not lost"


@pytest.mark.parametrize(
    "fate",
    [answered(500), answered(503), answered(404), answered(409), answered(), LOST_REPLY, answered(executed=True)],
)
@virtual
async def test_a_release_that_fails_once_is_repeated(fate: Fate) -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    network.plan("release", fate)
    await release(hold)
    assert now() < 3.0
    assert network.service.leased() == {}


@pytest.mark.parametrize("fate", [LOST_REQUEST, LOST_REPLY, answered(500), answered(), Fate(up=3.0, down=3.0)])
@virtual
async def test_storage_that_does_not_answer_delays_a_release_by_five_seconds_at_most(fate: Fate) -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    network.always("release", fate)
    start = now()
    await release(hold)
    assert now() - start <= 5.0 + 1e-9
    assert lock.idle
    # The service ends the lease by itself; nobody renews it.
    await asyncio.sleep(15.0)
    assert network.service.leased() == {}


@pytest.mark.parametrize("fate", [answered(500), raising(TimeoutError())])
@virtual
async def test_a_release_that_fails_at_once_again_and_again_is_repeated_with_pauses(fate: Fate) -> None:
    network = Network()
    hold = await lock_on(network).acquire()
    network.always("release", fate)
    await release(hold)
    assert 3 <= len(network.sent("release")) <= 8


@virtual
async def test_a_store_that_raises_what_it_should_not_does_not_hang_or_break_a_release() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    network.plan("release", raising(RuntimeError("session is closed")))
    async with asyncio.timeout(10.0):
        await release(hold)
    network.heal()
    await asyncio.sleep(15.0)
    await section(lock, timeout=0)
    await settled(network.service, lock)


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
@virtual
async def test_a_store_that_raises_what_it_should_not_fails_those_who_wait_but_not_the_lock(
    error: type[BaseException],
) -> None:
    network = Network()
    lock = lock_on(network)
    network.always("acquire", raising(error("session is closed")))
    waiting = [asyncio.create_task(lock.acquire(timeout=timeout)) for timeout in (None, 30.0)]
    await asyncio.wait(waiting)
    for one in waiting:
        assert "session is closed" in str(one.exception())
    network.heal()
    await section(lock, timeout=0)


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
@virtual
async def test_who_comes_after_such_an_error_has_not_met_it(error: type[BaseException]) -> None:
    network = Network()
    lock = lock_on(network)
    network.plan("acquire", raising(error("session is closed")))
    first = asyncio.create_task(lock.acquire())
    while not network.sent("release"):  # noqa: ASYNC110 - of the model
        await asyncio.sleep(0.001)
    assert first.done(), "he hears of it at once, not when the lease that he may have got is given back"
    assert "session is closed" in str(first.exception())
    assert not lock.idle
    await section(lock)
    await settled(network.service, lock)


@virtual
async def test_a_cancellation_out_of_a_stores_release_is_told_as_what_it_is() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    network.plan("release", Fate(up=1.0, failure=asyncio.CancelledError("session is closed")))
    releasing = asyncio.create_task(release(hold))
    await asyncio.sleep(0.1)
    following = asyncio.create_task(lock.acquire())
    await asyncio.wait({releasing, following})
    assert "session is closed" in str(following.exception())
    await section(lock)


@virtual
async def test_a_cancelled_release_is_carried_out_all_the_same() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    releasing = asyncio.create_task(release(hold))
    await asyncio.sleep(0.001)
    releasing.cancel()
    await asyncio.wait({releasing})
    assert releasing.cancelled(), "somebody else's cancellation was swallowed"
    await settled(network.service, lock, within=1.0)
    assert len(network.sent("release")) == 1


@virtual
async def test_the_lock_is_kept_until_its_section_has_ended() -> None:
    """A sync body runs on in its thread after its invocation was cancelled; till it ends, nobody gets in (B10)."""
    network = Network()
    lock, other = lock_on(network, 1), lock_on(network, 2)
    hold = await lock.acquire()
    waiting = asyncio.create_task(other.acquire())
    await until(100.0)
    assert not waiting.done()
    assert not hold.lost.is_set()
    await release(hold)
    await release(await waiting)


@virtual
async def test_release_returns_at_once_when_the_next_in_line_takes_over() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    following = asyncio.create_task(section(lock, 10.0))
    await asyncio.sleep(0.1)
    start = now()
    await release(hold)
    assert now() == start
    await following


@pytest.mark.parametrize("fate", [answered(500), answered(403, "AuthorizationFailure"), LOST_REPLY, LOST_REQUEST])
@pytest.mark.parametrize("call", ["read", "write"])
@virtual
async def test_a_lease_whose_stamp_failed_is_given_back(call: str, fate: Fate) -> None:
    """B6: a lease is got, and what comes after fails."""
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network)
    network.plan(call, fate)
    try:
        await section(lock, timeout=0)
    except Exception:  # noqa: BLE001 - denied, or tried again with success
        assert network.service.leased() == {}
    await settled(network.service, lock)
    acquired = {request.lease_id for request in network.sent("acquire")}
    given_back = {request.lease_id for request in network.sent("release")}
    assert given_back == acquired
