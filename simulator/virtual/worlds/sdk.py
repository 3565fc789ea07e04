"""The real Azure SDK in virtual worlds: a transport that answers its HTTP requests from the simulated service.

``singleton/stores/azure_blob.py`` and azure-storage-blob run as shipped: pipeline, signing, (de)serialisation, error
mapping. There are no sockets. Each request is parsed, travels over the network of the world under all its faults, and
comes back as the service's HTTP: status, headers, ``x-ms-error-code``, an XML body for errors. Containers exist here,
too: the first request of a world finds none.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, cast
from urllib.parse import urlsplit

from azure.core.exceptions import ServiceRequestError
from azure.core.pipeline.transport import AsyncHttpResponse, AsyncHttpTransport
from azure.core.utils import CaseInsensitiveDict

from simulator.virtual.http.blob_api import (
    CONTAINER,
    AskedCall,
    Containers,
    HeardRequest,
    answer_of,
    asked_by,
    refusal_of,
)
from simulator.virtual.http.virtual_connections import UNDER_LEASE
from simulator.virtual.storage.network import NetworkRequest
from singleton.runtime.accounts.stores import open_through_sdk
from singleton.settings.connection import StorageAccount
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure.core.pipeline.transport import HeardRequest as SdkRequest

    from simulator.virtual.storage.network import Network
    from simulator.virtual.time.machine import Machine
    from singleton.settings.accounts import LockContainer
    from singleton.stores.protocol import LeaseStore

_CONTAINER: Final = "webjobshost"
ACCOUNT: Final = StorageAccount(
    connection_string="DefaultEndpointsProtocol=https;AccountName=explored;AccountKey=c2ltdWxhdGVk;EndpointSuffix=localhost"
)


class VirtualTransport(AsyncHttpTransport[Any, Any]):
    """The SDK's way to the network of a virtual world, for the clients of one machine."""

    def __init__(
        self, network: Network, containers: Containers, machine: Machine, closed: Callable[[], None] = lambda: None
    ) -> None:
        self.closed = closed
        self._network = network
        self._containers = containers
        self._machine = machine

    async def send(self, request: SdkRequest, **_: Any) -> AsyncHttpResponse:
        """Send one HTTP request, and return the answer.

        Raises:
            ServiceRequestError: the connection was reset; whether the request was carried out is not known.
        """
        heard, ranged = read_request(request)
        call, name, args = heard
        execute = partial(self._containers.execute, self._machine, _CONTAINER, heard)
        asked = heard._replace(call="create" if call == CONTAINER else call)
        lease_id = args[0] if args and call in UNDER_LEASE else None
        sent = NetworkRequest(self._machine, asked.call, name, execute, lease_id, args=args)
        now = self._network.now
        try:
            result = await self._network.send(sent)
        except StoreFailure as failure:
            if failure.status is None:
                raise ServiceRequestError(str(failure)) from None
            answer = refusal_of(failure, now())
        else:
            answer = answer_of(heard, result, now())
        length = len(answer.body)
        if ranged and answer.status == 200:  # the SDK asks for a range of a blob, of which an empty one has none
            if not length:
                answer = refusal_of(StoreFailure(416, "InvalidRange"), now())
            else:
                answer.status, answer.headers["content-range"] = 206, f"bytes 0-{length - 1}/{length}"
        return SdkResponse(request, answer.status, answer.headers, b"" if request.method == "HEAD" else answer.body)

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Report the closing of the transport."""
        self.closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def open_store(
    network: Network,
    containers: Containers,
    machine: Machine,
    _: LockContainer,
    closed: Callable[[], None] = lambda: None,
) -> LeaseStore:
    """Make a machine's store as the lock thread does, except the transport: all accounts are one."""
    transport = VirtualTransport(network, containers, machine, closed)
    return open_through_sdk(ACCOUNT, _CONTAINER, transport=transport)


def read_request(request: SdkRequest) -> tuple[AskedCall, bool]:
    """Return what an HTTP request of the Blob service asks for, and whether for a range of a blob."""
    url, body = urlsplit(request.url), cast("Any", request.data or request.body or b"")
    if not isinstance(body, bytes):  # the SDK gives a body as bytes, text, or to be read
        body = body.encode() if isinstance(body, str) else bytes(body.read())
    sent = {name: value for name, value in request.headers.items() if name.lower() != "x-ms-range"}
    heard = asked_by(HeardRequest(request.method, url.path, url.query, sent, body))
    return heard, len(sent) < len(request.headers)


class SdkResponse(AsyncHttpResponse):
    """An HTTP answer with its whole body."""

    def __init__(self, request: SdkRequest, status: int, headers: dict[str, str], body: bytes) -> None:
        super().__init__(request, None)
        self.status_code = status
        self.reason = "simulated"
        self.headers = CaseInsensitiveDict(headers)
        self.content_type = headers.get("content-type")
        self._body = body

    def body(self) -> bytes:
        """Return the whole body."""
        return self._body

    async def load_body(self) -> None:
        """Load nothing: the body is there."""

    async def read(self) -> bytes:
        """Return the whole body, as a response does that is read as it comes."""
        return self._body

    def stream_download(self, *_: Any, **__: Any) -> AsyncIterator[bytes]:
        """Return what yields the whole body at once."""
        return _Stream(self, self._body)


class _Stream(AsyncIterator[bytes]):
    """A body as the SDK reads it. The SDK sets attributes on it."""

    def __init__(self, response: SdkResponse, body: bytes) -> None:
        self.response = response
        self.content_length = len(body)
        self._parts = [body]

    async def __anext__(self) -> bytes:
        if not self._parts:
            raise StopAsyncIteration
        return self._parts.pop()
