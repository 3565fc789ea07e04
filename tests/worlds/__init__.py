"""The workloads of this project's own tests: ``make explore`` runs them beside those of ``singleton-sim explore``.

This module registers them. The order of the names decides which workload a scenario gets out of ``all``: a name in
another place would change the scenarios of all seeds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.workloads.builtin import BUILT_IN
from simulator.virtual.workloads.guarded_calls import with_jobs
from simulator.virtual.worlds.registry import Workload, names, register
from tests.worlds.callers import start_chain, start_mixed, start_skip
from tests.worlds.clients.clients import start_clients
from tests.worlds.clients.crowd import start_crowd
from tests.worlds.deployments.deployed import start_deployed
from tests.worlds.failovers import start_failovers
from tests.worlds.listeners.listeners import start_listeners
from tests.worlds.once import start_once
from tests.worlds.states import start_states

if TYPE_CHECKING:
    from simulator.virtual.worlds.world import World

REPLAY: Final = 'make explore ARGS="replay {file}"'


def _ours(start: Any, *checks: str, **more: Any) -> Workload:
    """Return a workload whose checks are explained in these modules of ``tests.worlds``."""
    return Workload(start=start, checks=tuple(f"{__name__}.{module}" for module in checks), replay=REPLAY, **more)


def _start_from(module: str, start: str, world: World) -> None:
    """Start a workload whose module needs SQLAlchemy or azure-storage-queue, and is imported only here."""
    getattr(import_module(f"{__name__}.{module}"), start)(world)


def _named(module: str, start: str, *checks: str, **more: Any) -> Workload:
    """Return a workload outside ``all``."""
    return replace(_ours(partial(_start_from, module, start), *checks, **more), in_all=False)


def _small(module: str, start: str, *checks: str, hosts: int = 2, **more: Any) -> Workload:
    """Return a workload with small worlds."""
    return replace(_named(module, start, *checks, **more), small=hosts)


register(
    __name__,
    {
        "mutex": BUILT_IN["mutex"],
        "keys": BUILT_IN["keys"],
        "chain": _ours(with_jobs(start_chain)),
        "skip": _ours(with_jobs(start_skip)),
        "mixed": _ours(with_jobs(start_mixed)),
        "queue": BUILT_IN["queue"],
        "semaphore": BUILT_IN["semaphore"],
        "leader": BUILT_IN["leader"],
        "defer": BUILT_IN["defer"],
        "listener": _ours(start_listeners, "listeners.answers"),
        "deployed": _ours(start_deployed, "deployments.deployed", "deployments.places"),
        "clients": _ours(start_clients, "clients.book", "clients.uses"),
        "failover": _ours(start_failovers),
        "crowd": _ours(start_crowd, "clients.crowd"),
        "state": _ours(start_states, "states"),
        "once": _ours(start_once, "once"),
        "outbox": _named("outboxes", "start_outbox", "outboxes"),
        "rows": _named("rowclaims", "start_rows", "rowclaims"),
        # Requests to logs: the transport of ours below the SDK does not know them.
        "ordered": _named(
            "inboxes.hosts",
            "start_ordered",
            *("inboxes.postbook", "inboxes.bellwatch", "inboxes.hosts"),
            through_sdk=False,
        ),
        "coalesce": replace(BUILT_IN["coalesce"], in_all=False),  # the numbers in planted_bugs.md stay
        "images": _named("images", "start_images"),
        "wires": _named("wires", "start_wires", through_sdk=False),
        "nested": _named("nested", "start_nested", "nested"),
        "limits": _named("limits", "start_limits"),
        "arguments": _named("arguments", "start_arguments", "arguments"),
        "starts": _named("starts", "start_starts", "starts"),
        "small-client": _small("clients.clients", "start_small_client", "clients.book", "clients.uses"),
        "small-set": _small("clients.clients", "start_small_set", "clients.book", "clients.uses"),
        "small-failover": _small("failovers", "start_small_failover", hosts=3),
        "small-touches": _small("failovers", "start_small_touches"),
        "small-leader": _small("failovers", "start_small_leader"),
        "small-listener": _small("listeners.listeners", "start_small_listener", "listeners.answers"),
        "small-once": _small("once", "start_small_once", "once"),
        "small-state": _small("states", "start_small_state", "states"),
        "small-ordered": _small(
            "inboxes.hosts",
            "start_small_ordered",
            *("inboxes.postbook", "inboxes.bellwatch", "inboxes.hosts"),
            through_sdk=False,
        ),
        "small-outbox": _small("outboxes", "start_small_outbox", "outboxes"),
    },
)

WORKLOADS: Final = names(in_all=True)
NAMED: Final = names(in_all=False)
