"""A blob service for benchmarks: leases and metadata of blobs in memory, in a process of its own.

It answers what locks ask, keeps leases as the service does, and checks nothing else: no signature, no container. It is
there for a client that Azurite can't keep up with.

    python -m benchmarks.stub      writes its port, serves until its input ends, then writes what it counted as JSON
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Final

_REASONS: Final = {200: "OK", 201: "Created", 202: "Accepted", 404: "Not Found", 409: "Conflict", 412: "Failed"}


@dataclass(slots=True)
class Blob:
    """A blob; ``until``: when its lease ends, by this process's clock."""

    etag: int = 1
    modified: str = field(default_factory=lambda: formatdate(usegmt=True))
    metadata: list[str] = field(default_factory=list)
    lease_id: str = ""
    until: float = 0.0
    period: float = 0.0

    @property
    def held(self) -> bool:
        """Tell whether somebody has the lease."""
        return bool(self.lease_id) and time.monotonic() < self.until

    def lease(self, lease_id: str, period: float) -> None:
        """Begin the lease anew."""
        self.lease_id, self.period, self.until = lease_id, period, time.monotonic() + period

    def change(self, metadata: list[str]) -> None:
        """Write metadata."""
        self.etag += 1
        self.metadata, self.modified = metadata, formatdate(usegmt=True)


class Refused(Exception):
    """A status and an error code."""


class Service:
    """All blobs, by their paths; ``counted``: requests by what they were, and refusals by their codes."""

    def __init__(self) -> None:
        self.blobs: dict[str, Blob] = {}
        self.counted: Counter[str] = Counter()

    def answer(self, method: str, target: str, headers: dict[str, str]) -> bytes:
        """Answer one request."""
        path, _, query = target.partition("?")
        own: list[str] = []
        try:
            status = self._do(method, path, query, headers, own)
        except Refused as refusal:
            status, code = refusal.args
            self.counted[code] += 1
            own.append(f"x-ms-error-code: {code}")
        if asked := headers.get("x-ms-client-request-id"):
            own.append(f"x-ms-client-request-id: {asked}")
        own += [f"Date: {formatdate(usegmt=True)}", "Server: stub", "x-ms-version: 2021-12-02", "Content-Length: 0"]
        return "\r\n".join([f"HTTP/1.1 {status} {_REASONS[status]}", *own, "", ""]).encode()

    def _do(self, method: str, path: str, query: str, headers: dict[str, str], own: list[str]) -> int:
        if "restype=container" in query:
            return 201
        action = headers.get("x-ms-lease-action") or query.removeprefix("comp=") or method
        self.counted[action] += 1
        if action == "PUT":
            if path in self.blobs:
                raise Refused(409, "BlobAlreadyExists")
            blob = self.blobs[path] = Blob(metadata=_metadata(headers))
            status = 201
        else:
            if path not in self.blobs:
                raise Refused(404, "BlobNotFound")
            blob = self.blobs[path]
            status = self._under_lease(blob, action, headers)
            if action in ("acquire", "renew"):
                own.append(f"x-ms-lease-id: {blob.lease_id}")
            elif action == "HEAD":
                own += [f"x-ms-lease-state: {'leased' if blob.held else 'available'}", *blob.metadata]
        own += [f'ETag: "0x{blob.etag:X}"', f"Last-Modified: {blob.modified}"]
        return status

    def _under_lease(self, blob: Blob, action: str, headers: dict[str, str]) -> int:
        mine = headers.get("x-ms-lease-id", "")
        match action:
            case "acquire":
                proposed = headers["x-ms-proposed-lease-id"]
                if blob.held and blob.lease_id != proposed:
                    raise Refused(409, "LeaseAlreadyPresent")
                blob.lease(proposed, float(headers["x-ms-lease-duration"]))
                return 201
            case "renew":
                if blob.lease_id != mine:
                    raise Refused(409, "LeaseIdMismatchWithLeaseOperation")
                if not blob.held:
                    self.counted["renewed after its end"] += 1
                blob.lease(mine, blob.period)
            case "release":
                if blob.lease_id != mine:
                    raise Refused(409, "LeaseIdMismatchWithLeaseOperation")
                blob.lease_id = ""
            case "metadata":
                if blob.held and blob.lease_id != mine:
                    raise Refused(412, "LeaseIdMismatchWithBlobOperation")
                if headers.get("if-match", "") not in ("", f'"0x{blob.etag:X}"'):
                    raise Refused(412, "ConditionNotMet")
                blob.change(_metadata(headers))
        return 200


def _metadata(headers: dict[str, str]) -> list[str]:
    return [f"{name}: {value}" for name, value in headers.items() if name.startswith("x-ms-meta-")]


class Connection(asyncio.Protocol):
    """One connection: requests without bodies, one after the other."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See ``asyncio.Protocol``."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See ``asyncio.Protocol``."""
        self._read += data
        while b"\r\n\r\n" in self._read:
            head, _, self._read = self._read.partition(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")
            method, target, _ = first.split(" ")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            self._transport.write(self._service.answer(method, target, headers))


async def serve() -> None:
    """Serve until the standard input ends."""
    loop = asyncio.get_running_loop()
    service = Service()
    server = await loop.create_server(lambda: Connection(service), "127.0.0.1", backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    ended = asyncio.Event()
    loop.add_reader(sys.stdin, lambda: None if sys.stdin.readline() else ended.set())
    await ended.wait()
    server.close()
    sys.stdout.write(json.dumps({**service.counted, "CPU": time.process_time()}) + "\n")


if __name__ == "__main__":
    asyncio.run(serve())
