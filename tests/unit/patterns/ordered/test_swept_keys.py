"""Keys that nobody uses any more: a look does not list them, and a sweep deletes them; no message notices."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from singleton import Inbox, InboxMessage, StorageUnavailable
from singleton.operating.container_pass import Sweep, Swept
from singleton.patterns.ordered import log_reader, operators
from singleton.patterns.ordered.aside_messages import remove_aside
from singleton.patterns.ordered.bells import Bell
from singleton.patterns.ordered.protocol import Names
from singleton.stores.protocol import StoreFailure
from singleton.testing import virtual_time
from tests.unit.patterns.ordered.test_inbox import BELL, Handler, send, store
from tests.unit.patterns.ordered.test_operators_calls import failing, stopped

WEEK = 3_600
"""In place of a week: virtual time has a day."""


@pytest.fixture(autouse=True)
def short_week(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "_WEEK", float(WEEK))


async def swept(**options: Any) -> Swept:
    sweep = Sweep(store(), "box", **{"older_than": 60.0, "prefix": "inbox/", "fast": True, **options})
    while await sweep.go_on():
        pass
    return sweep.result


@virtual_time
async def test_a_look_lists_the_keys_with_messages_and_not_those_ever_used(monkeypatch: pytest.MonkeyPatch) -> None:
    inbox, listed = Inbox("orders"), list[str]()
    await send(inbox, **{f"k{number}": 1 for number in range(20)})
    async with inbox.worker(Handler().__call__):
        await asyncio.sleep(5)
    await send(inbox, waits=1)
    there: Any = store()
    page = there.page

    async def noted(prefix: str, *args: Any) -> Any:
        found = await page(prefix, *args)
        listed.extend(blob.name for blob in found.entries)
        return found

    monkeypatch.setattr(there, "page", noted)
    assert await inbox.alook() == 1
    assert listed == ["inbox/orders/logs/waits"]


@virtual_time
async def test_a_sweep_deletes_a_key_a_week_after_its_last_message_and_its_tokens_go_on() -> None:
    inbox, tokens = Inbox("orders"), list[int]()

    async def handle(message: InboxMessage) -> None:
        assert message.token is not None
        tokens.append(message.token)

    await inbox.asend("k", 0)
    await inbox.ahandle(BELL, handle)
    await asyncio.sleep(WEEK - 60)
    assert await swept() == Swept(kept=1)
    await asyncio.sleep(120)
    assert await swept(older_than=2.0 * WEEK) == Swept(young=1)
    assert await swept() == Swept(swept=1)
    assert store().names() == []
    await inbox.asend("k", 1)
    await inbox.ahandle(BELL, handle)
    assert tokens == sorted({*tokens}), "each greater than the one before"
    assert len(tokens) == 2


@virtual_time
@pytest.mark.parametrize("state", [failing, stopped], ids=lambda state: state.__name__)
async def test_a_sweep_leaves_a_key_with_messages_however_old_it_is(state: Any) -> None:
    inbox = Inbox("orders")
    left = await state(inbox)
    still = await inbox.astopped()
    await asyncio.sleep(10 * WEEK)
    assert (await swept()).swept == 0
    assert await inbox.astopped() == still
    await inbox.aresume("k")
    handler = Handler()
    await inbox.ahandle(BELL, handler.__call__)
    assert handler.of("k") == left


@virtual_time
async def test_a_sweep_does_not_have_a_read_part_of_a_log_read_again() -> None:
    inbox, handler = Inbox("orders"), Handler(fails=lambda message: message.body == 2)
    await send(inbox, k=3)
    with pytest.raises(ValueError, match="no 2"):
        await inbox.ahandle(BELL, handler.__call__)
    await asyncio.sleep(10 * WEEK)  # no consumer runs for so long
    assert await swept() == Swept(kept=2)
    handler.fails = lambda _: False
    await inbox.ahandle(BELL, handler.__call__)
    assert handler.of("k") == [0, 1, 2, 2]


@virtual_time
@pytest.mark.parametrize("comes", ["before the look", "before the delete"])
async def test_a_message_that_comes_as_its_key_is_swept_is_handled_once(
    comes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox, handler, there = Inbox("orders"), Handler(), None
    await inbox.asend("k", 0)
    await inbox.ahandle(BELL, handler.__call__)
    await asyncio.sleep(2 * WEEK)
    there = store()
    asked, step = [0], 1 if comes == "before the look" else 2
    page, drop = there.page, there.drop

    async def arrives() -> None:
        asked[0] += 1
        if asked[0] == step:
            await inbox.asend("k", 1)
            await inbox.asend("k", 2)

    async def paged(prefix: str, *args: Any) -> Any:
        if prefix.startswith("inbox/orders/logs"):
            await arrives()
        return await page(prefix, *args)

    async def erased(*args: Any) -> None:
        await arrives()
        await drop(*args)

    monkeypatch.setattr(there, "page", paged)
    monkeypatch.setattr(there, "drop", erased)
    assert (await swept()).swept == (step == 2)
    assert asked == [step]
    await inbox.ahandle(BELL, handler.__call__)
    assert handler.of("k") == [0, 1, 2]


@virtual_time
async def test_a_consumer_that_goes_on_as_its_key_is_swept_keeps_its_position(monkeypatch: pytest.MonkeyPatch) -> None:
    inbox, handler = Inbox("orders"), Handler()
    await inbox.asend("k", 0)
    await inbox.ahandle(BELL, handler.__call__)
    await asyncio.sleep(2 * WEEK)
    there: Any = store()
    drop = there.drop

    async def erased(*args: Any) -> None:
        monkeypatch.setattr(there, "drop", drop)
        await send(inbox, k=3)
        handler.fails = lambda message: message.body == 2
        with pytest.raises(ValueError, match="no 2"):
            await inbox.ahandle(BELL, handler.__call__)
        await drop(*args)

    monkeypatch.setattr(there, "drop", erased)
    assert await swept() == Swept(changed=1)
    handler.fails = lambda _: False
    await asyncio.sleep(2)
    await inbox.ahandle(BELL, handler.__call__)
    assert handler.of("k") == [0, 0, 1, 2, 2]


async def dies(*_: Any) -> None:
    raise StorageUnavailable("the command was killed here")


@virtual_time
@pytest.mark.parametrize("other", ["other", "other/k", "k2"])
async def test_a_message_put_aside_is_sent_again_once_however_late_a_broken_resend_is_repeated(
    other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox, handler = Inbox("orders"), Handler()
    await aside(inbox, "k")
    await aside(inbox, other)
    (message,) = [each for each in await inbox.aaside() if each.key == "k"]
    with monkeypatch.context() as broken:
        broken.setattr(operators, "remove_aside", dies)
        with pytest.raises(StorageUnavailable, match="killed here"):
            await inbox.aresend(message)
    await inbox.ahandle(BELL, handler.__call__)
    await asyncio.sleep(10 * WEEK)
    assert (await swept()).swept == 0
    await inbox.aresend(message)
    await inbox.ahandle(BELL, handler.__call__)
    assert handler.of("k") == [message.body]
    await asyncio.sleep(2 * WEEK)
    assert (await swept()).swept == 1, "nothing of this key is aside any more"
    assert [each.key for each in await inbox.aaside()] == [other]


async def aside(inbox: Inbox, key: str) -> None:
    """Have a message of the key fail once, and put the message aside."""
    await inbox.asend(key, f"pay {key}")
    bell = Bell("orders", Names.spot(key)).text("base64")
    await inbox.ahandle(bell, Handler(fails=lambda _: True).__call__, attempts=1)


@virtual_time
async def test_a_page_of_a_listing_without_entries_and_with_more_to_come_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inbox = Inbox("orders")
    await inbox.asend("k", 0)
    await inbox.ahandle(BELL, Handler().__call__)
    await asyncio.sleep(2 * WEEK)
    there: Any = store()
    page = there.page

    async def empty(prefix: str, *args: Any) -> Any:
        found = await page(prefix, *args)
        return found if prefix == "inbox/" else replace(found, entries=(), marker="more")

    monkeypatch.setattr(there, "page", empty)
    assert await swept() == Swept(kept=1)


async def sweeping(rng: random.Random, outcomes: list[Swept]) -> None:
    while True:
        await asyncio.sleep(rng.uniform(1, 60))
        outcomes.append(await swept())


@virtual_time
async def storm(rng: random.Random) -> None:
    """Senders, consumers and sweeps side by side for hours; appends are answered to nobody, and arrive twice, late."""
    inbox, sent, handled, late = Inbox("orders"), list[int](), list[tuple[int, int]](), set[asyncio.Task[Any]]()
    await inbox.asend("k", -1)
    sent.append(-1)
    there: Any = store()
    append = there.append

    async def arrive(*args: Any) -> None:
        await asyncio.sleep(rng.choice((0.1, 3.0, 20.0)))
        try:
            await append(*args)
        except StoreFailure:
            return

    async def troubled(*args: Any) -> Any:
        if rng.random() < 0.3:
            late.add(asyncio.create_task(arrive(*args)))
        offset = await append(*args)
        if rng.random() < 0.2:
            raise StoreFailure(detail="no answer")
        return offset

    there.append = troubled

    async def sending() -> None:
        for number in range(30):
            await asyncio.sleep(rng.choice((0.0, 1.0, 50.0, 400.0)))
            await inbox.asend("k", number)
            sent.append(number)

    async def handle(message: InboxMessage) -> None:
        await asyncio.sleep(rng.choice((0.0, 0.5, 5.0)))
        handled.append((message.body, message.token or 0))

    outcomes = list[Swept]()
    sweeper = asyncio.create_task(sweeping(rng, outcomes))
    async with inbox.worker(handle), inbox.worker(handle):
        await sending()
        await asyncio.sleep(300)
    sweeper.cancel()
    await asyncio.wait({sweeper, *late})
    assert [body for body, _ in handled] == sent, "each once, in order"
    assert all(earlier <= later for (_, earlier), (_, later) in itertools.pairwise(handled))
    assert sum(each.swept for each in outcomes) > 0


@pytest.mark.parametrize("seed", range(10))
def test_sweeps_beside_senders_and_consumers_lose_and_repeat_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reader, "_WEEK", 100.0)
    storm(random.Random(seed))


@virtual_time
async def storm_of_resends(rng: random.Random) -> None:
    """Messages fail and are put aside, an operator's resends break off and are repeated, and sweeps run, for hours."""
    inbox, handled, outcomes = Inbox("orders"), Counter[int](), list[Swept]()
    fails = 0.5

    async def handle(message: InboxMessage) -> None:
        if rng.random() < fails:
            raise ValueError("no")
        handled[message.body] += 1

    await inbox.asend("k", 0)
    sweeper = asyncio.create_task(sweeping(rng, outcomes))
    async with inbox.worker(handle, attempts=1):
        for number in range(1, 20):
            await inbox.asend("k", number)
            await asyncio.sleep(rng.choice((1.0, 50.0, 400.0)))
            for message in await inbox.aaside():
                with contextlib.suppress(StorageUnavailable):
                    await inbox.aresend(message)
        fails = 0.0
        while left := await inbox.aaside():
            await asyncio.sleep(400)
            for message in left:
                with contextlib.suppress(StorageUnavailable):
                    await inbox.aresend(message)
        await asyncio.sleep(400)
    sweeper.cancel()
    assert handled == Counter(range(20)), "each once"
    assert sum(each.swept for each in outcomes) > 0


@pytest.mark.parametrize("seed", range(10))
def test_resends_that_break_off_and_are_repeated_beside_sweeps_lose_and_repeat_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)

    async def dies_or_removes(*args: Any) -> None:
        await (dies if rng.random() < 0.5 else remove_aside)(*args)

    monkeypatch.setattr(log_reader, "_WEEK", 100.0)
    monkeypatch.setattr(operators, "remove_aside", dies_or_removes)
    storm_of_resends(rng)
