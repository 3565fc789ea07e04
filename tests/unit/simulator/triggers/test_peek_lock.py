"""A listener of locked messages in virtual time, on the broker itself: settle, renew, deliver again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from simulator.bus import Broker, Bus, BusTrouble, Entity
from simulator.host.app.hostjson import BusOptions
from simulator.host.triggers.peeklock import PeekLockListener
from tests.support.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from simulator.bus import Abandoned
    from simulator.host.triggers.delivery import Delivery

LOCK = 20.0


class Local(Bus):
    """A receiver at a broker in the same loop; ``silent`` requests get no answer."""

    def __init__(self, broker: Broker) -> None:
        super().__init__("")
        self.broker = broker
        self.silent = 0

    async def receive(self, entity: str, wait: float) -> dict[str, Any] | None:
        self._speak()
        end = asyncio.get_running_loop().time() + wait
        while (item := self.broker.receive(entity)) is None:
            if asyncio.get_running_loop().time() >= end:
                return None
            await asyncio.sleep(0.25)
        names = ("id", "body", "metadata", "sequence", "enqueued", "count", "token", "until")
        return {name: getattr(item, name) for name in names}

    async def renew(self, token: str) -> bool:
        self._speak()
        return self.broker.renew(token)

    async def complete(self, token: str) -> bool:
        self._speak()
        return self.broker.complete(token)

    async def abandon(self, token: str) -> Abandoned:
        self._speak()
        return self.broker.abandon(token)

    def _speak(self) -> None:
        if self.silent:
            self.silent -= 1
            raise BusTrouble("no answer")


class Bench:
    def __init__(self, run: Callable[[Delivery], Awaitable[bool]], **options: Any) -> None:
        self.run = run
        self.options = BusOptions(**options)
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.runs: list[float] = []

    def write(self, event: str, /, **fields: object) -> None:
        self.told.append((event, fields))

    async def body(self, delivery: Delivery) -> bool:
        self.runs.append(asyncio.get_running_loop().time())
        return await self.run(delivery)

    async def listen(self, seconds: float, *names: str, most: int = 10, silent: int = 0) -> Broker:
        broker = Broker(asyncio.get_running_loop().time)
        broker.open(Entity(name="q", lock=LOCK, most=most))
        for name in names:
            broker.send("q", "{}", {}, name)
        receiver = Local(broker)
        receiver.silent = silent
        listener = PeekLockListener(
            function="ship",
            source="q",
            receiver=receiver,
            options=self.options,
            lock=LOCK,
            body=self.body,
            write=self.write,
        )
        running = asyncio.create_task(listener.run())
        await asyncio.sleep(seconds)
        listener.stop()
        await running
        return broker

    def events(self, name: str) -> list[str]:
        return [fields["id"] for event, fields in self.told if event == name]


async def well(_: Delivery) -> bool:
    return True


async def badly(_: Delivery) -> bool:
    return False


def test_a_message_that_was_processed_is_completed_also_if_the_broker_is_silent_for_a_while() -> None:
    bench = Bench(well)
    broker = run_virtual(bench.listen(10, "a", "b", silent=2))
    assert (bench.events("message_received"), bench.events("message_completed")) == (["a", "b"], ["a", "b"])
    assert broker.waiting() == 0


def test_a_message_that_fails_comes_again_at_once_until_it_is_dead() -> None:
    bench = Bench(badly)
    broker = run_virtual(bench.listen(10, "a", most=3))
    counts = [fields["dequeue_count"] for event, fields in bench.told if event == "message_received"]
    assert counts == [1, 2, 3]
    assert len(bench.events("message_returned")) == 2
    assert bench.events("message_poisoned") == ["a"]
    assert broker.dead("q") == ["a"]


def test_the_lock_is_renewed_for_as_long_as_the_function_runs() -> None:
    async def long(_: Delivery) -> bool:
        await asyncio.sleep(5 * LOCK)
        return True

    bench = Bench(long)
    run_virtual(bench.listen(6 * LOCK, "a"))
    assert len(bench.runs) == 1
    assert bench.events("message_completed") == ["a"]


def test_a_lock_is_renewed_no_longer_than_host_json_says_and_then_the_message_comes_again() -> None:
    async def long(delivery: Delivery) -> bool:
        await asyncio.sleep(3 * LOCK if delivery.count == 1 else 1)
        return True

    bench = Bench(long, max_renewal=LOCK)
    run_virtual(bench.listen(5 * LOCK, "a"))
    assert len(bench.runs) == 2
    assert LOCK <= bench.runs[1] - bench.runs[0] <= 2 * LOCK
    assert bench.events("message_let_go") == ["a"]
    assert bench.events("message_returned") == ["a"]  # its first receiver came too late
    assert bench.events("message_completed") == ["a"]


def test_no_more_are_received_at_a_time_than_host_json_says() -> None:
    inside = most = 0

    async def count(_: Delivery) -> bool:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(1)
        inside -= 1
        return True

    bench = Bench(count, max_concurrent_calls=2)
    run_virtual(bench.listen(10, *"abcdefg"))
    assert most == 2
    assert len(bench.events("message_completed")) == 7


def test_a_listener_that_stops_receives_nothing_more_and_finishes_what_it_has() -> None:
    async def slow(_: Delivery) -> bool:
        await asyncio.sleep(3)
        return True

    bench = Bench(slow, max_concurrent_calls=1)
    broker = run_virtual(bench.listen(1, "a", "b"))
    assert bench.events("message_completed") == ["a"]
    assert broker.left("q") == (["b"], 0)


def test_an_error_of_the_simulator_itself_ends_no_listener() -> None:
    async def broken(delivery: Delivery) -> bool:
        if delivery.count == 1:
            raise LookupError("a bug")
        return True

    bench = Bench(broken)
    run_virtual(bench.listen(10, "a"))
    assert bench.events("message_completed") == ["a"]
