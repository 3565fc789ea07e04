"""A machine's lease store under virtual time: each call is a request over the network."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from simulator.virtual.storage.network import Network, Request

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from simulator.virtual.storage.service import Service
    from simulator.virtual.time.machine import Machine
    from singleton.stores.protocol import BlobState


class NetworkStore:
    """A machine's ``LeaseStore``: each call is a request over the network."""

    def __init__(self, network: Network, service: Service, machine: Machine) -> None:
        self._network = network
        self._service = service
        self._machine = machine

    async def acquire(self, name: str, lease_id: str, duration: int) -> str:
        """See ``LeaseStore.acquire``."""
        etag: str = await self._send("acquire", name, lease_id, duration)
        return etag

    async def renew(self, name: str, lease_id: str) -> str:
        """See ``LeaseStore.renew``."""
        replied: str = await self._send("renew", name, lease_id)
        return replied

    async def release(self, name: str, lease_id: str) -> None:
        """See ``LeaseStore.release``."""
        await self._send("release", name, lease_id)

    async def break_(self, name: str) -> None:
        """See ``LeaseStore.break_``."""
        await self._send("break_", name)

    async def create(self, name: str) -> None:
        """See ``LeaseStore.create``."""
        await self._send("create", name)

    async def read(self, name: str) -> BlobState:
        """See ``LeaseStore.read``."""
        state: BlobState = await self._send("read", name)
        return state

    async def write(self, name: str, lease_id: str, metadata: Mapping[str, str]) -> str:
        """See ``LeaseStore.write``."""
        etag: str = await self._send("write", name, lease_id, metadata)
        return etag

    async def aclose(self) -> None:
        """See ``LeaseStore.aclose``."""

    def _send(self, call: str, name: str, *args: Any) -> asyncio.Future[Any]:
        execute = partial(self._service.execute, self._machine, call, name, args)
        lease_id = args[0] if args else None
        return self._network.send(Request(self._machine, call, name, execute, lease_id))
