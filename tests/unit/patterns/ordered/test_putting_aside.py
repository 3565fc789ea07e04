"""A message that has failed too often is put aside, and handled no more, whatever becomes of the requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from singleton import Inbox, StorageUnavailable
from singleton.base.state import MOST_NESTED
from singleton.patterns.ordered.entries import Entry
from singleton.patterns.ordered.service import Sender
from singleton.stores.protocol import StoreFailure
from singleton.testing import virtual_time
from tests.unit.patterns.ordered.test_inbox import BELL, Handler, send, store
from tests.unit.patterns.ordered.test_ordered_sending import unheard

if TYPE_CHECKING:
    from singleton import InboxMessage

ASIDE = "inbox/orders/aside/"


def late(call: str) -> list[Any]:
    """Have requests of this kind to what is put aside get no answer, and arrive later; return those on their way."""
    there: Any = store()
    right, under_way = getattr(there, call), list[Any]()

    async def asked(name: str, *args: Any) -> Any:
        if not name.startswith(ASIDE):
            return await right(name, *args)
        under_way.append(lambda: right(name, *args))
        raise StoreFailure(detail="no answer")

    setattr(there, call, asked)
    return under_way


@virtual_time
async def test_a_message_of_which_it_is_not_known_whether_it_was_put_aside_is_not_tried_again() -> None:
    inbox, handler = Inbox("orders"), Handler(fails=lambda message: message.body == 0)
    await send(inbox, k=2)
    under_way = late("append")
    with pytest.raises(StorageUnavailable):
        await inbox.ahandle(BELL, handler.__call__, attempts=1)
    handler.fails = lambda _: False
    del store().append
    await inbox.ahandle(BELL, handler.__call__, attempts=1)
    assert handler.of("k") == [0, 1]
    await under_way[0]()
    (kept,) = await inbox.aaside()
    assert (kept.body, kept.error) == (0, "ValueError: no 0")


@virtual_time
async def test_a_message_that_an_operator_puts_aside_is_not_handled_either() -> None:
    inbox, handler = Inbox("orders"), Handler(fails=lambda message: message.body == 0)
    await send(inbox, k=2)
    with pytest.raises(ValueError, match="no 0"):
        await inbox.ahandle(BELL, handler.__call__, attempts=1, on_poison="stop")
    under_way = late("append")
    with pytest.raises(StorageUnavailable):
        await inbox.aresume("k", skip=True)
    handler.fails = lambda _: False
    del store().append
    await inbox.aresume("k")
    await asyncio.sleep(1)
    await inbox.ahandle(BELL, handler.__call__, attempts=1, on_poison="stop")
    assert handler.of("k") == [0, 1]
    await under_way[0]()
    assert [each.body for each in await inbox.aaside()] == [0]


@virtual_time
async def test_an_operator_puts_no_message_aside_that_was_handled() -> None:
    inbox, handler, appended = Inbox("orders"), Handler(), list[bytes]()
    await inbox.ahandle(BELL, handler.__call__)
    there: Any = store()
    right = there.append

    async def append(name: str, block: bytes) -> int:
        appended.append(block)
        at: int = await right(name, block)
        return at

    there.append = append
    await inbox.asend("k", 0)
    await inbox.ahandle(BELL, handler.__call__)
    await there.start_log("inbox/orders/logs/k", {})
    await right("inbox/orders/logs/k", appended[0])  # it arrives a second time
    await inbox.aresume("k", skip=True)
    assert await inbox.aaside() == []
    await inbox.asend("k", 1)
    await inbox.aresume("k", skip=True)
    assert [each.body for each in await inbox.aaside()] == [1]
    assert handler.of("k") == [0]


def nested(levels: int) -> Any:
    """Return a list in a list, so many levels deep."""
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def with_calls_on_the_stack(calls: int, work: Any) -> Any:
    """Do the work below so many calls."""
    return work() if calls == 0 else with_calls_on_the_stack(calls - 1, work)


@virtual_time
async def test_a_body_as_deep_as_a_send_takes_is_read_by_a_consumer_with_hundreds_of_calls_on_its_stack() -> None:
    inbox, seen = Inbox("orders"), list[Any]()
    with pytest.raises(ValueError, match="at most 500 levels of nesting are allowed"):
        await inbox.asend("k", {"a": (nested(MOST_NESTED - 1),)})
    await inbox.asend("k", nested(MOST_NESTED))

    def handle(message: InboxMessage) -> None:
        seen.append(message.body)

    await asyncio.to_thread(with_calls_on_the_stack, 300, lambda: inbox.handle(BELL, handle))
    assert seen == [nested(MOST_NESTED)]


@virtual_time
@pytest.mark.parametrize("body", [b"[" * 100_000 + b"]" * 100_000, b"[1", b"\xff"], ids=["deep", "cut", "no text"])
async def test_a_message_whose_body_can_not_be_read_is_put_aside_as_it_is_and_its_key_goes_on(body: bytes) -> None:
    inbox, handler = Inbox("orders"), Handler()
    await inbox.asend("k", 0)
    sender = Sender(store(), inbox.service.names, wall=asyncio.get_running_loop().time)
    await sender.send("k", Entry("", 0, "k", "json", body), unheard)  # another version did not refuse the body
    await inbox.asend("k", 2)
    with pytest.raises((RecursionError, ValueError)):
        await inbox.ahandle(BELL, handler.__call__, attempts=2)
    await asyncio.sleep(2)
    await inbox.ahandle(BELL, handler.__call__, attempts=2)
    assert handler.of("k") == [0, 2]
    (kept,) = await inbox.aaside()
    assert kept.body == body
    await inbox.aresend(kept)
    assert await inbox.alook() == 1
    assert await inbox.aaside() == []
