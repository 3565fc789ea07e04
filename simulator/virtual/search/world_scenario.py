"""A scenario: everything that a virtual world depends on. Equal scenarios have equal histories, to the bit."""

from __future__ import annotations

import os
import random
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.faults import KINDS, WorldFault, fault_from
from simulator.virtual.faults.wire_faults import OF_WIRES
from simulator.virtual.worlds.registry import names, workload
from simulator.virtual.worlds.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from simulator.virtual.worlds.outcome import Run

FAULTS_UNTIL: Final = 60.0
"""Seconds of a world in which faults begin."""
STRETCH: Final = 20.0
"""Seconds within which faults strike that belong together."""
MOST_HOSTS: Final = 50
_WIRED: Final = 3
"""One world of so many runs over the virtual wire."""
OF_APPS: Final = (
    *("mutex", "keys", "chain", "skip", "mixed", "queue", "semaphore", "leader"),
    *("defer", "listener", "deployed", "clients", "failover", "crowd", "state", "once"),
)
"""An app may use any part of the package: the faults of its worlds are drawn as for one of these workloads."""
_IN_MEMORY: Final = "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None  # noqa: S108 - files of nobody else
"""Where files are quick: a database waits for its disk at each write, and a world makes dozens in no time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldScenario:
    """A world to be: ``seed`` gives its work, its latencies and the order of its events; ``faults`` are as listed.

    ``messages``: the user's own for ``app``, the queue and the body of each.
    ``sdk``: the hosts use the shipped store for Azure and the real SDK, on a transport of ours; ten times slower.
    ``wire``: the hosts use the shipped store for blobs, over the virtual wire.
    """

    seed: int
    hosts: int
    workload: str
    faults: tuple[WorldFault, ...] = ()
    app: str = ""
    messages: tuple[tuple[str, str], ...] = ()
    sdk: bool = False
    wire: bool = False

    @classmethod
    def draw(
        cls,
        seed: int,
        *,
        hosts: int,
        kinds: Sequence[str],
        workloads: Sequence[str] = (),
        app: str = "",
        wire: bool | None = None,
    ) -> WorldScenario:
        """Make scenario number ``seed``: two to ``hosts`` hosts, none to six faults of ``kinds``.

        ``workloads``: the names to choose from; default: those in ``all``. ``wire``: whether over the virtual wire,
        with none to three faults of the wire; default: one world of three. The rest does not depend on it.
        """
        rng = random.Random(f"{seed}/scenario")
        number = rng.randint(min(2, hosts), hosts)
        chosen = _one_of(workloads or (OF_APPS if app else names(in_all=True)), seed)
        many = rng.choice([0, 1, 1, 2, 2, 3, 4, 6]) if kinds else 0
        known = _concerning(kinds, chosen)
        drawn = (
            [KINDS[rng.choice(known)].draw(rng, hosts=number, until=FAULTS_UNTIL) for _ in range(many)] if known else []
        )
        if rng.random() < 0.5:  # disasters come together: all on one host, at about one time
            host, start = rng.randrange(number), rng.uniform(0, FAULTS_UNTIL - STRETCH)
            shrunk = STRETCH / FAULTS_UNTIL
            drawn = [replace(fault, host=host, at=round(start + fault.at * shrunk, 3)) for fault in drawn]
        rng = random.Random(f"{seed}/wire")
        by_chance, of_wires = rng.randrange(_WIRED) == 0, _of_wires(rng, kinds, number)
        wire = by_chance if wire is None else wire
        faults = tuple(sorted([*drawn, *(of_wires if wire else [])], key=lambda fault: fault.at))
        return cls(seed=seed, hosts=number, workload=chosen, faults=faults, app=app, wire=wire)

    def run(self) -> Run:
        """Let the world happen."""
        if self.app:
            from simulator.virtual.search.user_app import start_app

            with _temporary_folder():
                world = World(self.seed, self.hosts, self.faults, sdk=self.sdk, wire=self.wire)
                start_app(self.app, world, self.messages)
                return world.run()
        return self.begun().run()

    def begun(self) -> World:
        """Return the world of a workload, with all its work, before its time begins."""
        world = World(self.seed, self.hosts, self.faults, sdk=self.sdk, wire=self.wire)
        workload(self.workload).start(world)
        return world

    def without(self, index: int, *instead: WorldFault) -> WorldScenario:
        """Return the scenario without one of its faults, or with another in its place."""
        return replace(self, faults=(*self.faults[:index], *instead, *self.faults[index + 1 :]))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "seed": self.seed,
            "hosts": self.hosts,
            "workload": self.workload,
            **({"app": self.app} if self.app else {}),
            **({"messages": [list(message) for message in self.messages]} if self.messages else {}),
            **({"sdk": True} if self.sdk else {}),
            **({"wire": True} if self.wire else {}),
            "faults": [fault.to_dict() for fault in self.faults],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> WorldScenario:
        """Make a scenario from its JSON data.

        Raises:
            UnknownWorkload: no module has registered its workload.
            ValueError: something in it is missing, unknown or out of range.
        """
        try:
            seed, hosts, name, faults = (data[key] for key in ("seed", "hosts", "workload", "faults"))
        except KeyError as error:
            raise ValueError(f"a scenario needs {error.args[0]!r}") from None
        if not isinstance(seed, int) or not isinstance(hosts, int) or not 1 <= hosts <= MOST_HOSTS:
            raise ValueError(f"seed {seed!r} and hosts {hosts!r} must be whole numbers, hosts from 1 to {MOST_HOSTS}")
        app = str(data.get("app", ""))
        if not app:
            workload(str(name))
        if not isinstance(faults, list) or not all(isinstance(fault, dict) for fault in faults):
            raise ValueError("faults must be a list of objects")
        made = tuple(fault_from(fault) for fault in faults)
        if strange := [fault.host for fault in made if not 0 <= fault.host < hosts]:
            raise ValueError(f"a fault strikes host {strange[0]}, but there are only {hosts}")
        ways, messages = {way: data.get(way) is True for way in ("sdk", "wire")}, _messages(data.get("messages", []))
        return cls(seed=seed, hosts=hosts, workload=name, faults=made, app=app, messages=messages, **ways)


@contextmanager
def _temporary_folder() -> Iterator[None]:
    """Give the world a temporary folder: what an app keeps there, such as a database, is not the next world's."""
    with tempfile.TemporaryDirectory(prefix="singleton-world-", dir=_IN_MEMORY, ignore_cleanup_errors=True) as folder:
        before, tempfile.tempdir = tempfile.tempdir, folder
        try:
            yield
        finally:
            tempfile.tempdir = before


def _messages(listed: object) -> tuple[tuple[str, str], ...]:
    pairs: list[Any] = listed if isinstance(listed, list) else [listed]
    if not all(isinstance(pair, list) and [type(each) for each in pair] == [str, str] for pair in pairs):
        raise ValueError("messages must be a list of pairs of texts, a queue and a body each")
    return tuple((queue, body) for queue, body in pairs)


def _concerning(kinds: Sequence[str], workload: str) -> list[str]:
    """Return the kinds of faults that concern a workload. Half are kinds for this workload only."""
    common = [kind for kind in kinds if not KINDS[kind].of]
    own = [kind for kind in kinds if workload in KINDS[kind].of]
    return common + own * max(1, len(common) // max(1, len(own)))


def _of_wires(rng: random.Random, kinds: Sequence[str], hosts: int) -> list[WorldFault]:
    known = [kind for kind in kinds if OF_WIRES in KINDS[kind].of]
    many = rng.choice([0, 1, 1, 2, 3]) if known else 0
    return [KINDS[rng.choice(known)].draw(rng, hosts=hosts, until=FAULTS_UNTIL) for _ in range(many)]


def _one_of(names: Sequence[str], seed: int) -> str:
    """Choose evenly. A further name then changes only the scenarios with this name."""
    chosen = names[0]
    for number, name in enumerate(names[1:], 2):
        if random.Random(f"{seed}/{name}").randrange(number) == 0:
            chosen = name
    return chosen
