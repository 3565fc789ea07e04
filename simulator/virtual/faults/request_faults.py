"""The faults of single kinds of requests: of locks, of state, of queues, of the logs of inboxes.

A fault is about the next request of a kind, or about all requests of a kind for some seconds. Worlds of the workloads
that send such requests have them, and worlds of all workloads, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Self

from simulator.faults.fault_record import FATES, drawn, fate_words
from simulator.virtual.faults.host_faults import kill_a_holder
from simulator.virtual.faults.network_faults import NetworkFault
from simulator.virtual.faults.world_fault import WorldFault, about, befallen, place_and_time
from singleton.locking.seat import seat_name
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from simulator.virtual.faults.world_fault import Target
    from simulator.virtual.storage.network import NetworkRequest, Passage


_STATUSES: Final = ("500", "503", "429", "403")
_OF_LOCKS: Final = ("acquire", "acquire", "renew", "renew", "release", "release", "write", "read", "create")


@dataclass(frozen=True, slots=True, kw_only=True)
class OneMessage(WorldFault, kind="one message"):
    """One request of a kind, the next that the host sends, is lost, late, doubled, or answered with an error."""

    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"call": _OF_LOCKS, "fate": (*FATES, *_STATUSES)}
    call: str = "acquire"
    fate: str = "reply lost"
    seconds: float = 0.0

    @classmethod
    def draw(cls, rng: random.Random, *, hosts: int, until: float) -> Self:
        at, host = place_and_time(rng, hosts, until)
        fate = rng.choice([*FATES, *FATES, *_STATUSES])
        seconds = round(rng.uniform(0.5, 10.0), 3)
        return cls(at=at, host=host, call=rng.choice(_OF_LOCKS), fate=fate, seconds=seconds)

    def strike(self, world: Target) -> None:
        rules = world.network.rules

        def rule(request: NetworkRequest, passage: Passage) -> None:
            if request.machine.index == self.host and request.call == self.call:
                rules.remove(rule)
                self._befall(passage)
                if self.fate == "twice" and request.lease_id is not None:
                    rules.append(partial(self._again, request.lease_id))

        rules.append(rule)

    def _again(self, lease_id: str, request: NetworkRequest, passage: Passage) -> None:
        """Let requests under that lease arrive once more, after others may have held the lock."""
        if request.lease_id == lease_id:
            self._befall(passage)

    def _befall(self, passage: Passage) -> None:
        if not befallen(passage, self.fate, self.seconds):
            status = self.fate
            passage.answer = StoreFailure(int(status), None, "simulated", self.seconds if status == "503" else None)

    def words(self) -> str:
        arrive = "and what follows under its lease arrive" if self.fate == "twice" else "arrives"
        what = fate_words(self.fate, self.seconds, are="is", replies="its reply is", arrive=arrive)
        return f"host-{self.host}'s next {self.call} {what}"


_OF_QUEUES: Final = (
    *("queue update", "queue send", "queue delete", "queue update", "queue send", "queue delete"),
    *("queue time", "queue create", "queue receive", "note", "noted", "remove"),
)
_OF_HOSTS: Final = {
    "host dies before": "{are} not sent, as the host is killed",
    "host dies after": "{are} carried out, and the host is killed",
    "host pauses": "{are} sent, and the host stands still for {seconds:g} s",
    "host is told to stop": "{are} sent, and the host is told to stop",
}
"""Fates of a request that are fates of its host, too."""
_QUEUE_FATES: Final = (*FATES, *_OF_HOSTS)
QUEUE_ANSWERS: Final = {
    "403": (403, "AuthorizationFailure"),
    "500": (500, "InternalError"),
    "503": (503, "ServerBusy"),
    "429": (429, None),
    "no queue": (404, "QueueNotFound"),
    "no message": (404, "MessageNotFound"),
    "queue goes": (409, "QueueBeingDeleted"),
    "another receipt": (400, "PopReceiptMismatch"),
}
OF_MESSAGES: Final = frozenset({"no message", "another receipt"})
_ON_MESSAGES: Final = frozenset({"queue update", "queue delete"})


def queue_answers(call: str) -> list[str]:
    """Return the errors with which a request of this kind may be answered."""
    return [answer for answer in QUEUE_ANSWERS if answer not in OF_MESSAGES or call in _ON_MESSAGES]


_BY_LOCKS: Final = 0.7
"""The share of faults that concern only requests by which a lock puts a message back."""
_HALF: Final = 0.5
_PATIENCE: Final = 60.0
"""Seconds within which the request must come that a fault waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneQueueRequest(WorldFault, kind="queue request"):
    """The next requests of a kind to a queue, or to its notes, go wrong.

    ``by_locks``: only requests that put a message back; else the host's own too.
    """

    of: ClassVar[tuple[str, ...]] = ("queue", "defer")
    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"call": _OF_QUEUES, "fate": (*_QUEUE_FATES, *QUEUE_ANSWERS)}
    call: str = "queue send"
    fate: str = "reply lost"
    seconds: float = 1.0
    times: int = 1
    by_locks: bool = True

    @classmethod
    def draw(cls, rng: random.Random, *, hosts: int, until: float) -> Self:
        at, host = place_and_time(rng, hosts, until)
        call = rng.choice(_OF_QUEUES)
        fate = rng.choice([*_QUEUE_FATES, *_QUEUE_FATES, *queue_answers(call)])
        seconds = round(rng.choice([0.5, 2, 4, 12, 35, 50]) * rng.uniform(0.9, 1.1), 3)
        times, by_locks = rng.choice([1, 1, 1, 2, 4, 9]), rng.random() < _BY_LOCKS
        return cls(at=at, host=host, call=call, fate=fate, seconds=seconds, times=times, by_locks=by_locks)

    def strike(self, world: Target) -> None:
        rules, left = world.network.rules, self.times

        def rule(request: NetworkRequest, passage: Passage) -> None:
            nonlocal left
            by_locks = getattr(request, "by_locks", True)
            if request.machine.index != self.host or request.call != self.call or by_locks < self.by_locks:
                return
            left -= 1
            if left == 0:
                give_up()
            self._befall(world, passage)

        def give_up() -> None:
            if rule in rules:
                rules.remove(rule)

        rules.append(rule)
        world.loop.later(_PATIENCE, give_up)

    def _befall(self, world: Target, passage: Passage) -> None:
        if befallen(passage, self.fate, self.seconds):
            return
        match self.fate:
            case "host dies before":
                passage.lost = True
                world.crash(self.host)
            case "host dies after":
                world.loop.later(passage.out + _HALF * passage.back, world.crash, self.host)
            case "host pauses":
                world.machines[self.host].stop(self.seconds)
            case "host is told to stop":
                world.shut_down(self.host)
            case answer:
                status, code = QUEUE_ANSWERS[answer]
                passage.answer = StoreFailure(status, code, "simulated", at=world.loop.now)

    def words(self) -> str:
        which = f"next {self.call}" if self.times == 1 else f"next {self.times} times {self.call}"
        are = "is" if self.times == 1 else "are"
        if self.fate in _OF_HOSTS:
            what = _OF_HOSTS[self.fate].format(are=are, seconds=self.seconds)
        else:
            carried_out = f"{are} carried out"
            what = fate_words(self.fate, self.seconds, are=are, replies="the reply is", arrive=carried_out)
        return f"host-{self.host}'s {which} {what}"


_DISTURBANCES: Final = ("request lost", "reply lost", "late", "reply late", "twice", "503")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbed(NetworkFault):
    """The requests of a kind from one host, or from all, meet one fate for some seconds."""

    names: ClassVar[Mapping[str, str]] = {}
    """The requests, by their calls; "all" for any call."""
    call: str = ""
    fate: str = drawn("late", lambda rng: rng.choice(("late", "late", "reply lost", *_DISTURBANCES)))
    delay: float = drawn(1.0, lambda rng: round(rng.choice((0.3, 1.0, 3.0, 6.0, 15.0)) * rng.uniform(0.5, 1.5), 3))

    def concerns(self, request: NetworkRequest) -> bool:
        return (self.everybody or request.machine.index == self.host) and self.call in (request.call, "all")

    def affect(self, passage: Passage, rng: random.Random, since: float) -> None:  # noqa: ARG002
        if not befallen(passage, self.fate, self.delay):
            passage.answer = StoreFailure(503, None, "simulated")

    def words(self) -> str:
        return f"{self.names[self.call]} of {self.whose} {fate_words(self.fate, self.delay)} for {self.seconds:g} s"


_OF_HOLDERS: Final = {
    "write": "writes",
    "read": "looks at locks",
    "evict": "take-overs",
    "acquire": "attempts",
    "renew": "renewals",
    "all": "requests",
}
_SILENCES: Final = ("request lost", "reply lost", "request reset", "late", "reply late", "twice", "503")


@dataclass(frozen=True, slots=True, kw_only=True)
class Silenced(Disturbed, kind="silenced"):
    """All requests of a kind from one host go wrong in one way for some seconds; after that holders seem silent."""

    of: ClassVar[tuple[str, ...]] = ("failover",)
    names: ClassVar[Mapping[str, str]] = _OF_HOLDERS
    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"call": tuple(_OF_HOLDERS), "fate": _SILENCES}
    seconds: float = about(0.5, 0.7, 1, 2, 2, 4, 8, 20)
    call: str = drawn("write", lambda rng: rng.choice(("write", "write", "write", *_OF_HOLDERS)))
    fate: str = drawn("request lost", lambda rng: rng.choice(("request lost", "reply lost", "reply lost", *_SILENCES)))
    delay: float = drawn(1.0, lambda rng: round(rng.choice((0.3, 1.0, 2.0, 5.0)) * rng.uniform(0.5, 1.5), 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class BreaksInVain(NetworkFault, kind="breaks in vain"):
    """SIGKILL of a host that has a lock, and nobody gets a break through for some time."""

    of: ClassVar[tuple[str, ...]] = ("failover",)
    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"fate": _SILENCES}
    seconds: float = about(4, 8, 15, 30)
    fate: str = drawn("request lost", lambda rng: rng.choice(("request lost", "request lost", "late", "twice")))
    lock: int = drawn(0, lambda rng: rng.randrange(3))

    def strike(self, world: Target) -> None:
        super(BreaksInVain, self).strike(world)
        kill_a_holder(world, self.lock)

    def concerns(self, request: NetworkRequest) -> bool:
        return request.call in ("break_", "evict")

    def affect(self, passage: Passage, rng: random.Random, since: float) -> None:  # noqa: ARG002
        befallen(passage, self.fate, 0.5)

    def words(self) -> str:
        how = fate_words(self.fate, 0.5)
        return f"who has lock number {self.lock} is killed, and breaks of leases {how} for {self.seconds:g} s"


_OF_SEATS: Final = {
    "write": "words on seats",
    "write and release": "words on seats and releases of seats",
    "release": "releases of seats",
    "acquire": "attempts at seats",
    "renew": "renewals of seats",
    "read": "looks at seats",
    "all": "requests for seats",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatDisturbed(Disturbed, kind="seat disturbed"):
    """The requests of a kind for seats go wrong in one way for some seconds."""

    of: ClassVar[tuple[str, ...]] = ("coalesce",)
    names: ClassVar[Mapping[str, str]] = _OF_SEATS
    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"call": tuple(_OF_SEATS), "fate": _DISTURBANCES}
    seconds: float = about(2, 4, 8, 20, 40)
    call: str = drawn("write", lambda rng: rng.choice(("all", *("write and release",) * 4, *_OF_SEATS)))
    fate: str = drawn("late", lambda rng: rng.choice(("request lost", "request lost", "reply lost", *_DISTURBANCES)))

    def concerns(self, request: NetworkRequest) -> bool:
        mine = self.everybody or request.machine.index == self.host
        return mine and request.name.endswith(seat_name("")) and (self.call == "all" or request.call in self.call)


_OF_STATE: Final = {"put": "writes of state", "get": "reads of state", "write": "writes of owners"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDisturbed(Disturbed, kind="state disturbed"):
    """The requests of a host for the content of blobs go wrong in one way for some seconds."""

    of: ClassVar[tuple[str, ...]] = ("state", "once")
    names: ClassVar[Mapping[str, str]] = _OF_STATE
    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"call": tuple(_OF_STATE), "fate": _DISTURBANCES}
    seconds: float = about(0.5, 2, 4, 8, 20, 40)
    call: str = drawn("put", lambda rng: rng.choice(("put", "put", "put", *_OF_STATE)))


_OF_LOGS: Final = {
    "append": "messages into logs",
    "drop": "deletions of logs",
    "tail": "reads of logs",
    "start_log": "makings of logs",
    "label": "labels of logs",
    "create": "marks of an end",
    "read": "looks at blobs",
    "page": "listings",
    "put": "writes of offsets",
    "get": "reads of offsets",
    "queue send": "bells",
    "queue receive": "receipts of bells",
    "queue delete": "deletions of bells",
    "queue update": "bells that are put off",
}
_LOG_CALLS: Final = ("append", "append", "append", "drop", "drop", "tail", "start_log", "put", "put", "create", "label")
_LOG_FATES: Final = (
    *("request lost", "reply lost", "reply reset", "late", "late", "reply late", "twice", "twice"),
    *("host dies before", "host dies after", "host dies after", "host pauses", "403", "500", "503"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsDisturbed(Disturbed, kind="logs disturbed"):
    """The requests of a host for logs, offsets or bells go wrong in one way for some seconds."""

    of: ClassVar[tuple[str, ...]] = ("ordered",)
    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"call": tuple(_OF_LOGS), "fate": _DISTURBANCES}
    names: ClassVar[Mapping[str, str]] = _OF_LOGS
    seconds: float = about(0.5, 2, 4, 8, 20, 40)
    call: str = drawn("append", lambda rng: rng.choice((*_LOG_CALLS, *_OF_LOGS)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OneLogRequest(OneQueueRequest, kind="log request"):
    """The next requests of a kind to the logs, offsets or bells of an inbox meet their fate."""

    of: ClassVar[tuple[str, ...]] = ("ordered",)
    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"call": tuple(_OF_LOGS), "fate": tuple(dict.fromkeys(_LOG_FATES))}
    call: str = "append"
    by_locks: bool = False

    @classmethod
    def draw(cls, rng: random.Random, *, hosts: int, until: float) -> Self:
        at, host = place_and_time(rng, hosts, until)
        call, fate = rng.choice((*_LOG_CALLS, *_OF_LOGS)), rng.choice(_LOG_FATES)
        seconds = round(rng.choice([0.5, 2, 4, 12, 20, 35]) * rng.uniform(0.9, 1.1), 3)
        return cls(at=at, host=host, call=call, fate=fate, seconds=seconds, times=rng.choice([1, 1, 1, 2, 4]))

    def words(self) -> str:
        return super(OneLogRequest, self).words().replace("start_log", "making of a log")
