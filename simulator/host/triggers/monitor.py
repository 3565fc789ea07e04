"""Where the host keeps a timer's status: a small JSON blob beside its locks (H-60)."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Final

from simulator.host.triggers.bindings import ScheduleStatus

CONTAINER: Final = "azure-webjobs-hosts"
_TIMEOUT: Final = 15.0
_log = logging.getLogger(__name__)


class BlobStatusStore:
    """The status of one timer of one Functions host id. Use it on one event loop, and close it."""

    def __init__(self, connection_string: str, host_id: str, function: str) -> None:
        from azure.storage.blob.aio import ContainerClient  # only hosts with such timers import it

        self._container = ContainerClient.from_connection_string(connection_string, CONTAINER, retry_total=0)
        self._blob = self._container.get_blob_client(f"timers/{host_id}/Host.Functions.{function}/status")

    async def close(self) -> None:
        """Close all connections."""
        await self._container.close()

    async def load(self) -> ScheduleStatus | None:
        """Return the stored status, or None if there is none or it can't be read."""
        from azure.core.exceptions import AzureError, HttpResponseError

        try:
            async with asyncio.timeout(_TIMEOUT):
                downloaded = await self._blob.download_blob()
                text = await downloaded.readall()
            return ScheduleStatus.from_json(json.loads(text))
        except HttpResponseError as error:
            if error.status_code != 404:
                _log.warning("the status of a timer can't be read: %s", error.message)
        except (AzureError, TimeoutError, ValueError, KeyError, TypeError) as error:
            _log.warning("the status of a timer can't be read: %s", error)
        return None

    async def save(self, status: ScheduleStatus) -> None:
        """Store the status; a failure is only logged."""
        from azure.core.exceptions import AzureError

        try:
            async with asyncio.timeout(_TIMEOUT):
                await self._upload(json.dumps(status.to_json()))
        except (AzureError, TimeoutError) as error:
            _log.warning("the status of a timer can't be saved: %s", error)

    async def _upload(self, text: str) -> None:
        from azure.core.exceptions import HttpResponseError

        try:
            await self._blob.upload_blob(text, overwrite=True)
        except HttpResponseError as error:
            if error.status_code != 404:
                raise
            await self._create_container()
            await self._blob.upload_blob(text, overwrite=True)

    async def _create_container(self) -> None:
        from azure.core.exceptions import HttpResponseError

        try:
            await self._container.create_container()
        except HttpResponseError as error:
            if error.status_code != 409:
                raise
