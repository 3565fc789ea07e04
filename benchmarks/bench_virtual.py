"""How fast is virtual time? Fleets whose hosts renew leases, or poll for those of others, and ``explore``.

A fleet runs the shipped lock on machines with clocks, over the network and the service of the virtual worlds, with
fencing tokens. Measured is the steady state: who holds renews, who waits polls, nobody comes or goes.
"""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.measuring import heading, machine, say, table
from simulator.virtual.faults import KINDS
from simulator.virtual.search.exploration import Exploration, Summary, explore
from simulator.virtual.storage.network import Network
from simulator.virtual.storage.service import NetworkStore, Service
from simulator.virtual.time.loop import VirtualLoop
from simulator.virtual.time.machine import Machine
from singleton.base.errors import LockNotAcquired
from singleton.locking.lock import Lock, release
from singleton.locking.phase import Timing
from tests.worlds import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.measuring import Rows, Tables

_SETTLED: Final = 20.0
"""Seconds of virtual time after which every host of a fleet holds its lock."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What a fleet did in its steady state; ``cpu``: seconds of one core."""

    hosts: int
    seconds: float
    cpu: float
    calls: int

    @property
    def host_seconds(self) -> float:
        """Host-seconds of virtual time for a second of a core."""
        return self.hosts * self.seconds / self.cpu


def run_fleet(hosts: int, seconds: float, *, one_polls_of: int = 0) -> Pace:
    """Let a fleet renew for so many seconds of virtual time; one host of so many waits for its neighbour's lock."""
    loop = VirtualLoop()  # type: ignore[abstract]
    service = Service(loop)
    network = Network(loop, random.Random(1), (0.002, 0.03))
    marks: list[tuple[float, int]] = []

    async def hold(host: Machine) -> None:
        store = NetworkStore(network, service, host)
        rng = random.Random(host.index)
        lock = Lock(store, f"locks/{host.index}", timing=Timing(), rng=rng)
        await asyncio.sleep(rng.uniform(0.0, 7.5))
        held = await lock.acquire()
        await asyncio.sleep(_SETTLED + seconds)
        assert not held.lost.is_set()
        await release(held)

    async def poll(host: Machine) -> None:
        store = NetworkStore(network, service, host)
        lock = Lock(store, f"locks/{host.index - 1}", timing=Timing(), rng=random.Random(host.index))
        await asyncio.sleep(10.0)
        with suppress(LockNotAcquired):
            await lock.acquire(timeout=_SETTLED + seconds - 15.0)
        await lock.at_rest()

    def mark() -> None:
        marks.append((time.process_time(), service.calls["renew"] + service.calls["acquire"]))

    async def live() -> None:
        loop.call_at(_SETTLED, mark)
        loop.call_at(_SETTLED + seconds, mark)
        machines = [Machine(index, loop) for index in range(hosts)]
        polls = [one_polls_of > 0 and host.index % one_polls_of == one_polls_of - 1 for host in machines]
        work = [poll(host) if waits else hold(host) for host, waits in zip(machines, polls, strict=True)]
        tasks = [loop.create_task(each, context=host.context()) for each, host in zip(work, machines, strict=True)]
        await asyncio.gather(*tasks)

    gc.collect()
    loop.run_until_complete(live())
    (began, before), (ended, after) = marks
    return Pace(hosts, seconds, ended - began, after - before)


def bench_fleets(rounds: int) -> Rows:
    """A thousand hosts and ten thousand, in turn."""
    heading("Fleets under virtual time")
    say(machine())
    small, large, tenth, half = [], [], [], []
    for _ in range(rounds):
        small.append(run_fleet(1_000, 300.0))
        large.append(run_fleet(10_000, 60.0))
        tenth.append(run_fleet(1_000, 300.0, one_polls_of=10))
        half.append(run_fleet(1_000, 300.0, one_polls_of=2))
    rows: Rows = [("hosts", "host-seconds a second of one core", "µs a call")]
    rows += [
        _row(small, "renew"),
        _row(large, "renew"),
        _row(tenth, "one of ten polls"),
        _row(half, "half of them poll"),
    ]
    table(rows)
    factors = [one.host_seconds / ten.host_seconds for one, ten in zip(small, large, strict=True)]
    say(f"  A host-second of 10,000 hosts costs {statistics.median(factors):.2f} times one of 1,000.")
    return rows


def _row(paces: Sequence[Pace], what: str) -> tuple[str, ...]:
    rates = [pace.host_seconds for pace in paces]
    cost = statistics.median(pace.cpu / pace.calls for pace in paces) * 1e6
    return (
        f"{paces[0].hosts:,}, {what}",
        f"{statistics.median(rates):,.0f} ({min(rates):,.0f} … {max(rates):,.0f})",
        f"{cost:.0f}",
    )


def bench_scenarios(rounds: int) -> Rows:
    """Scenarios of ``explore``, with one process and with two, in turn."""
    heading("Scenarios of `singleton-sim explore --hosts 5 --faults all`")
    say(machine())
    rates: dict[int, list[float]] = {1: [], 2: []}
    for number in range(rounds):
        for jobs, measured in rates.items():
            measured.append(_scenarios_a_second(jobs, number))
    factor = statistics.median(two / one for one, two in zip(rates[1], rates[2], strict=True))
    rows: Rows = [("`explore --jobs`", "scenarios a second", "to one")]
    rows += [
        (str(jobs), f"{statistics.median(measured):.1f}", f"{factor if jobs == 2 else 1:.2f}")
        for jobs, measured in rates.items()
    ]
    table(rows)
    return rows


def _scenarios_a_second(jobs: int, seed: int) -> float:
    """Measure from the first report on, so that starting the processes is not in it."""
    reports: list[tuple[float, int]] = []

    def report(summary: Summary) -> None:
        reports.append((time.perf_counter(), summary.scenarios))

    plan = Exploration(scenarios=1_000, hosts=5, kinds=tuple(KINDS), workloads=WORKLOADS, seed=1 + seed, jobs=jobs)
    summary = explore(plan, report)
    if summary.broken is not None:
        say(f"  Scenario {summary.broken} of seed {plan.seed} breaks a promise: see singleton-sim explore.")
    (began, before), (ended, after) = reports[0], reports[-1]
    return (after - before) / (ended - began)


def main(rounds: int = 3) -> Tables:
    """Run both."""
    return {"virtual": bench_fleets(rounds), "scenarios": bench_scenarios(rounds)}


if __name__ == "__main__":
    main()
