"""The stores and queues that the locks of each machine have open. None is left after they have closed."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.virtual.time.machine import Machine
    from singleton.settings.accounts import LockContainer
    from singleton.stores.message_store import MessageStore
    from singleton.stores.protocol import LeaseStore

    OpenStore = Callable[[Machine, LockContainer, Callable[[], None]], LeaseStore]
    """Opens a machine's store, which calls the function as soon as it is closed."""
    OpenQueue = Callable[[Machine, str, Callable[[], None]], MessageStore]
    """The same for a queue."""


class OpenStores:
    """Opens stores and queues for the machines of a world, and keeps count of them."""

    def __init__(self, open_store: OpenStore) -> None:
        self.open_queue: OpenQueue = _no_queue
        """Opens a machine's queue of this name, for its locks to put messages back; a workload with queues sets it."""
        self._open_store = open_store
        self._open: dict[Machine, list[str]] = defaultdict(list)

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
