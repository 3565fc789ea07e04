"""The requests of locks, written out: what a lock would cost at best, by four ways to the service.

Each sequence is one cycle of somebody's lock, with nothing around its requests. ``Sdk`` sends them through
azure-storage-blob with its clients kept, ``Ours`` through the store of this package, ``Session`` over a bare aiohttp
session, ``Wire`` over a bare socket that is kept open and blocks: less than that is not possible.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import re
import socket
import uuid
from email.utils import formatdate
from typing import TYPE_CHECKING, Final, Protocol

from simulator.azurite.server import ACCOUNT, KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import ClientSession
    from azure.storage.blob.aio import BlobLeaseClient, ContainerClient

    from singleton.stores.protocol import LeaseStore

_OWNER: Final = "00000000-0000-4000-8000-000000000001"
_VERSION: Final = "2021-12-02"
_EMPTY: Final = 8
"""Headers that a signature covers before If-None-Match: of these requests, none has a value."""


class Blob(Protocol):
    """Requests for one blob. One that is missing is no error: some locks ask so."""

    async def acquire(self) -> None:
        """Take a lease of 15 seconds."""

    async def release(self) -> None:
        """Give it back."""

    async def head(self) -> None:
        """Read properties and metadata."""

    async def write(self) -> None:
        """Write the owner into the metadata, under the lease."""

    async def make(self) -> None:
        """Make the blob."""


async def pair(blob: Blob) -> None:
    """Acquire, release: the least that a lock can ask."""
    await blob.acquire()
    await blob.release()


async def dequeueable(blob: Blob) -> None:
    """Read the state (D-24), acquire, release."""
    await blob.head()
    await pair(blob)


async def webjobs(blob: Blob) -> None:
    """Read the state (W-52), acquire, read the metadata and write the owner into it (W-57), release."""
    await blob.head()
    await blob.acquire()
    await blob.head()
    await blob.write()
    await blob.release()


async def made(blob: Blob) -> None:
    """Make a new blob, acquire, release."""
    await blob.make()
    await pair(blob)


async def webjobs_new(blob: Blob) -> None:
    """Find out twice that there is no blob, make it, and go on."""
    await blob.head()
    await blob.acquire()
    await blob.make()
    await blob.acquire()
    await blob.head()
    await blob.write()
    await blob.release()


class Sdk:
    """Through azure-storage-blob."""

    def __init__(self, container: ContainerClient, name: str) -> None:
        from azure.core.exceptions import ResourceNotFoundError

        self._blob = container.get_blob_client(name)
        self._lease = str(uuid.uuid4())
        self._missing = contextlib.suppress(ResourceNotFoundError)

    async def acquire(self) -> None:
        """See ``Blob``."""
        with self._missing:
            await self._leased().acquire(lease_duration=15)

    async def release(self) -> None:
        """See ``Blob``."""
        await self._leased().release()

    async def head(self) -> None:
        """See ``Blob``."""
        with self._missing:
            await self._blob.get_blob_properties()

    async def write(self) -> None:
        """See ``Blob``."""
        await self._blob.set_blob_metadata({"FunctionInstance": _OWNER}, lease=self._lease)

    async def make(self) -> None:
        """See ``Blob``."""
        await self._blob.upload_blob(b"", overwrite=False)

    def _leased(self) -> BlobLeaseClient:
        from azure.storage.blob.aio import BlobLeaseClient

        return BlobLeaseClient(self._blob, lease_id=self._lease)


class Ours:
    """Through the store that locks of ours use, without a lock."""

    def __init__(self, store: LeaseStore, name: str) -> None:
        self._store, self._name = store, name
        self._lease = str(uuid.uuid4())
        self._etag = ""

    async def acquire(self) -> None:
        """See ``Blob``."""
        self._etag = await self._store.acquire(self._name, self._lease, 15)

    async def release(self) -> None:
        """See ``Blob``."""
        await self._store.release(self._name, self._lease)

    async def head(self) -> None:
        """See ``Blob``."""
        await self._store.read(self._name)

    async def write(self) -> None:
        """See ``Blob``."""
        await self._store.write(self._name, self._lease, {"FunctionInstance": _OWNER}, self._etag)

    async def make(self) -> None:
        """See ``Blob``."""
        await self._store.create(self._name)


class Sent:
    """By requests that we sign ourselves. A subclass sends them."""

    def __init__(self, container: str, name: str) -> None:
        self.path = f"/{ACCOUNT}/{container}/{name}"
        self._lease = str(uuid.uuid4())

    async def acquire(self) -> None:
        """See ``Blob``."""
        headers = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "15", "x-ms-proposed-lease-id": self._lease}
        await self.send("PUT", "lease", headers)

    async def release(self) -> None:
        """See ``Blob``."""
        await self.send("PUT", "lease", {"x-ms-lease-action": "release", "x-ms-lease-id": self._lease})

    async def head(self) -> None:
        """See ``Blob``."""
        await self.send("HEAD", "", {})

    async def write(self) -> None:
        """See ``Blob``."""
        await self.send("PUT", "metadata", {"x-ms-lease-id": self._lease, "x-ms-meta-FunctionInstance": _OWNER})

    async def make(self) -> None:
        """See ``Blob``."""
        await self.send("PUT", "", {"x-ms-blob-type": "BlockBlob", "If-None-Match": "*"})

    async def send(self, method: str, comp: str, headers: Mapping[str, str]) -> None:
        """Send one request, and read its answer."""
        raise NotImplementedError  # never reached: each way to the service has a method of its own

    def target(self, comp: str) -> str:
        """Return path and query."""
        return f"{self.path}?comp={comp}" if comp else self.path

    def signed(self, method: str, comp: str, headers: Mapping[str, str]) -> dict[str, str]:
        """Add date, version and signature."""
        every = {**headers, "x-ms-date": formatdate(usegmt=True), "x-ms-version": _VERSION}
        own = sorted((name.lower(), value) for name, value in every.items() if name.startswith("x-ms-"))
        text = method + "\n" * (1 + _EMPTY) + every.get("If-None-Match", "") + "\n\n\n"
        text += "".join(f"{name}:{value}\n" for name, value in own) + f"/{ACCOUNT}{self.path}"
        text += f"\ncomp:{comp}" if comp else ""
        digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
        return {**every, "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"}


class Session(Sent):
    """Over a bare aiohttp session."""

    def __init__(self, session: ClientSession, endpoint: str, container: str, name: str) -> None:
        from yarl import URL

        super().__init__(container, name)
        self._session = session
        self._urls = {comp: URL(endpoint + self.target(comp), encoded=True) for comp in ("", "lease", "metadata")}

    async def send(self, method: str, comp: str, headers: Mapping[str, str]) -> None:
        """See ``Sent.send``."""
        every = self.signed(method, comp, headers)
        skipped = ("Content-Type", "Accept", "User-Agent")
        async with self._session.request(method, self._urls[comp], headers=every, skip_auto_headers=skipped) as reply:
            await reply.read()


class Wire(Sent):
    """Over a socket, without an event loop."""

    def __init__(self, connection: socket.socket, container: str, name: str) -> None:
        super().__init__(container, name)
        self._socket = connection

    async def send(self, method: str, comp: str, headers: Mapping[str, str]) -> None:
        """See ``Sent.send``."""
        lines = [f"{name}: {value}" for name, value in self.signed(method, comp, headers).items()]
        head = "\r\n".join([f"{method} {self.target(comp)} HTTP/1.1", "Host: 127.0.0.1", "Content-Length: 0", *lines])
        self._socket.sendall(f"{head}\r\n\r\n".encode())
        answer = self._socket.recv(65536)
        while (end := answer.find(b"\r\n\r\n")) < 0:
            answer += self._socket.recv(65536)
        found = re.search(rb"(?i)\r\ncontent-length: (\d+)", answer[:end])
        left = int(found[1]) - (len(answer) - end - 4) if found and method != "HEAD" else 0
        while left > 0:
            left -= len(self._socket.recv(left))


def connected(port: int) -> socket.socket:
    """Open a socket for ``Wire``."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
