"""Senders of an inbox: one process's tasks side by side, copies of a process, and what nobody could ring."""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import pytest

from singleton import AsyncLockClient, Inbox, StorageError, StorageUnavailable
from singleton.patterns.ordered.entries import Entry
from singleton.patterns.ordered.protocol import Names
from singleton.patterns.ordered.service import Sender
from singleton.stores.protocol import StoreFailure
from singleton.testing import virtual_time
from singleton.testing.storage.memory_queue import MemoryMessageStore
from tests.unit.patterns.ordered.test_inbox import BELL, Handler, send, store


@virtual_time
async def test_tasks_that_send_at_once_lose_nothing_however_long_each_request_takes() -> None:
    inbox, handler, rng = Inbox("orders"), Handler(takes=0), random.Random(1)
    await inbox.asend("k", -1)
    there: Any = store()
    append = there.append

    async def slow(*args: Any) -> int:
        await asyncio.sleep(rng.random())
        return await append(*args)  # type: ignore[no-any-return]

    there.append = slow
    await asyncio.gather(*(inbox.asend("k", number) for number in range(30)))
    await inbox.ahandle(BELL, handler.__call__)
    assert handler.of("k") == [-1, *range(30)]


def silent(*_: Any) -> Any:
    raise StoreFailure(503, "ServerBusy", "outage")


@virtual_time
async def test_sends_of_one_key_in_an_outage_fail_after_one_time_out() -> None:
    inbox, clock, ends = Inbox("orders"), asyncio.get_running_loop().time, list[float]()
    await inbox.asend("k", 0)
    there: Any = store()
    there.append = silent
    began = clock()

    async def one(number: int, later: float) -> None:
        await asyncio.sleep(later)
        with pytest.raises(StorageUnavailable):
            await inbox.asend("k", number)
        ends.append(clock() - began - later)

    await asyncio.gather(*(one(number, later) for number in range(10) for later in (0, 20)))
    assert all(29 <= seconds <= 31 for seconds in ends), "counted from the beginning of each send"
    del there.append
    await inbox.asend("k", "after the outage")


@virtual_time
async def test_sends_that_wait_long_for_their_turn_on_a_slow_storage_are_all_answered() -> None:
    inbox, handler = Inbox("orders"), Handler()
    await inbox.asend("k", 0)
    there: Any = store()
    there.append = slowly(there.append, 4)
    await asyncio.gather(*(inbox.asend("k", number) for number in range(1, 20)))
    await inbox.ahandle(BELL, handler.__call__)
    assert handler.of("k") == [*range(20)]


def slowly(request: Any, seconds: float) -> Any:
    async def asked(*args: Any) -> Any:
        await asyncio.sleep(seconds)
        return await request(*args)

    return asked


@virtual_time
async def test_a_message_that_a_full_log_refused_is_found_in_the_log_that_is_there_by_then() -> None:
    inbox, handler = Inbox("orders"), Handler()
    await inbox.asend("k", 0)
    there: Any = store()
    there.most_blocks = 3
    await send(inbox, k=2)
    tail = there.tail

    async def later(*args: Any) -> Any:
        there.tail = tail
        async with inbox.worker(handler.__call__):
            await asyncio.sleep(1)
        sender = Sender(there, Names("orders"), wall=asyncio.get_running_loop().time)
        await sender.send("k", Entry("", 0, "k", "json", b'"new"'), unheard)
        return await tail(*args)

    there.tail = later
    await inbox.asend("k", "late")
    async with inbox.worker(handler.__call__):
        await inbox.alook()
        await asyncio.sleep(5)
    assert handler.of("k") == [0, 0, 1, "new", "late"]


@virtual_time
async def test_senders_that_never_rest_keep_nobody_from_reading() -> None:
    inbox, handler, rng = Inbox("orders"), Handler(takes=0), random.Random(1)
    await inbox.asend("k", 0)
    there: Any = store()
    for name in ("append", "tail", "label"):
        setattr(there, name, far_away(getattr(there, name), rng))

    async def process() -> None:
        sender = Sender(there, Names("orders"), wall=asyncio.get_running_loop().time)
        while True:
            await sender.send("k", Entry("", 0, "k", "json", b"1"), unheard)

    sending = [asyncio.create_task(process()) for _ in range(20)]
    await asyncio.sleep(1)
    async with inbox.worker(handler.__call__):
        await asyncio.sleep(2)
        for each in sending:
            each.cancel()
        await asyncio.wait(sending)
        assert len(handler.seen) > 50


async def unheard(_: str) -> None:
    return


def far_away(request: Any, rng: random.Random) -> Any:
    async def asked(*args: Any) -> Any:
        await asyncio.sleep(rng.uniform(0.003, 0.02))
        try:
            return await request(*args)
        finally:
            await asyncio.sleep(rng.uniform(0.003, 0.02))

    return asked


@virtual_time
async def test_a_copy_of_a_process_sends_under_an_id_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    moved, rung = 0.0, list[str]()
    await Inbox("orders").asend("other", 0)
    sender = Sender(store(), Names("orders"), wall=lambda: asyncio.get_running_loop().time() + moved)

    async def ring(spot: str) -> None:
        rung.append(spot)

    async def sender_of_next() -> str:
        await sender.send("k", Entry("", 0, "k", "json", b"1"), ring)
        lines = (await store().tail(Names("orders").log("k"), 0, 2**20)).body.splitlines()
        return lines[-2].decode().partition('"from":"')[2].partition('"')[0]

    first = await sender_of_next()
    await asyncio.sleep(1000)
    assert await sender_of_next() == first
    moved = 2.0  # this machine was resumed from an image, and its wall clock set
    second = await sender_of_next()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    third = await sender_of_next()
    assert len({first, second, third}) == 3
    assert await sender_of_next() == third


@virtual_time
@pytest.mark.parametrize("failure", [StoreFailure(), StoreFailure(404, "BlobNotFound")], ids=["no answer", "no log"])
async def test_a_machine_that_slept_in_a_send_does_not_send_the_message_again(
    failure: StoreFailure, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept, asked = 0.0, 0
    await Inbox("orders").asend("other", 0)
    there: Any = store()
    sender = Sender(there, Names("orders"), wall=lambda: asyncio.get_running_loop().time() + slept)

    async def asleep(*_: Any) -> int:  # meanwhile the loop's clock stands still
        nonlocal slept, asked
        slept, asked = slept + 8 * 86_400.0, asked + 1
        raise failure

    monkeypatch.setattr(there, "append", asleep)
    with pytest.raises(StorageError):
        await sender.send("k", Entry("", 0, "k", "json", b"1"), unheard)
    assert asked == 1


@virtual_time
async def test_a_bell_stays_where_no_other_can_be_rung_for_a_key_that_has_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inbox = Inbox("orders")
    await inbox.asend("k", 0)

    async def refuses(*_: Any, **__: Any) -> Any:
        raise StoreFailure(403, detail="not now")

    async with AsyncLockClient().lock("inbox/orders/keys/k"):
        monkeypatch.setattr(MemoryMessageStore, "send", refuses)
        with pytest.raises(StorageUnavailable, match="could not be told"):
            await inbox.ahandle(BELL, Handler().__call__)


@virtual_time
async def test_what_a_key_still_has_to_read_is_never_deleted_however_old_it_is() -> None:
    inbox, handler = Inbox("orders"), Handler()
    await inbox.asend("k", 0)
    store().most_blocks = 3
    await send(inbox, k=10)
    for name in store().names():
        store()._blobs[name].modified -= 1_000_000
    assert await inbox.alook() == 1
    async with inbox.worker(handler.__call__):
        await asyncio.sleep(5)
    assert handler.of("k") == [0, *range(10)]


@virtual_time
async def test_a_bell_that_could_not_be_rung_is_rung_with_the_next_message() -> None:
    await Inbox("orders").asend("other", 0)
    sender = Sender(store(), Names("orders"), wall=asyncio.get_running_loop().time)
    answers, rung = [False, True, True], list[str]()

    async def ring(spot: str) -> bool:
        rung.append(spot)
        return answers[len(rung) - 1]

    for count in (1, 2, 2):
        await sender.send("k", Entry("", 0, "k", "json", b"1"), ring)
        assert len(rung) == count
