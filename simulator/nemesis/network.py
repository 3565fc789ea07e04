"""The faults of the network, and of the service as a host sees it: rules on the wires of those that are struck."""

from __future__ import annotations

import random
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from simulator.faults.rules import Answer, Delay, DelayReply, DropReply, Hang, Twice, everything
from simulator.nemesis.aims import REQUESTS
from simulator.nemesis.fault import Aim, Fault, Mark, Way

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.faults.exchange import Request
    from simulator.faults.rules import Action, Match, Rule
    from simulator.nemesis.field import Field, Tell
    from simulator.nemesis.wires import Wire

_IDEMPOTENT: Final = frozenset({"GET", "HEAD", "PUT", "DELETE"})
"""What a gateway may send once more when it gets no reply (RFC 9110, 9.2.2)."""


class Rules:
    """Rules on the wires of some hosts, as long as the fault lasts."""

    def __init__(self, field: Field, mark: Mark, match: Match, action: Action, *, cut: str = "") -> None:
        """Add the rules. ``cut``: reset connections at the "begin", the "end", or at "both"."""
        self._wires = [wire for host in mark.hosts if (wire := field.wires.get(host)) is not None]
        self._rules: list[tuple[Wire, list[Rule]]] = [(wire, wire.add(match, action)) for wire in self._wires]
        self._cut = cut
        if cut in {"begin", "both"}:
            self._reset()

    @property
    def hits(self) -> int:
        """How many requests the rules were applied to."""
        return sum(rule.matched for _, rules in self._rules for rule in rules)

    def is_over(self) -> bool:
        """Tell that it lasts until it is ended."""
        return False

    def end(self) -> None:
        """Remove the rules, and let requests that still hang fail at once."""
        for wire, rules in self._rules:
            wire.remove(rules)
        if self._cut in {"end", "both"}:
            self._reset()

    def _reset(self) -> None:
        for wire in self._wires:
            wire.cut()


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFault(Fault):
    """A rule about the requests of some hosts."""

    cut: ClassVar[str] = ""
    many: ClassVar[bool] = True

    def begin(self, field: Field, mark: Mark, tell: Tell) -> Rules:
        tell()
        return Rules(field, mark, self.match(mark), self.action(), cut=self.cut)

    @abstractmethod
    def action(self) -> Action:
        """Return what is done to each request."""

    def match(self, mark: Mark) -> Match:  # noqa: ARG002 - for kinds that strike only some requests
        """Return what matches the requests that are struck."""
        return everything


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial(NetworkFault):
    """A rule about some of their requests.

    Attributes:
        percent: about how many of them, at random.
    """

    percent: int = 100

    def concerns(self, request: Request) -> bool:  # noqa: ARG002 - for kinds that spare some requests
        """Tell whether a request may be struck."""
        return True

    def match(self, mark: Mark) -> Match:
        """Match the requests at which the fault aims, whatever their number; and of the others some."""
        coins = random.Random(f"{self.kind} {self.at} {mark.hosts}")
        aimed = REQUESTS.get(mark.aim, "")

        def match(request: Request) -> bool:
            if not self.concerns(request):
                return False
            return (bool(aimed) and request.operation == aimed) or coins.random() * 100 < self.percent

        return match

    @property
    def _share(self) -> str:
        return "" if self.percent >= 100 else f"{self.percent} % of "


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(NetworkFault, kind="partition"):
    """Nothing gets through, or only one way: requests are carried out, and the host never gets the replies."""

    about: ClassVar[str] = "one host or two are cut off from the storage, one way or both"
    cut: ClassVar[str] = "both"
    ways: ClassVar[tuple[Way, ...]] = ("both", "both", "requests", "replies")

    @classmethod
    def details(cls, rng: random.Random) -> Mapping[str, Any]:
        # Sometimes the lease survives, sometimes it does not.
        return {"leases": rng.choice((0.25, 0.5, 0.8, 1.1, 1.4, 1.7)), "number": rng.choice((1, 1, 1, 2))}

    def begin(self, field: Field, mark: Mark, tell: Tell) -> Rules:
        tell()
        # Only requests get lost: replies to those that were sent before still come.
        cut = "end" if self.way == "requests" else "both"
        return Rules(field, mark, everything, self.action(), cut=cut)

    def action(self) -> Action:
        return Hang(forward=self.way == "replies")

    def words(self, mark: Mark, seconds: float | None) -> str:
        are = "is" if len(mark.hosts) == 1 else "are"
        ways = {"requests": ": requests are lost", "replies": ": requests are carried out, and replies are lost"}
        return f"{mark.who} {are} cut off from the storage for {seconds:g} s{ways.get(self.way, ', both ways')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lose(Partial, kind="lose"):
    """Requests are carried out, and their replies are lost: silently, or by a reset."""

    about: ClassVar[str] = "requests are carried out, and their replies are lost"
    aims: ClassVar[tuple[Aim, ...]] = ("renewal", "renewal", "release", "waiters", "anybody")
    disables: ClassVar[bool] = False
    cut: ClassVar[str] = "end"
    silent: bool = False

    @classmethod
    def details(cls, rng: random.Random) -> Mapping[str, Any]:
        return {
            "seconds": round(rng.uniform(3, 9), 1),
            "percent": rng.choice((20, 50)),
            "silent": rng.random() < 0.4,
        }

    def action(self) -> Action:
        return Hang(forward=True) if self.silent else DropReply()

    def words(self, mark: Mark, seconds: float | None) -> str:
        how = "without a sign" if self.silent else "by a reset"
        return f"the replies to {self._share}{mark.who}'s requests are lost for {seconds:g} s, {how}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Late(Partial, kind="delay"):
    """Requests arrive late, or their replies do."""

    about: ClassVar[str] = "requests or their replies are late, so that they overtake one another"
    ways: ClassVar[tuple[Way, ...]] = ("requests", "replies")
    disables: ClassVar[bool] = False
    late: float = 1.0

    @classmethod
    def details(cls, rng: random.Random) -> Mapping[str, Any]:
        return {
            "seconds": round(rng.uniform(5, 12), 1),
            "percent": rng.choice((50, 100)),
            "late": rng.choice((0.3, 1.0, 2.5, 4.0)),
        }

    def action(self) -> Action:
        return DelayReply(self.late) if self.way == "replies" else Delay(self.late)

    def words(self, mark: Mark, seconds: float | None) -> str:
        what = "requests are answered" if self.way == "replies" else "requests arrive"
        return f"{self._share}{mark.who}'s {what} {self.late:g} s late, for {seconds:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate(Partial, kind="duplicate"):
    """Requests arrive twice; the host gets the first reply. Only what a gateway may send again is doubled: no POST."""

    about: ClassVar[str] = "requests arrive a second time, some seconds later"
    aims: ClassVar[tuple[Aim, ...]] = ("renewal", "release", "release", "waiters", "anybody")
    disables: ClassVar[bool] = False
    late: float = 1.0

    @classmethod
    def details(cls, rng: random.Random) -> Mapping[str, Any]:
        return {
            "seconds": round(rng.uniform(4, 10), 1),
            "percent": rng.choice((30, 60)),
            "late": rng.choice((0.0, 0.5, 2.0, 5.0)),
        }

    def concerns(self, request: Request) -> bool:
        return request.method in _IDEMPOTENT

    def action(self) -> Action:
        return Twice(self.late)

    def words(self, mark: Mark, seconds: float | None) -> str:
        again = f"{self.late:g} s later" if self.late else "at once"
        return f"{self._share}{mark.who}'s requests arrive a second time, {again}, for {seconds:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusing(Partial):
    """The service answers with an error, and does not carry the request out."""

    def words(self, mark: Mark, seconds: float | None) -> str:
        whose = "everybody's" if self.everybody else f"{mark.who}'s"
        return f"the storage answers {self._share}{whose} requests with {self.said()} for {seconds:g} s"

    @abstractmethod
    def said(self) -> str:
        """Name the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle(Refusing, kind="throttle"):
    """The account is over its limits: 503 or 429, with Retry-After."""

    about: ClassVar[str] = "the storage is too busy: 503 or 429, with Retry-After"
    aims: ClassVar[tuple[Aim, ...]] = ("renewal", "holder", "release", "waiters", "anybody")
    status: int = 503
    retry_after: int = 2

    @classmethod
    def details(cls, rng: random.Random) -> Mapping[str, Any]:
        everybody = rng.random() < 0.4
        return {
            "seconds": round(rng.uniform(3, 10), 1),
            "percent": 50 if everybody else rng.choice((50, 100)),
            "everybody": everybody,
            "number": rng.choice((1, 2)),
            "status": rng.choice((503, 429)),
            "retry_after": rng.choice((1, 2, 5)),
        }

    def action(self) -> Action:
        code = "ServerBusy" if self.status == 503 else "TooManyRequests"
        return Answer(self.status, code, {"retry-after": str(self.retry_after)}, "The fault proxy throttles.")

    def said(self) -> str:
        return f"{self.status} and Retry-After {self.retry_after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing(Refusing, kind="error"):
    """The service fails: 500."""

    about: ClassVar[str] = "the storage answers with 500"

    @classmethod
    def details(cls, rng: random.Random) -> Mapping[str, Any]:
        everybody = rng.random() < 0.3
        return {
            "seconds": round(rng.uniform(2, 8), 1),
            "percent": 50 if everybody else rng.choice((50, 100)),
            "everybody": everybody,
        }

    def action(self) -> Action:
        return Answer(500, "InternalError", {}, "The fault proxy fails.")

    def said(self) -> str:
        return "500"
