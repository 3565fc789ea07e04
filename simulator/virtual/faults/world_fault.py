"""A fault of a virtual world: a record that can strike a world.

The JSON of a fault has its fields. A list of faults is a story that can be shrunk and replayed.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from simulator.faults.fault_record import JSON_TYPES, Fault, drawn

if TYPE_CHECKING:
    import asyncio
    import random
    from collections.abc import Mapping, Sequence

    from simulator.virtual.storage.network import Network, Passage
    from simulator.virtual.storage.service import Service
    from simulator.virtual.time.loop import VirtualLoop
    from simulator.virtual.time.machine import Machine


KINDS: dict[str, type[WorldFault]] = {}
"""All kinds, by name; a class with a kind enters itself."""


class Target(Protocol):
    """The part of a world that faults need."""

    loop: VirtualLoop
    machines: list[Machine]
    network: Network
    service: Service
    rng_faults: random.Random

    def crash(self, index: int, /) -> None: ...
    def shut_down(self, index: int, /) -> None: ...
    def operate(self, action: str, number: int, /) -> None: ...
    def operate_on(self, action: str, lock: str, /) -> None: ...
    def cancel(self, call: asyncio.Task[Any], /) -> None: ...
    def struck(self, fault: WorldFault, /) -> None: ...
    def forget_connections(self, index: int, /) -> None: ...
    def replace_credentials(self) -> None: ...
    def spoil_log(self, index: int, seconds: float, /, *, raises: bool) -> None: ...


def about(*lengths: float, spread: float = 0.2) -> Any:
    """Make a field for a length: about one of these."""
    return drawn(10.0, lambda rng: round(rng.choice(lengths) * rng.uniform(1 - spread, 1 + spread), 3))


def sometimes(share: float) -> Any:
    """Make a field that is true in this share of the faults."""
    return drawn(False, lambda rng: rng.random() < share)  # noqa: FBT003 - the field's default


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldFault(Fault):
    """Something that goes wrong at ``at`` seconds on host number ``host``."""

    kinds: ClassVar[dict[str, type[Any]]] = KINDS
    said: ClassVar[str] = ""
    """The sentence for it, without its end; ``{0}`` is the fault."""
    from_start: ClassVar[bool] = False
    """Whether it strikes before anything else, with any ``at``."""
    comes_to_a_point: ClassVar[bool] = False
    """Whether the fault is set up at the start of the world, and strikes when the point of the fault comes."""
    allowed: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The values that a field may have, if they are few."""
    of: ClassVar[tuple[str, ...]] = ()
    """The workloads that have faults of this kind; empty: all."""
    host: int = 0

    @classmethod
    def draw(cls, rng: random.Random, *, hosts: int, until: float) -> Self:
        """Make a random one that strikes one of ``hosts`` hosts before ``until``."""
        draws = cls.draws()
        # Their order decides what a seed means: the length, place and time, the rest; at the end, whether all are
        # struck.
        early = {name: draws.pop(name)(rng) for name in ("seconds",) if name in draws}
        at, host = place_and_time(rng, hosts, until)
        rest = {name: draws[name](rng) for name in sorted(draws, key=lambda name: name == "everybody")}
        return cls(at=at, host=host, **early, **rest)

    @property
    def ends(self) -> float:
        """When the world is well again."""
        return self.at

    @property
    def lasts(self) -> float:
        """For how many seconds the world is not well after a strike whose time is not known before."""
        return 0.0

    @abstractmethod
    def strike(self, world: Target) -> None:
        """Do it; called at ``at``."""

    def words(self) -> str:
        """Say what happens, in a sentence without its end."""
        return self.said.format(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting(WorldFault):
    """A fault of some length."""

    seconds: float = about(0.5, 2, 5, 8, 14, 16, 20, 40)

    @property
    def ends(self) -> float:
        return self.at + self.seconds


def place_and_time(rng: random.Random, hosts: int, until: float) -> tuple[float, int]:
    """Draw when a fault strikes, and which host."""
    return round(rng.uniform(0, until), 3), rng.randrange(hosts)


def fault_from(data: dict[str, Any]) -> WorldFault:
    """Make a fault from its JSON data.

    Raises:
        ValueError: the kind is unknown, or a field is, or a value makes no sense.
    """
    values = dict(data)
    kind = values.pop("kind", None)
    if kind not in KINDS:
        raise ValueError(f"fault kind {kind!r} is unknown: it must be one of {', '.join(KINDS)}")
    try:
        fault = KINDS[kind](**values)
    except TypeError as error:
        raise ValueError(f"fault {kind!r}: {error}") from None
    for each in fields(fault):
        value = getattr(fault, each.name)
        if type(value) not in JSON_TYPES[str(each.type)]:
            raise ValueError(f"fault {kind!r}: {each.name} is {value!r}, which is no {each.type}")
        allowed = fault.allowed.get(each.name)
        if allowed is not None and value not in allowed:
            raise ValueError(f"fault {kind!r}: {each.name} is {value!r}: it must be one of {', '.join(allowed)}")
    return fault


def befallen(passage: Passage, fate: str, seconds: float) -> bool:
    """Apply a fate of the vocabulary; tell whether this is such a fate."""
    passage.reset = fate.endswith("reset")
    match fate:
        case "request lost" | "request reset":
            passage.lost = True
        case "reply lost" | "reply reset":
            passage.reply_lost = True
        case "late":
            passage.out += seconds
        case "reply late":
            passage.back += seconds
        case "twice":
            passage.copies, passage.copy_delay = 2, seconds
        case _:
            return False
    return True
