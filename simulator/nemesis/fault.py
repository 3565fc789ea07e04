"""A fault of real hosts: a frozen record of when, on whom and for how long, which can begin and end.

A class for each kind enters itself in `KINDS`. What a class draws depends on nothing but its random stream, so a seed
always makes the same plan. Whom a fault strikes is decided when it is due (`aims.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, Self
from urllib.parse import unquote

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from simulator.nemesis.field import Field, Tell

Aim = Literal["holder", "renewal", "release", "waiters", "anybody"]
Way = Literal["both", "requests", "replies"]

AIMS: Final[tuple[Aim, ...]] = ("holder", "renewal", "release", "waiters", "anybody")
KINDS: dict[str, type[Fault]] = {}
"""All kinds, by name; a class with a kind enters itself."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Whom a fault strikes: the hosts, the lock that it is about ("" for none), and what was aimed at in the end."""

    hosts: tuple[str, ...]
    lock: str = ""
    aim: Aim = "anybody"

    @property
    def who(self) -> str:
        """Name the hosts."""
        *others, last = self.hosts
        return f"{', '.join(others)} and {last}" if others else last

    @property
    def moment(self) -> str:
        """Say what a host that is struck alone was doing, as the end of a sentence."""
        said = _MOMENTS.get(self.aim, "") if self.lock else ""
        return f", {said} {short(self.lock)}" if said else ""


_MOMENTS: Final[Mapping[Aim, str]] = {
    "holder": "while it has",
    "renewal": "about to renew",
    "release": "about to release",
    "waiters": "about to ask again for",
}


def short(lock: str) -> str:
    """Return a lock's name without the folder of its app.

    >>> short("locks/fleet/ship.north")
    'ship.north'
    """
    return unquote(lock.split("/", 2)[-1]) if lock.startswith("locks/") else lock


class Ongoing(Protocol):
    """A fault that has begun."""

    @property
    def hits(self) -> int:
        """How many requests it has hit so far."""

    def is_over(self) -> bool:
        """Tell whether it has ended by itself."""

    def end(self) -> None:
        """Undo it."""


class Done:
    """A fault that is over as soon as it has begun."""

    hits = 0

    def is_over(self) -> bool:
        """Tell that it is over."""
        return True

    def end(self) -> None:
        """Do nothing: it can't be undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(ABC):
    """Something that goes wrong at ``at`` seconds after all hosts were ready.

    Attributes:
        at: when it is due.
        aim: what it waits for, and strikes then.
        host: the only host that it may strike; "" for any.
        lock: the only lock that it may be about; "" for any.
        seconds: how long it lasts. None: the kind says so, by the lease of the lock.
        leases: how long it lasts, in leases of the lock; 0: ``seconds`` says so.
        way: which way requests are lost, if the kind has ways.
        number: how many hosts it strikes.
        everybody: it strikes all of them.
    """

    kind: ClassVar[str]
    about: ClassVar[str]
    """One sentence for the help and the documentation."""
    aims: ClassVar[tuple[Aim, ...]] = AIMS
    """What it may aim at; a draw takes any of them, and a repeated one more often."""
    ways: ClassVar[tuple[Way, ...]] = ()
    lasts: ClassVar[bool] = True
    disables: ClassVar[bool] = True
    """Whether a host that it alone has struck can't do its work."""
    many: ClassVar[bool] = False
    """Whether it can strike several hosts at a time."""
    stops: ClassVar[bool] = False
    """Whether its victim does nothing more from then on: what it was about to send is not sent."""
    at: float
    aim: Aim = "anybody"
    host: str = ""
    lock: str = ""
    seconds: float | None = None
    leases: float = 0.0
    way: str = ""
    number: int = 1
    everybody: bool = False

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            cls.kind = kind
        if "kind" in vars(cls):  # also when dataclass makes the class once more, for its slots
            KINDS[cls.kind] = cls

    @classmethod
    def draw(cls, rng: random.Random, at: float) -> Self:
        """Make a random one that is due at ``at``."""
        way = rng.choice(cls.ways) if cls.ways else ""
        aim = rng.choice(cls.aims)
        return cls(at=at, aim=aim, way=way, **cls.details(rng))

    @classmethod
    def details(cls, rng: random.Random) -> Mapping[str, Any]:
        """Draw what only this kind has: its length, mostly."""
        return {"seconds": round(rng.uniform(3, 9), 1)} if cls.lasts else {}

    @property
    def easiest(self) -> Aim:
        """At what it aims when its moment does not come: what is about one lock strikes who has that."""
        return "holder" if self.lock else "anybody"

    @property
    def disabling(self) -> bool:
        """Whether its victims can't do their work. What strikes everybody leaves everybody working, if slowly."""
        return self.disables and not self.everybody

    def length(self, field: Field) -> float | None:
        """Return for how long it lasts, once it is due; None for an instant."""
        if self.seconds is None and self.leases:
            return min(round(self.leases * field.lease(), 1), LONGEST)
        return self.seconds

    @abstractmethod
    def begin(self, field: Field, mark: Mark, tell: Tell) -> Ongoing | None:
        """Do it; None if it can't be done now. ``tell`` is called right before, once it is sure to be done."""

    @abstractmethod
    def words(self, mark: Mark, seconds: float | None) -> str:
        """Say in one plain sentence what happens, without its full stop."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data, without what is as it is by default."""
        usual = {each.name: each.default for each in fields(self)}
        values = {name: value for name, value in asdict(self).items() if name == "aim" or value != usual[name]}
        return {"kind": self.kind, **values}


LONGEST: Final = 45.0
"""Seconds of the longest fault that is drawn."""
