"""What a failing storage means for those who wait: told at once, waited out, or given up after a minute."""

from __future__ import annotations

import asyncio

import pytest

from singleton.base.errors import LockNotAcquired, StorageDenied, StorageError, StorageUnavailable
from singleton.locking.lock import release
from tests.support.network import LOST_REQUEST, Fate, Network, answered
from tests.support.world import NAME, foreign_id, lock_on, now, occupy, section, settled, until, virtual


@virtual
async def test_a_time_out_while_the_storage_is_in_trouble_is_no_contention() -> None:
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    waiting = asyncio.create_task(lock.acquire(timeout=20.0))
    await asyncio.sleep(10.0)
    network.fail_all(answered(500, "InternalError"))
    with pytest.raises(StorageUnavailable) as caught:
        await waiting
    assert caught.value.status == 500
    assert caught.value.code == "InternalError"


@virtual
async def test_a_time_out_after_the_storage_healed_is_contention() -> None:
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    network.fail_all(answered(500))
    waiting = asyncio.create_task(lock.acquire(timeout=20.0))
    await asyncio.sleep(10.0)
    network.heal()
    with pytest.raises(LockNotAcquired):
        await waiting


@pytest.mark.parametrize("status", [404, 409])
@virtual
async def test_a_page_without_an_error_code_is_neither_contention_nor_a_missing_blob(status: int) -> None:
    network = Network()
    lock = lock_on(network)
    network.fail_all(answered(status))
    with pytest.raises(StorageUnavailable) as caught:
        await lock.acquire(timeout=0)
    assert (caught.value.status, caught.value.code) == (status, None)
    assert network.sent("create") == []


@virtual
async def test_an_outage_of_a_minute_ends_even_an_endless_wait() -> None:
    network = Network()
    lock = lock_on(network)
    network.fail_all(answered(503, "ServerBusy"))
    waiting = [asyncio.create_task(lock.acquire()) for _ in range(3)]
    await asyncio.wait(waiting)
    assert 60.0 <= now() <= 66.0
    for one in waiting:
        assert isinstance(one.exception(), StorageUnavailable)


@virtual
async def test_an_outage_under_a_minute_is_waited_out() -> None:
    network = Network()
    lock = lock_on(network)
    network.fail_all(LOST_REQUEST)
    waiting = asyncio.create_task(section(lock))
    await asyncio.sleep(55.0)
    network.heal()
    await waiting
    await settled(network.service, lock)


@virtual
async def test_an_outage_long_ago_does_not_shorten_the_patience_with_a_new_one() -> None:
    network = Network()
    lock = lock_on(network)
    network.fail_all(answered(500))
    with pytest.raises(StorageUnavailable):
        await lock.acquire(timeout=10.0)
    await until(3600.0)
    waiting = asyncio.create_task(section(lock))
    await asyncio.sleep(30.0)
    assert not waiting.done()
    network.heal()
    await waiting


@virtual
async def test_hiccups_with_answers_in_between_are_no_outage() -> None:
    network = Network()
    await occupy(network.service)
    lock = lock_on(network, poll_max=5.0)
    waiting = asyncio.create_task(lock.acquire(timeout=250.0))
    for _ in range(20):
        network.plan("acquire", answered(500))
        await asyncio.sleep(11.0)
        assert not waiting.done()
        await network.service.acquire(NAME, foreign_id(), 60)
    waiting.cancel()
    await asyncio.wait({waiting})


@pytest.mark.parametrize(
    ("fate", "error"),
    [
        (answered(401, "NoAuthenticationInformation"), StorageDenied),
        (answered(403, "AuthenticationFailed"), StorageDenied),
        (answered(403, "AuthorizationPermissionMismatch"), StorageDenied),
        (answered(403), StorageDenied),
        (answered(400, "InvalidResourceName"), StorageError),
        (answered(409, "BlobImmutableDueToPolicy"), StorageError),
    ],
)
@pytest.mark.parametrize("call", ["acquire", "create", "read", "write"])
@virtual
async def test_what_waiting_can_not_help_is_told_to_all_waiters_at_once(
    fate: Fate, error: type[StorageError], call: str
) -> None:
    network = Network()
    if call in ("read", "write"):  # a blob that is not ours
        await network.service.create(NAME)
    network.always(call, fate)
    lock = lock_on(network)
    timeouts = (0, None, 30.0, 5.0)
    waiting = [asyncio.create_task(lock.acquire(timeout=timeout, owner=f"{timeout}")) for timeout in timeouts[1:]]
    await asyncio.wait(waiting)
    assert now() < 0.2
    for one, timeout in zip(waiting, timeouts[1:], strict=True):
        caught = one.exception()
        assert type(caught) is error
        assert caught.lock == NAME
        assert caught.owner == f"{timeout}"
        assert caught.status == getattr(fate.failure, "status", None)
        assert caught.__cause__ is not None
    with pytest.raises(error):
        await lock.acquire(timeout=0)
    await settled(network.service, lock)


@virtual
async def test_denied_after_waiting_for_a_while_is_told_at_the_next_poll() -> None:
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    waiting = asyncio.create_task(lock.acquire())
    await asyncio.sleep(20.0)
    network.always("acquire", answered(403, "AuthorizationFailure"))
    with pytest.raises(StorageDenied):
        await waiting
    assert now() < 25.1


@virtual
async def test_an_error_of_one_acquisition_leaves_the_lock_usable() -> None:
    network = Network()
    lock = lock_on(network)
    for fate in (answered(403), answered(400), answered(409, "LeaseAlreadyPresent")):
        network.plan("acquire", fate)
        with pytest.raises((StorageError, LockNotAcquired)):
            await lock.acquire(timeout=0)
    await section(lock, timeout=0)


@pytest.mark.parametrize("fate", [LOST_REQUEST, answered(503), Fate(up=2.4, down=2.4)])
@virtual
async def test_a_time_out_behind_others_while_the_storage_does_not_answer_is_no_contention(fate: Fate) -> None:
    network = Network()
    network.fail_all(fate)
    lock = lock_on(network)
    first = asyncio.create_task(lock.acquire())
    await asyncio.sleep(0.001)
    with pytest.raises(StorageUnavailable):
        await lock.acquire(timeout=3.0)
    assert now() == pytest.approx(3.001)
    network.heal()
    first.cancel()
    await asyncio.wait({first})


@virtual
async def test_a_time_out_behind_others_who_wait_for_another_host_is_contention() -> None:
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    first = asyncio.create_task(lock.acquire())
    await until(20.0)
    with pytest.raises(LockNotAcquired):
        await lock.acquire(timeout=0.2)
    first.cancel()
    await asyncio.wait({first})


@virtual
async def test_a_time_out_right_after_this_process_had_the_lock_is_contention() -> None:
    """It waited for those before it; that its own first request is still under way changes nothing."""
    network = Network()
    lock = lock_on(network, handoff_window=0.0)
    running = asyncio.create_task(section(lock, 3.0))
    await asyncio.sleep(0.5)
    start = now()
    late = asyncio.create_task(lock.acquire(timeout=8.62))
    await asyncio.sleep(0.1)
    network.always("acquire", LOST_REQUEST)
    with pytest.raises(LockNotAcquired):
        await late
    assert now() - start == pytest.approx(8.62)
    await running
    network.heal()


@virtual
async def test_who_comes_while_an_attempt_is_given_up_in_an_outage_hears_of_that_outage() -> None:
    network = Network()
    network.fail_all(answered(503, "ServerBusy"))
    lock = lock_on(network)
    gone = asyncio.create_task(lock.acquire())
    await asyncio.sleep(30.0)
    gone.cancel()
    await asyncio.sleep(1.0)
    network.always("acquire", Fate(up=4.0, failure=answered(503, "ServerBusy").failure, executed=False))
    with pytest.raises(StorageUnavailable, match="503 ServerBusy"):
        await lock.acquire(timeout=3.0)
    with pytest.raises(StorageUnavailable, match="503 ServerBusy"):
        await lock.acquire()


@virtual
async def test_a_time_out_while_this_process_gives_the_lock_back_slowly_is_contention() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    network.always("release", LOST_REQUEST)
    releasing = asyncio.create_task(release(hold))
    await asyncio.sleep(0.1)
    with pytest.raises(LockNotAcquired):
        await lock.acquire(timeout=2.0)
    await releasing


@virtual
async def test_silence_for_all_of_ones_wait_is_no_contention_though_it_was_taken_before() -> None:
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    first = asyncio.create_task(lock.acquire(timeout=8.0))
    await asyncio.sleep(7.0)
    network.fail_all(LOST_REQUEST)
    second = asyncio.create_task(lock.acquire(timeout=3.0))
    await asyncio.wait({first, second})
    assert isinstance(first.exception(), LockNotAcquired)
    assert isinstance(second.exception(), StorageUnavailable)


@virtual
async def test_silence_is_no_contention_though_this_process_had_the_lock_just_before() -> None:
    network = Network()
    lock = lock_on(network)
    await section(lock, 1.0)
    await asyncio.sleep(0.1)
    network.fail_all(LOST_REQUEST)
    with pytest.raises(StorageUnavailable):
        await lock.acquire(timeout=3.0)
