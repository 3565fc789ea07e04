"""A machine's lock runtime under virtual time, and its stores: what ``singleton.process`` is to a real process.

The lock part of the machine has its own context, so that a blocked user loop leaves it running, as the real lock
thread does.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from simulator.virtual.storage.service import NetworkStore
from simulator.virtual.time.baton import Baton
from singleton.process.onloop import OnLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from simulator.virtual.storage.network import Network
    from simulator.virtual.storage.service import Service
    from simulator.virtual.time.loop import VirtualLoop
    from simulator.virtual.time.machine import Machine
    from singleton.base.hold import Hold
    from singleton.process.registry import Registry
    from singleton.stores.protocol import LeaseStore

_T = TypeVar("_T")

NOWHERE: Final = "UseDevelopmentStorage=true"
"""The account of all worlds, which nobody calls."""
HOST_ID: Final = "explored"


class VirtualRuntime(OnLoop):
    """Implements ``singleton.process.runtime.LockRuntime`` on the virtual loop."""

    def __init__(self, loop: VirtualLoop, machine: Machine, registry: Registry) -> None:
        super().__init__(loop, registry, machine.context("locks"))

    def call(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        """See ``Runtime.call``. Only for sync bodies under a baton."""
        return Baton.wait(self.call_async(work))

    def release(self, hold: Hold) -> None:
        """See ``Runtime.release``. Only for sync bodies under a baton."""
        Baton.wait(self.release_async(hold))


def prepare_process() -> None:
    """Set what the decorator asks of a process: an account that nobody calls, a host id, waits without end."""
    os.environ.setdefault("AzureWebJobsStorage", NOWHERE)
    os.environ["AzureFunctionsWebHost__hostid"] = HOST_ID
    os.environ["AzureFunctionsJobHost__functionTimeout"] = "-1"


def stores(network: Network, service: Service, *, sdk: bool) -> Callable[[Machine], LeaseStore]:
    """Return what opens a machine's store: of our own, or the shipped one through the real SDK."""
    if not sdk:
        return partial(NetworkStore, network, service)
    from simulator.virtual.worlds.sdk import Containers, open_store

    return partial(open_store, network, Containers(service))
