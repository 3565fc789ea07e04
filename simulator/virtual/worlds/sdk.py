"""The real Azure SDK in virtual worlds: a transport that answers its HTTP requests from the simulated service.

``singleton/stores/azure_blob.py`` and azure-storage-blob run as shipped: pipeline, signing, (de)serialisation, error
mapping. There are no sockets. Each request is parsed, travels over the network of the world under all its faults, and
comes back as the service's HTTP: status, headers, ``x-ms-error-code``, an XML body for errors. Containers exist here,
too: the first request of a world finds none.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from email.utils import formatdate
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from azure.core.exceptions import ServiceRequestError
from azure.core.pipeline.transport import AsyncHttpResponse, AsyncHttpTransport
from azure.core.utils import CaseInsensitiveDict

from simulator.virtual.storage.network import NetworkRequest
from singleton.base.state import MOST_STATE
from singleton.runtime.accounts.stores import open_through_sdk
from singleton.settings.connection import StorageAccount
from singleton.stores.protocol import BlobState, Content, StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from azure.core.pipeline.transport import HttpRequest

    from simulator.virtual.storage.network import Network
    from simulator.virtual.storage.service import Service
    from simulator.virtual.time.machine import Machine
    from singleton.settings.accounts import LockContainer
    from singleton.stores.protocol import LeaseStore

_CONTAINER: Final = "webjobshost"
_ACCOUNT: Final = StorageAccount(
    connection_string="DefaultEndpointsProtocol=https;AccountName=explored;AccountKey=c2ltdWxhdGVk;EndpointSuffix=localhost"
)
_META: Final = "x-ms-meta-"
_CODES: Final = {500: "InternalError", 503: "ServerBusy", 403: "AuthenticationFailed"}
"""What the service says if a fault names only a status. Other answers come from a proxy before it, without a code."""
_SUCCESS: Final = {
    "acquire": 201,
    "create": 201,
    "container": 201,
    "note": 201,
    "put": 201,
    "break_": 202,
    "remove": 202,
}
_STATUS: Final = {"leased": "locked", "breaking": "locked"}


class Containers:
    """A part of the service that the model does not have: a container must exist before its blobs."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._made = False

    def execute(self, machine: Machine, call: str, name: str, args: tuple[Any, ...]) -> Any:
        """Carry out a request as ``Service.execute`` does."""
        if call == "container":
            if self._made:
                raise StoreFailure(409, "ContainerAlreadyExists")
            self._made = True
            return None
        if not self._made:
            raise StoreFailure(404, "ContainerNotFound")
        if call == "create" and name in self._service.names():
            raise StoreFailure(409, "BlobAlreadyExists")
        return self._service.execute(machine, call, name, args)


class VirtualTransport(AsyncHttpTransport[Any, Any]):
    """The SDK's way to the network of a virtual world, for the clients of one machine."""

    def __init__(
        self, network: Network, containers: Containers, machine: Machine, closed: Callable[[], None] = lambda: None
    ) -> None:
        self.closed = closed
        self._network = network
        self._containers = containers
        self._machine = machine

    async def send(self, request: HttpRequest, **_: Any) -> AsyncHttpResponse:
        """Send one HTTP request, and return the answer.

        Raises:
            ServiceRequestError: the connection was reset; whether the request was carried out is not known.
        """
        call, name, args = read_request(request)
        execute = partial(self._containers.execute, self._machine, call, name, args)
        lease_id = args[0] if args and call not in ("break_", "create", "note") else None
        asked = "create" if call == "container" else call
        try:
            answer = await self._network.send(NetworkRequest(self._machine, asked, name, execute, lease_id, args=args))
        except StoreFailure as failure:
            if failure.status is None:
                raise ServiceRequestError(str(failure)) from None
            return _refusal(request, failure)
        if isinstance(answer, Content):
            return _content(request, answer)
        return _Response(request, _SUCCESS.get(call, 200), _headers(call, args, answer), b"")

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
    return open_through_sdk(_ACCOUNT, _CONTAINER, transport=transport)


def read_request(request: HttpRequest) -> tuple[str, str, tuple[Any, ...]]:
    """Return what an HTTP request of the Blob service asks: the call of a ``LeaseStore``, the blob, the arguments."""
    url = urlsplit(request.url)
    _, _, name = unquote(url.path).lstrip("/").partition("/")
    query = {key: values[0] for key, values in parse_qs(url.query).items()}
    headers = {key.lower(): value for key, value in request.headers.items()}
    match request.method, query.get("comp"), headers.get("x-ms-lease-action"):
        case "PUT", "lease", "acquire":
            return "acquire", name, (headers["x-ms-proposed-lease-id"], int(headers["x-ms-lease-duration"]))
        case "PUT", "lease", "renew" | "release" as action:
            return action, name, (headers["x-ms-lease-id"],)
        case "PUT", "lease", "break":
            return "break_", name, (headers.get("if-match"), int(headers["x-ms-lease-break-period"]))
        case "PUT", "metadata", None:
            return "write", name, (headers.get("x-ms-lease-id", ""), _metadata(request), headers.get("if-match", ""))
        case "PUT", None, None if query.get("restype") == "container":
            return "container", name, ()
        case "PUT", None, None if headers.get("if-none-match") == "*":
            return "create", name, (_metadata(request),)
        case "PUT", None, None if "x-ms-lease-id" in headers:
            body = _body(request)
            return "put", name, (headers["x-ms-lease-id"], _metadata(request), headers.get("if-match", ""), body)
        case "PUT", None, None:
            return "note", name, (_metadata(request),)
        case "GET", None, None:
            return "get", name, (headers.get("x-ms-lease-id"), MOST_STATE)
        case "DELETE", None, None:
            return "remove", name, ()
        case "HEAD", None, None:
            return "read", name, ()
        case _:
            # A request that no lock made so far. A world must stop here, as its model has no answer to it.
            raise NotImplementedError(f"{request.method} {request.url}")


def _body(request: HttpRequest) -> bytes:
    """Return the content of a request, which the SDK gives as bytes or as something to read them from."""
    content: Any = request.data or request.body or b""
    return content if isinstance(content, bytes) else bytes(content.read())


def _metadata(request: HttpRequest) -> dict[str, str]:
    return {key[len(_META) :]: value for key, value in request.headers.items() if key.startswith(_META)}


def _headers(call: str, args: tuple[Any, ...], answer: Any) -> dict[str, str]:
    if not isinstance(answer, BlobState):
        lease_id = {"acquire": args[0], "renew": answer}.get(call) if args else None
        etag = answer if call in ("acquire", "write", "put") else '"0x0"'
        headers = {"etag": etag, "last-modified": formatdate(0, usegmt=True)}
        return headers if lease_id is None else {**headers, "x-ms-lease-id": lease_id}
    return {
        "etag": answer.etag,
        "last-modified": formatdate(answer.modified, usegmt=True),
        "content-length": str(answer.size),
        "x-ms-blob-type": "BlockBlob",
        "x-ms-lease-state": answer.lease,
        "x-ms-lease-status": _STATUS.get(answer.lease, "unlocked"),
        **{f"{_META}{key}": value for key, value in answer.metadata.items()},
    }


def _content(request: HttpRequest, content: Content) -> AsyncHttpResponse:
    """Answer with what is kept in a blob. The SDK asks for a range of it, of which an empty one has none."""
    length = len(content.body)
    headers = {**_headers("get", (), content.blob), "date": formatdate(content.at, usegmt=True)}
    if "x-ms-range" not in request.headers:
        return _Response(request, 200, headers, content.body)
    if not length:
        return _refusal(request, StoreFailure(416, "InvalidRange"))
    headers["content-range"] = f"bytes 0-{length - 1}/{length}"
    return _Response(request, 206, headers, content.body)


def _refusal(request: HttpRequest, failure: StoreFailure) -> AsyncHttpResponse:
    """Answer with an error as the service does: code in a header and, but for HEAD, in an XML body."""
    status = failure.status or 500
    code = failure.code or _CODES.get(status)
    headers = {} if failure.retry_after is None else {"retry-after": f"{failure.retry_after:g}"}
    if failure.at is not None:
        headers["date"] = formatdate(failure.at, usegmt=True)
    if code is None:
        return _Response(request, status, {**headers, "content-type": "text/html"}, b"<html>no such luck</html>")
    said = f"<Error><Code>{code}</Code><Message>{escape(failure.detail or code)}</Message></Error>"
    body = b"" if request.method == "HEAD" else f'<?xml version="1.0" encoding="utf-8"?>{said}'.encode()
    return _Response(request, status, {**headers, "x-ms-error-code": code, "content-type": "application/xml"}, body)


class _Response(AsyncHttpResponse):
    """An HTTP answer with its whole body."""

    def __init__(self, request: HttpRequest, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(request, None)
        self.status_code = status
        self.reason = "simulated"
        self.headers = CaseInsensitiveDict(headers)
        self.content_type = headers.get("content-type")
        self._body = body

    def body(self) -> bytes:
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

    def __init__(self, response: _Response, body: bytes) -> None:
        self.response = response
        self.content_length = len(body)
        self._parts = [body]

    async def __anext__(self) -> bytes:
        if not self._parts:
            raise StopAsyncIteration
        return self._parts.pop()
