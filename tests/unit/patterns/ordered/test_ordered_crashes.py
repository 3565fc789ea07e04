"""Whichever request is the last that is answered: nothing is lost, and only the message in hand is handled again."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from singleton import Inbox, SingletonError, StorageError
from singleton.patterns.ordered.bells import Bell
from singleton.stores.protocol import StoreFailure
from singleton.testing import virtual_time
from singleton.testing.storage.memory_queue import MemoryMessageStore
from singleton.testing.storage.memory_store import MemoryLeaseStore

if TYPE_CHECKING:
    from singleton import InboxMessage

BELL = Bell("orders", "k").text("base64")
CALLS = {
    MemoryLeaseStore: [
        *("acquire", "renew", "release", "create", "read", "write", "put", "get"),
        *("start_log", "append", "tail", "label", "drop", "page"),
    ],
    MemoryMessageStore: ["send", "hide", "delete", "take", "create"],
}


class Line:
    """The way to all storage: after so many requests no answer comes, until it is mended."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.last_arrives = False
        self.broken = False

    async def ask(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                arrives, self.last_arrives = self.last_arrives, False
                if arrives:
                    await request(*args, **kwargs)
                self.broken = True
                raise StoreFailure(detail="no answer")
        return await request(*args, **kwargs)

    def breaks(self, after: int, *, last_arrives: bool) -> None:
        self.left, self.last_arrives, self.broken = after, last_arrives, False

    def mend(self) -> None:
        self.left = None


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    there = Line()
    for kind, calls in CALLS.items():
        for call in calls:
            original = getattr(kind, call)

            def through(self: Any, *args: Any, _original: Any = original, **kwargs: Any) -> Any:
                return there.ask(_original, self, *args, **kwargs)

            monkeypatch.setattr(kind, call, through)
    return there


class Handler:
    def __init__(self, *, fails: int | None = None) -> None:
        self.seen: list[int] = []
        self.fails = fails

    async def __call__(self, message: InboxMessage) -> None:
        self.seen.append(message.body)
        if message.body == self.fails:
            raise ValueError


async def handled_by_all(inbox: Inbox, handler: Handler) -> None:
    """Have workers do what is left, when leases and bells of before have ended."""
    await asyncio.sleep(100)
    async with inbox.worker(handler.__call__, attempts=1, look_every=5):
        await asyncio.sleep(100)


@pytest.mark.parametrize("last_arrives", [False, True])
@pytest.mark.parametrize("after", range(16))
def test_a_consumer_that_is_cut_off_repeats_the_message_in_hand_at_most(
    line: Line, after: int, *, last_arrives: bool
) -> None:
    @virtual_time
    async def run() -> None:
        inbox, handler = Inbox("orders"), Handler(fails=1)
        for number in range(4):
            await inbox.asend("k", number)
        line.breaks(after, last_arrives=last_arrives)
        try:
            await inbox.ahandle(BELL, handler.__call__, attempts=1)
        except SingletonError:
            assert line.broken
        line.mend()
        before = len(handler.seen)
        await handled_by_all(inbox, handler)
        in_order = [body for number, body in enumerate(handler.seen) if number == 0 or handler.seen[number - 1] != body]
        assert in_order == [0, 1, 2, 3], handler.seen
        assert len(handler.seen) <= 4 + line.broken, handler.seen
        assert len(handler.seen) == 4 or handler.seen[before - 1] == handler.seen[before]
        assert [kept.body for kept in await inbox.aaside()] == [1]

    run()


@pytest.mark.parametrize("last_arrives", [False, True])
@pytest.mark.parametrize("after", range(6))
@pytest.mark.parametrize("before", [0, 1])
def test_a_sender_that_is_cut_off_loses_nothing_that_was_sent_and_sends_nothing_twice(
    line: Line, before: int, after: int, *, last_arrives: bool
) -> None:
    @virtual_time
    async def run() -> None:
        inbox, handler, sent = Inbox("orders"), Handler(), list[int]()
        for number in range(before):
            await inbox.asend("k", number)
            sent.append(number)
        line.breaks(after, last_arrives=last_arrives)
        unsure = None
        try:
            await inbox.asend("k", before)
            sent.append(before)
        except StorageError:
            unsure = before
        line.mend()
        await inbox.asend("k", before + 1)
        sent.append(before + 1)
        await handled_by_all(inbox, handler)
        assert [body for body in handler.seen if body != unsure] == sent
        assert handler.seen == sorted({*handler.seen})

    run()


@pytest.mark.parametrize("last_arrives", [False, True])
@pytest.mark.parametrize("after", range(8))
def test_an_operator_who_is_cut_off_sends_what_was_put_aside_once(
    line: Line, after: int, *, last_arrives: bool
) -> None:
    @virtual_time
    async def run() -> None:
        inbox, failing, handler = Inbox("orders"), Handler(fails=0), Handler()
        await inbox.asend("k", 0)
        await inbox.ahandle(BELL, failing.__call__, attempts=1)
        (kept,) = await inbox.aaside()
        line.breaks(after, last_arrives=last_arrives)
        with contextlib.suppress(StorageError):
            await inbox.aresend(kept)
        line.mend()
        await handled_by_all(inbox, handler)
        for left in await inbox.aaside():
            await inbox.aresend(left)
        await handled_by_all(inbox, handler)
        assert handler.seen == [0]
        assert await inbox.aaside() == []

    run()


def test_a_bell_is_rung_where_the_answer_of_the_first_message_of_a_log_was_lost(line: Line) -> None:
    @virtual_time
    async def run() -> None:
        inbox, handler = Inbox("orders"), Handler()
        await inbox.asend("k", 0)
        async with inbox.worker(handler.__call__, look_every=1_000):
            await asyncio.sleep(5)
        line.breaks(2, last_arrives=True)  # there is no log; it is made; the message is added
        sending = asyncio.create_task(inbox.asend("k", 1))
        await asyncio.sleep(0.05)
        line.mend()
        await sending
        async with inbox.worker(handler.__call__, look_every=1_000):
            await asyncio.sleep(5)
        assert handler.seen == [0, 1]

    run()


def test_a_bell_is_rung_behind_a_message_that_may_be_the_first_of_its_log(line: Line) -> None:
    @virtual_time
    async def run() -> None:
        inbox, handler = Inbox("orders"), Handler()
        await inbox.asend("k", 0)
        async with inbox.worker(handler.__call__, look_every=1_000):
            await asyncio.sleep(5)
        line.breaks(2, last_arrives=True)
        with pytest.raises(StorageError):
            await inbox.asend("k", 1)
        line.mend()
        await inbox.asend("k", 2)
        async with inbox.worker(handler.__call__, look_every=1_000):
            await asyncio.sleep(5)
        assert handler.seen == [0, 1, 2]

    run()


def test_a_message_whose_answer_was_lost_is_there_once(line: Line) -> None:
    @virtual_time
    async def run() -> None:
        inbox, handler = Inbox("orders"), Handler()
        await inbox.asend("k", 0)
        line.breaks(0, last_arrives=True)
        sending = asyncio.create_task(inbox.asend("k", 1))
        await asyncio.sleep(0.05)
        line.mend()
        await sending
        await handled_by_all(inbox, handler)
        assert handler.seen == [0, 1]

    run()
