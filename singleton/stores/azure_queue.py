"""Storage queues, through azure-storage-queue's asyncio client. A call is one HTTP request, without retries.

The package is an extra (``defer``), imported on the lock thread when first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from singleton.stores.azure_blob import Judging, done
from singleton.stores.message_store import Hidden, Sent, Taken
from singleton.stores.protocol import StoreFailure
from singleton.stores.refusals import check_success, clock

if TYPE_CHECKING:
    from datetime import datetime

    from azure.core.pipeline import PipelineRequest, PipelineResponse
    from azure.storage.queue.aio import QueueClient


class AzureMessageStore:
    """A ``MessageStore`` on one queue of an account. Use it on the loop on which it was made."""

    def __init__(self, client: QueueClient, *, close_with: tuple[Any, ...] = (), judged: Judging | None = None) -> None:
        self._client = client
        self._judged = judged or Judging()
        self._close_with = (client, *close_with)

    async def create(self) -> None:
        await done(self._judged(self._client.create_queue()), "QueueAlreadyExists")

    async def now(self) -> float:
        replies: list[PipelineResponse[Any, Any]] = []
        await self._judged(self._client.get_queue_properties(raw_response_hook=replies.append))
        check_answer(replies[0])
        now = clock(replies[0].http_response.headers)
        if now is None:
            raise StoreFailure(detail="an answer without a date")
        return now

    async def hide(self, id: str, receipt: str, seconds: int) -> Hidden:  # noqa: A002
        reply = await self._judged(self._client.update_message(id, receipt, visibility_timeout=seconds))
        return Hidden(str(reply.pop_receipt), _seconds(reply.next_visible_on))

    async def send(self, text: str, *, delay: int, life: int | None) -> Sent:
        until = -1 if life is None else life
        reply = await self._judged(
            self._client.send_message(
                text, visibility_timeout=delay, time_to_live=until, raw_request_hook=_keep_carriage_returns
            )
        )
        return Sent(str(reply.id), str(reply.pop_receipt), _seconds(reply.inserted_on))

    async def delete(self, id: str, receipt: str) -> None:  # noqa: A002
        await self._judged(self._client.delete_message(id, receipt))

    async def take(self, most: int, seconds: int) -> list[Taken]:
        asking = self._client.receive_messages(messages_per_page=most, max_messages=most, visibility_timeout=seconds)

        async def first_page() -> list[Any]:
            async for page in asking.by_page():
                return [message async for message in page]
            return []  # the SDK's answer for an empty queue

        received = await self._judged(first_page())
        return [Taken(str(m.id), str(m.pop_receipt), str(m.content), int(m.dequeue_count or 1)) for m in received]

    async def aclose(self) -> None:
        for closable in self._close_with:
            await closable.close()


def check_answer(reply: PipelineResponse[Any, Any]) -> None:
    """Check each answer to a client, as its ``raw_response_hook``. A page of something in between may be a success.

    Nobody would have hidden or deleted a message, or seen that the queue is empty.
    """
    if reply.http_response.status_code < 300:
        check_success(reply.http_response.headers)


def _seconds(date: datetime | None) -> float:
    return 0.0 if date is None else date.timestamp()


def _keep_carriage_returns(request: PipelineRequest[Any]) -> None:
    """Escape carriage returns: the SDK doesn't, and XML's rules for the ends of lines would make a CR LF a LF."""
    http = request.http_request
    body = http.data.encode() if isinstance(http.data, str) else http.data or b""
    if b"\r" in body:
        http.data = body.replace(b"\r", b"&#13;")
        http.headers["Content-Length"] = str(len(http.data))
