"""Deferred messages on a real queue service, and among real hosts that are killed and paused."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.queue.aio import QueueClient

from singleton.base.errors import StorageError
from singleton.defer.deferral import MessageElsewhere, put_back
from singleton.defer.failure_count import FailureCount, failures_of, key_of, key_of_copy, note_failures
from singleton.functions.message_properties import received
from singleton.functions.triggers import Trigger
from singleton.runtime.accounts.stores import open_container, open_queue
from singleton.settings.connection import StorageAccount
from tests.integration.defer_storm import Storm, report, run
from tests.integration.hosts import Queue, hosts, seen, wait_until, write_app

if TYPE_CHECKING:
    from pathlib import Path

    from azure.storage.queue import QueueMessage

TRIGGER = Trigger("queueTrigger", "msg", {"queueName": "orders"})


class AsWorkerGivesIt:
    """A received message as a function gets it."""

    def __init__(self, raw: QueueMessage) -> None:
        text = str(raw.content)
        body = json.loads(text) if text.startswith("{") else {}
        self.id = body.get("Id", raw.id)
        self.insertion_time = raw.inserted_on
        self.pop_receipt = raw.pop_receipt
        self.expiration_time = raw.expires_on
        self.time_next_visible = raw.next_visible_on
        self._body = text.encode()

    def get_body(self) -> bytes:
        return self._body


async def take(client: QueueClient, visibility: int = 600) -> Any:
    message = await client.receive_message(visibility_timeout=visibility)
    assert message is not None
    return message


async def defer(connection: str, queue: str, raw: Any) -> str | None:
    store = open_queue(StorageAccount(connection), queue)
    try:
        message = received("job", TRIGGER, AsWorkerGivesIt(raw), "none")
        moved = await put_back(store, message, delay=1, handed_on=lambda _: None)
        return None if moved is None else moved.copy.id
    finally:
        await store.aclose()


@pytest.mark.parametrize("life", [3600, -1])
async def test_a_message_comes_back_with_its_body_and_its_remaining_life_and_a_count_of_one(
    connection_string: str, container_name: str, life: int
) -> None:
    text = 'a\r\nb <&> "é" \N{GRINNING FACE}'
    async with QueueClient.from_connection_string(connection_string, container_name) as client:
        await client.create_queue()
        await client.send_message(text, time_to_live=life)
        await take(client, visibility=1)
        await asyncio.sleep(1.5)
        first = await take(client)
        assert first.dequeue_count == 2
        copy = await defer(connection_string, container_name, first)
        with pytest.raises(HttpResponseError) as host:
            await client.delete_message(first)
        assert host.value.error_code in {"MessageNotFound", "PopReceiptMismatch"}  # type: ignore[attr-defined]
        await asyncio.sleep(1.5)
        again = await take(client)
        assert (again.id, again.content, again.dequeue_count) == (copy, text, 1)
        assert abs(again.expires_on - first.expires_on) <= timedelta(seconds=1)
        assert (await client.get_queue_properties()).approximate_message_count == 1


async def test_what_another_receiver_has_is_left_to_them(connection_string: str, container_name: str) -> None:
    async with QueueClient.from_connection_string(connection_string, container_name) as client:
        await client.create_queue()
        await client.send_message("body")
        first = await take(client, visibility=1)
        await asyncio.sleep(1.5)
        theirs = await take(client)
        with pytest.raises(MessageElsewhere):
            await defer(connection_string, container_name, first)
        await client.delete_message(theirs)


async def test_a_receipt_that_its_own_host_renewed_is_no_loss(connection_string: str, container_name: str) -> None:
    async with QueueClient.from_connection_string(connection_string, container_name) as client:
        await client.create_queue()
        await client.send_message("body")
        first = await take(client)
        renewed = await client.update_message(first.id, first.pop_receipt, visibility_timeout=600)
        copy = await defer(connection_string, container_name, first)
        await client.delete_message(first.id, renewed.pop_receipt)  # the host, as the invocation ends as a success
        await asyncio.sleep(1.5)
        assert (await take(client)).id == copy


async def test_a_message_whose_body_has_an_id_goes_back_too_and_its_copy_is_known_again(
    connection_string: str, container_name: str
) -> None:
    store = open_queue(StorageAccount(connection_string), container_name)
    async with QueueClient.from_connection_string(connection_string, container_name) as client:
        await client.create_queue()
        await client.send_message('{"Id": ".."}', time_to_live=3600)
        first = await take(client)
        message = received("job", TRIGGER, AsWorkerGivesIt(first), "none")
        moved = await put_back(store, message, delay=1, handed_on=lambda _: None)
        await client.delete_message(first)  # the host, as the invocation ends as a success
        await asyncio.sleep(1.5)
        again = await take(client)
        assert moved is not None
        assert (again.id, again.content, again.dequeue_count) == (moved.copy.id, first.content, 1)
        assert abs(again.expires_on - first.expires_on) <= timedelta(seconds=1)
        same = received("job", TRIGGER, AsWorkerGivesIt(again), "none")
        assert key_of(same) == key_of_copy(message, moved.copy)
        assert (await client.get_queue_properties()).approximate_message_count == 1
    await store.aclose()


async def test_a_queue_that_is_gone_fails_the_invocation(connection_string: str, container_name: str) -> None:
    async with QueueClient.from_connection_string(connection_string, container_name) as client:
        await client.create_queue()
        await client.send_message("body")
        first = await take(client)
        await client.delete_queue()
        with pytest.raises(StorageError):
            await defer(connection_string, container_name, first)


async def test_a_messages_failures_are_noted_on_a_blob(connection_string: str, container_name: str) -> None:
    store = open_container(StorageAccount(connection_string), container_name)
    try:
        await store.create("locks/made-with-its-container")
        assert not await failures_of(store, "orders", "m-1")
        for strikes in (FailureCount(3), FailureCount(4), FailureCount(0, 1, "inv-1"), FailureCount(4, 2, "inv-2")):
            await note_failures(store, "orders", "m-1", strikes)
            assert await failures_of(store, "orders", "m-1") == strikes
        await note_failures(store, "orders", "m-1", FailureCount())
        assert not await failures_of(store, "orders", "m-1")
    finally:
        await store.aclose()


MIXED = """
@app.queue_trigger(arg_name="msg", queue_name="{queue}", connection="AzureWebJobsStorage")
@singleton(scope="Id", on_contention="defer")
def ship(msg: func.QueueMessage) -> None:
    if msg.get_json().get("Bad"):
        seen("bad")
        raise ValueError("bad")
    time.sleep(0.7)
    seen("good")
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_message_that_always_fails_is_poison_after_five_failures_however_often_it_was_put_back(
    connection_string: str, container_name: str, tmp_path: Path
) -> None:
    name = container_name[:40]
    app = write_app(
        tmp_path / "app",
        MIXED.replace("{queue}", name),
        singleton={"deferDelay": "00:00:01"},
        extensions={"queues": {"visibilityTimeout": "00:00:01"}},
    )
    three = hosts(app, connection_string, tmp_path, count=3, visibility=20.0)
    with Queue(connection_string, name) as queue, three as running:
        queue.create().send({"Id": "a", "Bad": True}, *[{"Id": "a", "Number": number} for number in range(6)])
        wait_until(lambda: queue.length() == 0, within=120)
        put_back = [record for host in running for record in host.records("lock", kind="deferred")]
        poisoned = [record for host in running for record in host.records("lock", kind="poisoned")]
        moved = [record for host in running for record in host.records("message_poisoned")]
    assert seen(app).count(["good"]) == 6
    assert seen(app).count(["bad"]) == 5
    assert put_back
    assert len(poisoned) + len(moved) == 1
    with Queue(connection_string, f"{name}-poison") as poison:
        assert len(poison.peek()) == 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_message_comes_through_a_storm_and_none_is_burnt_or_poisoned_by_contention(
    connection_string: str, container_name: str, tmp_path: Path
) -> None:
    storm = Storm(messages=120, keys=6, hosts=3, kills=3, pauses=1, seconds=15.0, seed=3)
    result = run(storm, connection_string, tmp_path, container_name[:40])
    told = report(result)
    assert result.verdict.holds, told
    assert (result.handled, result.poisoned, result.burnt) == (120, 0, []), told
    assert result.verdict.messages.deferred > 20, told
