"""Queues on the virtual wire: the shipped store for queues, and the Azure SDK below it, in front of the queue service.

The product speaks to queues through azure-storage-queue only, and the Functions host does the same here. So HTTP begins
below the SDK: requests are read from their method, URL, headers and XML, and answers are XML and headers in whole
seconds, or a proxy's page. Each call of a store is compared with what the service has heard and answered. Findings: see
``virtual_wire``.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache, partial, wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from azure.core.exceptions import ServiceRequestError
from azure.core.pipeline.transport import AsyncHttpResponse, AsyncHttpTransport

from simulator.host.triggers.queue import AzureQueue, QueueMessage
from simulator.virtual.hosts.queue_service import VirtualQueue
from simulator.virtual.http.blob_api import OF_SERVICE, HeardRequest, differences, http_date, refusal_of, xml
from simulator.virtual.http.spoilt import PAGES
from simulator.virtual.http.virtual_wire import plain
from simulator.virtual.storage.network import Spoilt
from simulator.virtual.worlds.sdk import ACCOUNT, SdkResponse
from singleton.runtime.accounts.stores import open_queue
from singleton.stores.message_store import Hidden, Sent, Taken
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from azure.core.pipeline.transport import HeardRequest as SdkRequest

    from simulator.virtual.hosts.queue_service import Queues
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.stores.azure_queue import AzureMessageStore

_XML: Final = {"content-type": "application/xml"}
_PAGE: Final = b"<html>no such luck</html>"
_SENT: Final[ContextVar[list[_QueueExchange] | None]] = ContextVar("simulated_queue_requests", default=None)
"""The requests of the running call of a store."""


class _QueueCall(NamedTuple):
    """A call of a store: of which queue, which call, with which arguments."""

    queue: str
    call: str
    args: Mapping[str, object]

    def __str__(self) -> str:
        return f"{self.call} of {self.queue} {dict(self.args)}"


@dataclass(slots=True)
class _QueueExchange:
    """A request as the service hears it, and what its answer means; not ``answered``: by the service."""

    heard: _QueueCall | None = None
    means: object = None
    answered: bool = False


class QueueWire:
    """The service's end of the queues of a world."""

    def __init__(self, world: World, queues: Queues) -> None:
        assert world.wire is not None
        self.network = world.network
        self.blame = world.oracle.blame
        self.rng = world.wire.rng
        self.queues = queues
        self.of_host = cache(self.open)
        """Returns the queue of a host, which is asked for it before each request."""

    def open(self, machine: Machine, name: str, closed: Callable[[], None] = lambda: None) -> WatchedQueue:
        """Open a machine's queue: all accounts are one."""
        shipped = open_queue(ACCOUNT, name, transport=_Transport(self, machine, closed))
        return WatchedQueue(self, machine, name, shipped)

    def compare(self, who: str, asked: _QueueCall, exchanges: list[_QueueExchange], told: object) -> None:
        """Compare what a store was asked for, what the service heard and answered, and what the store tells."""
        if len(exchanges) > 1:
            self.blame("request sent twice", f"{who} sends {asked} again, unasked")
        last = exchanges[-1] if exchanges else _QueueExchange()
        if last.heard is not None and last.heard != asked:
            what = ", ".join(differences(asked, last.heard))
            asks = f"{who} asks for {asked.call} of {asked.queue}"
            self.blame("another request", f"{asks}, and the service hears another: {what}"[:400])
            return
        if last.answered:
            right = _comparable(told) == _comparable(last.means)
        else:
            right = isinstance(told, StoreFailure) and told.source != "service" and told.code is None
        if not right:
            answer = plain(last.means) if last.answered else "no answer of the service"
            self.blame("another answer", f"the store of {who} makes {plain(told)} of {answer} to {asked}"[:400])


class _Transport(AsyncHttpTransport[Any, Any]):
    """The SDK's way to the queues of a virtual world, for one store of a machine."""

    def __init__(self, wire: QueueWire, machine: Machine, closed: Callable[[], None]) -> None:
        self._wire = wire
        self._closed = closed
        self._queue = partial(VirtualQueue, wire.network, wire.queues, machine)

    async def send(self, request: SdkRequest, **_: Any) -> AsyncHttpResponse:
        """Send one HTTP request, and return the answer.

        Raises:
            ServiceRequestError: no answer came that HTTP allows; whether the request was carried out is not known.
        """
        exchange = _QueueExchange()
        sent = _SENT.get()
        assert sent is not None
        sent.append(exchange)
        url = urlsplit(request.url)
        try:
            heard = HeardRequest(request.method, url.path, url.query, request.headers, request.data or b"")
            name, call, args = exchange.heard = asked_by(heard)
            status, headers, text, means = _answer_of(call, await getattr(self._queue(name), call)(**args))
            headers = {**OF_SERVICE, "date": http_date(int(self._wire.network.now())), **headers}
        except Exception as error:  # noqa: BLE001 - whatever a fault lets a store raise comes from its connection here
            if isinstance(error, Spoilt) and error.how == "page":
                status, headers, text = self._wire.rng.choice(PAGES), {"content-type": "text/html"}, _PAGE
                return SdkResponse(request, status, headers, b"" if status == 204 else text)
            if not isinstance(error, StoreFailure) or error.status is None:
                raise ServiceRequestError(str(error)) from None
            refused = refusal_of(error, self._wire.network.now() if error.at is None else error.at)
            status, headers, text, means = refused.status, refused.headers, refused.body, refused.means
        exchange.means, exchange.answered = means, True
        return SdkResponse(request, status, headers, text)

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Report the closing of the transport."""
        self._closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _comparable(told: object) -> object:
    """Return what can be compared; of received messages what the product takes of them."""
    if not isinstance(told, list):
        return plain(told)
    return [
        (
            each.id,
            each.text,
            *((each.receipt, each.dequeued) if isinstance(each, Taken) else (each.pop_receipt, each.dequeue_count)),
        )
        for each in told
    ]


def asked_by(request: HeardRequest) -> _QueueCall:
    """Return the call that a request asks for. ``StoreFailure``: there is none, or something is missing."""
    query = dict(parse_qsl(request.query))
    queue, *rest = [unquote(part) for part in request.path.split("/")[1:]]
    if int(request.headers.get("content-length", 0)) != len(request.body):
        raise StoreFailure(400, "InvalidInput", "a body of another length")
    try:
        match request.method, rest:
            case "PUT", []:
                return _QueueCall(queue, "create", {})
            case "GET", [] if query.get("comp") == "metadata":
                return _QueueCall(queue, "now", {})
            case "GET", ["messages"]:
                count, seconds = int(query["numofmessages"]), int(query["visibilitytimeout"])
                return _QueueCall(queue, "receive", {"count": count, "seconds": seconds})
            case "POST", ["messages"]:
                life, delay = int(query["messagettl"]), int(query["visibilitytimeout"])
                text = ET.fromstring(request.body).findtext("MessageText") or ""  # noqa: S314 - as in the product
                return _QueueCall(queue, "send", {"text": text, "delay": delay, "life": None if life == -1 else life})
            case "PUT", ["messages", id]:
                seconds = int(query["visibilitytimeout"])
                return _QueueCall(queue, "hide", {"id": id, "receipt": query["popreceipt"], "seconds": seconds})
            case "DELETE", ["messages", id]:
                return _QueueCall(queue, "delete", {"id": id, "receipt": query["popreceipt"]})
    except KeyError as error:
        raise StoreFailure(400, "MissingRequiredQueryParameter", str(error)) from None
    except ET.ParseError as error:
        raise StoreFailure(400, "InvalidXmlDocument", str(error)) from None
    raise StoreFailure(400, "InvalidUri", f"{request.method} {request.path}?{request.query}")


def _answer_of(call: str, result: Any) -> tuple[int, dict[str, str], bytes, object]:
    """Return status, headers and body of an answer, and the result that the store owes its caller: in whole seconds."""
    match result:
        case Hidden(receipt, until):
            headers = {"x-ms-popreceipt": receipt, "x-ms-time-next-visible": http_date(int(until))}
            return 204, headers, b"", Hidden(receipt, float(int(until)))
        case Sent(id, receipt, inserted):
            told = {"MessageId": id, "PopReceipt": receipt, "InsertionTime": http_date(int(inserted))}
            return 201, _XML, _listing([told]), Sent(id, receipt, float(int(inserted)))
        case list():
            means = [replace(each, **{key: _whole(getattr(each, key)) for key in _DATES}) for each in result]
            return 200, _XML, _listing([_told(each) for each in means]), means
        case float():
            headers = {"date": http_date(int(result)), "x-ms-approximate-messages-count": "0"}
            return 200, headers, b"", float(int(result))
    return 204 if call == "delete" else 201, {}, b"", None


_DATES: Final = {"inserted": "InsertionTime", "expires": "ExpirationTime", "next_visible": "TimeNextVisible"}


def _whole(date: datetime) -> datetime:
    return date.replace(microsecond=0)


def _told(message: QueueMessage) -> dict[str, str]:
    dates = {name: http_date(int(getattr(message, key).timestamp())) for key, name in _DATES.items()}
    receipt, count = message.pop_receipt, str(message.dequeue_count)
    return {"MessageId": message.id, "PopReceipt": receipt, "DequeueCount": count, **dates, "MessageText": message.text}


def _listing(messages: list[dict[str, str]]) -> bytes:
    inner = "".join(f"<QueueMessage>{xml(each)}</QueueMessage>" for each in messages).replace("\r", "&#13;")
    return f'<?xml version="1.0" encoding="utf-8"?><QueueMessagesList>{inner}</QueueMessagesList>'.encode()


class WatchedQueue(AzureQueue):
    """A shipped store for queues, as locks and hosts use it, whose requests and answers are compared."""

    def __init__(self, watch: QueueWire, machine: Machine, name: str, shipped: AzureMessageStore) -> None:
        super().__init__(shipped._client, close_with=shipped._close_with[1:], judged=shipped._judged)  # noqa: SLF001
        self.watch = watch
        self.whose = str(machine)
        self.name = name


def _watched(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method of a store, with its requests and its answer compared."""
    parameters = signature(method)

    @wraps(method)
    async def ask(store: WatchedQueue, *args: Any, **more: Any) -> Any:
        _, *named = parameters.bind(store, *args, **more).arguments.items()
        asked = _QueueCall(store.name, method.__name__, dict(named))
        if method.__name__ == "take":
            asked = _QueueCall(store.name, "receive", {"count": named[0][1], "seconds": named[1][1]})
        exchanges: list[_QueueExchange] = []
        before = _SENT.get()
        _SENT.set(exchanges)
        try:
            told = await method(store, *args, **more)
        except Exception as error:
            store.watch.compare(store.whose, asked, exchanges, error)
            raise
        finally:
            _SENT.set(before)  # by no token: who closes a coroutine may do so in another context
        store.watch.compare(store.whose, asked, exchanges, told)
        return told

    return ask


for _name in ("create", "now", "hide", "send", "delete", "take", "receive"):
    setattr(WatchedQueue, _name, _watched(getattr(AzureQueue, _name)))
