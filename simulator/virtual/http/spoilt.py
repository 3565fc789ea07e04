"""Answers as bytes: written in the many ways that HTTP allows, and spoilt on their way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simulator.virtual.http.blob_api import ID

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping

    from simulator.virtual.http.blob_api import HttpAnswer

PAGES: Final = (200, 200, 204, 302, 404, 409, 502)
"""Statuses of a proxy's page."""
_LONG: Final = 40_000
_PLAUSIBLE: Final = {
    "etag": '"0x0"',
    "last-modified": "Thu, 01 Jan 1970 00:00:00 GMT",
    "x-ms-request-id": "5f3c0000-simulated",
    "x-ms-version": "2021-12-02",
    "x-ms-lease-state": "available",
    "x-ms-blob-append-offset": "0",
    "x-ms-lease-time": "0",
}
"""Headers with which an answer of any kind would be believed."""
_DOUBTFUL: Final = (
    b"HTTP/1.1 %d OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n%b\r\n",
    b"HTTP/1.1 %d OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n%b\r\n0\r\n\r\n",
    b'HTTP/1.1 %d OK\r\nContent-Length: 0\r\nETag: "0x0"\r\n%b\r\n',
    b"HTTP/1.1  %d OK\r\nContent-Length: 0\r\n%b\r\n",
    b"\r\nHTTP/1.1 %d OK\r\nContent-Length: 0\r\n%b\r\n",
)


def spoilt(how: str, status: int, named: Mapping[str, str], rng: random.Random, method: str) -> bytes:
    """Return the bytes that come in place of an answer of this status; ``named``: its request's id, and lease."""
    if how == "page":
        return _page(rng, method)
    told = {**_PLAUSIBLE, **named}
    if how == "another":
        told[ID] = "another"
    head = "".join(f"{name}: {value}\r\n" for name, value in told.items()).encode()
    if how == "doubtful":
        return rng.choice(_DOUBTFUL) % (status, head)
    length = 0 if method == "HEAD" else rng.choice((0, 0, 7))
    whole = b"HTTP/1.1 %d OK\r\n%bContent-Length: %d\r\n\r\n" % (status, head, length) + length * b" "
    return whole if how == "another" else whole[: rng.randrange(len(whole))]


def _page(rng: random.Random, method: str) -> bytes:
    status = rng.choice(PAGES)
    length = 0 if status == 204 else rng.choice((0, 25, 25, _LONG))
    head = f"HTTP/1.1 {status} Proxied\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n"
    return head.encode() + (b"" if method == "HEAD" else length * b"<")


def written(answer: HttpAnswer, named: Mapping[str, str], rng: random.Random, *, head_only: bool) -> bytes:
    """Return the bytes of an answer: the body with its length or in chunks, after an interim answer or none."""
    headers = {**answer.headers, **named}
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" if rng.random() < 0.03 else b""
    body = answer.body
    if body and "content-length" not in headers and not head_only and rng.random() < 0.5:
        headers["Transfer-Encoding"] = "chunked"
        body = b"".join(_chunks(body, rng))
    else:
        headers.setdefault("content-length", str(len(body)))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {answer.status} Simulated\r\n{lines}\r\n".encode("utf-8", "surrogateescape")
    return interim + head + (b"" if head_only or answer.status == 204 else body)


def _chunks(body: bytes, rng: random.Random) -> Iterator[bytes]:
    while body:
        part = body[: rng.randint(1, len(body))]
        body = body[len(part) :]
        yield b"%x%b\r\n%b\r\n" % (len(part), rng.choice((b"", b";of=us")), part)
    yield rng.choice((b"0\r\n\r\n", b"0\r\nx-trailer: 1\r\n\r\n"))


def pieces(data: bytes, rng: random.Random) -> list[bytes]:
    """Cut bytes into pieces, as a network does: mostly one."""
    cuts = sorted(rng.randrange(1, len(data)) for _ in range(rng.choice((0, 0, 0, 1, 2, 5)))) if len(data) > 1 else []
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if start < end]
