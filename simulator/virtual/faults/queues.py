"""The faults of queue requests: those that put a message back, and those by which the host receives and deletes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

from simulator.virtual.faults.fault import Fault, befallen
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from simulator.virtual.faults.fault import Target
    from simulator.virtual.storage.network import Passage, Request

_CALLS: Final = (
    *("queue update", "queue send", "queue delete", "queue update", "queue send", "queue delete"),
    *("queue time", "queue create", "queue receive", "note", "noted", "remove"),
)
_FATES: Final = {
    "request lost": "{} lost",
    "reply lost": "{} carried out, and the reply is lost",
    "request reset": "{} lost by a reset",
    "reply reset": "{} carried out, and the reply is lost by a reset",
    "late": "{} carried out {} s late",
    "reply late": "{} answered {} s late",
    "twice": "{} carried out twice, {} s apart",
    "host dies before": "{} not sent, as the host is killed",
    "host dies after": "{} carried out, and the host is killed",
    "host pauses": "{} sent, and the host stands still for {} s",
    "host is told to stop": "{} sent, and the host is told to stop",
}
_ANSWERS: Final = {
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
_MOSTLY: Final = 0.7
_HALF: Final = 0.5
_PATIENCE: Final = 60.0
"""Seconds within which the request must come that a fault waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneQueueRequest(Fault, kind="queue request"):
    """The next requests of a kind to a queue, or to its notes, go wrong.

    ``by_locks``: only requests that put a message back; else the host's own too.
    """

    of: ClassVar[tuple[str, ...]] = ("queue", "defer")
    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"call": _CALLS, "fate": (*_FATES, *_ANSWERS)}
    call: str = "queue send"
    fate: str = "reply lost"
    seconds: float = 1.0
    times: int = 1
    by_locks: bool = True

    @classmethod
    def draw(cls, rng: random.Random, *, hosts: int, until: float) -> Self:
        at, host, call = round(rng.uniform(0, until), 3), rng.randrange(hosts), rng.choice(_CALLS)
        answers = [answer for answer in _ANSWERS if answer not in OF_MESSAGES or call in _ON_MESSAGES]
        fate = rng.choice([*_FATES, *_FATES, *answers])
        seconds = round(rng.choice([0.5, 2, 4, 12, 35, 50]) * rng.uniform(0.9, 1.1), 3)
        times, by_locks = rng.choice([1, 1, 1, 2, 4, 9]), rng.random() < _MOSTLY
        return cls(at=at, host=host, call=call, fate=fate, seconds=seconds, times=times, by_locks=by_locks)

    def strike(self, world: Target) -> None:
        rules, left = world.network.rules, self.times

        def rule(request: Request, passage: Passage) -> None:
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
                status, code = _ANSWERS[answer]
                passage.answer = StoreFailure(status, code, "simulated", at=world.loop.now)

    def words(self) -> str:
        fate = _FATES.get(self.fate)
        which = f"next {self.call}" if self.times == 1 else f"next {self.times} times {self.call}"
        is_ = "is" if self.times == 1 else "are"
        what = f"{is_} answered {self.fate}" if fate is None else fate.format(is_, f"{self.seconds:g}")
        return f"host-{self.host}'s {which} {what}"
