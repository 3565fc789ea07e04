"""Every point once: the points of small worlds, counted in a world without faults, and the worlds that strike them.

A point is a request or a step. ``simulator/virtual/faults/point_faults.py`` has the fates of requests and the acts at
steps. A world strikes one point in one way. Small enough worlds are struck twice: a request, and then another one
(``pairs``), or a step at which a call is cancelled or locks are closed. Not all orders of events are tried: a world has
the orders of a few seeds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from simulator.checks.findings import count
from simulator.virtual.faults.point_faults import (
    LASTING,
    PAST_THE_LEASE,
    NumberedRequest,
    NumberedStep,
    fates,
    watch_steps,
)
from simulator.virtual.search.cluster_worker import version
from simulator.virtual.search.exploration import Exploration
from simulator.virtual.search.world_scenario import WorldScenario
from simulator.virtual.worlds.registry import workload
from singleton.locking.seat import seat_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from simulator.virtual.faults import WorldFault
    from simulator.virtual.search.exploration import Summary
    from simulator.virtual.storage.network import NetworkRequest, Passage
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.outcome import Run

Look: TypeAlias = Literal["calm", "fates", "cancel", "kill", "pause", "close", "lasting", "pairs"]
SINGLE: Final[tuple[Look, ...]] = ("calm", "fates", "cancel", "kill", "pause", "close")
LOOKS: Final[tuple[Look, ...]] = (*SINGLE, "lasting", "pairs")
"""What strikes the points: nothing; the fates of requests; the acts at steps; what begins with a request; pairs."""
ORDERS: Final = 3
"""Seeds, and so orders of events, for each world."""
MOST_PAIRED: Final = 12
"""Requests of the worlds that are struck twice."""
_FIRST: Final[tuple[Look, ...]] = ("lasting", "fates")
_SECOND: Final[tuple[Look, ...]] = ("close", "cancel", "pairs")
"""What strikes a world first, and what strikes it then, with the look ``pairs``."""
_CHUNK: Final = 100


@dataclass(frozen=True, slots=True)
class Census:
    """The points of a world: the requests with their fates, and the steps with the calls under way on the host.

    ``clients``: the calls whose lock clients can be closed.
    """

    requests: tuple[NumberedRequest, ...]
    many_requests: int
    steps: tuple[tuple[NumberedStep, tuple[str, ...]], ...]
    clients: frozenset[str]
    run: Run


@lru_cache(maxsize=4)
def census(scenario: WorldScenario) -> Census:
    """Run a world, and count its points."""
    requests: list[NumberedRequest] = []
    steps: list[tuple[NumberedStep, tuple[str, ...]]] = []
    world = scenario.begun()
    sent = 0

    def send(request: NetworkRequest, _: Passage) -> None:
        nonlocal sent
        sent += 1
        of_a_lock = request.name in world.service.names()
        asked = NumberedRequest(at=world.loop.now, host=request.machine.index, number=sent, call=request.call)
        of_a_seat, by_host = request.name.endswith(seat_name("")), not getattr(request, "by_locks", True)
        met = fates(request.call, of_a_lock=of_a_lock, by_host=by_host, of_a_seat=of_a_seat)
        requests.extend(replace(asked, fate=fate, seconds=seconds) for fate, seconds in met)

    def step(machine: Machine, number: int) -> None:
        calls = tuple(each.get_name() for each in machine.calls if not each.done())
        if calls:
            steps.append((NumberedStep(at=world.loop.now, host=machine.index, number=number), calls))

    world.network.rules.append(send)
    watch_steps(world.machines, step)
    run = world.run()
    clients = frozenset(call for machine in world.machines for call in machine.clients)
    return Census(tuple(requests), sent, tuple(steps), clients, run)


@lru_cache(maxsize=4)
def struck(scenario: WorldScenario, look: Look) -> tuple[WorldScenario, ...]:
    """Return the worlds in which each point of a world is struck once, in one way."""
    if look == "calm":
        return (scenario,)
    counted = census(scenario)
    first = next((fault for fault in scenario.faults if isinstance(fault, NumberedRequest)), None)
    steps = [each for each in counted.steps if first is None or each[0].at > first.at]
    faults: list[WorldFault] = []
    match look:
        case "fates" | "pairs":
            faults += [fault for fault in counted.requests if first is None or fault.number > first.number]
        case "lasting":
            of_blobs = {fault.number: fault for fault in counted.requests if not fault.call.startswith("queue ")}
            begun = (replace(each, fate=fate, seconds=PAST_THE_LEASE) for each in of_blobs.values() for fate in LASTING)
            faults += [fault for fault in begun if fault not in counted.requests]
        case "cancel":
            faults += [replace(step, act=look, call=call) for step, calls in steps for call in calls]
        case _:
            seconds = PAST_THE_LEASE if look == "pause" else 0.0
            faults += [replace(step, act=look, seconds=seconds) for step, _ in steps]
            if look == "close":
                closed = [(step, call) for step, calls in steps for call in calls if call in counted.clients]
                faults += [replace(step, act="close client", call=call) for step, call in closed]
    return tuple(replace(scenario, faults=(*scenario.faults, fault)) for fault in faults)


@dataclass(frozen=True, slots=True)
class Block:
    """Worlds with numbers from ``first`` on, which strike the points of one world in one way."""

    scenario: WorldScenario
    look: Look
    first: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EveryPoint(Exploration):
    """The plan to strike every point of small worlds once; ``file`` says how far it has come."""

    unit: ClassVar[str] = "point"
    blocks: tuple[Block, ...]
    file: Path | None = None

    def scenario(self, index: int) -> WorldScenario:
        """Return the world with this number."""
        block = next(each for each in self.blocks if each.first <= index < each.first + each.size)
        return struck(block.scenario, block.look)[index - block.first]

    def chunks(self) -> Iterator[tuple[Exploration, int, int]]:
        """Yield the pieces that are handed out, each with its own block only."""
        for block in self.blocks:
            end = block.first + block.size
            for start in range(max(self.start, block.first), end, _CHUNK):
                yield replace(self, blocks=(block,)), start, min(start + _CHUNK, end)

    def size(self, summary: Summary) -> str:
        """Say in words how many points were struck."""
        findings = count(int(summary.broken is not None), "finding")
        return f"{summary.scenarios:,} of {self.scenarios:,} points, {findings}"

    def keep(self, summary: Summary) -> None:
        """Write down how far it has come; a point with a finding is struck again."""
        if self.file is not None:
            done = summary.scenarios if summary.broken is None else summary.broken
            kept = {"plan": self._name, "done": done, "virtual_seconds": summary.virtual_seconds}
            self.file.write_text(json.dumps(kept) + "\n", encoding="utf-8")

    def taken_up(self, file: Path) -> EveryPoint:
        """Return the plan without the points that are done, if the file is about this plan and this code."""
        plan = replace(self, file=file)
        try:
            kept: Any = json.loads(file.read_text(encoding="utf-8"))
            if kept["plan"] != self._name:
                return plan
            return replace(plan, start=int(kept["done"]), virtual_seconds=float(kept["virtual_seconds"]))
        except (OSError, ValueError, TypeError, KeyError):
            return plan

    @property
    def _name(self) -> list[object]:
        return [version(self.modules), self.seed, self.scenarios, *self.workloads]


def every_point(
    names: Sequence[str], *, looks: Sequence[Look] | None = None, orders: int = ORDERS, seed: int = 1, jobs: int = 1
) -> EveryPoint:
    """Count the points of these small worlds, and return the plan to strike them."""
    blocks: list[Block] = []
    total = 0
    for scenario, look in _looks(names, LOOKS if looks is None else looks, range(seed, seed + orders)):
        size = len(struck(scenario, look))
        blocks.append(Block(scenario, look, total, size))
        total += size
    kinds = (NumberedRequest.kind, NumberedStep.kind)
    hosts = max(workload(name).small for name in names)
    return EveryPoint(
        scenarios=total, hosts=hosts, kinds=kinds, workloads=tuple(names), seed=seed, jobs=jobs, blocks=tuple(blocks)
    )


def _looks(names: Sequence[str], looks: Sequence[Look], seeds: range) -> Iterator[tuple[WorldScenario, Look]]:
    """Yield the worlds whose points are struck, and how; for pairs, worlds in which a request is struck already."""
    for seed in seeds:
        for name in names:
            scenario = WorldScenario(seed=seed, hosts=workload(name).small, workload=name)
            yield from ((scenario, look) for look in looks if look != "pairs")
    for seed in seeds if "pairs" in looks else ():
        for name in names:
            scenario = WorldScenario(seed=seed, hosts=workload(name).small, workload=name)
            if census(scenario).many_requests <= MOST_PAIRED:
                yield from ((first, look) for each in _FIRST for first in struck(scenario, each) for look in _SECOND)
