"""The ways of hosts to their storage: a wire for each host, made of one proxy for each service; all in one thread.

A wire is cut for one host alone, and requests on it are the moments at which a nemesis strikes.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from simulator.proxy.proxy import HOST, FaultProxy

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from simulator.proxy.actions import Action, Match, ProxyRule

T = TypeVar("T")

_ENDPOINT: Final = re.compile(r"(?i)\b(Blob|Queue|Table)Endpoint=http://[^/:;]+:(\d+)")
_CLOSING: Final = 5.0


class WireError(ValueError):
    """No proxy can stand before this storage; the message says why."""


def services_of(connection: str) -> dict[str, int]:
    """Return the ports of the services in a connection string.

    >>> services_of("AccountName=a;BlobEndpoint=http://127.0.0.1:10000/a;QueueEndpoint=http://127.0.0.1:10001/a")
    {'blob': 10000, 'queue': 10001}

    Raises:
        WireError: blobs or queues have no HTTP endpoint with a port, so no proxy can stand before them.
    """
    found = {service.lower(): int(port) for service, port in _ENDPOINT.findall(connection)}
    if not {"blob", "queue"} <= found.keys():
        raise WireError(
            "faults need a storage with endpoints of the form http://HOST:PORT for blobs and queues, such as Azurite: "
            "the fault proxy does not read HTTPS. Leave --storage out, so that an Azurite is started for the run"
        )
    return found


class Wire:
    """The proxies between one host and the services of its storage, once they are open."""

    def __init__(self, connection: str, loop: asyncio.AbstractEventLoop) -> None:
        """Prepare a wire to the storage of this connection string; its proxies live in `loop`."""
        self.loop = loop
        self._original = connection
        self._ports = services_of(connection)
        self.proxies = {port: FaultProxy(port) for port in self._ports.values()}

    @property
    def blobs(self) -> FaultProxy:
        """The proxy before the blobs."""
        return self.proxies[self._ports["blob"]]

    @property
    def connection_string(self) -> str:
        """The storage's connection string, by way of this wire."""
        text = self._original
        for port, proxy in self.proxies.items():
            text = re.sub(rf"//[^/:;]+:{port}\b", f"//{HOST}:{proxy.port}", text)
        return text

    def add(self, match: Match, action: Action) -> list[ProxyRule]:
        """Do `action` to all matching requests, to any service, until `remove`."""
        return [proxy.add(match, action) for proxy in self.proxies.values()]

    def remove(self, rules: list[ProxyRule]) -> None:
        """Remove rules from all proxies."""
        for proxy in self.proxies.values():
            for rule in rules:
                proxy.remove(rule)

    def cut(self) -> None:
        """Reset all connections of the host, also connections that wait for a reply."""
        for proxy in self.proxies.values():
            self.loop.call_soon_threadsafe(proxy.reset_connections)

    def forget(self) -> None:
        """Forget the idle connections of the host to its blobs."""
        self.loop.call_soon_threadsafe(self.blobs.forget_connections)


class Wires:
    """All wires of a run, in a thread with an event loop of its own, while its `with` block lasts."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxies", daemon=True)
        self._open: set[Wire] = set()

    def start(self) -> None:
        """Start the thread."""
        _allow_many_sockets()
        self._thread.start()

    def open(self, connection: str) -> Wire:
        """Open a wire to the storage of this connection string.

        Raises:
            WireError: no proxy can stand before it.
        """
        wire = Wire(connection, self._loop)
        self._run(self._enter(wire))
        return wire

    def close(self, wire: Wire) -> None:
        """Close a wire, whose host has ended."""
        if wire in self._open:
            self._run(self._leave(wire))

    def stop(self) -> None:
        """Close all wires, and end the thread."""
        if not self._thread.is_alive():
            self._loop.close()
            return
        with contextlib.suppress(TimeoutError):
            self._run(self._leave_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSING)
        if not self._thread.is_alive():
            self._loop.close()

    async def _enter(self, wire: Wire) -> None:
        for proxy in wire.proxies.values():
            await proxy.__aenter__()
        self._open.add(wire)

    async def _leave(self, wire: Wire) -> None:
        self._open.discard(wire)
        for proxy in wire.proxies.values():
            await proxy.__aexit__()

    async def _leave_all(self) -> None:
        for wire in [*self._open]:
            await self._leave(wire)
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _run(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(_CLOSING)


def _allow_many_sockets() -> None:
    """Use the greatest number of open files that the system allows: a hundred hosts have thousands of connections."""
    if sys.platform == "win32":
        return
    import resource

    with contextlib.suppress(ValueError, OSError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
