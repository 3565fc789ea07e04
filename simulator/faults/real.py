"""The faults of real hosts: a class for each kind has the fields, the draw and the words.

A class draws from a random stream of its own, so a seed always makes the same plan. The nemesis (`simulator/nemesis`)
carries a fault out, and chooses the hosts when the fault is due.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self
from urllib.parse import unquote

from simulator.faults.fault_record import Fault, drawn

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping


Aim = Literal["holder", "renewal", "release", "waiters", "anybody"]
Way = Literal["both", "requests", "replies"]

AIMS: Final[tuple[Aim, ...]] = ("holder", "renewal", "release", "waiters", "anybody")
REQUESTS: Final[Mapping[Aim, str]] = {"renewal": "renew", "release": "release", "waiters": "acquire"}
"""The request for which an aim lies in wait."""
LONGEST: Final = 45.0
"""Seconds of the longest fault that is drawn."""
ALL: Final = (
    *("kill", "pause", "partition", "lose", "delay", "duplicate", "throttle", "error"),
    *("forget", "break", "drain"),
)
"""All kinds, in the order in which people are told of them."""
KINDS: dict[str, type[RealFault]] = {}


@dataclass(frozen=True, slots=True)
class Victims:
    """The hosts that a fault strikes, the lock that the fault is about ("" for none), and the aim in the end."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RealFault(Fault):
    """A fault at ``at`` seconds after the last host was ready."""

    kinds: ClassVar[dict[str, type[Any]]] = KINDS
    aims: ClassVar[tuple[Aim, ...]] = AIMS
    """The aims of a draw; a repeated aim is drawn more often."""
    ways: ClassVar[tuple[Way, ...]] = ()
    lasts: ClassVar[bool] = True
    disables: ClassVar[bool] = True
    """Whether a struck host can't do its work."""
    many: ClassVar[bool] = False
    """Whether several hosts can be struck at a time."""
    stops: ClassVar[bool] = False
    """Whether the victim stops at once: a request that was about to be sent is not sent."""
    aim: Aim = "anybody"  # the moment at which the fault strikes
    host: str = ""  # the only host that the fault may strike; "" for any
    lock: str = ""  # the only lock that the fault may be about; "" for any
    seconds: float | None = None  # the length; None for an instant, or if ``leases`` gives the length
    leases: float = 0.0  # the length in leases of the lock; 0 if ``seconds`` gives the length
    way: str = ""  # the direction in which requests are lost, if the kind has ways
    number: int = 1  # how many hosts are struck; ``everybody`` means every host
    everybody: bool = False

    @classmethod
    def draw(cls, rng: random.Random, at: float) -> Self:
        """Make a random one that is due at ``at``."""
        way = rng.choice(cls.ways) if cls.ways else ""
        aim = rng.choice(cls.aims)
        return cls(at=at, aim=aim, way=way, **cls.details(rng))

    @classmethod
    def details(cls, rng: random.Random) -> dict[str, Any]:
        """Draw the fields of this kind: the length, mostly."""
        return {name: draw(rng) for name, draw in cls.draws().items()}

    @property
    def easiest(self) -> Aim:
        """The aim when the moment does not come: a fault about one lock strikes the holder of that lock."""
        return "holder" if self.lock else "anybody"

    @property
    def disabling(self) -> bool:
        """Whether the victims can't do their work. A fault of all hosts leaves all hosts working, if slowly."""
        return self.disables and not self.everybody

    def length(self, lease: float) -> float | None:
        """Return the length in seconds, where a lease has ``lease`` seconds; None for an instant."""
        if self.seconds is None and self.leases:
            return min(round(self.leases * lease, 1), LONGEST)
        return self.seconds

    @abstractmethod
    def words(self, mark: Victims, seconds: float | None) -> str:
        """Tell the fault in one plain sentence without a full stop."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data, without the fields that have their defaults."""
        usual = {each.name: each.default for each in fields(self)}
        values = {name: value for name, value in asdict(self).items() if name == "aim" or value != usual[name]}
        return {"kind": self.kind, **values}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKill(RealFault, kind="kill"):
    """SIGKILL: nothing of the process runs again."""

    aims: ClassVar[tuple[Aim, ...]] = ("holder", "holder", "renewal", "release", "waiters", "anybody")
    lasts: ClassVar[bool] = False
    stops: ClassVar[bool] = True

    def words(self, mark: Victims, seconds: float | None) -> str:  # noqa: ARG002 - an instant
        return f"{mark.who} is killed{mark.moment}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze(RealFault, kind="pause"):
    """SIGSTOP: a long pause of the garbage collector, a frozen machine; often for longer than a lease."""

    aims: ClassVar[tuple[Aim, ...]] = ("holder", "holder", "renewal", "release", "waiters", "anybody")
    stops: ClassVar[bool] = True
    leases: float = drawn(0.0, lambda rng: rng.choice((0.4, 1.2, 1.4, 1.6)))

    def words(self, mark: Victims, seconds: float | None) -> str:
        return f"{mark.who} stands still for {seconds:g} s{mark.moment}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleIn(RealFault, kind="drain"):
    """SIGTERM, as when the platform takes an instance away: the bodies get seconds to end."""

    aims: ClassVar[tuple[Aim, ...]] = ("holder", "renewal", "release", "anybody")
    lasts: ClassVar[bool] = False

    def words(self, mark: Victims, seconds: float | None) -> str:  # noqa: ARG002 - it ends when the host has ended
        return f"{mark.who} is told to end, as at a scale-in{mark.moment}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetfulness(RealFault, kind="forget"):
    """A firewall forgets the idle connections of some hosts to their blobs: nothing is said, and nothing is closed."""

    aims: ClassVar[tuple[Aim, ...]] = ("holder", "holder", "anybody")
    lasts: ClassVar[bool] = False
    disables: ClassVar[bool] = False
    many: ClassVar[bool] = True

    def words(self, mark: Victims, seconds: float | None) -> str:  # noqa: ARG002 - an instant
        whose = "everybody" if self.everybody else mark.who
        return f"the network forgets the idle connections of {whose} to the blobs, without a word{mark.moment}"


ACTIONS: Final = {"break": "breaks the lease", "delete": "deletes the blob"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseBreak(RealFault, kind="break"):
    """An operator breaks the lease of a lock at once, or deletes its blob."""

    aims: ClassVar[tuple[Aim, ...]] = ("holder", "holder", "renewal", "release")
    lasts: ClassVar[bool] = False
    disables: ClassVar[bool] = False
    easiest = "holder"
    aim: Aim = "holder"
    action: str = drawn("break", lambda rng: rng.choice(("break", "break", "delete")))

    def words(self, mark: Victims, seconds: float | None) -> str:  # noqa: ARG002 - an instant
        return f"an operator {ACTIONS[self.action]} of {short(mark.lock)}, which {mark.who} has"


def _between(least: float, most: float) -> Any:
    """Make a field for a length in seconds, drawn in tenths."""
    return drawn(None, lambda rng: round(rng.uniform(least, most), 1))


def _one_of(*values: Any, default: Any) -> Any:
    """Make a field that is drawn from these values."""
    return drawn(default, lambda rng: rng.choice(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFault(RealFault):
    """Requests of some hosts meet a fate."""

    many: ClassVar[bool] = True

    @property
    @abstractmethod
    def fate(self) -> str:
        """The fate of the requests: a word of `FATES`, or the status of an answer."""

    @property
    def fate_seconds(self) -> float:
        """The seconds that belong to the fate: by how much a request is late, or a Retry-After."""
        return 0.0

    @property
    def cut(self) -> str:
        """When the connections of its hosts are reset: at its "end", at its begin as well ("both"), or never ("")."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPartition(RequestFault, kind="partition"):
    """Nothing gets through, or only one way: requests are carried out, and the host never gets the replies."""

    ways: ClassVar[tuple[Way, ...]] = ("both", "both", "requests", "replies")
    # Sometimes the lease survives, sometimes it does not.
    leases: float = _one_of(0.25, 0.5, 0.8, 1.1, 1.4, 1.7, default=0.0)
    number: int = _one_of(1, 1, 1, 2, default=1)

    @property
    def fate(self) -> str:
        return "reply lost" if self.way == "replies" else "request lost"

    @property
    def cut(self) -> str:
        # Where only requests get lost, replies to requests that were sent before still come.
        return "end" if self.way == "requests" else "both"

    def words(self, mark: Victims, seconds: float | None) -> str:
        are = "is" if len(mark.hosts) == 1 else "are"
        ways = {"requests": ": requests are lost", "replies": ": requests are carried out, and replies are lost"}
        return f"{mark.who} {are} cut off from the storage for {seconds:g} s{ways.get(self.way, ', both ways')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFault(RequestFault):
    """About ``percent`` of the requests of some hosts, drawn at random, meet a fate."""

    methods: ClassVar[frozenset[str]] = frozenset()
    """The HTTP methods that are struck; empty: all."""
    percent: int = 100

    @property
    def share(self) -> str:
        """The start of a sentence about a share of the requests; empty for all."""
        return "" if self.percent >= 100 else f"{self.percent} % of "


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(ShareFault, kind="lose"):
    """Requests are carried out, and their replies are lost: silently, or by a reset."""

    aims: ClassVar[tuple[Aim, ...]] = ("renewal", "renewal", "release", "waiters", "anybody")
    disables: ClassVar[bool] = False
    cut = "end"
    seconds: float | None = _between(3, 9)
    percent: int = _one_of(20, 50, default=100)
    silent: bool = drawn(False, lambda rng: rng.random() < 0.4)  # noqa: FBT003 - the field's default

    @property
    def fate(self) -> str:
        return "reply lost" if self.silent else "reply reset"

    def words(self, mark: Victims, seconds: float | None) -> str:
        how = "without a sign" if self.silent else "by a reset"
        return f"the replies to {self.share}{mark.who}'s requests are lost for {seconds:g} s, {how}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness(ShareFault, kind="delay"):
    """Requests or replies are late, so that requests overtake one another."""

    ways: ClassVar[tuple[Way, ...]] = ("requests", "replies")
    disables: ClassVar[bool] = False
    seconds: float | None = _between(5, 12)
    percent: int = _one_of(50, 100, default=100)
    late: float = _one_of(0.3, 1.0, 2.5, 4.0, default=1.0)

    @property
    def fate(self) -> str:
        return "reply late" if self.way == "replies" else "late"

    @property
    def fate_seconds(self) -> float:
        return self.late

    def words(self, mark: Victims, seconds: float | None) -> str:
        what = "requests are answered" if self.way == "replies" else "requests arrive"
        return f"{self.share}{mark.who}'s {what} {self.late:g} s late, for {seconds:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubling(ShareFault, kind="duplicate"):
    """Requests arrive twice; the host gets the first reply. Only what a gateway may send again is doubled: no POST."""

    aims: ClassVar[tuple[Aim, ...]] = ("renewal", "release", "release", "waiters", "anybody")
    disables: ClassVar[bool] = False
    # A gateway may send these once more when it gets no reply (RFC 9110, 9.2.2).
    methods: ClassVar[frozenset[str]] = frozenset({"GET", "HEAD", "PUT", "DELETE"})
    fate = "twice"
    seconds: float | None = _between(4, 10)
    percent: int = _one_of(30, 60, default=100)
    late: float = _one_of(0.0, 0.5, 2.0, 5.0, default=1.0)

    @property
    def fate_seconds(self) -> float:
        return self.late

    def words(self, mark: Victims, seconds: float | None) -> str:
        again = f"{self.late:g} s later" if self.late else "at once"
        return f"{self.share}{mark.who}'s requests arrive a second time, {again}, for {seconds:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnswer(ShareFault):
    """The service answers with an error, and does not carry the request out."""

    lengths: ClassVar[tuple[float, float]]
    for_all: ClassVar[float]
    """The share of these faults that strikes everybody."""

    @classmethod
    def details(cls, rng: random.Random) -> dict[str, Any]:
        everybody = rng.random() < cls.for_all
        seconds = round(rng.uniform(*cls.lengths), 1)
        percent = 50 if everybody else rng.choice((50, 100))
        # No zero-argument super(): the class is made once more for its slots.
        rest = super(ErrorAnswer, cls).details(rng)
        return {"seconds": seconds, "percent": percent, "everybody": everybody, **rest}

    def words(self, mark: Victims, seconds: float | None) -> str:
        whose = "everybody's" if self.everybody else f"{mark.who}'s"
        again = f" and Retry-After {self.fate_seconds}" if self.fate_seconds else ""
        return f"the storage answers {self.share}{whose} requests with {self.fate}{again} for {seconds:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle(ErrorAnswer, kind="throttle"):
    """The account is over its limits: 503 or 429, with Retry-After."""

    aims: ClassVar[tuple[Aim, ...]] = ("renewal", "holder", "release", "waiters", "anybody")
    lengths: ClassVar[tuple[float, float]] = (3, 10)
    for_all: ClassVar[float] = 0.4
    number: int = _one_of(1, 2, default=1)
    status: int = _one_of(503, 429, default=503)
    retry_after: int = _one_of(1, 2, 5, default=2)

    @property
    def fate(self) -> str:
        return str(self.status)

    @property
    def fate_seconds(self) -> float:
        return self.retry_after


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerError(ErrorAnswer, kind="error"):
    """The service fails: 500."""

    lengths: ClassVar[tuple[float, float]] = (2, 8)
    for_all: ClassVar[float] = 0.3
    fate = "500"
