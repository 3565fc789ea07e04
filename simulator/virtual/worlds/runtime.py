"""A machine's lock runtime in virtual time, its stores and its queues: they replace the lock thread of `singleton`.

The lock part of the machine has a context of its own, so that a blocked user loop leaves the lock part running, as the
real lock thread runs on. After all locks have closed, no store and no queue is open.
"""

from __future__ import annotations

import os
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from simulator.virtual.storage.service import NetworkStore
from simulator.virtual.time.machine import Baton
from singleton.base.hold import holds_in
from singleton.runtime.calls import Calls

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable

    from simulator.virtual.storage.network import Network
    from simulator.virtual.storage.service import Service
    from simulator.virtual.time.loop import VirtualLoop
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.heard_registry import HeardRegistry
    from singleton.settings.accounts import LockContainer
    from singleton.stores.message_store import MessageStore
    from singleton.stores.protocol import LeaseStore

    OpenStore = Callable[[Machine, LockContainer, Callable[[], None]], LeaseStore]
    """Opens a machine's store, which calls the function as soon as it is closed."""
    OpenQueue = Callable[[Machine, str, Callable[[], None]], MessageStore]
    """The same for a queue."""

_T = TypeVar("_T")
NOWHERE: Final = "UseDevelopmentStorage=true"
"""The account of the worlds. No request is ever sent there."""
HOST_ID: Final = "explored"


class VirtualRuntime(Calls):
    """The registry of a machine on the virtual loop, in the part of a machine that locks."""

    def __init__(self, loop: VirtualLoop, machine: Machine, registry: HeardRegistry) -> None:
        super().__init__(registry, loop, wait=lambda answer: Baton.wait(answer.awaited()))
        self._machine = machine
        self._taken = registry.taken

    async def close(self) -> None:
        """Do what ``Runtime.close`` does, but wait without a limit: the world judges how long it took."""
        if (closed := self.begin_closing()) is not None:
            await closed.awaited()
            self.end()

    def _remember(self, answer: _T) -> _T:
        """Tell of the holds that a caller has now."""
        for hold in holds_in(answer):
            self._taken(hold)
        return super()._remember(answer)

    def _soon(self, callback: Callable[[], object], context: contextvars.Context | None = None) -> None:
        """Call the callback in the context, or the caller's, on the machine's lock part."""
        make = self._machine.context
        there = make("locks") if context is None else context.run(make, "locks")
        there.run(super()._soon, callback)


def prepare_process() -> None:
    """Set what the decorator needs of a process: an account that gets no requests, a host id, waits without end."""
    os.environ.setdefault("AzureWebJobsStorage", NOWHERE)
    os.environ["AzureFunctionsWebHost__hostid"] = HOST_ID
    os.environ["AzureFunctionsJobHost__functionTimeout"] = "-1"


def stores(network: Network, service: Service, *, sdk: bool) -> OpenStore:
    """Return the opener of a machine's store: a simulated one, or the shipped one through the real SDK."""
    if not sdk:
        return partial(NetworkStore, network, service)
    from simulator.virtual.http.blob_api import Containers
    from simulator.virtual.worlds.sdk import open_store

    return partial(open_store, network, Containers(service.execute))


class OpenStores:
    """Opens stores and queues for the machines of a world, and keeps count of them."""

    def __init__(self, open_store: OpenStore) -> None:
        self.open_queue: OpenQueue = _no_queue
        """Opens a machine's queue of this name, for its locks to put messages back; a workload with queues sets it."""
        self._open_store = open_store
        self._open: dict[Machine, list[str]] = defaultdict(list)

    def open_by(self, open_store: OpenStore) -> None:
        """Open later stores in another way."""
        self._open_store = open_store

    def store(self, machine: Machine, place: LockContainer) -> LeaseStore:
        """Open a machine's store."""
        return self._open_store(machine, place, self._opened(machine, store_of(place)))

    def queue(self, machine: Machine, name: str) -> MessageStore:
        """Open a machine's queue."""
        return self.open_queue(machine, name, self._opened(machine, f"queue {name!r}"))

    def left(self, machine: Machine) -> list[str]:
        """Return what is open."""
        return self._open[machine]

    def is_open(self, machine: Machine, place: LockContainer) -> bool:
        """Tell whether the locks of a machine have a store of this place open."""
        return store_of(place) in self._open[machine]

    def _opened(self, machine: Machine, what: str) -> Callable[[], None]:
        self._open[machine].append(what)
        return partial(self._closed, machine, what)

    def _closed(self, machine: Machine, what: str) -> None:
        if what in self._open[machine]:  # a second close does no harm
            self._open[machine].remove(what)


def store_of(place: LockContainer) -> str:
    """Name the store of a place."""
    return f"the store of container {place.container!r}"


def _no_queue(_: Machine, name: str, __: Callable[[], None]) -> MessageStore:
    raise LookupError(f"no queue {name} in this world")
