"""Calls of an operator on a key in any state: afterwards is true what the docstring of the call says."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, Inbox, LockNotAcquired, StorageError, StorageUnavailable
from singleton.patterns.ordered.bells import Bell
from singleton.testing import virtual_time
from tests.unit.patterns.ordered.test_inbox import BELL, Handler, bells, queue, send, store
from tests.unit.patterns.ordered.test_ordered_calling import AGAIN, Deadly, dies
from tests.unit.patterns.ordered.test_putting_aside import late

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from singleton import InboxMessage

    State = Callable[[Inbox], Awaitable[list[int]]]

SENT = [0, 1, 2]


def fails_at_first(message: InboxMessage) -> bool:
    return bool(message.body == 0)


async def failed(inbox: Inbox, times: int, *, attempts: int, **rules: Any) -> None:
    """Have the first of three messages fail so often."""
    await send(inbox, k=len(SENT))
    handler = Handler(fails=fails_at_first)
    for number in range(times):
        await asyncio.sleep(60 if number else 0)
        with contextlib.suppress(ValueError):
            await inbox.ahandle(BELL, handler.__call__, attempts=attempts, **rules)


async def unused(_: Inbox) -> list[int]:
    return []


async def drained(inbox: Inbox) -> list[int]:
    await inbox.asend("k", 0)
    await inbox.ahandle(BELL, Handler().__call__)
    return []


async def waiting(inbox: Inbox) -> list[int]:
    await send(inbox, k=len(SENT))
    return SENT


async def failing(inbox: Inbox) -> list[int]:
    await failed(inbox, 8, attempts=100)
    return SENT


async def stopped(inbox: Inbox) -> list[int]:
    await failed(inbox, 2, attempts=2, on_poison="stop")
    assert [each.key for each in await inbox.astopped()] == ["k"]
    return SENT


async def deadly(inbox: Inbox) -> list[int]:
    await inbox.asend("k", 1)
    for bell in (BELL, AGAIN, AGAIN):
        await dies(inbox, Deadly(), bell)
    return [1]


async def aside(inbox: Inbox) -> list[int]:
    await send(inbox, k=len(SENT))
    handler = Handler(fails=lambda message: message.body in (0, 1))
    with contextlib.suppress(ValueError):
        await inbox.ahandle(BELL, handler.__call__, attempts=1)
    with contextlib.suppress(ValueError):
        await inbox.asend("k", 3)
        await inbox.ahandle(BELL, Handler(fails=lambda _: True).__call__)
    assert [each.body for each in await inbox.aaside()] == [0, 1]
    return [3]


STATES = (unused, drained, waiting, failing, stopped, deadly, aside)
each_state = pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)


async def handled_at_once(inbox: Inbox) -> Handler:
    """Answer the bells that ring now; return what a handler without failures got."""
    handler = Handler()
    for message in [each for each in queue().messages() if each.visible <= asyncio.get_running_loop().time()]:
        await inbox.ahandle(message.text, handler.__call__)
    return handler


async def quiet(inbox: Inbox) -> None:
    """Forget the bells so far: what rings from now on rings for the call."""
    await inbox.asend("other", 0)  # there is a queue
    await inbox.ahandle(Bell("orders", "other").text("base64"), Handler().__call__)
    queue()._messages.clear()


@virtual_time
@each_state
async def test_a_resumed_key_is_not_stopped_and_its_first_message_is_tried_at_once_as_new(state: State) -> None:
    inbox = Inbox("orders")
    left = await state(inbox)
    await quiet(inbox)
    before = [each.body for each in await inbox.aaside()]
    await inbox.aresume("k")
    assert await inbox.astopped() == []
    assert bells() == [0.0] * bool(left)
    handler = await handled_at_once(inbox)
    assert handler.of("k") == left
    assert handler.attempts[:1] == [1] * bool(left)
    assert [each.body for each in await inbox.aaside()] == before


@virtual_time
@each_state
async def test_skip_puts_the_first_message_aside_and_no_other_and_the_key_goes_on_at_once(state: State) -> None:
    inbox = Inbox("orders")
    left = await state(inbox)
    await quiet(inbox)
    before = [each.body for each in await inbox.aaside()]
    await inbox.aresume("k", skip=True)
    assert await inbox.astopped() == []
    assert sorted(each.body for each in await inbox.aaside()) == before + left[:1]
    assert all(each.error for each in await inbox.aaside())
    handler = await handled_at_once(inbox)
    assert handler.of("k") == left[1:]
    assert handler.attempts[:1] == [1] * bool(left[1:])


@virtual_time
@each_state
async def test_a_look_rings_once_for_a_key_with_messages_and_changes_no_key(state: State) -> None:
    inbox = Inbox("orders")
    left = await state(inbox)
    await quiet(inbox)
    still = await inbox.astopped()
    assert await inbox.alook() == bool(left)
    assert bells() == [0.0] * bool(left)
    assert await inbox.astopped() == still


@virtual_time
@each_state
async def test_a_key_that_a_consumer_keeps_is_left_as_it_is(state: State) -> None:
    inbox = Inbox("orders")
    await state(inbox)
    await quiet(inbox)
    still, before = await inbox.astopped(), await inbox.aaside()
    async with AsyncLockClient().lock("inbox/orders/keys/k"):
        assert await inbox.alook() == 0
        for skip in (False, True):
            with pytest.raises(LockNotAcquired):
                await inbox.aresume("k", skip=skip)
    assert (await inbox.astopped(), await inbox.aaside()) == (still, before)


@virtual_time
@each_state
async def test_what_is_sent_again_comes_once_behind_the_other_messages_and_what_is_discarded_never(
    state: State,
) -> None:
    inbox = Inbox("orders")
    left = await state(inbox)
    await inbox.aresume("k", skip=True)
    aside = await inbox.aaside()
    again, gone = aside[:1], aside[1:]
    await quiet(inbox)
    for each in again:
        await inbox.aresend(each)
        with pytest.raises(StorageError, match="sent again, or discarded"):
            await inbox.aresend(each)
    for each in [*gone, *gone]:
        await inbox.adiscard(each)
    assert await inbox.aaside() == []
    await inbox.alook()
    handler = await handled_at_once(inbox)
    assert handler.of("k") == left[1:] + [each.body for each in again]


@virtual_time
async def test_a_message_whose_way_aside_was_cut_off_goes_there_by_the_next_call_and_is_not_tried() -> None:
    inbox = Inbox("orders")
    left = await stopped(inbox)
    late("append")
    with pytest.raises(StorageUnavailable):
        await inbox.aresume("k", skip=True)
    del store().append
    await inbox.aresume("k")
    assert (await handled_at_once(inbox)).of("k") == left[1:]
    assert [each.body for each in await inbox.aaside()] == left[:1]
