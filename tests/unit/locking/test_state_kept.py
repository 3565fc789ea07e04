"""State kept with a lock: under its lease, in order, and never overwritten by who had the lock before."""

from __future__ import annotations

import asyncio
import math
import random
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from singleton.base.errors import ConfigurationError, LockLost, StorageDenied, StorageError, StorageUnavailable
from singleton.base.hold import Hold
from singleton.base.invocation import Invocation, SpeakingOf
from singleton.base.state import MOST_NESTED, MOST_STATE, STATE_KEY, UNTIL_KEY, Kept, State
from singleton.locking.fencing import SECTIONS
from singleton.locking.lock import Lock, release
from singleton.locking.section import Section
from singleton.locking.section_state import SectionState
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.empty_values import EMPTY
from tests.support.network import LOST_REPLY, LOST_REQUEST, Fate, Network, answered, answered_in_between
from tests.support.semaphores import Host
from tests.support.world import NAME, foreign_id, held, lock_on, now, section, settled, virtual, virtual_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.support.network import Request

_T = TypeVar("_T")


class Here:
    """The way from a loop to itself."""

    def call(self, work: Callable[[Any], Coroutine[Any, Any, _T]]) -> _T:
        raise AssertionError(f"nobody blocks the loop of a lock: {work}")

    async def call_async(self, work: Callable[[Any], Coroutine[Any, Any, _T]]) -> _T:
        return await work(None)


def state_of(hold: Hold) -> State:
    return State(hold.lock, hold.keeper(), Here())


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


async def read_by(lock: Lock) -> Any:
    async with held(lock) as hold:
        return await state_of(hold).aread()


# --- what is kept -----------------------------------------------------------------------------------------------------


@virtual
async def test_the_next_holder_reads_what_was_written_last_in_this_process_and_in_others() -> None:
    service = MemoryLeaseStore()
    here, there = lock_on(Network(service)), lock_on(Network(service), 2)
    async with held(here) as hold:
        assert await state_of(hold).aread("nothing") == "nothing"
        await state_of(hold).awrite({"cursor": 1})
        assert await state_of(hold).aread() == {"cursor": 1}
        await state_of(hold).awrite({"cursor": 2})
    assert [await read_by(here), await read_by(there), await read_by(here)] == [{"cursor": 2}] * 3


@virtual
async def test_it_outlives_a_crash_and_the_token_goes_on_rising() -> None:
    service = MemoryLeaseStore()
    network = Network(service)
    crashed = await lock_on(network).acquire()
    await state_of(crashed).awrite(7)
    network.fail_all(LOST_REQUEST)
    async with held(lock_on(Network(service), 2), timeout=60) as hold:
        assert await state_of(hold).aread() == 7
        assert hold.token is not None
        assert crashed.token is not None
        assert hold.token > crashed.token
    await release(crashed)


@virtual
async def test_bytes_are_read_back_as_bytes_and_json_as_json() -> None:
    lock = lock_on(Network())
    async with held(lock) as hold:
        state = state_of(hold)
        for value in (*EMPTY, bytes(range(256)), "ä\u2028", [1.5, {"a": [True]}]):
            await state.awrite(value)
            read = await state.aread("nothing")
            assert (type(read), read) == (type(value), value)
        await state.aremove()
        assert await state.aread("nothing") == "nothing"


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (object(), TypeError),
        ({1, 2}, TypeError),
        (math.nan, ValueError),
        ("\ud800", ValueError),
        ({1: "a", "1": "b"}, TypeError),
        ([{"a": ({None: 1},)}], TypeError),
        (deep(100_000), ValueError),
        (bytes(MOST_STATE + 1), ValueError),
    ],
    ids=["object", "set", "no number", "half a pair", "number as key", "key within", "too deep", "too long"],
)
def test_what_can_not_be_kept_is_refused_before_anything_is_sent(value: Any, error: type[Exception]) -> None:
    @virtual
    async def run() -> None:
        network = Network()
        async with held(lock_on(network)) as hold:
            with pytest.raises(error, match=r"kept|at most"):
                await state_of(hold).awrite(value)
            assert "put" not in network.calls()

    run()


@virtual
async def test_a_read_and_a_write_are_one_request_each_and_a_cycle_stays_warm() -> None:
    network = Network()
    lock = lock_on(network)
    await section(lock)
    network.requests.clear()
    for _ in range(3):
        async with held(lock) as hold:
            await state_of(hold).aread()
            await state_of(hold).awrite(1)
    assert network.calls() == ["acquire", "get", "put", "release"] * 3


@virtual
async def test_content_that_nobody_can_understand_is_an_error_that_says_so() -> None:
    network = Network()
    lock = lock_on(network)
    for marked in ("json", "cbor"):
        async with held(lock) as hold:
            await state_of(hold).awrite(b"\xff")
            blob = network.service._blobs[NAME]
            blob.metadata[STATE_KEY] = marked
        with pytest.raises(StorageError, match=f"marked '{marked}"):
            await read_by(lock)


@virtual
async def test_what_is_nested_too_deeply_for_who_reads_it_is_an_error_that_says_so() -> None:
    lock = lock_on(network := Network())
    async with held(lock) as hold:
        await state_of(hold).awrite([])
        network.service._blobs[NAME].body = b"[" * 100_000 + b"]" * 100_000
        with pytest.raises(StorageError, match="nested too deeply"):
            await state_of(hold).aread()


async def with_content(service: MemoryLeaseStore, content: bytes) -> None:
    """Give the lock's blob content of the app's own."""
    await service.create(NAME)
    await service.acquire(NAME, foreign_id(), 60)
    await service.put(NAME, foreign_id(), {"author": "me"}, (await service.read(NAME)).etag, content)
    await service.release(NAME, foreign_id())


@virtual
async def test_content_of_somebody_else_is_not_replaced_nor_removed() -> None:
    network = Network()
    await with_content(network.service, b'{"documents": ["a", "b"]}')
    async with held(lock_on(network)) as hold:
        assert await state_of(hold).aread("nothing") == "nothing"
        for act in (state_of(hold).awrite({"cursor": 1}), state_of(hold).awrite(b""), state_of(hold).aremove()):
            with pytest.raises(
                StorageError, match=rf"lock '{NAME}': .* has 25 bytes of content .* not write.*'\.lock'"
            ):
                await act
        assert not hold.lost.is_set()
    blob = network.service._blobs[NAME]
    assert (blob.body, blob.metadata["author"]) == (b'{"documents": ["a", "b"]}', "me")
    assert "put" not in network.calls()


@virtual
async def test_content_of_somebody_else_is_no_state_however_long_and_is_not_read() -> None:
    network, began = Network(), asyncio.get_running_loop().time()
    await with_content(network.service, bytes(MOST_STATE + 1))
    async with held(lock_on(network)) as hold:
        assert await state_of(hold).aread("nothing") == "nothing"
        with pytest.raises(StorageError, match=rf"^the state of lock '{NAME}': the blob has 8,388,609 bytes"):
            await state_of(hold).awrite(1)
    assert "get" not in network.calls()
    assert asyncio.get_running_loop().time() - began < 1


@virtual
async def test_content_that_comes_while_the_lock_is_held_is_not_replaced_either() -> None:
    network = Network()
    async with held(lock_on(network)) as hold:
        await state_of(hold).awrite("ours")
        assert hold.lease_id is not None
        service, metadata = network.service, {"SingletonEpoch": network.service._blobs[NAME].metadata["SingletonEpoch"]}
        await service.put(NAME, hold.lease_id, metadata, (await service.read(NAME)).etag, b"theirs")
        with pytest.raises(StorageError, match="has 6 bytes of content"):
            await state_of(hold).awrite("ours again")
    assert network.service._blobs[NAME].body == b"theirs"


@virtual
async def test_state_may_be_written_again_once_the_foreign_content_is_gone() -> None:
    network = Network()
    await with_content(network.service, b"theirs")
    lock = lock_on(network)
    async with held(lock) as hold:
        with pytest.raises(StorageError, match="has 6 bytes"):
            await state_of(hold).awrite(1)
    await with_content(network.service, b"")
    async with held(lock) as hold:
        await state_of(hold).awrite(1)
    assert await read_by(lock_on(network, 2)) == 1


@virtual
async def test_what_is_nested_deeper_than_a_reader_surely_reads_is_not_written() -> None:
    lock = lock_on(Network())
    deep: Any = 0
    for _ in range(MOST_NESTED):
        deep = {"a": deep}
    async with held(lock) as hold:
        await state_of(hold).awrite(deep)
        for refused in ([deep], (deep,), {"a": deep}):
            with pytest.raises(ValueError, match="at most 500 levels of nesting are allowed"):
                await state_of(hold).awrite(refused)
        assert await state_of(hold).aread() == deep


# --- who may ----------------------------------------------------------------------------------------------------------


@virtual
async def test_who_was_paused_past_his_lease_is_refused_and_overwrites_nothing() -> None:
    service = MemoryLeaseStore()
    network = Network(service)
    paused = await lock_on(network).acquire()
    await state_of(paused).awrite("before")
    late = asyncio.create_task(state_of(paused).awrite("late"))
    network.plan("put", Fate(up=40.0))
    network.fail_all(Fate(up=40.0))  # all that he sends arrives when he wakes up
    async with held(lock_on(Network(service), 2), timeout=60) as hold:
        await state_of(hold).awrite("successor's")
        await asyncio.sleep(60)
        assert await state_of(hold).aread() == "successor's"
    with pytest.raises(StorageUnavailable, match="not known"):
        await late
    with pytest.raises(LockLost):
        await state_of(paused).aread()
    await release(paused)


@virtual
async def test_the_service_refuses_whoever_lost_the_lease_whatever_his_clock_says() -> None:
    service = MemoryLeaseStore()
    hold = await lock_on(Network(service)).acquire()
    await service.break_(NAME)
    await service.acquire(NAME, foreign_id(), 60)
    for use in (state_of(hold).awrite(1), state_of(hold).aread()):
        assert not hold.lost.is_set() or use is not None
        with pytest.raises(LockLost):
            await use
    assert hold.lost.reason == "stolen"
    assert service.calls["put"] == 1  # the read was not even sent
    await release(hold)


@virtual
async def test_a_read_too_is_refused_by_the_service_once_the_lease_is_gone() -> None:
    """What a successor has written is not for who was paused past his lease, and believes in it."""
    service = MemoryLeaseStore()
    hold = await lock_on(Network(service)).acquire()
    await state_of(hold).awrite("mine")
    await service.break_(NAME)
    async with held(lock_on(Network(service), seed=2)) as successor:
        await state_of(successor).awrite("his")
        assert not hold.lost.is_set()
        with pytest.raises(LockLost):
            await state_of(hold).aread()
    assert hold.lost.is_set()
    await release(hold)


@virtual
async def test_after_its_release_a_hold_reads_and_writes_nothing() -> None:
    network = Network()
    lock = lock_on(network)
    async with held(lock) as hold:
        pass
    async with held(lock):  # the same lease covers it, where somebody waits: this one has a lease of its own
        for use in (state_of(hold).awrite(1), state_of(hold).aread()):
            with pytest.raises(LockLost, match="released"):
                await use
    assert not {"put", "get"} & {*network.calls()}


def test_no_state_is_kept_without_tokens_for_a_semaphore_or_while_locking_is_off() -> None:
    @virtual
    async def run() -> None:
        service = MemoryLeaseStore()
        async with held(lock_on(service, fencing=False)) as hold:
            with pytest.raises(ConfigurationError, match="fencing tokens"):
                hold.keeper()
        async with Host(service).inside(2) as slot:
            with pytest.raises(ConfigurationError, match="it is shared"):
                slot.keeper()
        off = Hold(NAME)
        with pytest.raises(ConfigurationError, match="switched off"):
            off.state.read()

    run()


# --- what the network does --------------------------------------------------------------------------------------------


@virtual
async def test_a_write_whose_answer_is_lost_is_written_again_and_the_next_one_follows() -> None:
    network = Network()
    async with held(lock_on(network)) as hold:
        for fate in (LOST_REPLY, LOST_REQUEST, answered(503), answered(500, executed=True)):
            network.plan("put", fate)
            await state_of(hold).awrite(str(fate))
            assert await state_of(hold).aread() == str(fate)
    assert not hold.lost.reason


@virtual
async def test_a_write_that_arrives_late_does_not_undo_the_one_after_it() -> None:
    network = Network()
    lock = lock_on(network)
    async with held(lock) as hold:
        network.plan("put", Fate(up=9.0))
        await state_of(hold).awrite("first")  # the second try is through at 5 s, the first arrives at 9 s
        await state_of(hold).awrite("second")
        await asyncio.sleep(10)
        assert await state_of(hold).aread() == "second"


@virtual
async def test_after_a_write_that_got_no_answer_a_read_says_what_stays() -> None:
    """It must not say "nothing" while the write is on its way."""
    network = Network()
    async with held(lock_on(network)) as hold:
        network.plan("put", Fate(up=4.0))  # sooner than a renewal, after which the owner is written
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await state_of(hold).awrite("late")
        seen = await state_of(hold).aread()
        await asyncio.sleep(10)
        assert await state_of(hold).aread() == seen


@virtual
async def test_after_a_write_that_got_no_answer_the_next_section_has_another_lease() -> None:
    """Under the same lease the write could arrive after the next section has read."""
    network = Network()
    lock = lock_on(network)
    first = await lock.acquire()
    second = asyncio.create_task(lock.acquire())
    network.plan("put", Fate(up=9.0))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await state_of(first).awrite("late")
    await release(first)
    hold = await second
    seen = await state_of(hold).aread()
    assert hold.lease_id != first.lease_id
    await asyncio.sleep(10)
    assert await state_of(hold).aread() == seen
    await release(hold)


@virtual
async def test_a_refusal_says_nothing_of_the_write_before_it() -> None:
    network = Network()
    async with held(lock_on(network)) as hold:
        network.plan("put", Fate(up=4.0), answered(403, "AuthorizationPermissionMismatch"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await state_of(hold).awrite("late")
        with pytest.raises(StorageDenied):
            await state_of(hold).awrite("refused")
        seen = await state_of(hold).aread()
        await asyncio.sleep(5)
        assert await state_of(hold).aread() == seen


@pytest.mark.parametrize("use", ["read", "write"])
def test_a_use_under_way_is_joined_before_the_lock_is_handed_on(use: str) -> None:
    @virtual
    async def run() -> None:
        network = Network()
        lock = lock_on(network)
        first = await lock.acquire()
        second = asyncio.create_task(lock.acquire())
        network.plan("put" if use == "write" else "get", Fate(up=3.0))
        state = state_of(first)
        under_way = asyncio.create_task(state.awrite(1) if use == "write" else state.aread())
        await asyncio.sleep(1)
        await asyncio.gather(release(first), second)
        assert now() >= 3.0
        assert under_way.done()
        await under_way
        await release(await second)

    run()


@virtual
async def test_who_gives_the_lock_back_uses_it_no_more_even_while_another_use_is_joined() -> None:
    network = Network()
    hold = await lock_on(network).acquire()
    network.plan("get", Fate(up=3.0))
    reading = asyncio.create_task(state_of(hold).aread())
    await asyncio.sleep(1)
    releasing = asyncio.create_task(release(hold))
    await asyncio.sleep(1)
    with pytest.raises(LockLost, match="released"):
        await state_of(hold).awrite(1)
    await asyncio.gather(reading, releasing)
    assert not network.sent("put")


@pytest.mark.parametrize("trouble", [LOST_REQUEST, answered(503, retry_after=14.0)], ids=["silence", "retry-after"])
def test_a_release_waits_for_a_use_that_gets_no_answer_no_longer_than_for_another_request(trouble: Fate) -> None:
    @virtual
    async def run() -> None:
        network = Network()
        hold = await lock_on(network).acquire()
        network.always("get", trouble)
        reading = asyncio.create_task(state_of(hold).aread())
        await asyncio.sleep(1)
        await release(hold)
        assert now() < 6.5
        with pytest.raises(LockLost, match="released"):
            await reading

    run()


@virtual
async def test_a_lock_may_be_closed_while_a_write_is_joined() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    network.plan("put", LOST_REQUEST)
    network.plan("release", LOST_REQUEST, LOST_REQUEST)
    writing = asyncio.create_task(state_of(hold).awrite(bytes(5_000_000)))
    await asyncio.sleep(1)
    releasing = asyncio.create_task(release(hold))
    await asyncio.sleep(0.5)
    lock._server.cancel()  # type: ignore[union-attr] # as closing does when five seconds are over
    await lock.aclose()
    with pytest.raises(StorageUnavailable, match=r"not known.*released"):
        await writing
    await releasing


@virtual
async def test_who_stood_still_past_time_out_and_lease_is_told_without_noise(caplog: pytest.LogCaptureFixture) -> None:
    network = Network()
    hold = await lock_on(network).acquire()
    network.always("put", LOST_REQUEST)
    writing = asyncio.create_task(state_of(hold).awrite(1))
    await asyncio.sleep(1)
    virtual_loop().now += 40.0
    with pytest.raises(StorageUnavailable, match=r"not known.*lost \(expired\)"):
        await writing
    assert [record.levelname for record in caplog.records if record.levelname == "ERROR"] == []
    await release(hold)


@virtual
async def test_a_release_in_the_instant_of_an_answer_makes_no_noise(caplog: pytest.LogCaptureFixture) -> None:
    hold = await lock_on(Network()).acquire()
    assert isinstance(hold, Section)
    keeper = hold.keeper()
    assert isinstance(keeper, SectionState)

    async def answered_as_it_ends() -> bool:
        hold.record.end()
        return True

    assert await keeper._asked(answered_as_it_ends, 5.0)
    await asyncio.sleep(1)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize("fate", [LOST_REPLY, LOST_REQUEST], ids=["written", "not written"])
@virtual
async def test_a_write_that_got_no_answer_before_the_loss_is_not_told_as_lost(fate: Fate) -> None:
    service = MemoryLeaseStore()
    network = Network(service)
    hold = await lock_on(network).acquire()
    network.fail_all(fate)
    with pytest.raises(StorageUnavailable, match=r"it is not known whether this was written.*lost \(expired\)") as told:
        await state_of(hold).awrite("mine")
    assert now() == pytest.approx(14.0, abs=0.1)  # at once: the body must end before the service ends the lease
    assert isinstance(told.value.__cause__, LockLost)
    with pytest.raises(LockLost):  # of this one it is known: nothing was sent
        await state_of(hold).awrite("again")
    network.heal()
    await release(hold)
    assert await read_by(lock_on(Network(service), 2)) == ("mine" if fate is LOST_REPLY else None)


@virtual
async def test_a_refusal_after_silence_does_not_say_that_nothing_was_written() -> None:
    network = Network()
    async with held(lock_on(network)) as hold:
        network.plan("put", LOST_REPLY, answered(403, "AuthorizationPermissionMismatch"))
        with pytest.raises(StorageUnavailable, match=r"not known.*denies access"):
            await state_of(hold).awrite("mine")
        assert await state_of(hold).aread() == "mine"


@pytest.mark.parametrize("status", [400, 403, 412])
@virtual
async def test_a_page_of_something_in_between_does_not_say_that_nothing_was_written(status: int) -> None:
    network = Network()
    async with held(lock_on(network)) as hold:
        network.plan("put", answered_in_between(status))
        with pytest.raises(StorageUnavailable, match="not known whether this was written"):
            await state_of(hold).awrite("mine")
        assert await state_of(hold).aread() == "mine"


@virtual
async def test_storage_that_does_not_answer_ends_a_write_while_the_hold_stays_good() -> None:
    network = Network()
    async with held(lock_on(network)) as hold:
        network.always("put", LOST_REQUEST)
        with pytest.raises(StorageUnavailable, match="not known whether this was written"):
            await state_of(hold).awrite(1)
        assert 25 < now() < 45
        hold.raise_if_lost()
        network.heal()
        await state_of(hold).awrite(2)
        assert await state_of(hold).aread() == 2


@virtual
async def test_storage_that_refuses_ends_a_write_at_once() -> None:
    network = Network()
    async with held(lock_on(network)) as hold:
        network.plan("put", answered(403, "AuthorizationPermissionMismatch"))
        with pytest.raises(StorageDenied):
            await state_of(hold).awrite(1)
        assert now() < 1
        hold.raise_if_lost()


# --- beside what else stands on the blob ------------------------------------------------------------------------------


@virtual
async def test_owner_touches_and_state_are_written_one_after_the_other() -> None:
    service = MemoryLeaseStore()
    network = Network(service)
    async with held(lock_on(network, failover=2.0), owner="me") as hold:
        for number in range(60):
            await state_of(hold).awrite(number)
            await asyncio.sleep(0.1)
        hold.raise_if_lost()
        assert len(network.sent("write")) > 5
        assert await state_of(hold).aread() == 59
        assert not [request for request in network.requests if request.call == "read"]  # none met another's ETag


@virtual
async def test_a_write_of_state_shows_that_its_holder_lived_when_it_was_sent() -> None:
    network = Network()
    hold = await lock_on(network, failover=2.0).acquire()
    network.plan("put", Fate(down=0.5))
    await state_of(hold).awrite(1)
    network.always("write", LOST_REQUEST)
    await hold.lost
    assert now() == pytest.approx(network.sent("put")[-1].sent + 2.0 * 14 / 15)
    await release(hold)


@virtual
async def test_the_stamp_before_a_read_after_a_write_without_an_answer_shows_a_living_holder_too() -> None:
    network = Network()
    hold = await lock_on(network, failover=6.0).acquire()
    await asyncio.sleep(1.0)
    network.plan("put", Fate(up=4.0))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await state_of(hold).awrite("late")
    await asyncio.sleep(0.2)
    assert await state_of(hold).aread() is None
    network.always("write", LOST_REQUEST)
    last = network.sent("write")[-1].sent
    assert last < 2.0, "no touch was due, but the read needed a stamp"
    await hold.lost
    assert now() == pytest.approx(last + 6.0 * 14 / 15)
    await release(hold)


@pytest.mark.parametrize(("readers", "seconds"), [(1, 0.93), (8, 0.2)])
def test_reads_leave_room_for_touches(readers: int, seconds: float) -> None:
    @virtual
    async def run() -> None:
        network = Network()
        async with held(lock_on(network, failover=3.0)) as hold:
            network.always("get", Fate(up=seconds / 2, down=seconds / 2))

            async def read() -> None:
                while now() < 20.0:
                    await state_of(hold).aread()

            await asyncio.gather(*(read() for _ in range(readers)))
            hold.raise_if_lost()

    run()


@virtual
async def test_a_write_says_of_the_holder_what_stood_there_whoever_asks_for_it() -> None:
    network = Network()
    with SpeakingOf(Invocation("its id", function="its function")):
        hold = await lock_on(network).acquire()
    for asking in (None, Invocation("another id", function="another function")):
        with SpeakingOf(asking):
            await state_of(hold).awrite(1)
        assert (await network.service.read(NAME)).metadata["SingletonFunction"] == "its function"
    await release(hold)


@virtual
async def test_a_write_in_a_short_hold_tells_of_no_long_one() -> None:
    network = Network()
    hold = await lock_on(network).acquire()
    await asyncio.sleep(3)
    await state_of(hold).awrite(1)
    assert (await network.service.read(NAME)).metadata["SingletonHeld"] == "0"  # its successor may leave that as it is
    await release(hold)


@virtual
async def test_state_that_replaces_what_was_to_expire_does_not_expire() -> None:
    service = MemoryLeaseStore()
    async with held(lock_on(service)) as hold:
        await hold.keeper().write(Kept(b"{}", {STATE_KEY: "once", UNTIL_KEY: "1"}))
        await state_of(hold).awrite(1)
    metadata = (await service.read(NAME)).metadata
    assert (metadata[STATE_KEY], UNTIL_KEY in metadata) == ("json", False)


@virtual
async def test_tokens_that_are_used_up_are_renewed_with_a_new_lease_where_state_is_kept() -> None:
    lock = lock_on(Network())
    async with held(lock) as hold:
        await state_of(hold).awrite(1)
    leases = []
    for _ in range(SECTIONS + 1):
        async with held(lock) as hold:
            leases.append((hold.token, hold.lease_id))
    tokens = [token for token, _ in leases if token is not None]
    assert sorted({*tokens}) == tokens
    assert await read_by(lock) == 1


@virtual
async def test_a_hold_that_ends_after_its_owner_was_written_leaves_no_long_hold_behind() -> None:
    network = Network()
    lock = lock_on(network)
    async with held(lock) as hold:
        await asyncio.sleep(8)
        await state_of(hold).awrite(1)
    network.requests.clear()
    await section(lock)
    assert network.calls() == ["acquire", "write", "release"]  # a stamp: the owner's was that of a long hold
    await settled(network.service, lock)


# --- under all faults at once -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_no_read_goes_back_whatever_the_network_does(seed: int) -> None:
    """What was written and acknowledged is read by all who come later, unless somebody wrote since."""
    rng = random.Random(seed)
    service = MemoryLeaseStore()
    acknowledged: list[list[int]] = [[0, 0]]
    seen: list[list[int]] = [[0, 0]]
    uses = 0

    def fate(request: Request) -> Fate:
        if rng.random() < 0.75:
            return Fate(up=rng.uniform(0, 0.3), down=rng.uniform(0, 0.3))
        slow = Fate(up=rng.choice((1.0, 4.0, 8.0, 20.0)), down=rng.choice((0.1, 6.0)))
        return rng.choice((LOST_REQUEST, LOST_REPLY, slow, answered(503), answered(500, executed=True)))

    async def host(number: int) -> None:
        nonlocal uses
        network = Network(service)
        network.decide = fate
        lock = lock_on(network, number)
        for _ in range(8):
            try:
                hold = await lock.acquire(timeout=100)
            except (StorageError, TimeoutError):
                continue
            assert hold.token is not None
            try:
                for count in range(rng.randrange(4)):
                    must = max(acknowledged[-1], seen[-1])
                    async with asyncio.timeout(rng.choice((0.5, 3.0, 60.0))):
                        read = await state_of(hold).aread([0, 0])
                    assert read >= must, f"{read} was read after {must}"
                    seen.append(max(read, seen[-1]))
                    mine = [hold.token, count + 1]
                    async with asyncio.timeout(rng.choice((0.5, 3.0, 60.0))):
                        await state_of(hold).awrite(mine)
                    acknowledged.append(max(mine, acknowledged[-1]))
                    uses += 1
                    await asyncio.sleep(rng.choice((0.0, 0.0, 1.0, 9.0)))
            except (LockLost, StorageError, TimeoutError):
                pass
            finally:
                await release(hold)
            await asyncio.sleep(rng.choice((0.0, 2.0)))

    @virtual
    async def run() -> None:
        await asyncio.gather(*(host(number) for number in range(3)))

    run()
    assert uses > 5
