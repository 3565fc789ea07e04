"""A machine's lock runtime in virtual time, and its stores: it replaces ``singleton.process``.

The lock part of the machine has its own context, so that a blocked user loop leaves it running, as the real lock
thread does.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from simulator.virtual.storage.service import NetworkStore
from simulator.virtual.time.machine import Baton
from singleton.process.calls import Calls

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable

    from simulator.virtual.storage.network import Network
    from simulator.virtual.storage.service import Service
    from simulator.virtual.time.loop import VirtualLoop
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.open_stores import OpenStore
    from singleton.process.call_result import CallResult
    from singleton.process.registry import Registry

_T = TypeVar("_T")

NOWHERE: Final = "UseDevelopmentStorage=true"
"""The account of all worlds. Nobody sends it a request."""
HOST_ID: Final = "explored"


class VirtualRuntime(Calls):
    """Implements ``singleton.process.calls.LockRuntime`` on the virtual loop, in the part of a machine that locks."""

    def __init__(self, loop: VirtualLoop, machine: Machine, registry: Registry) -> None:
        super().__init__(registry, loop)
        self._machine = machine

    async def close(self) -> None:
        """Do what ``Runtime.close`` does, but wait without a limit: the world judges how long it took."""
        if (closed := self.begin_closing()) is not None:
            await closed.awaited()
            self.end()

    def _wait(self, answer: CallResult[_T]) -> _T:
        return Baton.wait(answer.awaited())

    def _soon(self, callback: Callable[[], object]) -> None:
        self._there().run(super()._soon, callback)

    def _there(self) -> contextvars.Context:
        """Return the caller's context, on its machine's lock part."""
        return self._machine.context("locks")


def prepare_process() -> None:
    """Set what the decorator needs of a process: an account that gets no requests, a host id, waits without end."""
    os.environ.setdefault("AzureWebJobsStorage", NOWHERE)
    os.environ["AzureFunctionsWebHost__hostid"] = HOST_ID
    os.environ["AzureFunctionsJobHost__functionTimeout"] = "-1"


def stores(network: Network, service: Service, *, sdk: bool) -> OpenStore:
    """Return the opener of a machine's store: a simulated one, or the shipped one through the real SDK."""
    if not sdk:
        return partial(NetworkStore, network, service)
    from simulator.virtual.worlds.sdk import Containers, open_store

    return partial(open_store, network, Containers(service))
