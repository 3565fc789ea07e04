"""The field of a nemesis: hosts that work, holders, the means to strike, and how each fault is begun and ended."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from simulator.faults.real import (
    REQUESTS,
    Forgetfulness,
    Freeze,
    HostKill,
    LeaseBreak,
    RequestFault,
    ScaleIn,
    ShareFault,
)
from simulator.proxy.actions import action_of, everything

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simulator.faults.real import RealFault, Victims
    from simulator.nemesis.wires import Wire
    from simulator.proxy.actions import Match, ProxyRule
    from simulator.proxy.exchange import ProxyRequest


@dataclass(frozen=True, slots=True)
class FaultHandle:
    """A fault that has begun: whether it has ended by itself, how it is undone, and how many requests it has hit."""

    is_over: Callable[[], bool]
    end: Callable[[], None] = lambda: None
    hits: Callable[[], int] = lambda: 0


OVER = FaultHandle(is_over=lambda: True)
"""A fault that is over as soon as it has begun, and can't be undone."""


def begin(fault: RealFault, field: Field, mark: Victims, tell: Tell) -> FaultHandle | None:
    """Begin a fault; None if the fault can't begin now. ``tell`` is called right before, once the fault is sure."""
    host, holding = mark.hosts[0], mark.aim == "holder"
    match fault:
        case HostKill():
            return OVER if field.kill(host, tell, holding=holding) else None
        case Freeze():
            if not field.pause(host, fault.length(field.lease()) or 0.0, tell, holding=holding):
                return None
            return FaultHandle(is_over=lambda: not field.stands(host), end=lambda: field.wake(host))
        case ScaleIn():
            return FaultHandle(is_over=lambda: field.is_gone(host)) if field.drain(host, tell) else None
        case LeaseBreak():
            return OVER if mark.lock and field.operate(mark.lock, fault.action, tell) else None
        case Forgetfulness():
            tell()
            for wire in _wires(field, mark):
                wire.forget()
            return OVER
        case RequestFault():
            tell()
            return _rules(fault, field, mark)
    raise TypeError(f"nobody knows how to begin {fault!r}")


def _rules(fault: RequestFault, field: Field, mark: Victims) -> FaultHandle:
    """Add rules to the wires of some hosts, until the fault is ended; then requests that still hang fail at once."""
    match, action = _match(fault, mark), action_of(fault.fate, fault.fate_seconds)
    wires = _wires(field, mark)
    added: list[tuple[Wire, list[ProxyRule]]] = [(wire, wire.add(match, action)) for wire in wires]

    if fault.cut == "both":
        _cut(wires)

    def end() -> None:
        for wire, rules in added:
            wire.remove(rules)
        if fault.cut:
            _cut(wires)

    def hits() -> int:
        return sum(rule.matched for _, rules in added for rule in rules)

    return FaultHandle(is_over=lambda: False, end=end, hits=hits)


def _wires(field: Field, mark: Victims) -> list[Wire]:
    return [wire for host in mark.hosts if (wire := field.wires.get(host)) is not None]


def _cut(wires: list[Wire]) -> None:
    for wire in wires:
        wire.cut()


def _match(fault: RequestFault, mark: Victims) -> Match:
    """Match all requests at which the fault aims, and a share of the rest."""
    if not isinstance(fault, ShareFault):
        return everything
    coins = random.Random(f"{fault.kind} {fault.at} {mark.hosts}")
    aimed = REQUESTS.get(mark.aim, "")

    def match(request: ProxyRequest) -> bool:
        if fault.methods and request.method not in fault.methods:
            return False
        return (bool(aimed) and request.operation == aimed) or coins.random() * 100 < fault.percent

    return match


Tell: TypeAlias = "Callable[[], None]"


@dataclass(frozen=True, slots=True)
class Holding:
    """A host that has a lock: the name of the lock's blob, and the seconds of the lease."""

    host: str
    lock: str
    lease: float


@dataclass(frozen=True, slots=True)
class Wanting:
    """A host that waits for a lock. ``free_at``: the last end of a dead holder's lease; None: the holder lives."""

    host: str
    lock: str
    free_at: float | None = None


class Field(Protocol):
    """The run that is struck, as `simulator.real.fleet_field` makes it."""

    @property
    def wires(self) -> Mapping[str, Wire]:
        """The way to the storage of each host that was started and has not ended."""

    @property
    def locking(self) -> bool:
        """Whether the functions are locked at all."""

    def now(self) -> float:
        """Return the time of the journals' clock."""

    def working(self) -> list[str]:
        """Return the hosts that are ready, do not stand still, and are not about to end."""

    def absent(self) -> int:
        """Return how many hosts have ended or are being started again."""

    def holdings(self) -> list[Holding]:
        """Return the holders, of locks with waiters first; in a run without locks the hosts inside a body."""

    def wantings(self) -> list[Wanting]:
        """Return the waiting hosts, each with the lock."""

    def locks(self) -> frozenset[str]:
        """Return the blobs of all locks of the run so far."""

    def lease(self) -> float:
        """Return the seconds of the longest lease of the app's functions."""

    def tend(self) -> None:
        """Start again what is to be started again; called all the time."""

    def kill(self, host: str, tell: Tell, *, holding: bool) -> bool:
        """Kill a host, and start it again a little later; with ``holding`` only while it is inside.

        This call and the calls below call ``tell`` right before the strike, and return False if no strike was possible.
        """

    def pause(self, host: str, seconds: float, tell: Tell, *, holding: bool) -> bool:
        """Stop a host, with ``holding`` only while it is inside."""

    def stands(self, host: str) -> bool:
        """Tell whether a host is stopped."""

    def wake(self, host: str) -> None:
        """Let a stopped host go on, if the host still stands."""

    def drain(self, host: str, tell: Tell) -> bool:
        """Ask a host to end, as a scale-in does, and start the host again after its end."""

    def is_gone(self, host: str) -> bool:
        """Tell whether a host that was drained has ended."""

    def operate(self, lock: str, action: str, tell: Tell) -> bool:
        """Break the lease of a lock, or delete its blob, as an operator; False if the lock has no holder."""

    def write(self, event: str, /, **fields: object) -> None:
        """Write a record into the fleet's journal."""
