"""What is an answer of HTTP/1.1, and what is none: bytes that could be meant in two ways are not guessed at."""

from __future__ import annotations

import pytest

from singleton.stores.http.answers import Answer, Nonsense, Reader

MOST = 1000


def read(data: bytes, method: str = "GET", most: int = MOST, *, whole: bool = True) -> tuple[Answer, bool] | None:
    """Return the answer in these bytes and whether its connection lasts; None: there has to be more.

    ``whole``: at once, else byte for byte.
    """
    reader = Reader(method, most)
    done = False
    for piece in [data] if whole else [data[number : number + 1] for number in range(len(data))]:
        if done:
            return reader.answer(), False  # what follows is nobody's
        done = reader.feed(piece)
    return (reader.answer(), reader.lasts) if done else None


def answer(fields: str, body: str = "", status: str = "200 OK", version: str = "1.1") -> bytes:
    lines = "".join(f"{line}\r\n" for line in fields.split("|") if line)
    return f"HTTP/{version} {status}\r\n{lines}\r\n{body}".encode("latin-1")


ANSWERS: dict[str, tuple[bytes, str, int, bytes, bool]] = {
    # Bytes, method, status, body, whether the connection lasts.
    "a body of a known length": (answer("Content-Length: 3", "abc"), "GET", 200, b"abc", True),
    "of no length": (answer("Content-Length: 0"), "PUT", 200, b"", True),
    "spaces and tabs around a value": (answer("Content-Length:\t 3 \t", "abc"), "GET", 200, b"abc", True),
    "no space before a value": (answer("content-length:3", "abc"), "GET", 200, b"abc", True),
    "zeros before a length": (answer("Content-Length: 003", "abc"), "GET", 200, b"abc", True),
    "no reason": (answer("Content-Length: 0", status="201"), "PUT", 201, b"", True),
    "an empty reason": (answer("Content-Length: 0", status="201 "), "PUT", 201, b"", True),
    "a reason in no ASCII": (answer("Content-Length: 0", status="201 Angelegt \xe9"), "PUT", 201, b"", True),
    "an answer to HEAD": (answer("Content-Length: 3"), "HEAD", 200, b"", True),
    "an answer to HEAD of chunks": (answer("Transfer-Encoding: chunked"), "HEAD", 200, b"", True),
    "an answer to HEAD that has a body": (answer("Content-Length: 3", "abc"), "HEAD", 200, b"", False),
    "204": (answer("", status="204 X"), "PUT", 204, b"", True),
    "204 with no bytes": (answer("Content-Length: 0", status="204 X"), "PUT", 204, b"", True),
    "304": (answer("", status="304 X"), "GET", 304, b"", True),
    "chunks": (answer("Transfer-Encoding: chunked", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"), "GET", 200, b"abcde", True),
    "no chunk": (answer("Transfer-Encoding: Chunked", "0\r\n\r\n"), "GET", 200, b"", True),
    "a chunk in hexadecimals": (
        answer("Transfer-Encoding: chunked", "0A\r\n0123456789\r\n00\r\n\r\n"),
        *("GET", 200, b"0123456789", True),
    ),
    "extensions of chunks": (
        answer("Transfer-Encoding: chunked", '3;a="b";c\r\nabc\r\n0;d\r\n\r\n'),
        *("GET", 200, b"abc", True),
    ),
    "trailers": (
        answer("Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\nContent-Length: 9\r\nX: \r\n\r\n"),
        *("GET", 200, b"abc", True),
    ),
    "interim answers before it": (
        answer("", status="100 Continue") + answer("Link: </x>", status="103 X") + answer("Content-Length: 1", "a"),
        *("PUT", 200, b"a", True),
    ),
    "a connection that does not last": (
        answer("Connection: x, Close|Content-Length: 1", "a"),
        *("GET", 200, b"a", False),
    ),
    "one that lasts as said": (answer("Connection: keep-alive|Content-Length: 1", "a"), "GET", 200, b"a", True),
    "both": (answer("Connection: keep-alive|Connection: close|Content-Length: 0"), "GET", 200, b"", False),
    "HTTP/1.0": (answer("Content-Length: 1", "a", version="1.0"), "GET", 200, b"a", False),
    "HTTP/1.0 that lasts": (
        answer("Connection: Keep-Alive|Content-Length: 1", "a", version="1.0"),
        *("GET", 200, b"a", True),
    ),
    "more than the answer": (answer("Content-Length: 1", "ab"), "GET", 200, b"a", False),
    "a second answer": (answer("Content-Length: 0") * 2, "GET", 200, b"", False),
    "more after chunks": (answer("Transfer-Encoding: chunked", "0\r\n\r\n\r\n"), "GET", 200, b"", False),
    "as much as was asked for": (answer("Content-Length: 1000", "x" * 1000), "GET", 200, b"x" * 1000, True),
}


@pytest.mark.parametrize("whole", [True, False], ids=["at once", "byte for byte"])
@pytest.mark.parametrize("case", ANSWERS)
def test_this_is_an_answer(case: str, whole: bool) -> None:
    data, method, status, body, lasts = ANSWERS[case]
    got = read(data, method, whole=whole)
    assert got is not None
    assert (got[0].status, got[0].body, got[1]) == (status, body, lasts)


NONE: dict[str, bytes] = {
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "TLS": b"\x15\x03\x01\x00\x02\x02\x28",
    "HTTP/0.9": b"<html></html>",
    "HTTP/2": answer("Content-Length: 0", version="2"),
    "HTTP/1.2": answer("Content-Length: 0", version="1.2"),
    "HTTP/11": b"HTTP/11 200 OK\r\n\r\n",
    "a line before it": b"\r\n" + answer("Content-Length: 0"),
    "in small letters": answer("Content-Length: 0").replace(b"HTTP", b"http"),
    "two spaces": answer("Content-Length: 0", status=" 200 OK"),
    "a tab for a space": answer("Content-Length: 0").replace(b" 200", b"\t200"),
    "no status": answer("Content-Length: 0", status="OK"),
    "a status of two digits": answer("Content-Length: 0", status="20 OK"),
    "of four": answer("Content-Length: 0", status="2000 OK"),
    "a status below 100": answer("Content-Length: 0", status="099 OK"),
    "above 599": answer("Content-Length: 0", status="600 OK"),
    "a status with more after it": answer("Content-Length: 0", status="200OK"),
    "digits of another script": b"HTTP/1.1 \xd9\xa2\xd9\xa0\xd9\xa0 OK\r\n\r\n",
    "switched protocols": answer("Upgrade: x", status="101 X"),
    "lines that end with LF only": b"HTTP/1.1 200 OK\nContent-Length: 0\n\r\n\r\n",
    "LF in the midst of a value": answer("X: a\nContent-Length: 0"),
    "CR in the midst of a value": answer("X: a\rb|Content-Length: 0"),
    "CR at a value's end": answer("X: a\r|Content-Length: 0"),
    "NUL in a value": answer("X: a\0|Content-Length: 0"),
    "DEL in a value": answer("X: a\x7f|Content-Length: 0"),
    "a control character in the reason": answer("Content-Length: 0", status="200 O\x0bK"),
    "a folded value": answer("X: a| b|Content-Length: 0"),
    "one folded by a tab": answer("X: a|\tb|Content-Length: 0"),
    "a first line that is folded": answer(" X: a|Content-Length: 0"),
    "a space before the colon": answer("Content-Length : 3", "abc"),
    "a space in a name": answer("Content Length: 3", "abc"),
    "no name": answer(": 3|Content-Length: 0"),
    "no colon": answer("Content-Length 3|Content-Length: 0"),
    "a name in no ASCII": answer("Caf\xe9: 3|Content-Length: 0"),
    "a negative length": answer("Content-Length: -1"),
    "a length with a sign": answer("Content-Length: +1", "a"),
    "an empty length": answer("Content-Length: "),
    "a length in hexadecimals": answer("Content-Length: 0x1", "a"),
    "a length with an underscore": answer("Content-Length: 1_0", "0123456789"),
    "a length in another script": b"HTTP/1.1 200 OK\r\nContent-Length: \xd9\xa1\r\n\r\na",
    "a length with a fraction": answer("Content-Length: 1.0", "a"),
    "a length beyond all measure": answer("Content-Length: 9999999999999999"),
    "two lengths": answer("Content-Length: 1|Content-Length: 2", "ab"),
    "the same length twice": answer("Content-Length: 1|content-length: 1", "a"),
    "a list of lengths": answer("Content-Length: 1, 1", "a"),
    "a length and chunks": answer("Content-Length: 1|Transfer-Encoding: chunked", "0\r\n\r\n"),
    "chunks and a length": answer("Transfer-Encoding: chunked|Content-Length: 1", "0\r\n\r\n"),
    "another coding": answer("Transfer-Encoding: gzip", "abc"),
    "another coding as well": answer("Transfer-Encoding: gzip, chunked", "0\r\n\r\n"),
    "chunks twice": answer("Transfer-Encoding: chunked|Transfer-Encoding: chunked", "0\r\n\r\n"),
    "chunks by a letter of another alphabet": answer("Transfer-Encoding: chun\xe2\x84\xaaed", "0\r\n\r\n"),
    "chunks, hidden": answer("Transfer-Encoding: \x0bchunked", "0\r\n\r\n"),
    "an empty coding": answer("Transfer-Encoding: ", "abc"),
    "identity": answer("Transfer-Encoding: identity|Content-Length: 1", "a"),
    "chunks of HTTP/1.0": answer("Transfer-Encoding: chunked", "0\r\n\r\n", version="1.0"),
    "204 with a length": answer("Content-Length: 3", status="204 X"),
    "204 of chunks": answer("Transfer-Encoding: chunked", status="204 X"),
    "304 with a length": answer("Content-Length: 3", status="304 X"),
    "a body of no length": answer("", "abc"),
    "an answer without a body that does not say so": answer("", status="201 X"),
    "two ETags": answer('ETag: "1"|ETag: "2"|Content-Length: 0'),
    "two dates": answer("Date: a|Date: b|Content-Length: 0"),
    "two ids": answer("x-ms-client-request-id: a|X-MS-Client-Request-Id: b|Content-Length: 0"),
    "the metadata twice": answer("x-ms-meta-a: 1|x-ms-meta-A: 1|Content-Length: 0"),
    "no size of a chunk": answer("Transfer-Encoding: chunked", "\r\n"),
    "a size that is none": answer("Transfer-Encoding: chunked", "g\r\n"),
    "a negative size": answer("Transfer-Encoding: chunked", "-1\r\n"),
    "a size with a sign": answer("Transfer-Encoding: chunked", "+1\r\na\r\n0\r\n\r\n"),
    "a size with 0x": answer("Transfer-Encoding: chunked", "0x1\r\na\r\n0\r\n\r\n"),
    "a size with an underscore": answer("Transfer-Encoding: chunked", "1_0\r\n0123456789abcdef\r\n0\r\n\r\n"),
    "a size after a space": answer("Transfer-Encoding: chunked", " 1\r\na\r\n0\r\n\r\n"),
    "a size before a space": answer("Transfer-Encoding: chunked", "1 \r\na\r\n0\r\n\r\n"),
    "a size beyond all measure": answer("Transfer-Encoding: chunked", "1000000000000\r\na"),
    "a size that ends with LF only": answer("Transfer-Encoding: chunked", "1\na\r\n0\r\n\r\n"),
    "CR in an extension": answer("Transfer-Encoding: chunked", "1;a\rb\r\na\r\n0\r\n\r\n"),
    "a chunk that is longer than it says": answer("Transfer-Encoding: chunked", "1\r\nab\r\n0\r\n\r\n"),
    "a chunk without an end": answer("Transfer-Encoding: chunked", "1\r\na0\r\n\r\n"),
    "a chunk that ends with LF only": answer("Transfer-Encoding: chunked", "1\r\na\n0\r\n\r\n"),
    "a trailer that is none": answer("Transfer-Encoding: chunked", "0\r\nnothing\r\n\r\n"),
    "a trailer that is folded": answer("Transfer-Encoding: chunked", "0\r\nA: b\r\n c\r\n\r\n"),
    "a line that is too long": answer(f"X: {'x' * 8190}|Content-Length: 0"),
    "a reason that is too long": answer("Content-Length: 0", status=f"200 {'x' * 8190}"),
    "too many headers": answer("|".join(f"x-{number}: {'x' * 1000}" for number in range(70))),
    "a head without an end": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 11_000,
    "interim answers without an end": answer(f"X: {'y' * 1000}", status="100 X") * 70,
    "an extension without an end": answer("Transfer-Encoding: chunked", f"1;{'x' * 8190}"),
    "trailers without an end": answer("Transfer-Encoding: chunked", "0\r\n" + "X: y\r\n" * 11_000),
}


@pytest.mark.parametrize("whole", [True, False], ids=["at once", "byte for byte"])
@pytest.mark.parametrize("case", NONE)
def test_this_is_no_answer(case: str, whole: bool) -> None:
    with pytest.raises(Nonsense):
        read(NONE[case], whole=whole)


@pytest.mark.parametrize("fields", ["Content-Length: 1|Transfer-Encoding: chunked", "Content-Length: x"])
@pytest.mark.parametrize("method", ["HEAD", "PUT"])
def test_nor_is_it_where_no_body_comes(method: str, fields: str) -> None:
    for status in ("200 OK", "204 X", "304 X"):
        with pytest.raises(Nonsense):
            read(answer(fields, status=status), method)


@pytest.mark.parametrize("case", [case for case in ANSWERS if not case.startswith(("more", "a second"))])
def test_no_part_of_an_answer_is_one(case: str) -> None:
    data, method, *_ = ANSWERS[case]
    if case == "an answer to HEAD that has a body":
        return
    for end in range(len(data)):
        assert read(data[:end], method) is None
        reader = Reader(method, MOST)
        reader.feed(data[:end])
        assert not reader.end()


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("connection", ["", "Connection: keep-alive"])
def test_an_error_s_body_of_no_known_length_ends_with_its_connection(version: str, connection: str) -> None:
    reader = Reader("GET", MOST)
    head = answer(connection, status="503 X", version=version)
    assert not reader.feed(head[:-1])
    assert not reader.end()
    for piece in (head[-1:], b"abc", b"de"):
        assert not reader.feed(piece)
        assert reader.end()
    assert (reader.answer().body, reader.lasts) == (b"abcde", False)


@pytest.mark.parametrize(
    "data",
    [
        answer("Content-Length: 200000", "x" * 100_000),
        answer("Transfer-Encoding: chunked", "30d40\r\n" + "x" * 100_000),
        answer("Transfer-Encoding: chunked", "400\r\n" + "x" * 1024 + "\r\n400\r\n" + "x"),
        answer("", "x" * 100_000, status="503 X"),
    ],
)
@pytest.mark.parametrize("whole", [True, False], ids=["at once", "byte for byte"])
def test_a_body_that_is_longer_than_what_was_asked_for_is_not_read_to_its_end(data: bytes, whole: bool) -> None:
    got = read(data, whole=whole)
    assert got is not None
    assert (len(got[0].body) > MOST, got[1]) == (True, False)


def test_nor_if_each_of_its_chunks_comes_as_a_whole() -> None:
    """There may be no end of them."""
    reader = Reader("GET", MOST)
    assert not reader.feed(answer("Transfer-Encoding: chunked"))
    chunk = b"64\r\n" + b"x" * 100 + b"\r\n"
    assert [reader.feed(chunk) for _ in range(11)] == [False] * 10 + [True]
    assert not reader.lasts


def test_headers_are_found_in_any_case_and_listed_as_they_were_sent() -> None:
    got = read(answer("ETag: a|x-ms-meta-Some_Thing: b: c |Vary: d|Set-Cookie: e|vary: f|Content-Length: 0|Empty:"))
    assert got is not None
    headers = got[0].headers
    assert [headers[name] for name in ("etag", "ETAG", "X-Ms-Meta-some_thing", "empty")] == ["a", "a", "b: c", ""]
    assert headers.get("nothing") is None
    assert "etag" in headers
    assert dict(headers) == {
        "ETag": "a",
        "x-ms-meta-Some_Thing": "b: c",
        "Vary": "d, f",
        "Set-Cookie": "e",
        "Content-Length": "0",
        "Empty": "",
    }


def test_headers_are_utf_8_and_what_is_none_can_be_told_apart() -> None:
    got = read(b"HTTP/1.1 200 OK\r\nA: caf\xc3\xa9\r\nB: caf\xe9\r\nC: a\xc2\xa0\r\nContent-Length: 0\r\n\r\n")
    assert got is not None
    assert [got[0].headers[name] for name in "ABC"] == ["café", "caf\udce9", "a\xa0"]
