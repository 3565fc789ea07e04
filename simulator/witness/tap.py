"""Seeing the lease requests that really go over the network, where Azure's SDK hands them to its transport.

What a lock says of its leases is its own word. Nothing of a request is kept but what it asks, of which blob, and the
status of the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from azure.core.pipeline.transport import AioHttpTransport

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from simulator.history.journal import Write

_TOLD: Final = frozenset({"acquire", "renew"})


def tap_leases(write: Write) -> None:
    """Write ``lease_request`` for each request of this process for a lease or its renewal, once it is answered.

    ``blob`` is the path to it, with what lies above its container; ``status`` is None where no answer came.
    """
    send = AioHttpTransport.send

    async def told(action: str, request: Any, answering: Awaitable[Any]) -> Any:
        status = None
        try:
            response = await answering
            status = response.status_code
            return response
        finally:
            blob = unquote(urlsplit(request.url).path)
            write("lease_request", action=action, blob=blob, status=status)

    def tapped(transport: Any, request: Any, **more: Any) -> Awaitable[Any]:
        answering = send(transport, request, **more)
        action = request.headers.get("x-ms-lease-action")
        return told(action, request, answering) if action in _TOLD and "comp=lease" in request.url else answering

    AioHttpTransport.send = tapped
