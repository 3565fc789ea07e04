"""``disabled()`` and ``enabled: false``: patterns that keep state in a lock do their work, whoever has the lock."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, Inbox, InboxMessage, LockClient, SingletonOptions, once, ordered
from singleton.testing import assert_no_leases_left, disabled, held_elsewhere, memory_locks
from tests.support.empty_values import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterator

BELL = '{"inbox":"orders","log":"k","again":0}'
KEYS = ("once/charge/k", "inbox/orders/keys/k")


@pytest.fixture
def off() -> Iterator[None]:
    """Locks that somebody else has, and that are switched off."""
    with memory_locks():
        with held_elsewhere(KEYS[0]), held_elsewhere(KEYS[1]), disabled():
            yield
        assert_no_leases_left()


def test_an_operation_is_done_at_once_and_its_result_is_kept(off: None) -> None:
    locks, ran = LockClient(), list[int]()

    def charge() -> str:
        ran.append(1)
        return "receipt"

    for _ in range(2):
        assert once(locks, "k", name="charge").run(charge) == "receipt"
    with once(locks, "other", name="charge") as operation:
        operation.finish([])
    assert (operation.result, operation.token, ran) == ([], None, [1])


def test_an_operation_of_a_coroutine_is_done_at_once(off: None) -> None:
    async def main() -> list[Any]:
        locks = AsyncLockClient()
        return [await once(locks, "k", name="charge").run(asyncio.sleep, 0, each) for each in ("first", "again")]

    assert asyncio.run(main()) == ["first", "first"]


@pytest.mark.parametrize("kind", ["handle", "ahandle", "@ordered", "async @ordered", "worker"])
def test_a_handler_gets_the_messages_in_order_and_each_once(off: None, kind: str) -> None:
    inbox, seen = Inbox("orders"), list[Any]()
    for number in range(3):
        inbox.send("k", number)

    def ship(message: Any) -> None:
        seen.append(message.body)

    async def ship_async(message: Any) -> None:
        seen.append(message.body)

    def work() -> None:
        with inbox.worker(ship):
            for _ in range(500):
                if len(seen) < 3:
                    asyncio.run(asyncio.sleep(0.01))

    ways: dict[str, Any] = {
        "handle": lambda: inbox.handle(BELL, ship),
        "ahandle": lambda: asyncio.run(inbox.ahandle(BELL, ship_async)),
        "@ordered": lambda: ordered(inbox)(ship)(BELL),
        "async @ordered": lambda: asyncio.run(ordered(inbox)(ship_async)(BELL)),
        "worker": work,
    }
    for _ in range(2):
        ways[kind]()
    assert seen == [0, 1, 2]


def test_a_key_that_is_stopped_is_told_of_and_resumed(off: None) -> None:
    inbox = Inbox("orders")
    inbox.send("k", "body")

    def fail(message: InboxMessage) -> None:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        inbox.handle(BELL, fail, attempts=1, on_poison="stop")
    assert [each.key for each in inbox.stopped()] == ["k"]
    inbox.resume("k")
    assert inbox.stopped() == []


def test_state_of_a_clients_lock_is_read_back(off: None) -> None:
    with LockClient().lock(KEYS[0]) as hold:
        for value in EMPTY:
            hold.state.write(value)
            assert hold.state.read("nothing") == value
        hold.state.remove()
        assert hold.state.read("nothing") == "nothing"


def test_a_declaration_that_is_switched_off_switches_no_client_off() -> None:
    with memory_locks():
        locks = LockClient(options=SingletonOptions(enabled=False))
        assert [once(locks, "k").run(lambda: "first"), once(locks, "k").run(lambda: "again")] == ["first"] * 2
        inbox, seen = Inbox("orders", options=SingletonOptions(enabled=False)), list[Any]()
        inbox.send("k", 1)
        inbox.handle(BELL, lambda message: seen.append(message.body))
        assert seen == [1]
