"""An HTTP server that answers as it was told to, on a real socket: what the SDK makes of it is under test."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, field
from typing import Self

DATE = "Sat, 21 Nov 2026 10:00:00 GMT"
LEASED = {"x-ms-lease-id": "00000000-0000-4000-8000-000000000001", "ETag": '"0x1"', "Last-Modified": DATE}


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers and body; or instead of an answer, what happens to the connection."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    instead: str = ""
    """reset, hang, drip, garbage, half (a body that breaks off)"""


def error(status: int, code: str | None = None, **headers: str) -> Answer:
    """Answer as the blob service does: the code in a header, and in the body where there is one."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>So it is.</Message></Error>" if code else ""
    named = {"x-ms-error-code": code} if code else {}
    return Answer(status, {**named, **headers, "Content-Type": "application/xml"}, body)


def made_account(port: int) -> str:
    """Return a connection string of a made-up account on this port."""
    key = base64.b64encode(b"not a secret").decode()
    return f"DefaultEndpointsProtocol=http;AccountName=made;AccountKey={key};BlobEndpoint=http://127.0.0.1:{port}/made;"


class ScriptedServer:
    """Gives one answer after the other, the last one again and again; remembers what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.targets: list[str] = []
        self._server: asyncio.Server | None = None
        self._open: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._open:
            writer.transport.abort()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def connection_string(self) -> str:
        """A connection string of a made-up account on this server."""
        assert self._server is not None
        return made_account(self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.append(writer)
        task: asyncio.Task[None] | None = asyncio.current_task()
        assert task is not None
        self._tasks.append(task)
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in head[1:] if line)}
        await reader.readexactly(int(headers.get("content-length", "0")))
        method, target, _ = head[0].split(" ")
        self.requests.append((method, headers))
        self.targets.append(target)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        match answer.instead:
            case "reset":
                writer.transport.abort()
                return False
            case "hang":
                await reader.read()
                return False
            case "drip":
                writer.write(b"HTTP/1.1 200 OK\r\n")
                while not writer.is_closing():
                    writer.write(b"X")
                    await writer.drain()
                    await asyncio.sleep(0.02)
                return False
            case "half":
                fields = {"Content-Length": "1000", **answer.headers}
                lines = [f"HTTP/1.1 {answer.status} X", *(f"{key}: {value}" for key, value in fields.items())]
                writer.write("\r\n".join([*lines, "", "<?xml"]).encode())
                await writer.drain()
                return False
            case "garbage":
                writer.write(b"I am no web server\r\n\r\n")
                await writer.drain()
                return False
        body = b"" if method == "HEAD" else answer.body.encode()
        headers = {"Content-Length": str(len(body)), "Date": DATE, **answer.headers}
        lines = [f"HTTP/1.1 {answer.status} X", *(f"{key}: {value}" for key, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()
        return True
