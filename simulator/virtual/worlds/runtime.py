"""A machine's lock runtime under virtual time, and its stores: what ``singleton.process`` is to a real process.

The lock part of the machine has its own context, so that a blocked user loop leaves it running, as the real lock
thread does.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from simulator.virtual.storage.service import NetworkStore
from simulator.virtual.time.baton import Baton
from singleton.process.registry import holds_in

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


class VirtualRuntime:
    """Implements ``singleton.process.runtime.LockRuntime`` on the virtual loop."""

    def __init__(self, loop: VirtualLoop, machine: Machine, registry: Registry) -> None:
        self.registry = registry
        self._loop = loop
        self._context = machine.context("locks")

    async def call_async(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        """See ``Runtime.call_async``."""
        task = self._start(work(self.registry))
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            task.add_done_callback(self._undo)
            raise
        return task.result()

    async def release_async(self, hold: Hold) -> None:
        """See ``Runtime.release_async``."""
        if hold.lost.reason != "closed":
            await asyncio.wait({self._start(self.registry.release(hold))})

    def call(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        """See ``Runtime.call``. Only for sync bodies under a baton."""
        return Baton.wait(self.call_async(work))

    def release(self, hold: Hold) -> None:
        """See ``Runtime.release``. Only for sync bodies under a baton."""
        Baton.wait(self.release_async(hold))

    def _start(self, coro: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        return self._loop.create_task(coro, context=self._context.copy())

    def _undo(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and task.exception() is None:
            for hold in holds_in(task.result()):
                self._start(self.registry.drop(hold))


def prepare_process() -> None:
    """Set what the decorator asks of a process: an account that nobody calls, and one host id for all."""
    os.environ.setdefault("AzureWebJobsStorage", "UseDevelopmentStorage=true")
    os.environ["AzureFunctionsWebHost__hostid"] = "explored"


def stores(network: Network, service: Service, *, sdk: bool) -> Callable[[Machine], LeaseStore]:
    """Return what opens a machine's store: of our own, or the shipped one through the real SDK."""
    if not sdk:
        return partial(NetworkStore, network, service)
    from simulator.virtual.worlds.sdk import Containers, open_store

    return partial(open_store, network, Containers(service))
