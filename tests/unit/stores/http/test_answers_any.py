"""However an answer comes in pieces it is the same; and what the standard library does not take for it is none."""

from __future__ import annotations

import http.client
import io
from typing import Any, NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from singleton.stores.http.answers import Answer, Nonsense, Reader

MOST = 10_000


class Sent(NamedTuple):
    """What a server sends before it closes its connection, to whom, and the body that it means."""

    method: str
    data: bytes
    body: bytes


def read(data: bytes, method: str, cuts: list[int] | None = None) -> tuple[Answer, bool] | None:
    """Return the answer and whether its connection lasts, or None: the connection was closed before its end.

    ``cuts``: where the data are cut in pieces.
    """
    reader = Reader(method, MOST)
    ends = [*sorted(min(cut, len(data)) for cut in cuts or []), len(data)]
    begin = 0
    for end in ends:
        if reader.feed(data[begin:end]):
            return reader.answer(), reader.lasts and end == len(data)
        begin = end
    return (reader.answer(), False) if reader.end() else None


def told(data: bytes, method: str, cuts: list[int] | None = None) -> tuple[Any, ...] | str | None:
    try:
        got = read(data, method, cuts)
    except Nonsense:
        return "nonsense"
    return got and (got[0].status, dict(got[0].headers), got[0].body, got[1])


class Said:
    """In the place of a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._data)


def oracle(data: bytes, method: str) -> tuple[int, bytes] | None:
    """Return what the standard library reads."""
    socket: Any = Said(data)
    response = http.client.HTTPResponse(socket, method=method)
    try:
        response.begin()
        return response.status, response.read()
    except (http.client.HTTPException, ValueError):
        return None


TOKENS = st.text("abcXYZ-_!09", min_size=1, max_size=8)
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_categories=["Cc"]), max_size=12)
FIELDS = st.lists(st.tuples(TOKENS, VALUES), max_size=4)


@st.composite
def sent(draw: st.DrawFn) -> Sent:
    method = draw(st.sampled_from(["GET", "PUT", "HEAD"]))
    status = draw(st.sampled_from([200, 201, 404, 412, 500]))
    body = draw(st.binary(max_size=40))
    fields = [(name, value) for name, value in draw(FIELDS) if name.lower() != "connection"]
    fields += draw(st.sampled_from([[], [("Connection", "close")], [("connection", "Keep-Alive")]]))
    match draw(st.sampled_from(["length", "chunks", "end"])):
        case "length":
            fields.append((draw(st.sampled_from(["Content-Length", "content-length"])), str(len(body))))
            coded = body
        case "chunks":
            fields.append(("Transfer-Encoding", "chunked"))
            coded = draw(chunks(body))
        case _:
            status = draw(st.sampled_from([404, 412, 500]))
            coded = body
    if method == "HEAD":
        body = coded = b""
    interim = b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\n" * draw(st.integers(0, 2))
    head = f"HTTP/1.{draw(st.sampled_from('111'))} {status} X\r\n".encode()
    lines = b"".join(f"{name}: {value}\r\n".encode("latin-1") for name, value in fields)
    return Sent(method, interim + head + lines + b"\r\n" + coded, body)


@st.composite
def chunks(draw: st.DrawFn, body: bytes) -> bytes:
    parts, rest = [], body
    while rest:
        size = draw(st.integers(1, len(rest)))
        parts.append(b"%x%s\r\n%s\r\n" % (size, draw(st.sampled_from([b"", b";a=b", b';"c"'])), rest[:size]))
        rest = rest[size:]
    return b"".join(parts) + b"0\r\n" + draw(st.sampled_from([b"", b"A: b\r\n"])) + b"\r\n"


CUTS = st.lists(st.integers(0, 400), max_size=12)


@given(sent=sent(), cuts=CUTS)
def test_whatever_the_pieces_in_which_it_comes_an_answer_is_the_same(sent: Sent, cuts: list[int]) -> None:
    got = told(sent.data, sent.method)
    assert isinstance(got, tuple)
    assert got[2] == sent.body
    assert told(sent.data, sent.method, cuts) == got
    assert told(sent.data, sent.method, list(range(len(sent.data)))) == got
    assert oracle(sent.data, sent.method) == (got[0], got[2])


@st.composite
def mistakes(draw: st.DrawFn) -> Sent:
    """Draw an answer in which some bytes are lost, added or others."""
    method, data, body = draw(sent())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        more = draw(st.binary(max_size=3) | st.sampled_from([b"\r\n", b"\n", b"\r", b" ", b":", b"0", b",", b"\0"]))
        data = data[:at] + more + data[at + draw(st.integers(0, 2)) :]
    return Sent(method, data, body)


@settings(max_examples=300)
@example(sent=Sent("GET", b"HTTP/1.1 200 X\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", b""), cuts=[])
@given(sent=mistakes() | st.builds(Sent, st.sampled_from(["GET", "HEAD"]), st.binary(), st.just(b"")), cuts=CUTS)
def test_whatever_comes_it_is_an_answer_only_if_the_standard_library_reads_the_same(
    sent: Sent, cuts: list[int]
) -> None:
    got = told(sent.data, sent.method)
    assert told(sent.data, sent.method, cuts) == got
    if isinstance(got, tuple):
        assert oracle(sent.data, sent.method) == (got[0], got[2])
