"""HTTP/1.1 messages, read completely and kept as their original bytes."""

from __future__ import annotations

from asyncio import IncompleteReadError
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import StreamReader
    from collections.abc import Mapping

LIMIT = 2**20
"""Bytes that a head or a line may have."""
END_OF_HEAD = b"\r\n\r\n"
WITHOUT_BODY = {204, 304}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpMessage:
    """A request or a response, head and body."""

    first: tuple[str, str, str]
    """The three parts of its first line."""
    headers: Mapping[str, str]
    """By lower-case name."""
    raw: bytes
    """Everything, as it came."""

    @property
    def status(self) -> int:
        """The status of a response."""
        return int(self.first[1])


async def read_request(reader: StreamReader) -> HttpMessage | None:
    """Read one request; None at the end of the connection."""
    try:
        head = await reader.readuntil(END_OF_HEAD)
    except IncompleteReadError:
        return None
    message = _parse(head)
    return replace(message, raw=message.raw + (await _framed(reader, message) or b""))


async def read_response(reader: StreamReader, *, method: str) -> HttpMessage:
    """Read the final response to a request of this method; interim ones (1xx) are skipped.

    Raises:
        EOFError: the connection ended before the response did.
    """
    while True:
        message = _parse(await reader.readuntil(END_OF_HEAD))
        if message.status >= 200:
            break
    if method == "HEAD" or message.status in WITHOUT_BODY:
        return message
    body = await _framed(reader, message)
    return replace(message, raw=message.raw + (await reader.read(-1) if body is None else body))


def response(status: int, headers: Mapping[str, str], body: bytes = b"", *, method: str = "GET") -> HttpMessage:
    """Make a response; for HEAD it has no body."""
    lines = [f"HTTP/1.1 {status} Fault", *(f"{name}: {value}" for name, value in headers.items())]
    lines.append(f"content-length: {len(body)}")
    head = "\r\n".join(lines).encode("latin-1") + END_OF_HEAD
    return HttpMessage(
        first=("HTTP/1.1", str(status), "Fault"),
        headers={name.lower(): value for name, value in headers.items()},
        raw=head if method == "HEAD" else head + body,
    )


def _parse(head: bytes) -> HttpMessage:
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    one, _, rest = first.partition(" ")
    two, _, three = rest.partition(" ")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return HttpMessage(first=(one, two, three), headers=headers, raw=head)


async def _framed(reader: StreamReader, message: HttpMessage) -> bytes | None:
    """Read a body whose end the head gives; None if only the end of the connection gives it."""
    if "chunked" in message.headers.get("transfer-encoding", "").lower():
        return await _chunks(reader)
    length = message.headers.get("content-length")
    return None if length is None else await reader.readexactly(int(length))


async def _chunks(reader: StreamReader) -> bytes:
    raw = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        raw += line
        if size == 0:
            break
        raw += await reader.readexactly(size + 2)
    while True:
        trailer = await reader.readuntil(b"\r\n")
        raw += trailer
        if trailer == b"\r\n":
            return raw
