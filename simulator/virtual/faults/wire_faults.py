"""The faults of the virtual wire: of connections, of answers on their way, of the account's keys and tokens.

Worlds over the wire have them beside the faults of their workload, by draws of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from simulator.faults.fault_record import drawn
from simulator.virtual.faults.network_faults import NetworkFault
from simulator.virtual.faults.world_fault import WorldFault, about
from simulator.virtual.storage.network import SPOILINGS, Spoilt

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from simulator.virtual.faults.world_fault import Target
    from simulator.virtual.storage.network import Passage

OF_WIRES: Final = "over the wire"
"""In place of a workload: the faults of worlds over the wire, of whatever workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenConnections(WorldFault, kind="forgotten connections"):
    """The network forgets the idle connections of a host: later requests on them are lost without a word."""

    of: ClassVar[tuple[str, ...]] = ("wires", OF_WIRES)
    said: ClassVar[str] = "the network forgets the idle connections of host-{0.host}, without a word"

    def strike(self, world: Target) -> None:
        world.forget_connections(self.host)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedCredentials(WorldFault, kind="replaced credentials"):
    """The account gets another key, and all tokens are void: hosts get new ones when they ask."""

    of: ClassVar[tuple[str, ...]] = (OF_WIRES,)
    said: ClassVar[str] = "the account's key is replaced, and every token is void"

    def strike(self, world: Target) -> None:
        world.replace_credentials()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoiltAnswers(NetworkFault, kind="spoilt answers"):
    """Something else comes in place of an answer: a proxy's page, half of it, another request's answer, or nonsense."""

    of: ClassVar[tuple[str, ...]] = (OF_WIRES,)
    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"how": tuple(SPOILINGS)}
    seconds: float = about(0.5, 2, 5, 10, 20)
    how: str = drawn("page", lambda rng: rng.choice(list(SPOILINGS)))
    percent: int = drawn(100, lambda rng: rng.choice([20, 50, 100]))

    def affect(self, passage: Passage, rng: random.Random, since: float) -> None:  # noqa: ARG002
        if rng.random() * 100 >= self.percent or passage.answer is not None:
            return
        if self.how == "page":
            passage.answer = Spoilt(self.how)
        else:
            passage.unread = Spoilt(self.how)

    def words(self) -> str:
        share = "" if self.percent == 100 else f"{self.percent} % of "
        return f"{share}the requests of {self.whose} {SPOILINGS[self.how]}, for {self.seconds:g} s"
