"""What a fake host does while its way to the storage fails: it goes on, and loses nothing."""

from __future__ import annotations

import asyncio
import base64
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest
from azure.storage.queue.aio import QueueClient

from simulator.host.app.hostjson import QueueOptions
from simulator.host.triggers.bindings import ScheduleStatus
from simulator.host.triggers.queue import AzureQueues, QueueListener
from simulator.host.triggers.timer import BlobStatusStore
from simulator.proxy.actions import Answer, DropReply, DropRequest, Hang, everything
from tests.support.recording_proxy import RecordingProxy

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.azurite.server import Azurite
    from simulator.host.triggers.queue import QueueMessage
    from simulator.proxy.actions import Action

TROUBLES: Final[tuple[Action, ...]] = (
    Answer(500, "InternalError"),
    Answer(503, "ServerBusy", {"Retry-After": "1"}),
    DropRequest(),
    DropReply(),
    Hang(),
    Hang(forward=True),
)
WORK: Final = 4 * len(TROUBLES)
PATIENCE: Final = 600
"""Tenths of a second until the queue is empty, and until all else that is waited for has come."""


class Fleet:
    """The listener of a host that is hit and the one of a host that is not, on one queue; and what they did."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, object]]] = []
        self.ran: set[str] = set()

    async def run(self, message: QueueMessage) -> bool:
        """Take a moment for a message."""
        await asyncio.sleep(0.1)
        self.ran.add(message.body.decode())
        return True

    def write(self, event: str, /, **fields: object) -> None:
        """Take down what a host tells."""
        self.told.append((event, fields))

    def events(self, event: str) -> list[dict[str, object]]:
        """Return what was told of one kind."""
        return [fields for name, fields in self.told if name == event]

    def listener(self, queue: str, service: AzureQueues) -> QueueListener:
        """Make the listener of one host."""
        about: dict[str, Any] = {"function": "ship", "queue": queue, "visibility": 2.0, "random": Random(7)}
        options = QueueOptions(batch_size=4, new_batch_threshold=2, max_polling_interval=0.2)
        return QueueListener(service=service, options=options, body=self.run, write=self.write, **about)


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    for _ in range(PATIENCE):
        if condition():
            return
        await asyncio.sleep(0.1)
    pytest.fail("it never came")


async def test_a_host_whose_storage_fails_in_every_way_goes_on_and_loses_no_message(
    azurite: Azurite, connection_string: str, container_name: str
) -> None:
    fleet = Fleet()
    async with (
        RecordingProxy(azurite.queue_port) as proxy,
        QueueClient.from_connection_string(connection_string, container_name) as queue,
    ):
        await queue.create_queue()
        services = [AzureQueues(proxy.connection_string(connection_string)), AzureQueues(connection_string)]
        listeners = [fleet.listener(container_name, service) for service in services]
        running = [asyncio.create_task(listener.run()) for listener in listeners]
        for number, trouble in enumerate(TROUBLES):
            for each in range(4):
                await queue.send_message(base64.b64encode(f"{number}.{each}".encode()).decode())
            with proxy.fault(everything, trouble) as rule:
                await asyncio.sleep(0.3)
                await until(partial(getattr, rule, "matched"))
            proxy.reset_connections()  # what hangs fails now
        with proxy.fault(everything, TROUBLES[0]):  # until it hits a request for messages, which may not have been
            await until(lambda: fleet.events("queue_unreachable"))
        for _ in range(PATIENCE):
            if not (await queue.get_queue_properties()).approximate_message_count:
                break
            await asyncio.sleep(0.1)
        await until(lambda: len(fleet.events("queue_reached")) == len(fleet.events("queue_unreachable")))
        assert not any(task.done() for task in running)
        for listener in listeners:
            listener.stop()
        await asyncio.gather(*running)
        for service in services:
            await service.close()
        await queue.delete_queue()
    assert len(fleet.ran) == WORK
    assert not fleet.events("message_poisoned")
    assert fleet.events("queue_unreachable")
    assert len(fleet.events("queue_reached")) == len(fleet.events("queue_unreachable"))


async def test_a_timer_goes_on_without_the_status_that_it_can_not_load_or_save(
    azurite: Azurite, connection_string: str, container_name: str
) -> None:
    status = ScheduleStatus(last=1.0, next=2.0, last_updated=1.0)
    async with RecordingProxy(azurite.blob_port) as proxy:
        store = BlobStatusStore(proxy.connection_string(connection_string), container_name, "import")
        await store.save(status)
        for trouble in (Answer(500, "InternalError"), Answer(429), DropRequest(), DropReply()):
            with proxy.fault(everything, trouble):
                assert await store.load() is None
                await store.save(status)
        assert await store.load() == status
        await store.close()
