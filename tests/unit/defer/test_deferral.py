"""A message that is put back: as it was, unburnt, and there at every moment, whoever dies when."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from singleton.base.errors import StorageDenied, StorageError, StorageUnavailable
from singleton.defer.deferral import MessageElsewhere, Received, move, put_back
from singleton.stores.protocol import StoreFailure
from singleton.testing.storage.memory_queue import MemoryMessageStore, StoredMessage
from tests.support.world import now, until, virtual

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from singleton.stores.message_store import Hidden, Sent, Taken

WEEK = 604_800.0
NEVER = object()
CALLS = ("hide", "send", "delete")


class Network:
    """A ``MessageStore`` before the model, whose requests can fail, and at which one can die."""

    def __init__(self, queue: MemoryMessageStore) -> None:
        self.queue = queue
        self.before: dict[str, list[Any]] = {}
        self.after: dict[str, list[Any]] = {}
        self.dead = False

    async def now(self) -> float:
        now: float = await self._send("now", self.queue.now)
        return now

    async def hide(self, id: str, receipt: str, seconds: int) -> Hidden:  # noqa: A002
        hidden: Hidden = await self._send("hide", lambda: self.queue.hide(id, receipt, seconds))
        return hidden

    async def send(self, text: str, *, delay: int, life: int | None) -> Sent:
        sent: Sent = await self._send("send", lambda: self.queue.send(text, delay=delay, life=life))
        return sent

    async def delete(self, id: str, receipt: str) -> None:  # noqa: A002
        await self._send("delete", lambda: self.queue.delete(id, receipt))

    async def create(self) -> None: ...

    async def take(self, most: int, seconds: int) -> list[Taken]:
        raise NotImplementedError  # a deferral takes no message

    async def aclose(self) -> None: ...

    async def _send(self, call: str, execute: Callable[[], Awaitable[Any]]) -> Any:
        if self.dead:
            await asyncio.Event().wait()
        await self._happens(self.before.get(call))
        answer = await execute()
        await self._happens(self.after.get(call))
        return answer

    async def _happens(self, events: list[Any] | None) -> None:
        event = events.pop(0) if events else None
        if isinstance(event, BaseException):
            raise event
        if event is NEVER:
            await asyncio.Event().wait()
        if isinstance(event, float):
            await asyncio.sleep(event)


def as_received(message: StoredMessage) -> Received:
    return Received(
        id=message.id,
        receipt=message.receipt,
        text=message.text,
        invisible_until=message.visible,
        expires=message.expires,
    )


async def a_message(queue: MemoryMessageStore, *, life: float = WEEK, visibility: float = 600.0) -> Received:
    queue.put("body", life=life)
    message = queue.receive(visibility)
    assert message is not None
    return as_received(message)


async def deferred(network: Network, message: Received, *, delay: int = 10) -> str | None:
    moved = await put_back(network, message, delay=delay, handed_on=lambda _: None)
    return None if moved is None else moved.copy.id


def host_ends_it(queue: MemoryMessageStore, message: Received) -> bool:
    """Delete as the host does when the function returned: with its own receipt. Tell whether that worked."""
    stored = next((each for each in queue.messages() if each.id == message.id), None)
    if stored is None or stored.receipt != message.receipt:
        return False
    del queue._messages[stored.id]
    return True


@virtual
async def test_it_comes_back_after_the_delay_with_its_body_and_no_dequeue_counted() -> None:
    queue = MemoryMessageStore()
    message = await a_message(queue)
    copy = await deferred(Network(queue), message)
    await until(9.9)
    assert queue.receive() is None
    await until(10.0)
    again = queue.receive()
    assert again is not None
    assert (again.id, again.text, again.dequeued) == (copy, "body", 1)
    assert queue.receive() is None


@virtual
async def test_it_takes_three_requests() -> None:
    queue = MemoryMessageStore()
    await deferred(Network(queue), await a_message(queue))
    assert dict(queue.calls) == dict.fromkeys(CALLS, 1)


@virtual
async def test_what_the_host_deletes_afterwards_is_nothing() -> None:
    queue = MemoryMessageStore()
    message = await a_message(queue)
    await deferred(Network(queue), message)
    assert not host_ends_it(queue, message)
    assert len([*queue.messages()]) == 1


@virtual
async def test_its_life_ends_when_it_would_have_ended_however_often_it_is_put_back() -> None:
    queue = MemoryMessageStore()
    message: Received | None = await a_message(queue, life=100.0)
    rounds = 0
    while message is not None and rounds < 20:
        await deferred(Network(queue), message)
        await asyncio.sleep(10)
        received = queue.receive()
        message = None if received is None else as_received(received)
        rounds += 1
    assert rounds >= 10
    assert 99 <= now() <= 111
    assert [*queue.messages()] == []


@virtual
async def test_what_never_ends_still_never_ends() -> None:
    queue = MemoryMessageStore()
    await deferred(Network(queue), await a_message(queue, life=math.inf))
    assert [message.expires for message in queue.messages()] == [math.inf]


@virtual
async def test_a_message_whose_end_is_not_known_lives_for_a_week() -> None:
    queue = MemoryMessageStore()
    received = await a_message(queue)
    unknown = Received(id=received.id, receipt=received.receipt, text=received.text, invisible_until=None, expires=None)
    await deferred(Network(queue), unknown)
    assert [message.expires for message in queue.messages()] == [WEEK]


@pytest.mark.parametrize("life", [15.0, 3.0, 1.0])
@virtual
async def test_near_its_end_it_stays_away_no_longer_than_half_of_what_is_left(life: float) -> None:
    queue = MemoryMessageStore()
    message = await a_message(queue, life=life)
    await deferred(Network(queue), message, delay=60)
    (copy,) = queue.messages()
    assert copy.visible <= life / 2


@virtual
async def test_in_the_last_second_of_its_life_no_copy_is_sent_that_would_outlive_it() -> None:
    queue = MemoryMessageStore()
    network = Network(queue)
    message = await a_message(queue, life=20.0)
    await until(19.2)
    assert await deferred(network, message) is None
    await until(20.1)
    assert [*queue.messages()] == []


@virtual
async def test_a_poisoned_message_whose_receipt_its_host_renewed_is_left_for_the_host_to_delete_if_it_will() -> None:
    queue, poison = MemoryMessageStore(), MemoryMessageStore()
    message = await a_message(queue)
    assert message.known is not None
    await queue.hide(*message.known, 600)
    assert await move(queue, poison, message, by_host=False) is None
    moved = await move(queue, poison, message)
    assert moved is not None
    assert moved.by_host
    assert [len([*each.messages()]) for each in (queue, poison)] == [1, 1]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("when", ["before", "after"])
@virtual
async def test_a_crash_at_any_request_repeats_it_at_worst_and_loses_it_never(call: str, when: str) -> None:
    queue = MemoryMessageStore()
    message = await a_message(queue)
    network = Network(queue)
    getattr(network, when)[call] = [NEVER]
    dying = asyncio.create_task(deferred(network, message))
    await asyncio.sleep(5)
    assert not dying.done()
    assert 1 <= len([*queue.messages()]) <= 2
    network.dead = True
    await asyncio.gather(dying, return_exceptions=True)
    await until(601)
    assert 1 <= len([*queue.messages()]) <= 2
    received = [queue.receive(), queue.receive()]
    assert [each.text for each in received if each] == ["body"] * len([*queue.messages()])


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("when", ["before", "after"])
@virtual
async def test_a_cancellation_at_any_request_leaves_one_message(call: str, when: str) -> None:
    queue = MemoryMessageStore()
    message = await a_message(queue)
    network = Network(queue)
    getattr(network, when)[call] = [2.0]
    putting = asyncio.create_task(deferred(network, message))
    await asyncio.sleep(1)
    putting.cancel()
    await asyncio.wait({putting})
    assert putting.cancelled()
    assert len([*queue.messages()]) == 1


@virtual
async def test_a_cancellation_while_a_message_is_moved_leaves_it_in_one_queue() -> None:
    queue, poison = MemoryMessageStore(), MemoryMessageStore()
    message = await a_message(queue)
    network = Network(queue)
    network.before["delete"] = [2.0]
    moving = asyncio.create_task(move(network, Network(poison), message))
    await asyncio.sleep(1)
    moving.cancel()
    await asyncio.wait({moving})
    assert [len([*each.messages()]) for each in (queue, poison)] == [0, 1]


@pytest.mark.parametrize("call", CALLS)
@virtual
async def test_what_the_service_refuses_for_the_moment_is_asked_for_again(call: str) -> None:
    queue = MemoryMessageStore()
    network = Network(queue)
    network.before[call] = [StoreFailure(503, "ServerBusy"), StoreFailure(500, "OperationTimedOut")]
    message = await a_message(queue)
    copy = await deferred(network, message)
    assert [each.id for each in queue.messages()] == [copy]


@pytest.mark.parametrize("call", ["hide", "send"])
@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (StoreFailure(403, "AuthorizationPermissionMismatch"), StorageDenied),
        (StoreFailure(503, "ServerBusy"), StorageUnavailable),
        (StoreFailure(detail="no answer"), StorageUnavailable),
        (StoreFailure(404, "QueueNotFound"), StorageError),
    ],
)
@virtual
async def test_a_queue_that_does_not_do_it_fails_the_invocation_and_leaves_the_message(
    call: str, failure: StoreFailure, error: type[StorageError]
) -> None:
    queue = MemoryMessageStore()
    network = Network(queue)
    network.before[call] = [failure] * 3
    message = await a_message(queue)
    with pytest.raises(error) as caught:
        await deferred(network, message)
    assert type(caught.value) is error
    assert [each.id for each in queue.messages()] == [message.id]


@virtual
async def test_an_answer_that_never_comes_fails_the_invocation_in_time() -> None:
    queue = MemoryMessageStore()
    network = Network(queue)
    network.after["send"] = [NEVER]
    with pytest.raises(StorageUnavailable, match="no answer within 10 s"):
        await deferred(network, await a_message(queue))
    assert now() < 15
    assert len([*queue.messages()]) == 2


@virtual
async def test_a_delete_whose_answer_was_lost_is_asked_for_again_and_the_copy_stays() -> None:
    queue = MemoryMessageStore()
    network = Network(queue)
    network.after["delete"] = [StoreFailure(detail="connection reset")]
    copy = await deferred(network, await a_message(queue))
    assert [each.id for each in queue.messages()] == [copy]
    assert queue.calls["delete"] == 2


@virtual
async def test_an_original_that_can_not_be_deleted_runs_twice_rather_than_never(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = MemoryMessageStore()
    network = Network(queue)
    network.before["delete"] = [StoreFailure(503)] * 9
    message = await a_message(queue)
    copy = await deferred(network, message)
    assert {each.id for each in queue.messages()} == {message.id, copy}
    assert "will run twice" in caplog.text
    assert not host_ends_it(queue, message)


# --- whose message is it? ---------------------------------------------------------------------------------------------


@virtual
async def test_what_another_receiver_has_is_left_to_them() -> None:
    queue = MemoryMessageStore()
    message = await a_message(queue, visibility=30)
    await until(31)
    theirs = queue.receive()
    assert theirs is not None
    with pytest.raises(MessageElsewhere):
        await deferred(Network(queue), message)
    assert [each.id for each in queue.messages()] == [message.id]
    assert theirs.visible > now() + 500


@virtual
async def test_a_receipt_that_its_own_host_renewed_is_no_loss_the_copy_goes_and_the_host_deletes() -> None:
    queue = MemoryMessageStore()
    received = await a_message(queue)
    await until(300)
    assert received.known is not None
    renewed = await queue.hide(*received.known, 600)
    await until(310)
    copy = await deferred(Network(queue), received)
    assert len([*queue.messages()]) == 2
    await queue.delete(received.known[0], renewed.receipt)  # the host, as the invocation ends as a success
    assert [each.id for each in queue.messages()] == [copy]


@virtual
async def test_who_stood_still_before_sending_sends_no_copy() -> None:
    queue = MemoryMessageStore()
    network = Network(queue)
    message = await a_message(queue)
    clock = asyncio.get_running_loop()
    asked = network.hide

    async def hide(id: str, receipt: str, seconds: int) -> Hidden:  # noqa: A002
        answer = await asked(id, receipt, seconds)
        clock.now += 50.0  # type: ignore[attr-defined]
        return answer

    network.hide = hide  # type: ignore[method-assign]
    assert await deferred(network, message) is None
    assert [each.id for each in queue.messages()] == [message.id]
    assert not host_ends_it(queue, message)


@virtual
async def test_who_stood_still_after_sending_takes_the_copy_away_again() -> None:
    queue = MemoryMessageStore()
    network = Network(queue)
    message = await a_message(queue)
    clock = asyncio.get_running_loop()
    asked = network.send

    async def send(text: str, *, delay: int, life: int | None) -> Sent:
        answer = await asked(text, delay=delay, life=life)
        clock.now += 50.0  # type: ignore[attr-defined]
        return answer

    network.send = send  # type: ignore[method-assign]
    told: list[str] = []
    assert await put_back(network, message, delay=10, handed_on=told.append) is None
    assert [each.id for each in queue.messages()] == [message.id]
    assert told == []


@virtual
async def test_the_copy_is_told_of_before_the_original_ends() -> None:
    queue = MemoryMessageStore()
    message = await a_message(queue)
    seen: list[set[str]] = []
    await put_back(
        queue, message, delay=10, handed_on=lambda copy: seen.append({copy} | {each.id for each in queue.messages()})
    )
    assert len(seen) == 1
    assert message.id in seen[0]


# --- whose body hides its id ------------------------------------------------------------------------------------------


async def a_hidden_message(queue: MemoryMessageStore, *, life: float = WEEK, visibility: float = 600.0) -> Received:
    return replace(await a_message(queue, life=life, visibility=visibility), id=None)


@virtual
async def test_a_message_whose_id_is_not_known_goes_back_in_two_requests_and_its_host_deletes_it() -> None:
    queue = MemoryMessageStore()
    message = await a_hidden_message(queue, life=100.0)
    (original,) = queue.messages()
    await until(20)
    copy = await deferred(Network(queue), message)
    assert dict(queue.calls) == {"now": 1, "send": 1}
    assert host_ends_it(queue, as_received(original))
    (left,) = queue.messages()
    assert (left.id, left.visible, left.expires) == (copy, 30, 100)


@virtual
async def test_a_message_whose_id_is_not_known_is_left_to_whoever_may_have_received_it_since() -> None:
    queue = MemoryMessageStore()
    message = await a_hidden_message(queue, visibility=30.0)
    await until(30)
    with pytest.raises(MessageElsewhere):
        await deferred(Network(queue), message)
    assert len([*queue.messages()]) == 1


@virtual
async def test_a_message_whose_id_is_not_known_is_copied_to_the_other_queue_and_left_for_its_host_to_delete() -> None:
    queue, poison = MemoryMessageStore(), MemoryMessageStore()
    assert await move(queue, poison, await a_hidden_message(queue))
    assert [len([*each.messages()]) for each in (queue, poison)] == [1, 1]


@virtual
async def test_without_the_services_clock_no_copy_is_sent() -> None:
    queue = MemoryMessageStore()
    network = Network(queue)
    network.before["now"] = [StoreFailure(403, "AuthorizationPermissionMismatch")]
    with pytest.raises(StorageDenied, match="a message whose body has an Id of its own: asking for the time"):
        await deferred(network, await a_hidden_message(queue))
    assert len([*queue.messages()]) == 1
