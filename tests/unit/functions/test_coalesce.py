"""``on_contention="coalesce"``: one invocation runs, one waits, the others end; and what is refused with it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from singleton import (
    ConfigurationError,
    Inbox,
    LockClosed,
    LockNotAcquired,
    OldLock,
    StorageUnavailable,
    once,
    ordered,
    singleton,
)
from singleton.base.events import LockEvent, subscribe
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import InlineHost
from tests.support.lock_thread import Context, an_app
from tests.support.network import FINE, LOST_REPLY, LOST_REQUEST, Fate, Request, answered
from tests.support.world import foreign_id, now, virtual

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOCK = "locks/app/refresh"
SEAT = f"{LOCK}~next"
BUSY, BEING_DELETED = answered(503, "ServerBusy"), answered(409, "ContainerBeingDeleted")
FAILS = "the storage does not answer as it should"


@pytest.fixture(autouse=True)
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


def a_refresh(ran: list[str], seconds: float = 5.0, **arguments: Any) -> Callable[..., Any]:
    """Return a guarded function that notes which message its body begins with."""

    @singleton(**{"on_contention": "coalesce", **arguments})
    async def refresh(msg: func.QueueMessage) -> None:
        ran.append(msg.get_body().decode())
        await asyncio.sleep(seconds)

    return refresh


def delivered(refresh: Callable[..., Any], text: str, count: int = 1) -> asyncio.Task[Any]:
    """Deliver a message to the function."""
    return asyncio.ensure_future(refresh(msg=Counted(text, count), context=Context(text)))


class Counted(func.QueueMessage):
    """A message with a count of its deliveries, as the worker makes it."""

    def __init__(self, text: str, count: int) -> None:
        super().__init__(id=text, body=text.encode(), pop_receipt="r")
        self._count = count

    @property
    def dequeue_count(self) -> int:
        return self._count


@virtual
async def test_of_ten_messages_one_runs_and_one_waits_and_the_waiter_begins_after_all_have_come() -> None:
    host, ran = InlineHost(MemoryLeaseStore()), list[str]()
    refresh = a_refresh(ran)
    with host.here():
        tasks = []
        for number in range(10):
            tasks.append(delivered(refresh, str(number)))
            await asyncio.sleep(0.2)
        assert ran == ["0"]
        assert [task.done() for task in tasks] == [False, False, *[True] * 8]
        assert [await task for task in tasks] == [None] * 10
    assert ran == ["0", "1"]
    assert host.network.service.leased() == {}


@virtual
async def test_three_requests_to_leave_and_none_within_the_process() -> None:
    service, ran = MemoryLeaseStore(), list[str]()
    one, other = InlineHost(service), InlineHost(service, 2)
    refresh = a_refresh(ran, 0.5)
    with one.here():
        await delivered(refresh, "makes the blobs")
        await asyncio.gather(delivered(refresh, "runs"), delivered(refresh, "waits"))
    with other.here():
        await delivered(refresh, "knows the blobs")
    runs = await_on(one, refresh, "runs")
    await asyncio.sleep(0.2)
    one.network.requests.clear()
    waits = await_on(one, refresh, "waits")
    await asyncio.sleep(0.1)
    assert [request.call for request in one.network.requests if request.name.endswith("~next")] == ["acquire", "write"]
    await await_on(other, refresh, "leaves")
    sent = len(one.network.requests)
    await await_on(one, refresh, "leaves at once")
    assert len(one.network.requests) == sent
    assert other.network.calls()[-3:] == ["acquire", "acquire", "read"]
    await asyncio.gather(runs, waits)


@pytest.mark.parametrize(("held", "elsewhere"), [(0.5, False), (3.0, False), (0.5, True)])
@virtual
async def test_a_waiter_makes_four_requests_more_than_a_plain_one(held: float, elsewhere: bool) -> None:
    made = list[int]()
    for policy in ("wait", "coalesce"):
        service = MemoryLeaseStore()
        host, other = InlineHost(service), InlineHost(service, 2)
        refresh = a_refresh([], 0.0, on_contention=policy)
        with host.here():
            await delivered(refresh, "makes the blob")
            await asyncio.gather(delivered(refresh, "runs"), delivered(refresh, "makes the blob of the seat"))
        if elsewhere:
            await asyncio.gather(*(await_on(other, refresh, which) for which in ("runs", "has the seat last")))
        await service.acquire(LOCK, foreign_id(), -1)
        host.network.requests.clear()
        waits = await_on(host, refresh, "waits")
        await asyncio.sleep(held)
        await service.release(LOCK, foreign_id())
        await waits
        await asyncio.sleep(1.0)
        made.append(len(host.network.requests))
    assert made[1] - made[0] == 4


@virtual
async def test_a_thousand_arrivals_at_one_lock_leave_at_once_and_make_a_few_requests_for_each_process() -> None:
    service, ran = MemoryLeaseStore(), list[str]()
    hosts = [InlineHost(service, number) for number in range(10)]
    refresh = a_refresh(ran, 0.0)
    await await_on(hosts[0], refresh, "makes the blob")
    await service.create(f"{LOCK}~next")
    await service.acquire(LOCK, foreign_id(), -1)
    hosts[0].network.requests.clear()
    arrivals = [await_on(hosts[number % 10], refresh, str(number)) for number in range(1000)]
    await asyncio.sleep(1.0)
    assert sum(arrival.done() for arrival in arrivals) == 999
    assert sum(len(host.network.requests) for host in hosts) < 70
    await service.release(LOCK, foreign_id())
    await asyncio.gather(*arrivals)
    assert len(ran) == 2


@virtual
async def test_a_look_at_the_seat_counts_from_its_sending_on_and_not_from_its_answer() -> None:
    service, ran = MemoryLeaseStore(), list[str]()
    hosts = [InlineHost(service, number) for number in range(1, 4)]
    refresh = a_refresh(ran, 6.0)
    tasks = [await_on(hosts[0], refresh, "runs")]
    await asyncio.sleep(5.0)
    tasks.append(await_on(hosts[1], refresh, "waits"))
    await asyncio.sleep(0.5)
    hosts[2].network.decide = lambda request: Fate(up=0.01, down=4.0 if request.call == "read" else 0.01)
    tasks.append(await_on(hosts[2], refresh, "looks, and leaves"))
    await asyncio.sleep(3.0)
    tasks.append(await_on(hosts[2], refresh, "comes when the waiter's body has begun"))
    await asyncio.gather(*tasks)
    assert ran == ["runs", "waits", "comes when the waiter's body has begun"]


@virtual
async def test_an_outage_at_the_arrival_is_no_refusal_and_ends_no_invocation() -> None:
    host, ran = InlineHost(MemoryLeaseStore()), list[str]()
    host.network.fail_all(LOST_REQUEST)
    arrives = await_on(host, a_refresh(ran), "arrives")
    await asyncio.sleep(25.0)
    host.network.heal()
    await arrives
    assert ran == ["arrives"]


def await_on(host: InlineHost, refresh: Callable[..., Any], text: str, count: int = 1) -> asyncio.Task[Any]:
    """Deliver a message to a host."""
    with host.here():
        return delivered(refresh, text, count)


@virtual
async def test_a_message_that_was_delivered_before_waits_and_never_leaves() -> None:
    host, ran = InlineHost(MemoryLeaseStore()), list[str]()
    refresh = a_refresh(ran)
    with host.here():
        await asyncio.gather(*(delivered(refresh, str(number), count=2) for number in range(3)))
    assert sorted(ran) == ["0", "1", "2"]


@virtual
async def test_of_the_repeated_messages_of_a_process_one_polls_for_the_seat() -> None:
    service, ran = MemoryLeaseStore(), list[str]()
    await service.create(f"{LOCK}~next")
    await service.acquire(f"{LOCK}~next", foreign_id(), 60)
    host = InlineHost(service)
    with host.here():
        tasks = [delivered(a_refresh(ran), str(number), count=2) for number in range(10)]
    await asyncio.sleep(10)
    assert 5 < len(host.network.requests) < 20
    await asyncio.gather(*tasks)
    assert len(ran) == 10


@virtual
async def test_a_waiter_whose_time_is_up_fails_and_leaves_no_seat() -> None:
    service, ran = MemoryLeaseStore(), list[str]()
    await service.create(LOCK)
    await service.acquire(LOCK, foreign_id(), 60)
    host = InlineHost(service)
    with host.here(), pytest.raises(LockNotAcquired, match="within 0:00:03: somebody else has it"):
        await delivered(a_refresh(ran, timeout=3), "waits")
    assert ran == []
    await asyncio.sleep(1.0)
    assert set(service.leased()) == {LOCK}
    await service.acquire(f"{LOCK}~next", foreign_id(2), 60)  # a late request of nobody
    for count, why in ((1, "somebody else has it"), (2, "its seat 'locks/app/refresh~next' was taken")):
        with pytest.raises(LockNotAcquired, match=f"within 0:00:03: {why}"):
            await await_on(host, a_refresh(ran, timeout=3), "leaves for nobody", count)


@pytest.mark.parametrize("ours", [False, True])
@virtual
async def test_who_asks_for_the_seat_only_is_told_of_the_seat_and_not_of_a_lock_that_is_free_by_now(
    ours: bool,
) -> None:
    service, seat = MemoryLeaseStore(), f"{LOCK}~next"
    for name in (LOCK, seat):
        await service.create(name)
    await service.acquire(LOCK, foreign_id(), -1)
    host = InlineHost(service)
    if ours:
        waits = await_on(host, a_refresh([]), "dies")
        await asyncio.sleep(1.0)
        host.network.decide = lambda request: LOST_REQUEST if request.call in ("write", "release") else FINE
        waits.cancel()
        await asyncio.sleep(8.0)
        host.network.heal()
    else:
        await service.acquire(seat, foreign_id(2), -1)
    host.network.plan("acquire", FINE, answered(503))
    arrives = await_on(host, a_refresh([], timeout=4), "arrives")
    await asyncio.sleep(1.0)
    await service.release(LOCK, foreign_id())
    perhaps = ", or a lease is left on it that this process could not release" * ours
    with pytest.raises(LockNotAcquired) as told:
        await arrives
    assert told.value.message == f"lock {LOCK!r} was not acquired within 0:00:04: its seat {seat!r} was taken{perhaps}"
    assert ("held by 'dies'" if ours else f"break {seat!r}") in told.value.whose


@pytest.mark.parametrize(("held", "fails"), [(0.0, False), (2.0, False), (2.0, True)])
@virtual
async def test_a_waiter_that_gets_the_seat_late_runs_if_the_lock_is_free_and_else_is_told_the_last_answer(
    held: float, fails: bool
) -> None:
    service, ran = MemoryLeaseStore(), list[str]()
    for name in (LOCK, f"{LOCK}~next"):
        await service.create(name)
    await service.acquire(LOCK, foreign_id(), -1)
    host = InlineHost(service)

    def decide(request: Request) -> Fate:
        if fails and request.name == LOCK and request.sent > 0.7:
            return BUSY
        return Fate(up=0.7 if request.name != LOCK and request.call == "acquire" else 0.05)

    host.network.decide = decide
    waits = await_on(host, a_refresh(ran, timeout=1), "waits", 2)
    await asyncio.sleep(held)
    await service.release(LOCK, foreign_id())
    if fails:
        with pytest.raises(StorageUnavailable, match=f"lock {LOCK!r}: {FAILS} .503"):
            await waits
    elif held:
        with pytest.raises(LockNotAcquired, match="within 0:00:01: somebody else has it"):
            await waits
        assert now() >= 1.0
    else:
        await waits
    assert len(ran) == (not held)


@virtual
async def test_without_an_answer_of_the_seat_the_body_does_not_begin_and_the_lock_is_given_back() -> None:
    service, ran = MemoryLeaseStore(), list[str]()
    await service.create(LOCK)
    await service.acquire(LOCK, foreign_id(), 60)
    host = InlineHost(service)
    with host.here():
        waits = delivered(a_refresh(ran), "waits")
        await asyncio.sleep(2.0)
        host.network.decide = lambda request: LOST_REQUEST if request.name.endswith("~next") else FINE
        await service.release(LOCK, foreign_id())
        with pytest.raises(StorageUnavailable):
            await asyncio.wait_for(waits, 5.0 + 5.0)  # a poll of the lock, then ``begun``
    assert ran == []
    await asyncio.sleep(0.1)
    assert LOCK not in service.leased()


@pytest.mark.parametrize(
    ("silent", "told"),
    [
        (LOCK, f"lock {LOCK!r}: the storage does not answer as it should (no answer yet)"),
        (f"{LOCK}~next", f"seat '{LOCK}~next': the storage does not answer as it should"),
    ],
    ids=["lock", "begun"],
)
@virtual
async def test_a_waiter_that_gets_the_seat_late_waits_for_no_silent_storage_past_its_end(
    silent: str, told: str
) -> None:
    def decide(request: Request) -> Fate:
        stamped = any(each.call == "write" and each.name.endswith("~next") for each in host.network.requests[:-1])
        if request.name == silent and (stamped or silent == LOCK):
            return LOST_REQUEST
        return Fate(up={"create": 3.0, "write": 2.6}.get(request.call, 0.0) if request.name.endswith("~next") else 0.01)

    host, ran, began = InlineHost(MemoryLeaseStore()), list[str](), now()
    host.network.decide = decide
    with pytest.raises(StorageUnavailable) as caught:
        await await_on(host, a_refresh(ran, timeout=6), "waits", 2)
    assert str(caught.value).startswith(told)
    assert ran == []
    assert now() - began <= 6.0 + 0.5 + 0.5  # one look at the lock, and one at the seat


@pytest.mark.parametrize(
    ("timeout", "count", "held", "fate", "told"),
    [
        (6, 1, LOCK, lambda _: BUSY, f"lock {LOCK!r}: {FAILS} (503 ServerBusy"),
        (6, 2, LOCK, lambda _: BUSY, f"seat {SEAT!r}: {FAILS} (503 ServerBusy"),
        (6, 1, LOCK, lambda _: BEING_DELETED, f"lock {LOCK!r}: its container is being deleted"),
        (12, 1, LOCK, lambda at: at > 3 and LOST_REQUEST, f"lock {LOCK!r}: {FAILS} (no answer within 5 s)"),
        (12, 2, SEAT, lambda at: at > 3 and LOST_REQUEST, f"seat {SEAT!r}: {FAILS} (no answer within 5 s)"),
        (12, 1, LOCK, lambda at: at < 3 and LOST_REQUEST, f"lock {LOCK!r} was not acquired within 0:00:12: somebody"),
        (
            *(14, 2, "", lambda at: at < 1 and LOST_REPLY),
            f"lock {LOCK!r} was not acquired within 0:00:14: its seat {SEAT!r} was taken, or a lease is left",
        ),
    ],
    ids=["busy", "busy seat", "deleted", "silent at last", "silent seat at last", "silent at first", "own lease"],
)
@virtual
async def test_the_error_of_a_wait_in_vain_is_the_last_answer(
    timeout: float, count: int, held: str, fate: Callable[[float], Fate | None], told: str
) -> None:
    service = MemoryLeaseStore()
    for name in (LOCK, SEAT):
        await service.create(name)
    if held:
        await service.acquire(held, foreign_id(), -1)
    host = InlineHost(service)

    def decide(request: Request) -> Fate:
        return LOST_REQUEST if request.call == "release" and not held else fate(request.sent) or FINE

    host.network.decide = decide
    with pytest.raises((LockNotAcquired, StorageUnavailable)) as caught:
        await await_on(host, a_refresh([], timeout=timeout), "waits", count)
    assert str(caught.value).startswith(told)
    assert now() <= timeout + 0.5 + 1.0 + 0.01  # the look-up of the holder takes a second at most


@pytest.mark.parametrize(
    ("after", "fate", "told"),
    [
        (0.0, LOST_REQUEST, f"seat {SEAT!r}: the storage gave no full answer within 0:00:03"),
        (0.0, BUSY, f"seat {SEAT!r}: {FAILS} (503 ServerBusy"),
        (1.5, BUSY, f"seat {SEAT!r}: {FAILS} (503 ServerBusy"),
    ],
)
@virtual
async def test_an_outage_of_the_seat_is_told_to_all_and_not_as_another_invocation_that_has_it(
    after: float, fate: Fate, told: str
) -> None:
    service = MemoryLeaseStore()
    await service.create(SEAT)
    await service.acquire(SEAT, foreign_id(), -1)
    host, refresh = InlineHost(service), a_refresh([], timeout=3)
    host.network.decide = lambda request: fate if request.sent >= after else FINE
    repeated = [await_on(host, refresh, str(number), 2) for number in range(4)]
    for number, error in enumerate(await asyncio.gather(*repeated, return_exceptions=True)):
        assert isinstance(error, StorageUnavailable)
        assert str(error).startswith(told)
        assert (error.lock, error.owner) == (SEAT, str(number))


@pytest.mark.parametrize("count", [1, 2])
@virtual
async def test_a_close_ends_a_wait_for_the_seat_at_once_and_names_lock_and_owner(count: int) -> None:
    service = MemoryLeaseStore()
    for name in (LOCK, SEAT):
        await service.create(name)
        await service.acquire(name, foreign_id(), -1)
    host = InlineHost(service)
    waits = await_on(host, a_refresh([]), "waits", count)
    await asyncio.sleep(3.0)
    began = now()
    await host.registry.aclose()
    with pytest.raises(LockClosed) as told:
        await waits
    assert (told.value.lock, told.value.owner) == (LOCK, "waits")
    assert now() == began


@virtual
async def test_a_cancelled_waiter_leaves_no_lease() -> None:
    service, ran = MemoryLeaseStore(), list[str]()
    await service.create(LOCK)
    await service.acquire(LOCK, foreign_id(), 60)
    host = InlineHost(service)
    with host.here():
        waits = delivered(a_refresh(ran), "waits")
        await asyncio.sleep(2.0)
        waits.cancel()
        await asyncio.wait({waits})
        assert waits.cancelled()
    await asyncio.sleep(1.0)
    assert set(service.leased()) == {LOCK}


@virtual
async def test_the_log_tells_once_a_minute_for_all_locks_and_each_end_is_an_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told, ran = list[LockEvent](), list[str]()
    caplog.set_level(logging.INFO, "singleton")
    stop = subscribe(told.append)
    try:
        host = InlineHost(MemoryLeaseStore())
        with host.here():
            refresh = a_refresh(ran, 1.0, scope_id="{of}")
            await asyncio.gather(*(delivered(refresh, f'{{"of": "{of}"}}') for of in "abaabbaaabbb"))
    finally:
        stop()
    assert [event.kind for event in told].count("coalesced") == 8
    assert sum("coalesced" in record.getMessage() and record.levelno == logging.INFO for record in caplog.records) == 1


OLD: dict[str, Any] = {"name": "old"}
NEW: dict[str, Any] = {"name": "new"}
BOTH, BACK = {**NEW, "also": OldLock(name="old")}, {**OLD, "also": OldLock(name="new")}
SEATS = ("locks/app/new~next", "locks/app/old~next")


@pytest.mark.parametrize("versions", [(BOTH, BOTH), (OLD, BOTH), (BOTH, OLD), (BOTH, NEW), (BACK, BOTH)])
@virtual
async def test_while_a_lock_is_renamed_a_body_begins_after_each_arrival_and_most_leave(versions: Any) -> None:
    service, ran, begun = MemoryLeaseStore(), list[str](), 0
    hosts = [(InlineHost(service, number), a_refresh(ran, **version)) for number, version in enumerate(versions)]
    tasks = []
    for number in range(20):
        begun = len(ran)
        tasks.append(await_on(*hosts[number % 2], str(number)))
        await asyncio.sleep(0.4)
    assert await asyncio.gather(*tasks) == [None] * 20
    assert begun < len(ran) < 8
    await asyncio.sleep(1.0)
    assert service.leased() == {}


@virtual
async def test_with_two_names_five_requests_to_leave_and_eight_for_the_seats_and_begun_is_said_on_both() -> None:
    service, ran = MemoryLeaseStore(), list[str]()
    hosts = one, other = InlineHost(service), InlineHost(service, 2)
    refresh = a_refresh(ran, 2.0, **BOTH)
    for host in hosts:
        await asyncio.gather(*(await_on(host, refresh, f"makes the blobs {number}") for number in range(2)))
    one.network.requests.clear()
    runs, waits = await_on(one, refresh, "runs"), await_on(one, refresh, "waits")
    await asyncio.sleep(0.5)
    await await_on(other, refresh, "leaves")
    assert other.network.calls()[-5:] == ["acquire", "acquire", "read", "acquire", "read"]
    assert [(await service.read(seat)).metadata["SingletonNext"] for seat in SEATS] == ["waiting"] * 2
    await runs
    await waits
    for seat in SEATS:
        calls = [request.call for request in one.network.requests if request.name == seat]
        assert calls == ["acquire", "write", "write", "release"]


@pytest.mark.parametrize("silent", SEATS, ids=["new", "old"])
@virtual
async def test_one_of_two_seats_that_says_waiting_lets_nobody_leave(silent: str) -> None:
    service, ran = MemoryLeaseStore(), list[str]()
    for number, name in enumerate((*SEATS, "locks/app/old")):
        await service.create(name, {"SingletonNext": "begun" if name == silent else "waiting"})
        await service.acquire(name, foreign_id(number), -1)
    arrives = await_on(InlineHost(service), a_refresh(ran, timeout=20, **BOTH), "arrives")
    with pytest.raises(LockNotAcquired):
        await arrives


@virtual
async def test_who_has_one_of_two_seats_is_told_of_the_other_and_who_comes_after_it_of_the_first() -> None:
    host, refresh = InlineHost(MemoryLeaseStore()), a_refresh([], timeout=4, **BOTH)
    host.network.decide = lambda request: LOST_REQUEST if request.name == SEATS[1] else FINE
    told = [await_on(host, refresh, text, 2) for text in ("has one", "comes after")]
    silent, taken = await asyncio.gather(*told, return_exceptions=True)
    assert str(silent) == f"seat {SEATS[1]!r}: the storage gave no full answer within 0:00:04"
    why = f"lock 'locks/app/new' was not acquired within 0:00:04: its seat {SEATS[0]!r} was taken; held by 'has one'"
    assert str(taken).startswith(why)


@virtual
async def test_a_seat_that_is_asked_for_in_the_last_moment_is_not_told_as_silence() -> None:
    service = MemoryLeaseStore()
    await service.create(SEATS[0])
    await service.acquire(SEATS[0], foreign_id(), -1)
    host = InlineHost(service)
    host.network.decide = lambda request: LOST_REQUEST if request.name == SEATS[1] else FINE
    waits = await_on(host, a_refresh([], timeout=6, **BOTH), "waits", 2)
    await asyncio.sleep(2.0)
    await service.release(SEATS[0], foreign_id())
    with pytest.raises(LockNotAcquired, match=f"its seat {SEATS[0]!r} was taken"):
        await waits


@pytest.mark.parametrize(
    ("silent", "held", "timeout", "count", "release"),
    [
        ("new", 0.0, 4, 1, FINE),
        ("old", 0.0, 4, 1, FINE),
        ("old", 0.0, 12, 1, LOST_REQUEST),
        ("old", 2.0, 12, 1, FINE),
        ("old", 2.0, 12, 2, LOST_REQUEST),
        ("old", 10.0, 12, 1, LOST_REQUEST),
    ],
)
@virtual
async def test_silence_of_one_of_two_locks_names_the_silent_one_whoever_had_the_other(
    silent: str, held: float, timeout: float, count: int, release: Fate
) -> None:
    service, first = MemoryLeaseStore(), "locks/app/new"
    await service.create(first)
    if held:
        await service.acquire(first, foreign_id(), -1)
    host, told = InlineHost(service), list[LockEvent]()
    stop = subscribe(told.append)

    def decide(request: Request) -> Fate:
        if request.name == f"locks/app/{silent}":
            return LOST_REQUEST
        return release if request.call == "release" else FINE

    host.network.decide = decide
    began, waits = now(), await_on(host, a_refresh([], timeout=timeout, **BOTH), "arrives", count)
    if held:
        await asyncio.sleep(held)
        await service.release(first, foreign_id())
    with pytest.raises(StorageUnavailable) as caught:
        await waits
    stop()
    assert str(caught.value).startswith(f"lock 'locks/app/{silent}': the storage ")
    assert caught.value.lock == f"locks/app/{silent}"
    assert [event.kind for event in told if event.kind in ("contended", "failed")] == ["failed"]
    assert now() - began <= timeout + 0.5 + 0.01


@pytest.mark.parametrize(("timeout", "count"), [(0.4, 2), (3, 1), (3, 2)])
@virtual
async def test_silence_of_the_write_that_raises_the_tokens_is_not_told_as_this_process_that_has_the_lock(
    timeout: float, count: int
) -> None:
    service = MemoryLeaseStore()
    for number in range(2):
        await await_on(InlineHost(service, number), a_refresh([], 0.0, **OLD), "runs")
        await asyncio.sleep(6.0)
    host = InlineHost(service, 3)

    def decide(request: Request) -> Fate:
        writes = [each for each in host.network.requests if (each.call, each.name) == ("write", "locks/app/old")]
        return LOST_REQUEST if request in writes[1:] else FINE  # the first one is the stamp

    host.network.decide = decide
    with pytest.raises(StorageUnavailable, match=f"lock 'locks/app/old': {FAILS} .no answer within"):
        await await_on(host, a_refresh([], timeout=timeout, **BOTH), "arrives", count)


@pytest.mark.parametrize("taken", SEATS, ids=["new", "old"])
@virtual
async def test_a_repeated_delivery_waits_for_both_seats_and_a_first_one_for_one(taken: str) -> None:
    service, ran = MemoryLeaseStore(), list[str]()
    for name in (taken, "locks/app/old"):
        await service.create(name)
        await service.acquire(name, foreign_id(), -1)
    host, refresh = InlineHost(service), a_refresh(ran, **BOTH)
    repeated = await_on(host, refresh, "repeated", 2)
    await asyncio.sleep(5.0)
    await service.release("locks/app/old", foreign_id())
    await asyncio.sleep(20.0)
    assert ran == []
    await service.release(taken, foreign_id())
    await repeated
    assert ran == ["repeated"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"mode": "listener"}, "mode"),
        ({"limit": 2}, "limit"),
        ({"max_waiting": 2}, "max_waiting"),
        ({"layout": "webjobs"}, "layout"),
        ({"also": OldLock(layout="webjobs")}, "layout"),
        ({"level": "host", "scope_id": "north"}, "level"),
        ({"timeout": 0}, "timeout"),
    ],
)
def test_arguments_that_break_the_promise_are_refused(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        a_refresh([], **arguments)


def test_a_listener_does_not_go_with_coalesce_on_either_side() -> None:
    def refresh(msg: func.QueueMessage) -> None: ...

    listener, coalesced = singleton(mode="listener"), singleton(on_contention="coalesce")
    for outer, inner in ((listener, coalesced), (coalesced, listener)):
        with pytest.raises(ConfigurationError, match="do not go together"):
            outer(inner(refresh))


def test_a_policy_of_the_apps_own_cannot_answer_coalesce() -> None:
    from singleton.functions.contention import Contention, decide

    with pytest.raises(ConfigurationError, match="coalesce"):
        decide(lambda _: "coalesce", Contention(function="f", lock="l", owner="o"))


def test_an_http_function_and_an_output_of_the_result_are_refused() -> None:
    app = func.FunctionApp()

    async def answer(req: func.HttpRequest) -> str:
        return "x"

    singleton(on_contention="coalesce")(app.route("x")(answer))
    with pytest.raises(ConfigurationError, match="HTTP"):
        app.get_functions()


def test_neither_once_nor_ordered_goes_with_coalesce() -> None:
    def refresh(msg: func.QueueMessage) -> None: ...

    coalesced = singleton(on_contention="coalesce")
    for each in (once(key="Id"), ordered(Inbox("orders"))):
        with pytest.raises(ConfigurationError, match="coalesce"):
            coalesced(each(refresh))
        with pytest.raises(ConfigurationError, match="'coalesce' below it ends messages without the body"):
            each(coalesced(refresh))
