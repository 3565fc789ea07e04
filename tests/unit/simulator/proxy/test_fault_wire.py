"""Messages are read whole, whatever frames their body, and kept byte for byte."""

from __future__ import annotations

import asyncio

import pytest

from simulator.proxy import wire

CHUNKED = b"4;name=value\r\nWiki\r\n6\r\npedia \r\n0\r\nTrailer: x\r\n\r\n"


def reader(data: bytes) -> asyncio.StreamReader:
    stream = asyncio.StreamReader()
    stream.feed_data(data)
    stream.feed_eof()
    return stream


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /a?comp=list HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PUT /a HTTP/1.1\r\ncontent-LENGTH: 5\r\n\r\nhello",
        b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED,
    ],
)
async def test_a_request_is_kept_as_it_came_and_the_next_one_starts_behind_it(raw: bytes) -> None:
    stream = reader(raw + b"HEAD /next HTTP/1.1\r\n\r\n")
    first, second = await wire.read_request(stream), await wire.read_request(stream)
    assert first is not None
    assert second is not None
    assert first.raw == raw
    assert second.first == ("HEAD", "/next", "HTTP/1.1")
    assert await wire.read_request(stream) is None


async def test_names_of_headers_are_lower_case_and_values_stripped() -> None:
    message = await wire.read_request(reader(b"GET / HTTP/1.1\r\nX-Ms-Lease-Action:  renew \r\nA:b:c\r\n\r\n"))
    assert message is not None
    assert message.headers == {"x-ms-lease-action": "renew", "a": "b:c"}


@pytest.mark.parametrize(
    ("method", "raw", "rest"),
    [
        ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"next"),
        ("GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED, b"next"),
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n", b"next"),
        ("DELETE", b"HTTP/1.1 204 No Content\r\n\r\n", b"next"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", b"next"),
        ("GET", b"HTTP/1.1 200\r\n\r\nuntil the connection ends", b""),
    ],
)
async def test_the_end_of_a_response_follows_from_its_head_and_its_method(method: str, raw: bytes, rest: bytes) -> None:
    stream = reader(raw + rest)
    message = await wire.read_response(stream, method=method)
    assert message.raw == raw
    assert message.status in {200, 204, 304}
    assert await stream.read(-1) == rest


async def test_interim_responses_are_passed_over() -> None:
    stream = reader(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
    assert (await wire.read_response(stream, method="PUT")).status == 201


@pytest.mark.parametrize(
    "raw", [b"", b"HTTP/1.1 200 OK\r\nContent-Len", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"]
)
async def test_a_response_that_is_cut_off_is_an_error(raw: bytes) -> None:
    with pytest.raises(EOFError):
        await wire.read_response(reader(raw), method="GET")


async def test_a_request_that_is_cut_off_is_the_end_of_the_connection() -> None:
    assert await wire.read_request(reader(b"GET / HT")) is None


async def test_a_response_of_ours_reads_back() -> None:
    made = wire.response(503, {"Retry-After": "1"}, b"busy")
    read = await wire.read_response(reader(made.raw), method="GET")
    assert (read.status, read.headers["retry-after"], read.raw) == (503, "1", made.raw)
    assert wire.response(503, {}, b"busy", method="HEAD").raw.endswith(b"content-length: 4\r\n\r\n")
