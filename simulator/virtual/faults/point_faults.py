"""Faults that come to one point of a world: the request of a number, or the step of a number.

A request's number is its place among the requests of all hosts, in the order of sending. A step is a resumption of a
task on a host while a call of a user is under way on that host. Up to its point, a world with the fault is the same
world as without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, ClassVar, Final, Self

from simulator.faults.fault_record import FATES, fate_words
from simulator.virtual.faults.request_faults import QUEUE_ANSWERS, queue_answers
from simulator.virtual.faults.world_fault import WorldFault, befallen
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from simulator.virtual.faults.world_fault import Target
    from simulator.virtual.storage.network import NetworkRequest, Passage
    from simulator.virtual.time.machine import Machine

PAST_THE_LEASE: Final = 20.0
"""Seconds; a lease of the small worlds lasts 15."""
_THROTTLED: Final = ("429", "503")
_WAIT: Final = 3.0
"""The ``Retry-After`` of a throttled request, and the distance of two copies, in seconds."""
_ANSWERS: Final = (*_THROTTLED, "500", "403", "404", "409")
"""Answers to any request for a blob. Without an error code, 404 and 409 come from something in between."""
_BEFORE: Final = {
    "deleted": ("delete", "an operator has just deleted the blob"),
    "broken": ("break_", "an operator has just broken the lease"),
    "ending": ("break slowly", "an operator has just broken the lease, with ten seconds' notice"),
    "stolen": ("steal", "an operator has just taken the lease away"),
    "labelled": ("label", "an operator has just written a key of his own on the blob"),
}
"""What an operator has done to the lock when the request arrives: the service then refuses with a code of its own."""
_TRAVELS: Final = (
    *((fate, 0.0) for fate in ("request lost", "reply lost", "request reset", "reply reset")),
    *((fate, PAST_THE_LEASE) for fate in ("late", "reply late", "twice")),
    ("twice", _WAIT),
)


_SLOW: Final = "slow"
_SLOW_BY: Final = 3.0
"""Seconds; two slow requests take longer than a host waits for its locks at its end."""
_CUTS: Final = ("cut before", "cut after")
_FOR: Final = f"the host's next requests to this blob, for {PAST_THE_LEASE:g} s"
LASTING: Final = {
    "cut before": f"is lost, and so are {_FOR}",
    "cut after": f"is carried out, and lost are its reply and {_FOR}",
    _SLOW: f"is answered {_SLOW_BY:g} s late, and so are {_FOR}",
}
"""Fates of a request and of those that follow: a host and a blob are apart, or slow, for longer than a lease."""


_OF_POLLS: Final = (
    ("request lost", 0.0),
    ("reply lost", 0.0),
    ("late", PAST_THE_LEASE),
    ("twice", _WAIT),
    ("503", _WAIT),
)
"""Fates of the receives of a host, which asks again whatever the error is."""


def fates(call: str, *, of_a_lock: bool, by_host: bool, of_a_seat: bool = False) -> list[tuple[str, float]]:
    """Return every fate of a request, each with its seconds; ``by_host``: the request is not of this package."""
    if by_host and call == "queue receive":
        return [*_OF_POLLS]
    of_a_queue = call.startswith("queue ")
    answers = queue_answers(call) if of_a_queue else [*_ANSWERS, *(_BEFORE if of_a_lock else ())]
    cuts = [(fate, PAST_THE_LEASE) for fate in _CUTS] if of_a_seat else []
    return [*_TRAVELS, *cuts, *((answer, _WAIT if answer in _THROTTLED else 0.0) for answer in answers)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PointFault(WorldFault):
    """A fault that strikes when its point comes, on ``host``, ``at`` this time of the world."""

    comes_to_a_point: ClassVar[bool] = True
    of: ClassVar[tuple[str, ...]] = ("small worlds",)  # no world draws it
    number: int = 1

    @classmethod
    def draw(cls, rng: random.Random, *, hosts: int, until: float) -> Self:
        raise NotImplementedError("a point is counted, not drawn")

    @property
    def ends(self) -> float:
        return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedRequest(PointFault, kind="numbered request"):
    """One request is lost, late, doubled, refused or throttled, or arrives where an operator has changed the lock."""

    allowed: ClassVar[Mapping[str, Sequence[str]]] = {
        "fate": tuple(dict.fromkeys((*FATES, *LASTING, *_ANSWERS, *QUEUE_ANSWERS, *_BEFORE)))
    }
    call: str = "acquire"
    fate: str = "reply lost"
    seconds: float = 0.0

    @property
    def lasts(self) -> float:
        return self.seconds if self.fate in LASTING else 0.0

    def strike(self, world: Target) -> None:
        sent = 0

        def rule(request: NetworkRequest, passage: Passage) -> None:
            nonlocal sent
            sent += 1
            if sent == self.number and (request.machine.index, request.call) == (self.host, self.call):
                world.struck(self)
                self._befall(world, request, passage)

        world.network.rules.append(rule)

    def _befall(self, world: Target, request: NetworkRequest, passage: Passage) -> None:
        if befallen(passage, self.fate, self.seconds):
            return
        if self.fate in LASTING:
            self._go_on(world, request, passage)
        elif self.fate in _BEFORE:
            world.loop.later(passage.out / 2, world.operate_on, _BEFORE[self.fate][0], request.name)
        elif self.call.startswith("queue "):
            status, code = QUEUE_ANSWERS[self.fate]
            passage.answer = StoreFailure(status, code, "simulated", self.seconds or None, at=world.loop.now)
        else:
            passage.answer = StoreFailure(int(self.fate), None, "simulated", self.seconds or None)

    def _go_on(self, world: Target, first: NetworkRequest, passage: Passage) -> None:
        rules, late = world.network.rules, _SLOW_BY if self.fate == _SLOW else 0.0

        def rule(request: NetworkRequest, passage: Passage) -> None:
            if request is not first and (request.machine, request.name) == (first.machine, first.name):
                passage.lost |= not late
                passage.back += late

        passage.lost, passage.reply_lost = self.fate == "cut before", self.fate == "cut after"
        passage.back += late
        rules.append(rule)
        world.loop.later(self.seconds, rules.remove, rule)

    def words(self) -> str:
        which = f"request {self.number}, host-{self.host}'s {self.call},"
        if self.fate in LASTING:
            return f"{which} {LASTING[self.fate]}"
        if self.fate in _BEFORE:
            return f"{which} arrives where {_BEFORE[self.fate][1]}"
        return f"{which} {fate_words(self.fate, self.seconds, are='is', replies='its reply is', arrive='arrives')}"


def watch_steps(machines: Iterable[Machine], before: Callable[[Machine, int], object]) -> None:
    """Call this before each step of these machines, with the machine and the number of the step."""
    numbers = count(1)

    def watch(machine: Machine) -> None:
        machine.watch_steps(lambda: before(machine, next(numbers)))

    for each in machines:
        watch(each)


_ACTS: Final = {
    "cancel": "{call} is cancelled",
    "kill": "the host is killed",
    "pause": "the host stands still for {seconds:g} s",
    "close": "the host is told to stop, and closes its locks",
    "close client": "the lock client of {call} is closed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedStep(PointFault, kind="numbered step"):
    """A call is cancelled, or its host is killed, stands still or closes its locks, between two steps."""

    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"act": tuple(_ACTS)}
    act: str = "kill"
    call: str = ""
    seconds: float = 0.0

    def strike(self, world: Target) -> None:
        def before(machine: Machine, number: int) -> None:
            if number == self.number and machine.index == self.host:
                self._act(world, machine)

        watch_steps(world.machines, before)

    def _act(self, world: Target, machine: Machine) -> None:
        match self.act:
            case "kill":
                world.struck(self)
                world.crash(self.host)
            case "pause":
                world.struck(self)
                machine.stop(self.seconds)
            case "close":
                world.struck(self)
                world.shut_down(self.host)
            case "close client" if (close := machine.clients.get(self.call)) is not None:
                world.struck(self)
                machine.context().run(close)
            case _:
                for call in [each for each in machine.calls if each.get_name() == self.call and not each.done()]:
                    world.struck(self)
                    world.cancel(call)

    def words(self) -> str:
        done = _ACTS[self.act].format(call=self.call, seconds=self.seconds)
        return f"before step {self.number}, one of host-{self.host}, {done}"
