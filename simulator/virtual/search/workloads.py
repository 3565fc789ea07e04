"""The workloads by name: what the hosts of a virtual world do, drawn from the seed, so that a seed is a world."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

from simulator.virtual.workloads.callers import guarded, start_chain, start_queue, start_skip, start_workers
from simulator.virtual.workloads.clients.clients import start_clients
from simulator.virtual.workloads.clients.crowd import start_crowd
from simulator.virtual.workloads.deferring.deferrals import start_deferrals
from simulator.virtual.workloads.deployments.deployed import start_deployed
from simulator.virtual.workloads.failovers import start_failovers
from simulator.virtual.workloads.invocations import declare
from simulator.virtual.workloads.leaders import start_leader
from simulator.virtual.workloads.listeners.listeners import start_listeners
from simulator.virtual.workloads.once import start_once
from simulator.virtual.workloads.semaphores import start_semaphore
from simulator.virtual.workloads.states import start_states

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.virtual.worlds.world import World

_MIXED: Final = ("ship", "ship", "ship_soon", "ship_sync", "tick", "insist")


def start_workload(name: str, world: World) -> None:
    """Start the workload's tasks on all machines."""
    if name in NAMED:
        _start_named(name, world)
        return
    if name not in ("defer", "listener", "deployed", "clients", "failover", "crowd", "state", "once"):
        declare(world, guarded(), queue="orders" if name == "queue" else "")
    _WORKLOADS[name](world)


_WORKLOADS: Final[dict[str, Callable[[World], None]]] = {
    # Few workers a host, one lock, bodies of all lengths.
    "mutex": partial(start_workers, workers=(1, 2), rounds=(1, 4), keys=1, kinds=("ship", "ship_sync")),
    # Orders of some customers, several at once on each host.
    "keys": partial(start_workers, workers=(2, 4), rounds=(1, 3), keys=3, kinds=("ship", "ship_soon", "ship_sync")),
    "chain": start_chain,
    "skip": start_skip,
    # All kinds of callers for two locks; some give up, some are cancelled.
    "mixed": partial(start_workers, workers=(1, 3), rounds=(1, 4), keys=2, kinds=_MIXED, cancels=0.2),
    "queue": start_queue,
    "semaphore": start_semaphore,
    "leader": start_leader,
    "defer": start_deferrals,
    "listener": start_listeners,
    "deployed": start_deployed,
    "clients": start_clients,
    "failover": start_failovers,
    "crowd": start_crowd,
    "state": start_states,
    "once": start_once,
}
WORKLOADS: Final = tuple(_WORKLOADS)
NAMED: Final = ("outbox", "rows", "ordered", "images")
"""Only who names one gets it. The first three need more to be installed: SQLAlchemy, azure-storage-queue."""
NOT_THROUGH_SDK: Final = ("ordered",)
"""Workloads whose requests the transport of ours below the SDK does not know: those to logs."""


def _start_named(name: str, world: World) -> None:
    start = getattr(import_module(f"simulator.virtual.workloads.{_MODULES[name]}"), f"start_{name}")
    start(world)


_MODULES: Final = {"outbox": "outboxes", "rows": "rowclaims", "ordered": "inboxes.hosts", "images": "images"}
