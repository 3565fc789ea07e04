"""The queues of one storage account, by azure-storage-queue: requests without retries, judged by their error codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.request import getproxies_environment

from simulator.host.triggers.messages import HostQueues, Message
from singleton.stores.azure_blob import judged
from singleton.stores.azure_queue import AzureMessageStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from azure.storage.queue.aio import QueueServiceClient


class AzureQueues(HostQueues):
    """The queues of the account that a connection string names. Use it on one event loop, and close it."""

    def __init__(self, connection_string: str) -> None:
        self._connection_string = connection_string
        self._service: QueueServiceClient | None = None
        super().__init__(lambda queue: _AzureQueue(self.open().get_queue_client(queue)))

    def open(self) -> QueueServiceClient:
        """Return the client of the account. The first call imports the SDK, which many apps do without.

        Raises:
            ValueError: the connection string can't be used.
        """
        if self._service is None:
            from azure.storage.queue.aio import QueueServiceClient

            # To read the environment's settings takes a turn of a thread for each request: seconds on a busy machine.
            proxies = bool(getproxies_environment())
            self._service = QueueServiceClient.from_connection_string(
                self._connection_string, retry_total=0, use_env_settings=proxies
            )
        return self._service

    async def close(self) -> None:
        """Close all connections."""
        if self._service is not None:
            await self._service.close()


class _AzureQueue(AzureMessageStore):
    async def receive(self, count: int, seconds: int) -> list[Message]:
        """See ``HostQueue.receive``."""
        pages = self._client.receive_messages(messages_per_page=count, visibility_timeout=seconds).by_page()
        # One page, one request: the plain iterator asks again until nothing is left. An empty queue has no page.
        page: AsyncIterator[Any] | None = await judged(anext(pages, None))
        return [] if page is None else [_message(raw) async for raw in page]


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
