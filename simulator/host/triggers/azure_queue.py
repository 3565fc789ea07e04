"""The queues of one storage account, by azure-storage-queue: requests without retries, judged by their error codes."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Final, TypeVar

from azure.core.exceptions import HttpResponseError
from azure.storage.queue.aio import QueueClient, QueueServiceClient

from simulator.host.triggers.messages import Message, MessageGone, QueueMissing, QueueTrouble

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_T = TypeVar("_T")
_TIMEOUT: Final = 15.0
_CREATE_TRIES: Final = 10
_CREATE_PAUSE: Final = 1.0
_QUEUE_GONE: Final = frozenset({"QueueNotFound", "QueueBeingDeleted", "QueueDisabled"})
_MESSAGE_GONE: Final = frozenset({"MessageNotFound", "PopReceiptMismatch"})


class AzureQueues:
    """The queues of the account that a connection string names. Use it on one event loop, and close it."""

    def __init__(self, connection_string: str) -> None:
        self._service = QueueServiceClient.from_connection_string(connection_string, retry_total=0)
        self._clients: dict[str, QueueClient] = {}

    async def close(self) -> None:
        """Close all connections."""
        await self._service.close()

    async def receive(self, queue: str, count: int, visibility: float) -> list[Message]:
        """Take up to ``count`` messages."""

        async def take() -> list[Message]:
            pages = self._client(queue).receive_messages(
                messages_per_page=count, visibility_timeout=math.ceil(visibility)
            )
            # One page, one request: the plain iterator asks again until nothing is left.
            async for page in pages.by_page():
                return [_message(raw) async for raw in page]
            return []

        return await _ask(take)

    async def set_visibility(self, queue: str, message: Message, visibility: float) -> None:
        """Hide the message from now on and take over its new receipt."""
        updated = await _ask(
            lambda: self._client(queue).update_message(
                message.id, pop_receipt=message.pop_receipt, visibility_timeout=math.ceil(visibility)
            )
        )
        message.pop_receipt = str(updated.pop_receipt)

    async def delete(self, queue: str, message: Message) -> None:
        """Delete the message."""
        await _ask(lambda: self._client(queue).delete_message(message.id, pop_receipt=message.pop_receipt))

    async def send(self, queue: str, text: str) -> str:
        """Put a message into the queue, which is created where it is missing."""
        for _ in range(_CREATE_TRIES):
            try:
                sent = await _ask(lambda: self._client(queue).send_message(text))
                return str(sent.id)
            except QueueMissing:
                await self._create(queue)
        raise QueueTrouble(f"queue {queue} can't be created")

    async def _create(self, queue: str) -> None:
        try:
            await _ask(self._client(queue).create_queue)
        except QueueMissing:
            # It is being deleted; its name is free again in a while.
            await asyncio.sleep(_CREATE_PAUSE)
        except QueueTrouble as error:
            if "QueueAlreadyExists" not in str(error):
                raise

    def _client(self, queue: str) -> QueueClient:
        client = self._clients.get(queue)
        if client is None:
            client = self._clients[queue] = self._service.get_queue_client(queue)
        return client


async def _ask(request: Callable[[], Awaitable[_T]]) -> _T:
    try:
        async with asyncio.timeout(_TIMEOUT):
            return await request()
    except TimeoutError as error:
        raise QueueTrouble(f"no answer within {_TIMEOUT:g} s") from error
    except HttpResponseError as error:
        code = str(getattr(error, "error_code", None) or "")
        detail = f"{error.status_code} {code}".strip()
        if code in _QUEUE_GONE:
            raise QueueMissing(detail) from error
        if code in _MESSAGE_GONE:
            raise MessageGone(detail) from error
        raise QueueTrouble(detail) from error
    except Exception as error:
        # Whatever else the SDK or the connection makes of it: no usable answer.
        raise QueueTrouble(f"{type(error).__name__}: {error}") from error


def _message(raw: Any) -> Message:
    return Message(
        id=str(raw.id),
        text=str(raw.content or ""),
        dequeue_count=int(raw.dequeue_count or 0),
        pop_receipt=str(raw.pop_receipt),
        inserted=raw.inserted_on,
        expires=raw.expires_on,
        next_visible=raw.next_visible_on,
    )
