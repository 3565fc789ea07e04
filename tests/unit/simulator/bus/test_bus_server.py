"""The broker behind its port: receivers of other processes wait for messages, settle them, and may vanish."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from simulator.bus import Broker, Bus, BusServer, BusTrouble, Entity

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def server() -> Iterator[BusServer]:
    made = BusServer(time.time, lambda _: None)
    made.start()
    made.ask(partial(Broker.open, entity=Entity(name="q", lock=0.3, most=2)))
    try:
        yield made
    finally:
        made.stop()


async def test_a_receiver_that_waits_gets_what_is_sent_and_settles_it(server: BusServer) -> None:
    bus = Bus(server.url)
    try:
        waiting = asyncio.create_task(bus.receive("q", 5.0))
        await asyncio.sleep(0.02)
        name = server.ask(lambda broker: broker.send("q", "body", {"SessionId": "s"}))
        got = await waiting
        assert got is not None
        assert (got["id"], got["body"], got["metadata"], got["count"]) == (name, "body", {"SessionId": "s"}, 1)
        assert await bus.renew(got["token"])
        assert await bus.abandon(got["token"]) == "back"
        again = await bus.receive("q", 0.0)
        assert again is not None
        assert again["count"] == 2
        assert await bus.abandon(again["token"]) == "dead"
        assert await bus.abandon(again["token"]) == "gone"
        assert not await bus.complete(again["token"])
        assert await bus.receive("q", 0.0) is None
        assert server.ask(partial(Broker.dead, entity="q")) == [name]
    finally:
        await bus.close()


async def test_who_waits_gets_a_message_as_soon_as_the_lock_of_its_receiver_is_over(server: BusServer) -> None:
    bus = Bus(server.url)
    try:
        server.ask(lambda broker: broker.send("q", "body", {}))
        first = await bus.receive("q", 1.0)
        second = await bus.receive("q", 2.0)  # the first has died
        assert first is not None
        assert second is not None
        assert (second["id"], second["count"]) == (first["id"], 2)
    finally:
        await bus.close()


async def test_a_receiver_that_is_gone_is_given_nothing(server: BusServer) -> None:
    bus = Bus(server.url)
    try:
        gone = asyncio.create_task(bus.receive("q", 5.0))
        await asyncio.sleep(0.02)
        gone.cancel()
        await asyncio.wait({gone})
        await asyncio.sleep(0.05)
        server.ask(lambda broker: broker.send("q", "body", {}))
        got = await bus.receive("q", 0.2)
        assert got is not None
        assert got["count"] == 1
    finally:
        await bus.close()


async def test_a_broker_that_is_not_there_is_told() -> None:
    bus = Bus("http://127.0.0.1:9")
    try:
        with pytest.raises(BusTrouble, match="did not answer"):
            await bus.renew("x")
    finally:
        await bus.close()
