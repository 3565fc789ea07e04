"""See the lease requests that really go over the network, where aiohttp gets them: our own, and those of Azure's SDK.

So nobody has to believe what a lock says of its leases. Of a request only these are kept: the operation, the blob, and
the status of the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from aiohttp import ClientSession

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from simulator.history.journal import Write

_TOLD: Final = frozenset({"acquire", "renew"})


def tap_leases(write: Write) -> None:
    """Write ``lease_request`` for each request of this process for a lease or its renewal, once it is answered.

    ``blob`` is its path, with what is above its container. ``status`` is None if no answer came.
    """
    send = ClientSession._request  # noqa: SLF001 - the one place that all requests of aiohttp go through

    async def told(action: str, path: str, answering: Awaitable[Any]) -> Any:
        status = None
        try:
            response = await answering
            status = response.status
            return response
        finally:
            write("lease_request", action=action, blob=path, status=status)

    def tapped(session: Any, method: str, url: Any, **more: Any) -> Awaitable[Any]:
        answering = send(session, method, url, **more)
        action = (more.get("headers") or {}).get("x-ms-lease-action")
        if action not in _TOLD or "comp=lease" not in str(url):
            return answering
        return told(action, unquote(urlsplit(str(url)).path), answering)

    ClientSession._request = tapped  # type: ignore[method-assign,assignment]  # noqa: SLF001
