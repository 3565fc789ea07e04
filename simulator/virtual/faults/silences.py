"""The faults after which holders are silent, or seem silent: worlds with ``failover`` have them, and all others too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from simulator.virtual.faults.fault import Fault, Lasting, about, befallen, drawn
from simulator.virtual.faults.network import NetworkFault
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from simulator.virtual.faults.fault import Target
    from simulator.virtual.storage.network import Passage, Request

_OF: Final = ("failover",)
_CALLS: Final = {
    "write": "writes",
    "read": "looks at locks",
    "break_": "breaks of leases",
    "acquire": "attempts",
    "renew": "renewals",
    "all": "requests",
}
_FATES: Final = {
    "request lost": "are lost",
    "reply lost": "are carried out, and the replies are lost",
    "request reset": "are lost by a reset",
    "late": "arrive {0:g} s late",
    "reply late": "are answered {0:g} s late",
    "twice": "arrive twice, {0:g} s apart",
    "503": "are answered 503",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Silenced(NetworkFault, kind="silenced"):
    """All requests of a kind from one host go wrong in one way for some seconds."""

    of: ClassVar[tuple[str, ...]] = _OF
    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"call": tuple(_CALLS), "fate": tuple(_FATES)}
    seconds: float = about(0.5, 0.7, 1, 2, 2, 4, 8, 20)
    call: str = drawn("write", lambda rng: rng.choice(("write", "write", "write", *_CALLS)))
    fate: str = drawn("request lost", lambda rng: rng.choice(("request lost", "reply lost", "reply lost", *_FATES)))
    delay: float = drawn(1.0, lambda rng: round(rng.choice((0.3, 1.0, 2.0, 5.0)) * rng.uniform(0.5, 1.5), 3))

    def concerns(self, request: Request) -> bool:
        """Tell whether the rule is about this request."""
        mine = self.everybody or request.machine.index == self.host
        return mine and self.call in (request.call, "all")

    def affect(self, passage: Passage, rng: random.Random, since: float) -> None:  # noqa: ARG002
        if not befallen(passage, self.fate, self.delay):
            passage.answer = StoreFailure(503, None, "simulated")

    def words(self) -> str:
        return f"{_CALLS[self.call]} of {self.whose} {_FATES[self.fate].format(self.delay)} for {self.seconds:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderDies(Fault, kind="holder dies"):
    """SIGKILL of a host that has a lock then."""

    of: ClassVar[tuple[str, ...]] = (*_OF, "ordered")
    said: ClassVar[str] = "who has lock number {0.lock} is killed"
    lock: int = drawn(0, lambda rng: rng.randrange(3))

    def strike(self, world: Target) -> None:
        _kill_a_holder(world, self.lock)


@dataclass(frozen=True, slots=True, kw_only=True)
class BreaksInVain(NetworkFault, kind="breaks in vain"):
    """SIGKILL of a host that has a lock, and nobody gets a break through for some time."""

    of: ClassVar[tuple[str, ...]] = _OF
    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"fate": tuple(_FATES)}
    seconds: float = about(4, 8, 15, 30)
    fate: str = drawn("request lost", lambda rng: rng.choice(("request lost", "request lost", "late", "twice")))
    lock: int = drawn(0, lambda rng: rng.randrange(3))

    def strike(self, world: Target) -> None:
        super(BreaksInVain, self).strike(world)
        _kill_a_holder(world, self.lock)

    def concerns(self, request: Request) -> bool:
        """Tell whether the rule is about this request."""
        return request.call == "break_"

    def affect(self, passage: Passage, rng: random.Random, since: float) -> None:  # noqa: ARG002
        befallen(passage, self.fate, 0.5)

    def words(self) -> str:
        how = _FATES[self.fate].format(0.5)
        return f"who has lock number {self.lock} is killed, and breaks of leases {how} for {self.seconds:g} s"


def _kill_a_holder(world: Target, number: int) -> None:
    tenures = sorted(world.service.tenures(), key=lambda each: each.lock)
    holders = [each.machine.index for each in tenures if each.machine is not None]
    if holders:
        world.crash(holders[number % len(holders)])


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortPause(Lasting, kind="short pause"):
    """A process stands still for about as long as a touch is valid."""

    of: ClassVar[tuple[str, ...]] = _OF
    said: ClassVar[str] = "host-{0.host} stands still for {0.seconds:g} s, {0.steps} callbacks from then"
    seconds: float = about(0.7, 1.4, 1.9, 2.2, 3, 5, 11)
    steps: int = drawn(1, lambda rng: rng.randrange(1, 40))

    @property
    def ends(self) -> float:
        return self.at + self.seconds + 20.0

    def strike(self, world: Target) -> None:
        world.machines[self.host].stop_at_step(self.steps, self.seconds)
