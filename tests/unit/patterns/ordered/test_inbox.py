"""An inbox: its messages are handled in order, one consumer a key; what fails holds back its own key only."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, ConfigurationError, Hold, Inbox, LockLost, StorageError, current_hold
from singleton.patterns.ordered.bells import Bell
from singleton.runtime.lock_thread import runtime
from singleton.testing import lose, memory, virtual_time
from singleton.testing.storage.memory_queue import MemoryMessageStore
from tests.support.empty_values import EMPTY

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from singleton import InboxMessage
    from singleton.testing.storage.memory_store import MemoryLeaseStore

BELL = Bell("orders", "k").text("base64")


def store() -> MemoryLeaseStore:
    """The container of the test."""
    (found,) = memory.current()._stores.values()
    return found


def queue() -> MemoryMessageStore:
    """The queue of bells."""
    found = next(iter(memory.current().registry._queues.values()))
    assert isinstance(found, MemoryMessageStore)
    return found


def bells() -> list[float]:
    """In how many seconds bells will ring."""
    now = asyncio.get_running_loop().time()
    return sorted(max(0.0, message.visible - now) for message in queue().messages())


class Handler:
    """Notes what it is given; what ``fails`` says fails."""

    def __init__(self, fails: Callable[[InboxMessage], bool] = lambda _: False, takes: float = 0.01) -> None:
        self.fails = fails
        self.takes = takes
        self.seen: list[tuple[str, Any]] = []
        self.times: list[float] = []
        self.attempts: list[int] = []
        self.inside: set[str] = set()
        self.most = 0

    async def __call__(self, message: InboxMessage) -> None:
        assert message.key not in self.inside, "two at a time"
        self.inside.add(message.key)
        self.most = max(self.most, len(self.inside))
        self.seen.append((message.key, message.body))
        self.attempts.append(message.attempt)
        self.times.append(asyncio.get_running_loop().time())
        try:
            await asyncio.sleep(self.takes)
            if self.fails(message):
                raise ValueError(f"no {message.body}")
        finally:
            self.inside.discard(message.key)

    def of(self, key: str) -> list[Any]:
        return [body for each, body in self.seen if each == key]


async def send(inbox: Inbox, **counts: int) -> None:
    for number in range(max(counts.values())):
        for key, count in counts.items():
            if number < count:
                await inbox.asend(key, number)


@virtual_time
async def test_messages_of_a_key_are_handled_in_order_and_keys_beside_one_another() -> None:
    inbox, handler = Inbox("orders"), Handler()
    await send(inbox, a=30, b=30, c=5)
    async with inbox.worker(handler.__call__):
        await asyncio.sleep(5)
    assert handler.of("a") == handler.of("b") == [*range(30)]
    assert handler.of("c") == [*range(5)]
    assert handler.most == 3
    assert not [name for name in store().names() if "/logs/" in name]
    assert bells() == []


@virtual_time
async def test_two_workers_never_handle_one_key_at_once_and_what_comes_meanwhile_is_handled() -> None:
    inbox, handler = Inbox("orders"), Handler(takes=0.3)
    async with inbox.worker(handler.__call__), Inbox("orders").worker(handler.__call__):
        for number in range(20):
            await inbox.asend("k", number)
            await asyncio.sleep(0.2)
        await asyncio.sleep(15)
    assert handler.of("k") == [*range(20)]


@virtual_time
async def test_bodies_are_what_was_sent_and_any_text_is_a_key() -> None:
    inbox, seen = Inbox("orders"), list[Any]()
    keys = ["a/b", "a.", "..", "ä €", "x" * 2_000, "%2F", "!", " b ", "a\nb", "~" + "0" * 64]
    bodies: list[Any] = [b"\x00\n{", {"a": [1, None]}, "text", 1.5, "€", "\n", *EMPTY]
    keys += [f"empty {number}" for number in range(len(bodies) - len(keys))]
    for key, body in zip(keys, bodies, strict=True):
        await inbox.asend(key, body)

    async def handle(message: InboxMessage) -> None:
        seen.append((message.key, message.body))

    async with inbox.worker(handle, keys=20):
        await asyncio.sleep(2)
    assert sorted(seen, key=str) == sorted(zip(keys, bodies, strict=True), key=str)


@virtual_time
async def test_a_body_with_a_key_that_json_would_change_is_not_sent() -> None:
    inbox = Inbox("orders")
    bodies: list[Any] = [{1: "one", "1": "text"}, [({None: 0},)]]
    for body in bodies:
        with pytest.raises(TypeError, match=r"its key (1|None) is not a text"):
            await inbox.asend("k", body)
    assert await inbox.alook() == 0


@virtual_time
async def test_a_keys_lock_with_content_of_somebody_else_handles_nothing_and_replaces_nothing() -> None:
    inbox, handler = Inbox("orders"), Handler()
    await inbox.asend("k", 1)
    await store().start_log("inbox/orders/keys/k", {})
    store()._blobs["inbox/orders/keys/k"].body = b"theirs"
    with pytest.raises(StorageError, match="has 6 bytes of content which this package did not write"):
        await inbox.ahandle(BELL, handler.__call__)
    assert handler.seen == []
    assert store()._blobs["inbox/orders/keys/k"].body == b"theirs"


@virtual_time
async def test_sync_handlers_and_senders_work_from_threads() -> None:
    inbox, seen = Inbox("orders"), list[Any]()
    await asyncio.to_thread(inbox.send, "k", 1)
    await asyncio.to_thread(inbox.send, "k", 2)

    def handle(message: InboxMessage) -> None:
        assert current_hold().token == message.token
        seen.append(message.body)

    await asyncio.to_thread(inbox.handle, BELL, handle)
    assert seen == [1, 2]


@virtual_time
async def test_a_message_that_fails_holds_its_key_back_and_is_put_aside_and_the_rest_goes_on() -> None:
    inbox = Inbox("orders")
    handler = Handler(fails=lambda message: message.body == 1 and message.key == "k")
    await send(inbox, k=4, other=4)
    async with inbox.worker(handler.__call__, attempts=3):
        await asyncio.sleep(60)
    assert handler.of("k") == [0, 1, 1, 1, 2, 3]
    assert handler.of("other") == [0, 1, 2, 3]
    times = [at for at, seen in zip(handler.times, handler.seen, strict=True) if seen == ("k", 1)]
    assert 1.0 <= times[1] - times[0] < 2.5
    assert 2.0 <= times[2] - times[1] < 4
    (kept,) = await inbox.aaside()
    assert (kept.key, kept.body, kept.error) == ("k", 1, "ValueError: no 1")
    handler.fails = lambda _: False
    await inbox.aresend(kept)
    async with inbox.worker(handler.__call__):
        await asyncio.sleep(3)
    assert handler.of("k")[-1] == 1
    assert await inbox.aaside() == []


@virtual_time
async def test_a_message_that_is_sent_again_twice_is_handled_once() -> None:
    inbox, handler = Inbox("orders"), Handler(fails=lambda _: True)
    await inbox.asend("k", 0)
    async with inbox.worker(handler.__call__, attempts=1):
        await asyncio.sleep(2)
    (kept,) = await inbox.aaside()
    content = store()._blobs[kept.name]
    await inbox.aresend(kept)
    store()._blobs[kept.name] = content  # as if its sender had died before it deleted it
    await inbox.aresend(kept)
    again = Handler()
    async with inbox.worker(again.__call__):
        await asyncio.sleep(2)
    assert again.of("k") == [0]


@virtual_time
async def test_a_key_stops_where_it_is_told_to_until_it_is_resumed() -> None:
    inbox, handler = Inbox("orders"), Handler(fails=lambda message: message.body == 1)
    await send(inbox, k=3, other=1)
    async with inbox.worker(handler.__call__, attempts=2, on_poison="stop"):
        await asyncio.sleep(100)
        assert handler.of("k") == [0, 1, 1]
        (still,) = await inbox.astopped()
        assert (still.key, still.error, still.failures) == ("k", "ValueError: no 1", 2)
        assert bells() == [], "a key that stands still keeps nobody busy"
        handler.fails = lambda _: False
        await inbox.aresume("k")
        await asyncio.sleep(3)
        assert handler.of("k") == [0, 1, 1, 1, 2]
        assert await inbox.astopped() == []


@virtual_time
async def test_a_key_may_be_resumed_behind_the_message_on_which_it_stopped() -> None:
    inbox, handler = Inbox("orders"), Handler(fails=lambda message: message.body == 1)
    await send(inbox, k=3)
    async with inbox.worker(handler.__call__, attempts=1, on_poison="stop"):
        await asyncio.sleep(3)
        await inbox.aresume("k", skip=True)
        await asyncio.sleep(3)
    assert handler.of("k") == [0, 1, 2]
    assert [each.body for each in await inbox.aaside()] == [1]


@virtual_time
async def test_a_bell_that_finds_its_key_in_use_rings_again_later() -> None:
    inbox, handler = Inbox("orders"), Handler()
    await inbox.asend("k", 0)
    async with AsyncLockClient().lock("inbox/orders/keys/k"):
        queue()._messages.clear()
        for again, pause in ((0, 1.0), (1, 2.0), (5, 10.0)):
            await inbox.ahandle(Bell("orders", "k", again).text("none"), handler.__call__)
            assert bells() == [pause]
            queue()._messages.clear()
    assert handler.seen == []


@virtual_time
async def test_a_bell_without_messages_costs_one_request_where_it_came_again_and_is_not_rung_again() -> None:
    inbox = Inbox("orders")
    await inbox.ahandle(BELL, Handler().__call__)
    before = store().calls.total()
    await inbox.ahandle(Bell("orders", "k", 2).text("base64"), Handler().__call__)
    assert store().calls.total() - before == 1
    assert not memory.current().registry._queues, "none was rung"


@virtual_time
async def test_a_consumer_that_dies_leaves_a_bell_that_rings_when_its_lease_has_ended() -> None:
    inbox, handler = Inbox("orders"), Handler(takes=1_000)
    await inbox.asend("k", 0)
    queue()._messages.clear()
    dying = asyncio.create_task(inbox.ahandle(BELL, handler.__call__))
    await asyncio.sleep(1)
    assert bells() == [19.0]
    dying.cancel()
    await asyncio.wait({dying})
    assert bells() == [19.0]
    handler.takes = 0
    async with inbox.worker(handler.__call__, look_every=1_000):
        await asyncio.sleep(21)
    assert handler.of("k") == [0, 0]


@virtual_time
async def test_a_consumer_whose_lock_is_lost_keeps_nothing_and_takes_no_further_message() -> None:
    inbox, seen = Inbox("orders"), list[Any]()
    await send(inbox, k=3)

    def handle(message: InboxMessage) -> None:
        seen.append(message.body)
        if len(seen) == 2:
            lose(current_hold(), "stolen")  # and its body runs to its end

    with pytest.raises(LockLost):
        await asyncio.to_thread(inbox.handle, BELL, handle)
    assert seen == [0, 1]
    await asyncio.to_thread(inbox.handle, BELL, handle)
    assert seen == [0, 1, 1, 2]


@virtual_time
async def test_a_consumer_that_stood_still_behind_a_message_takes_no_further_one() -> None:
    inbox, seen, holds = Inbox("orders"), list[Any](), list[Hold]()
    await send(inbox, k=3)
    there: Any = store()
    put = there.put

    async def kept_and_lost(*args: Any) -> Any:
        etag = await put(*args)
        lose(holds[0], "expired")
        return etag

    def handle(message: InboxMessage) -> None:
        seen.append(message.body)
        holds.append(current_hold())

    there.put = kept_and_lost
    with pytest.raises(LockLost):
        await asyncio.to_thread(inbox.handle, BELL, handle)
    assert seen == [0]


@virtual_time
async def test_each_new_log_rings_a_bell() -> None:
    inbox, handler = Inbox("orders"), Handler()
    async with inbox.worker(handler.__call__, look_every=1_000):
        for number in range(5):
            await inbox.asend("k", number)
            await asyncio.sleep(2)
            assert handler.of("k") == [*range(number + 1)]


@virtual_time
async def test_a_handler_that_waits_is_cancelled_when_the_lock_is_lost() -> None:
    inbox, handler = Inbox("orders"), Handler(takes=1_000)
    await inbox.asend("k", 0)
    task = asyncio.create_task(inbox.ahandle(BELL, handler.__call__))
    await asyncio.sleep(1)
    store().delete("inbox/orders/keys/k")
    with pytest.raises(LockLost):
        await task


@virtual_time
async def test_a_message_without_a_bell_is_found_by_a_look() -> None:
    inbox, handler = Inbox("orders"), Handler()
    await send(inbox, a=1, b=2)
    queue()._messages.clear()
    async with AsyncLockClient().lock("inbox/orders/keys/b"):
        assert await inbox.alook() == 1, "somebody is at b"
    assert await inbox.alook() == 2
    async with inbox.worker(handler.__call__):
        await asyncio.sleep(2)
    assert sorted(handler.seen) == [("a", 0), ("b", 0), ("b", 1)]
    assert await inbox.alook() == 0


@virtual_time
async def test_workers_look_by_themselves() -> None:
    inbox, handler = Inbox("orders"), Handler()
    await inbox.asend("k", 0)
    async with inbox.worker(handler.__call__, look_every=30), inbox.worker(handler.__call__, look_every=30):
        await asyncio.sleep(5)
        await inbox.asend("k", 1)
        queue()._messages.clear()
        pages = store().calls["page"]
        await asyncio.sleep(60)
        assert store().calls["page"] - pages <= 2 * 3, "one of them looks"
    assert handler.of("k") == [0, 1]


@virtual_time
async def test_a_worker_whose_locks_are_closed_ends_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    inbox, troubles = Inbox("orders"), list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, trouble: troubles.append(trouble))
    async with inbox.worker(Handler().__call__):
        await asyncio.sleep(1)
        runtime().begin_closing()
        await asyncio.sleep(5)
    gc.collect()
    assert not troubles
    assert [record.message for record in caplog.records if "closed" in record.message][-1:] == [
        "inbox orders ends: its client was closed"
    ]


@virtual_time
async def test_a_bell_is_rung_for_the_first_message_of_a_log_and_then_now_and_then() -> None:
    inbox = Inbox("orders")
    for number in range(70):
        await inbox.asend("k", number)
        await asyncio.sleep(1)
    assert len(bells()) == 3


@virtual_time
async def test_a_visit_ends_after_its_slice_and_another_bell_rings() -> None:
    inbox, handler = Inbox("orders"), Handler(takes=1)
    await send(inbox, k=100)
    queue()._messages.clear()
    await inbox.ahandle(BELL, handler.__call__)
    assert len(handler.seen) == 60
    assert bells() == [0.0]


@virtual_time
async def test_what_is_no_bell_is_told_and_left_alone() -> None:
    inbox = Inbox("orders")
    for text in ("hello", '{"OrderId": 1}', b"\xff", Bell("others", "k").text("none")):
        with pytest.raises(ConfigurationError, match=r"only inbox\.send may write|its own queue"):
            await inbox.ahandle(text, Handler().__call__)


WRONG: list[tuple[str, Callable[[], Any]]] = [
    ("name is 'Orders'", lambda: Inbox("Orders")),
    ("queue is 'a'", lambda: Inbox("orders", queue="a")),
    ("encoding is 'utf8'", lambda: Inbox("orders", encoding="utf8")),  # type: ignore[arg-type]
    ("connection is ' '", lambda: Inbox("orders", " ")),
    ("key is ''", lambda: Inbox("orders").send("", 1)),
    (r"key is '\\udcff'", lambda: Inbox("orders").send("\udcff", 1)),
    ("attempts is 0", lambda: Inbox("orders").worker(print, attempts=0)),
    ("on_poison is 'drop'", lambda: Inbox("orders").worker(print, on_poison="drop")),  # type: ignore[arg-type]
    ("keys is True", lambda: Inbox("orders").worker(print, keys=True)),
    ("handler is None", lambda: Inbox("orders").worker(None)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("says", "wrong"), WRONG, ids=[says for says, _ in WRONG])
def test_a_wrong_argument_is_named(says: str, wrong: Callable[[], Any]) -> None:
    with pytest.raises(ConfigurationError, match=says):
        wrong()


@virtual_time
async def test_a_message_that_is_too_long_is_refused_and_one_of_the_greatest_length_is_handled() -> None:
    inbox, handler = Inbox("orders"), Handler()
    longest = 4 * 2**20 - 500
    await inbox.asend("k", bytes(longest))
    await inbox.asend("k", b"next")
    with pytest.raises(ValueError, match="Put the content into a blob"):
        await inbox.asend("k", bytes(4 * 2**20))
    with pytest.raises(TypeError, match="can't be kept"):
        await inbox.asend("k", object())  # type: ignore[arg-type]
    async with inbox.worker(handler.__call__):
        await asyncio.sleep(3)
    assert [len(body) for body in handler.of("k")] == [longest, 4]


@virtual_time
async def test_a_message_costs_as_many_requests_as_the_documentation_says() -> None:
    inbox, handler = Inbox("orders"), Handler()

    async def cost(doing: Coroutine[Any, Any, Any]) -> dict[str, int]:
        await send(inbox, warm=1)
        before = store().calls.copy()
        await doing
        return dict(store().calls - before)

    assert await cost(inbox.asend("k", 0)) == {"append": 2, "start_log": 1}
    assert await cost(inbox.asend("k", 1)) == {"append": 1}
    await inbox.ahandle(BELL, handler.__call__)
    await send(inbox, k=100)
    told = await cost(inbox.ahandle(BELL, handler.__call__))
    assert told == {"acquire": 1, "get": 1, "tail": 1, "put": 100, "drop": 1, "release": 1}


@virtual_time
async def test_a_key_with_more_messages_than_a_log_holds_goes_on_in_others_which_are_deleted_a_day_after() -> None:
    inbox, handler = Inbox("orders"), Handler()
    await inbox.asend("k", 0)
    store().most_blocks = 3
    for number in range(1, 10):
        await inbox.asend("k", number)
    logs = [name for name in store().names() if "/logs/" in name]
    assert len(logs) == 4, "the last part is the fourth log"
    async with inbox.worker(handler.__call__, look_every=1_000_000):
        await asyncio.sleep(3)
        assert handler.of("k") == [*range(10)]
        await inbox.asend("k", 10)
        await asyncio.sleep(3)
        assert handler.of("k") == [*range(11)]
    left = [name for name in store().names() if "/logs/" in name]
    assert {name.count("/") for name in left} == {5}, "the first log is gone"
    assert await inbox.alook() == 0
    assert [name for name in store().names() if "/logs/" in name] == left, "a sender may still be on its way there"
    for name in left:
        store()._blobs[name].modified -= 86_500
    assert await inbox.alook() == 0
    assert not [name for name in store().names() if "/logs/" in name]
