"""What does a lock cost on storage? Whole cycles on an Azurite of its own, ours beside the bare requests of others.

All take turns in one run, in random order, each on blobs of its own; what counts is the ratio to the bare SDK's acquire
and release. Calls are counted on the wire, by a proxy, in a cycle of each before the measuring.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from typing import TYPE_CHECKING, Any, Final

from benchmarks import ours, rivals
from benchmarks.measuring import Contestant, heading, in_turns, machine, say, table
from simulator.azurite.server import Azurite
from singleton.runtime.accounts.stores import open_container
from singleton.settings.connection import StorageAccount
from tests.support.recording_proxy import ProxyThread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from benchmarks.measuring import Rows, Tables, Taken
    from singleton.stores.protocol import LeaseStore

    Cycle = Callable[[rivals.Blob], Awaitable[None]]

MEASURE: Final = "acquire and release, azure-storage-blob"
_WARM: Final[dict[str, Cycle]] = {
    "acquire and release": rivals.pair,
    "Dequeueable's three calls": rivals.dequeueable,
    "WebJobs' five calls": rivals.webjobs,
}
_NEW: Final[dict[str, Cycle]] = {
    "make, acquire and release": rivals.made,
    "WebJobs' seven calls of a new value": rivals.webjobs_new,
}
_OURS: Final = "our store"
_SOCKET: Final = "a bare socket"
_LEAST: Final = frozenset({rivals.pair, rivals.made})
"""What is asked of these two; the others do what .NET's locks do, too."""


@contextlib.contextmanager
def rivals_on(loop: asyncio.AbstractEventLoop, connection_string: str, port: int) -> Iterator[list[Contestant]]:
    """Make a contestant of each sequence and each way to the service."""
    from aiohttp import ClientSession
    from azure.storage.blob.aio import BlobServiceClient

    async def opened() -> tuple[BlobServiceClient, LeaseStore, ClientSession]:
        service = BlobServiceClient.from_connection_string(connection_string, retry_total=0)
        store = open_container(StorageAccount(connection_string=connection_string), ours.CONTAINER)
        return service, store, ClientSession()

    service, store, session = loop.run_until_complete(opened())
    wire = rivals.connected(port)
    container, endpoint = service.get_container_client(ours.CONTAINER), f"http://127.0.0.1:{port}"
    ways: dict[str, Callable[[str], rivals.Blob]] = {
        "azure-storage-blob": lambda name: rivals.Sdk(container, name),
        _OURS: lambda name: rivals.Ours(store, name),
        "bare aiohttp": lambda name: rivals.Session(session, endpoint, ours.CONTAINER, name),
        _SOCKET: lambda name: rivals.Wire(wire, ours.CONTAINER, name),
    }
    try:
        if not loop.run_until_complete(container.exists()):
            loop.run_until_complete(container.create_container())
        yield [each for way, blob in ways.items() for each in _of_way(loop, way, blob)]
    finally:
        wire.close()
        loop.run_until_complete(session.close())
        loop.run_until_complete(store.aclose())
        loop.run_until_complete(service.close())


def _of_way(loop: asyncio.AbstractEventLoop, way: str, blob: Callable[[str], rivals.Blob]) -> Iterator[Contestant]:
    for number, (what, cycle) in enumerate([*_WARM.items(), *_NEW.items()]):
        if way in {_OURS, _SOCKET} and cycle not in _LEAST:
            continue
        name = f"{uuid.uuid4()}/{number}"
        yield Contestant(f"{what}, {way}", _new(cycle, blob, name) if what in _NEW else _warm(loop, cycle, blob(name)))


def _warm(loop: asyncio.AbstractEventLoop, cycle: Cycle, blob: rivals.Blob) -> Callable[[], Any]:
    async def once() -> None:
        await cycle(blob)

    loop.run_until_complete(blob.make())
    return once


def _new(cycle: Cycle, blob: Callable[[str], rivals.Blob], name: str) -> Callable[[], Any]:
    names = (f"{name}/{number}" for number in itertools.count())

    async def once() -> None:
        await cycle(blob(next(names)))

    return once


def calls_of(loop: asyncio.AbstractEventLoop, azurite: Azurite) -> dict[str, float]:
    """Count the calls of a warm cycle of each on the wire.

    Raises:
        RuntimeError: one was refused that was not meant to be.
    """
    found = {}
    with ProxyThread(azurite.blob_port) as proxy:
        through = proxy.connection_string(azurite.connection_string)
        with rivals_on(loop, through, proxy.port) as others, ours.contestants(through) as own:
            for each in [*others, *own]:
                in_turns(loop, [each], 0, warm=2)
                proxy.forget()
                in_turns(loop, [each], 1, block=1, warm=0)
                refused = {request.status for request in proxy.requests} - {200, 201, 202}
                if refused - {404} and each.name != ours.REFUSED:
                    raise RuntimeError(f"{each.name}: {proxy.requests}")
                found[each.name] = proxy.count() / each.sections
    return found


def measure(loop: asyncio.AbstractEventLoop, azurite: Azurite, rounds: int) -> dict[str, Taken]:
    """Let all of them take turns."""
    with (
        rivals_on(loop, azurite.connection_string, azurite.blob_port) as others,
        ours.contestants(azurite.connection_string) as own,
    ):
        return in_turns(loop, [*own, *others], rounds)


def main(rounds: int = 80) -> Tables:
    """Measure, and show."""
    heading("A lock's cycle on storage (Azurite), beside the bare SDK's acquire and release")
    say(machine())
    loop = asyncio.new_event_loop()
    try:
        with Azurite(say) as azurite:
            calls = calls_of(loop, azurite)
            taken = measure(loop, azurite, rounds)
    finally:
        loop.close()
    sdk = taken[MEASURE]
    rows: Rows = [("a cycle", "calls", "ms", "half of them", "to the SDK", "CPU ms", "CPU to the SDK")]
    rows += [
        (
            *(name, f"{calls[name]:.3g}", f"{each.wall * 1e3:.2f}", each.spread, f"{each.wall / sdk.wall:.2f}"),
            *(f"{each.cpu * 1e3:.2f}", f"{each.cpu / sdk.cpu:.2f}"),
        )
        for name, each in taken.items()
    ]
    table(rows)
    return {"cycles": rows}


if __name__ == "__main__":
    main()
