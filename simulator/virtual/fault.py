"""What a fault of a virtual world is; the kinds are in ``faults.py`` and ``netfaults.py``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from simulator.virtual.world import World

_JSON: Final[dict[str, tuple[type, ...]]] = {"float": (float, int), "int": (int,), "bool": (bool,), "str": (str,)}
"""What a field of a type may be in JSON."""
KINDS: dict[str, type[Fault]] = {}
"""All kinds, by name; a class that has one is there as soon as it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong at ``at`` seconds on host number ``host``."""

    kind: ClassVar[str]
    from_start: ClassVar[bool] = False
    """Whether it strikes before anything else, whatever ``at`` says."""
    allowed: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The values that a field may have, where they are few."""
    at: float
    host: int = 0

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            KINDS[cls.kind] = cls

    @classmethod
    def draw(cls, rng: random.Random, *, hosts: int, until: float) -> Self:
        """Make a random one that strikes one of ``hosts`` hosts before ``until``."""
        return cls(at=round(rng.uniform(0, until), 3), host=rng.randrange(hosts))

    @property
    def ends(self) -> float:
        """When the world is well again."""
        return self.at

    def strike(self, world: World) -> None:
        """Do it; called at ``at``."""
        raise NotImplementedError

    def words(self) -> str:
        """Say what happens, in a sentence without its end."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting(Fault):
    """A fault of some length."""

    seconds: float = 10.0
    longest: ClassVar[float] = 40.0

    @classmethod
    def draw(cls, rng: random.Random, *, hosts: int, until: float) -> Self:
        length = rng.choice([0.5, 2, 5, 8, 14, 16, 20, cls.longest]) * rng.uniform(0.8, 1.2)
        return cls(at=round(rng.uniform(0, until), 3), host=rng.randrange(hosts), seconds=round(length, 3))

    @property
    def ends(self) -> float:
        return self.at + self.seconds


def fault_from(data: dict[str, Any]) -> Fault:
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
        if type(value) not in _JSON[str(each.type)]:
            raise ValueError(f"fault {kind!r}: {each.name} is {value!r}, which is no {each.type}")
        allowed = fault.allowed.get(each.name)
        if allowed is not None and value not in allowed:
            raise ValueError(f"fault {kind!r}: {each.name} is {value!r}: it must be one of {', '.join(allowed)}")
    return fault
