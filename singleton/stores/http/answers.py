"""Answers of HTTP/1.1, read as their bytes come.

Bytes that have two readings are ``Nonsense``: they may be halves of two answers, and an answer decides about a lock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    Parser = Generator[None, None, None]

_LINE: Final = 8190
"""Bytes of a line, at most."""
_HEADS: Final = 65_536
"""Bytes of an answer's head together with interim answers before the head, at most; and of the trailers."""
_BEGIN: Final = b"HTTP/1."
_FIELD: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++:[\t\x20-\x7e\x80-\xff]*+\r\n"
_HEAD: Final = re.compile(
    rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*+)?\r\n((?:" + _FIELD + rb")*+)\r\n"
)
_TRAILER: Final = re.compile(_FIELD)
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,12})(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n")
_LENGTH: Final = re.compile(r"[0-9]{1,15}")
_CHUNKED: Final = re.compile("chunked", re.ASCII | re.IGNORECASE)
"""Not by ``lower()``, which makes a ``k`` of the sign for kelvin."""
_ONCE: Final = frozenset({"date", "etag", "last-modified"})
"""Headers that an answer has at most once, like all headers whose names begin with ``x-ms-``."""
_CHUNKS: Final = -1
_TO_THE_END: Final = -2
"""In place of a length: the body comes in chunks, or ends with the connection."""


class Nonsense(Exception):
    """The bytes are no answer of HTTP/1.1."""


class Answer(NamedTuple):
    """An answer; where the body is longer than was asked for, with the beginning of the body only."""

    status: int
    headers: Headers
    body: bytes


class Headers(Mapping[str, str]):
    """Headers by name, in any case. Iteration gives the names as the server wrote them."""

    __slots__ = ("_names", "lowered")

    def __init__(self, text: str) -> None:
        """Read lines of ``name: value``, with their ends. ``Nonsense``: a header of ``_ONCE`` is there twice."""
        self._names: dict[str, str] = {}
        self.lowered: dict[str, str] = {}
        for line in text.split("\r\n")[:-1]:
            name, _, value = line.partition(":")
            key, value = name.lower(), value.strip(" \t")
            if key in self.lowered:
                if key in _ONCE or key.startswith("x-ms-"):
                    raise Nonsense(f"two headers {name}")
                value = f"{self.lowered[key]}, {value}"
            self._names.setdefault(key, name)
            self.lowered[key] = value

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of this header. ``Mapping.get`` would raise and catch an error for each missing header."""
        return self.lowered.get(name.lower(), default)

    def __getitem__(self, name: str) -> str:
        return self.lowered[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names.values())

    def __len__(self) -> int:
        return len(self._names)


class Reader:
    """Reads the answer to one request.

    ``lasts``: whether the answer lets its connection be used again; known when the answer is read.
    """

    __slots__ = ("_body", "_bytes", "_head_only", "_headers", "_most", "_reading", "_status", "_to_end", "lasts")

    _headers: Headers

    def __init__(self, method: str, most: int) -> None:
        """``most``: bytes of the body after which reading stops."""
        self.lasts = False
        self._head_only = method in (
            "HEAD",
            "CONNECT",
        )  # after a granted CONNECT comes no HTTP; a refusal's body is not read
        self._most = most
        self._bytes = bytearray()  # received, and not read yet
        self._body = bytearray()
        self._status = 0
        self._to_end = False  # of the connection
        self._reading = self._read()

    def answer(self) -> Answer:
        """Return the answer, after it was read to the end."""
        return Answer(self._status, self._headers, bytes(self._body))

    def feed(self, data: bytes) -> bool:
        """Read on with these bytes; tell whether the answer is complete. ``Nonsense``: the bytes are no answer."""
        self._bytes += data
        for _ in self._reading:
            return False
        return True

    def end(self) -> bool:
        """Tell whether the answer is complete if the connection ends now."""
        return self._to_end

    def _read(self) -> Parser:
        room = _HEADS
        while True:
            head = yield from self._up_to(b"\r\n\r\n", room, _BEGIN)
            room -= len(head)
            if (found := _HEAD.fullmatch(head)) is None:
                raise Nonsense("no head of an HTTP answer")
            if len(head) > _LINE and max(map(len, head.split(b"\r\n"))) > _LINE:
                raise Nonsense("too long a line")
            if (status := int(found[2])) >= 200:
                break
            if status == 101:
                raise Nonsense("another protocol")
        lasts, length = self._understood(found)
        if length == _CHUNKS:
            lasts = (yield from self._chunks()) and lasts
        elif length == _TO_THE_END:
            self._to_end = True
            while (yield from self._take(_LINE)):
                pass
        elif length:
            lasts = (yield from self._take(length)) and lasts
        self.lasts = lasts and not self._bytes  # bytes after the answer belong to no request

    def _understood(self, found: re.Match[bytes]) -> tuple[bool, int]:
        """Understand a head: does its connection last, and how long is the body?"""
        self._status = status = int(found[2])
        self._headers = Headers(found[3].decode("utf-8", "surrogateescape"))
        headers = self._headers.lowered
        words = [*map(str.strip, headers.get("connection", "").lower().split(","))]
        lasts = "close" not in words and (found[1] == b"1" or "keep-alive" in words)
        length, coding = headers.get("content-length"), headers.get("transfer-encoding")
        if length is not None and not _LENGTH.fullmatch(length):
            raise Nonsense("a length that is none")
        if coding is not None and (length is not None or not _CHUNKED.fullmatch(coding) or found[1] == b"0"):
            raise Nonsense("a body of doubtful length")
        if self._head_only:
            return lasts, 0
        if status in (204, 304):
            if coding is not None or int(length or 0):
                raise Nonsense("a body where none can be")
            return lasts, 0
        if coding is not None:
            return lasts, _CHUNKS
        if length is not None:
            return lasts, int(length)
        if status < 300:
            raise Nonsense("a body whose end can't be told")  # half of it would be taken for the whole
        return False, _TO_THE_END

    def _up_to(self, mark: bytes, room: int, begin: bytes = b"") -> Generator[None, None, bytes]:
        """Take the bytes up to the end of a mark, which must come within ``room`` bytes."""
        got, searched = self._bytes, 0
        while (found := got.find(mark, searched)) < 0:
            if len(got) >= room or not begin.startswith(got[: len(begin)]):
                raise Nonsense("no HTTP answer" if begin else "a line without an end")
            searched = max(0, len(got) - len(mark) + 1)
            yield
        end = found + len(mark)
        if end > room:
            raise Nonsense("too long a line")
        taken = bytes(got[:end])
        del got[:end]
        return taken

    def _take(self, count: int) -> Generator[None, None, bool]:
        """Take ``count`` bytes of the body; False: the body became too long, and is not read on."""
        while True:
            part = self._bytes[:count]
            del self._bytes[:count]
            self._body += part
            count -= len(part)
            if not count:
                return True
            if len(self._body) > self._most:
                return False
            yield

    def _chunks(self) -> Generator[None, None, bool]:
        """Take a body of chunks, and the trailers; False: the body became too long, and is not read on."""
        while True:
            line = yield from self._up_to(b"\r\n", _LINE)
            if (found := _CHUNK.fullmatch(line)) is None:
                raise Nonsense("no chunk")
            if not (size := int(found[1], 16)):
                break
            if not (yield from self._take(size)) or len(self._body) > self._most:
                return False
            yield from self._up_to(b"\r\n", 2)
        room = _HEADS
        while (line := (yield from self._up_to(b"\r\n", _LINE))) != b"\r\n":
            room -= len(line)
            if room < 0 or not _TRAILER.fullmatch(line):
                raise Nonsense("no trailer")
        return True
