"""The workloads of ``singleton-sim explore``, registered at import."""

from __future__ import annotations

from functools import partial
from typing import Final

from simulator.virtual.workloads.coalescing import start_coalesce
from simulator.virtual.workloads.deferrals import start_deferrals
from simulator.virtual.workloads.guarded_calls import start_queue, start_workers, with_jobs
from simulator.virtual.workloads.leaders import start_leader
from simulator.virtual.workloads.semaphores import start_semaphore
from simulator.virtual.workloads.small import SMALL
from simulator.virtual.worlds.registry import Workload, register

_HERE: Final = "simulator.virtual.workloads"
_MUTEX: Final = partial(start_workers, workers=(1, 2), rounds=(1, 4), keys=1, kinds=("ship", "ship_sync"))
"""One or two workers per host, one lock, short and long bodies."""
_KEYS: Final = partial(start_workers, workers=(2, 4), rounds=(1, 3), keys=3, kinds=("ship", "ship_soon", "ship_sync"))
"""Orders of three customers, two to four at a time on each host."""
BUILT_IN: Final = {
    "mutex": Workload(start=with_jobs(_MUTEX)),
    "keys": Workload(start=with_jobs(_KEYS)),
    "queue": Workload(start=with_jobs(start_queue, queue="orders")),
    "semaphore": Workload(start=with_jobs(start_semaphore), checks=(f"{_HERE}.semaphores",)),
    "leader": Workload(start=with_jobs(start_leader), checks=(f"{_HERE}.leaders",)),
    "defer": Workload(start=start_deferrals, checks=(f"{_HERE}.ledger",)),
    "coalesce": Workload(start=start_coalesce, checks=(f"{_HERE}.coalescing",)),
}

register(__name__, BUILT_IN | SMALL)
