"""The faults of the network, and of the service as hosts see it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from simulator.faults.fault_record import drawn
from simulator.virtual.faults.world_fault import Lasting, about, place_and_time, sometimes
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    import random

    from simulator.virtual.faults.world_fault import Target
    from simulator.virtual.storage.network import NetworkRequest, Passage


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFault(Lasting):
    """A rule about the requests of one host, or with ``everybody`` of all."""

    everybody: bool = sometimes(0.3)

    def strike(self, world: Target) -> None:
        rules = world.network.rules

        def rule(request: NetworkRequest, passage: Passage) -> None:
            if self.concerns(request):
                self.affect(passage, world.rng_faults, world.loop.now - self.at)

        rules.append(rule)
        world.loop.later(self.seconds, rules.remove, rule)

    def concerns(self, request: NetworkRequest) -> bool:
        """Tell whether the rule is about this request."""
        return self.everybody or request.machine.index == self.host

    @abstractmethod
    def affect(self, passage: Passage, rng: random.Random, since: float) -> None:
        """Change what happens to one request, ``since`` seconds after the fault began."""

    @property
    def whose(self) -> str:
        """Name the struck hosts."""
        return "every host" if self.everybody else f"host-{self.host}"


def _any_length(rng: random.Random) -> float:
    return round(rng.uniform(5, 60), 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(NetworkFault, kind="partition"):
    """Nothing gets through. With ``one_way`` the requests do, and only the replies are lost."""

    seconds: float = about(2, 6, 12, 15, 25, 25, 100)
    everybody: bool = sometimes(0.15)
    one_way: bool = sometimes(0.4)

    def affect(self, passage: Passage, rng: random.Random, since: float) -> None:  # noqa: ARG002
        if self.one_way:
            passage.reply_lost = True
        else:
            passage.lost = True

    def words(self) -> str:
        what = "replies to" if self.one_way else "requests and replies of"
        return f"all {what} {self.whose} are lost for {self.seconds:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lossy(NetworkFault, kind="lossy network"):
    """Some requests and replies are lost, silently or by a reset; some arrive twice."""

    said: ClassVar[str] = "{0.percent} % of the messages of {0.whose} are lost or doubled for {0.seconds:g} s"
    seconds: float = drawn(10.0, _any_length)
    percent: int = drawn(30, lambda rng: rng.choice([10, 30, 60]))

    def affect(self, passage: Passage, rng: random.Random, since: float) -> None:  # noqa: ARG002
        if rng.random() * 100 >= self.percent:
            return
        passage.reset = rng.random() < 0.5
        match rng.randrange(3):
            case 0:
                passage.lost = True
            case 1:
                passage.reply_lost = True
            case _:
                passage.copies, passage.copy_delay = 2, rng.uniform(0, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow(NetworkFault, kind="slow network"):
    """Requests and replies are late, each by a different time: they overtake one another."""

    said: ClassVar[str] = "messages of {0.whose} are up to {0.delay:g} s late, each way, for {0.seconds:g} s"
    seconds: float = drawn(10.0, _any_length)
    delay: float = drawn(1.0, lambda rng: rng.choice([0.3, 1, 3, 6]))

    def affect(self, passage: Passage, rng: random.Random, since: float) -> None:  # noqa: ARG002
        passage.out += rng.uniform(0, self.delay)
        passage.back += rng.uniform(0, self.delay)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing(NetworkFault, kind="failing service"):
    """The service answers with an error: throttling with Retry-After, 500, 403 while a key is rotated.

    Without an error code, 404 and 409 come from something in between, such as an ingress.
    """

    seconds: float = about(2, 5, 10, 14, 20, 20, 100)
    everybody: bool = sometimes(0.4)
    status: int = drawn(503, lambda rng: rng.choice([503, 404, 429, 500, 409, 403]))
    percent: int = drawn(100, lambda rng: rng.choice([100, 100, 50]))

    def affect(self, passage: Passage, rng: random.Random, since: float) -> None:  # noqa: ARG002
        if rng.random() * 100 < self.percent:
            retry_after = float(rng.randrange(1, 8)) if self.status in (429, 503) and rng.random() < 0.5 else None
            passage.answer = StoreFailure(self.status, None, "simulated", retry_after)

    def words(self) -> str:
        share = "" if self.percent == 100 else f"{self.percent} % of "
        who = "something in between" if self.status in (404, 409) else "the service"
        return f"{who} answers {share}{self.whose}'s requests with {self.status} for {self.seconds:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fading(NetworkFault, kind="fading network"):
    """A network that gets slow before it dies: replies come later and later, then nothing gets through."""

    slow_for: float = 8.0

    @classmethod
    def draw(cls, rng: random.Random, *, hosts: int, until: float) -> Self:
        at, host = place_and_time(rng, hosts, until)
        slow_for = round(rng.uniform(2, 9), 3)
        seconds = round(slow_for + rng.uniform(10, 25), 3)
        return cls(at=at, host=host, seconds=seconds, slow_for=slow_for, everybody=rng.random() < 0.6)

    def affect(self, passage: Passage, rng: random.Random, since: float) -> None:
        if since < self.slow_for:
            passage.back += rng.uniform(0.5, 3.2)
        else:
            passage.lost = True

    def words(self) -> str:
        rest = round(self.seconds - self.slow_for, 3)
        then = f", and then all is lost for {rest:g} s" if rest > 0 else ""
        return f"replies to {self.whose} are late for {min(self.slow_for, self.seconds):g} s{then}"
