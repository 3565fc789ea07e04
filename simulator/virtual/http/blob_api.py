"""The Blob service's HTTP: which call of a store a request asks for, and what an answer of the model looks like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote
from xml.sax.saxutils import escape

from singleton.stores.lock_keeping import Page
from singleton.stores.log_store import BEYOND, Tail
from singleton.stores.protocol import BlobState, Content, StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ID: Final = "x-ms-client-request-id"
META: Final = "x-ms-meta-"
CONTAINER: Final = "container"
"""The call that makes a container."""
OF_SERVICE: Final = {"x-ms-request-id": "5f3c0000-simulated", "x-ms-version": "2021-12-02"}
"""Headers that every answer of the service has."""
_CODES: Final = {500: "InternalError", 503: "ServerBusy", 403: "AuthenticationFailed", 401: "InvalidAuthenticationInfo"}
"""What the service says if a fault names only a status. Other answers come from a proxy before it, without a code."""
_SUCCESS: Final = {
    **dict.fromkeys(("acquire", "create", CONTAINER, "note", "put", "start_log", "append"), 201),
    **dict.fromkeys(("break_", "remove", "drop"), 202),
}
_ALL: Final = 2**40
"""Bytes of content, at most: a request names no limit."""
_BEFORE: Final = 10
_SHOWN: Final = 60
"""Characters of a value that differs: before the first difference, and in all."""
_STATUS: Final = {"leased": "locked", "breaking": "locked"}


@dataclass(slots=True)
class HeardRequest:
    """A request as it arrives: path and query are encoded, the names of headers as they were sent."""

    method: str
    path: str
    query: str
    sent: Mapping[str, str]
    body: bytes = b""
    headers: dict[str, str] = field(init=False)
    """By names in lower case."""

    def __post_init__(self) -> None:
        self.headers = {name.lower(): value for name, value in self.sent.items()}

    @property
    def metadata(self) -> dict[str, str]:
        """Return the metadata, with the names as they were sent."""
        return {key[len(META) :]: value for key, value in self.sent.items() if key[: len(META)].lower() == META}

    def need(self, name: str) -> str:
        """Return a header that the request must have."""
        try:
            return self.headers[name]
        except KeyError:
            raise StoreFailure(400, "MissingRequiredHeader", name) from None


class AskedCall(NamedTuple):
    """A call of a store: the name of the blob is empty for a call about the container."""

    call: str
    name: str
    args: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.call} of {self.name or 'the container'}"


def differences(asked: Any, heard: Any, place: str = "") -> Iterator[str]:
    """Say where two calls differ, and from where on their values do."""
    if asked == heard:
        return
    one, other = (each._asdict() if hasattr(each, "_asdict") else each for each in (asked, heard))
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        one, other = dict(enumerate(one)), dict(enumerate(other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in {**one, **other}:
            yield from differences(one.get(key), other.get(key), f"{place}[{key}]" if place else str(key))
        return
    texts = [repr(one), repr(other)]
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False)))
    since = max(0, same - _BEFORE)
    was, now = (f"{'…' if since else ''}{text[since : since + _SHOWN]}" for text in texts)
    yield f"{place} is {now} in place of {was}"


@dataclass(slots=True)
class HttpAnswer:
    """An answer: ``means`` is the result that the store owes its caller, or the failure."""

    status: int
    headers: dict[str, str]
    body: bytes
    means: Any


def read_bytes(data: bytes) -> HeardRequest:
    """Read a whole request. ``StoreFailure``: it is none."""
    head, end, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    words, fields = first.split(" "), [line.partition(": ") for line in lines]
    headers = {name: value for name, _, value in fields}
    if not end or len(words) != 3 or words[2] != "HTTP/1.1" or len(headers) != len(lines) or "Host" not in headers:
        raise StoreFailure(400, "InvalidInput", first[:80])
    if int(headers.get("Content-Length", 0)) != len(body):
        raise StoreFailure(400, "InvalidInput", "a body of another length")
    path, _, query = words[1].partition("?")
    return HeardRequest(words[0], path, query, headers, body)


def asked_by(request: HeardRequest) -> AskedCall:
    """Return the call that a request asks for. ``StoreFailure``: there is none, or a header is missing."""
    query = dict(parse_qsl(request.query))
    call, *args = _asked(request, query)
    name = query.get("prefix", "") if call == "page" else unquote(request.path).lstrip("/").partition("/")[2]
    return AskedCall(call, name, tuple(args))


def _asked(request: HeardRequest, query: dict[str, str]) -> tuple[Any, ...]:
    headers, need, etag = request.headers, request.need, request.headers.get("if-match")
    match request.method, query.get("comp"):
        case "PUT", "lease":
            return _lease_asked(need("x-ms-lease-action"), request)
        case "PUT", "metadata" if "x-ms-lease-id" in headers:
            return "write", headers["x-ms-lease-id"], request.metadata, etag or ""
        case "PUT", "metadata":
            return "label", request.metadata, etag or ""
        case "PUT", "appendblock":
            return "append", request.body
        case "PUT", None if query.get("restype") == CONTAINER:
            return (CONTAINER,)
        case "PUT", None if headers.get("if-none-match") == "*":
            return {"AppendBlob": "start_log", "BlockBlob": "create"}[need("x-ms-blob-type")], request.metadata
        case "PUT", None if "x-ms-lease-id" in headers:
            return "put", headers["x-ms-lease-id"], request.metadata, etag or "", request.body
        case "PUT", None if need("x-ms-blob-type"):
            return "note", request.metadata
        case "GET", "list":
            return "page", query.get("marker"), int(query["maxresults"])
        case "GET", None if "x-ms-range" in headers:
            first, _, last = headers["x-ms-range"].removeprefix("bytes=").partition("-")
            return "tail", int(first), int(last) - int(first) + 1
        case "GET", None:
            return "get", headers.get("x-ms-lease-id"), _ALL
        case "DELETE", None:
            return ("remove",) if etag is None else ("drop", etag)
        case "HEAD", None:
            return ("read",)
    raise StoreFailure(400, "InvalidUri", f"{request.method} {request.path}?{request.query}")


def _lease_asked(action: str, request: HeardRequest) -> tuple[Any, ...]:
    match action:
        case "acquire":
            return "acquire", request.need("x-ms-proposed-lease-id"), int(request.need("x-ms-lease-duration"))
        case "release" if "if-match" in request.headers:
            return "evict", request.need("x-ms-lease-id"), request.headers["if-match"]
        case "renew" | "release":
            return action, request.need("x-ms-lease-id")
        case "break":
            after = request.headers.get("x-ms-lease-break-period")
            return "break_", request.headers.get("if-match"), None if after is None else int(after)
    raise StoreFailure(400, "InvalidHeaderValue", action)


def heard_as(asked: AskedCall) -> AskedCall:
    """Return how the service hears a call: with all arguments; and `noted` is the request of `read`."""
    call, name, args = asked
    match call:
        case "break_":
            return AskedCall("break_", name, (*args, *(None, 0)[len(args) :]))
        case "noted":
            return AskedCall("read", name)
        case "get":
            return AskedCall("get", name, (args[0], _ALL))
    return asked


def same_call(asked: AskedCall, heard: AskedCall) -> bool:
    """Tell whether a call needs the request that the service has heard."""
    if asked.call in ("create", "start_log") and heard == AskedCall(CONTAINER, ""):
        return True
    if asked.call == "tail" and asked.args[0] == 0 and heard == AskedCall("get", asked.name, (None, _ALL)):
        return True
    return heard_as(asked) == heard


@lru_cache(1024)
def http_date(second: int) -> str:
    """Return seconds of the service's clock as a date of HTTP."""
    return formatdate(second, usegmt=True)


def answer_of(asked: AskedCall, result: Any, now: float, *, ranged: bool = False) -> HttpAnswer:
    """Return the answer to a call that the model has carried out, with this result; ``ranged``: to a part of a blob."""
    call, _, args = asked
    if (call == "create" and result is None) or (call == "start_log" and result is False):
        answer = refusal_of(StoreFailure(409, "BlobAlreadyExists"), now)
        answer.means = result
        return answer
    headers = {**OF_SERVICE, "date": http_date(int(now)), "etag": '"0x0"', "last-modified": http_date(0)}
    status, body = success_of(call), b""
    match result:
        case BlobState():
            headers |= _of_blob(result)
            result = dict(result.metadata) if call == "noted" else result
        case Content(blob, body):
            headers |= _of_blob(blob)
            result = Content(blob, body if len(body) <= args[1] else b"", float(int(now)))
        case Page():
            body, result = _listing(result), Page(entries=result.entries, marker=result.marker, at=float(int(now)))
        case Tail(etag, metadata, blocks, _, body):
            headers |= {"etag": etag, "x-ms-blob-type": "AppendBlob", **_as_headers(metadata)}
            headers["x-ms-blob-committed-block-count"] = str(blocks)
            status = success_of("tail" if ranged else "get")
        case str() if call != "renew":
            headers["etag"] = result
        case int():
            headers["x-ms-blob-append-offset" if call == "append" else "x-ms-lease-time"] = str(result)
    if call in ("acquire", "renew"):
        headers["x-ms-lease-id"] = args[0]
    return HttpAnswer(status, headers, body, result)


def success_of(call: str) -> int:
    """Return the status with which the service grants a request."""
    return 206 if call == "tail" else _SUCCESS.get(call, 200)


def _as_headers(metadata: Mapping[str, str]) -> dict[str, str]:
    return {f"{META}{key}": value for key, value in metadata.items()}


def _of_blob(blob: BlobState) -> dict[str, str]:
    endless = {"x-ms-lease-duration": "infinite"} if blob.endless else {}
    return {
        "etag": blob.etag,
        "last-modified": http_date(blob.modified),
        "content-length": str(blob.size),
        "x-ms-blob-type": "BlockBlob",
        "x-ms-lease-state": blob.lease,
        "x-ms-lease-status": _STATUS.get(blob.lease, "unlocked"),
        **endless,
        **_as_headers(blob.metadata),
    }


def _listing(page: Page) -> bytes:
    blobs = ""
    for each in page.entries:
        told = {"Etag": each.etag.strip('"'), "LeaseState": each.lease, "Last-Modified": http_date(each.modified)}
        told |= {"Content-Length": str(each.size), **({"LeaseDuration": "infinite"} if each.endless else {})}
        blobs += f"<Blob><Name>{escape(each.name)}</Name><Properties>{xml(told)}</Properties>"
        blobs += f"<Metadata>{xml(each.metadata)}</Metadata></Blob>"
    marker = escape(page.marker or "")
    text = f"<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker>{marker}</NextMarker></EnumerationResults>"
    return f'<?xml version="1.0" encoding="utf-8"?>{text}'.encode()


def xml(elements: Mapping[str, str]) -> str:
    """Return elements with a text each."""
    return "".join(f"<{name}>{escape(text)}</{name}>" for name, text in elements.items())


def refusal_of(failure: StoreFailure, now: float) -> HttpAnswer:
    """Return an error as the service gives it, with its code in a header and in a body of XML, or a page of a proxy."""
    status = failure.status or 500
    code = failure.code or (None if failure.source == "between" else _CODES.get(status))
    headers = {"date": http_date(int(now))}
    if failure.retry_after is not None:
        headers["retry-after"] = f"{failure.retry_after:g}"
    if code is None:
        headers["content-type"], body = "text/html", b"<html>no such luck</html>"
    else:
        headers |= {**OF_SERVICE, "x-ms-error-code": code, "content-type": "application/xml"}
        said = xml({"Code": code, "Message": failure.detail or code})
        body = f'<?xml version="1.0" encoding="utf-8"?><Error>{said}</Error>'.encode()
    told = StoreFailure(status, code, "", failure.retry_after, float(int(now)), "service" if code else "between")
    return HttpAnswer(status, headers, body, told)


class Containers:
    """A part of the service that the model does not have: a container must exist before its blobs."""

    def __init__(self, execute: Callable[..., Any]) -> None:
        """``execute`` carries out a call of the model: a machine, the call, the blob, the arguments."""
        self._execute = execute
        self._made: set[str] = set()

    def execute(self, machine: Any, container: str, heard: AskedCall, asked: AskedCall | None = None) -> Any:
        """Carry out a request of a machine, as the model does; ``asked``: the call of a store that sends it."""
        if heard.call == CONTAINER:
            if container in self._made:
                raise StoreFailure(409, "ContainerAlreadyExists")
            self._made.add(container)
            return None
        if container not in self._made:
            raise StoreFailure(404, "ContainerNotFound")
        result = self._execute(machine, *(asked if asked is not None and asked.call == "tail" else heard))
        if heard.call == "tail" and not result.body:
            raise StoreFailure(416, BEYOND)
        return result
