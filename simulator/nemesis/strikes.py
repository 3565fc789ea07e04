"""How each fault of real hosts is begun and ended: by the means of the field, or by rules on the wires of hosts."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.faults.real import REQUESTS, Drain, Freeze, Kill, LeaseBreak, RequestFault, ShareFault
from simulator.proxy.rules import action_of, everything

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.faults.real import Mark, RealFault
    from simulator.nemesis.field import Field, Tell
    from simulator.nemesis.wires import Wire
    from simulator.proxy.exchange import Request
    from simulator.proxy.rules import Match, Rule


@dataclass(frozen=True, slots=True)
class FaultHandle:
    """A fault that has begun: whether it has ended by itself, how it is undone, and how many requests it has hit."""

    is_over: Callable[[], bool]
    end: Callable[[], None] = lambda: None
    hits: Callable[[], int] = lambda: 0


OVER = FaultHandle(is_over=lambda: True)
"""A fault that is over as soon as it has begun, and can't be undone."""


def begin(fault: RealFault, field: Field, mark: Mark, tell: Tell) -> FaultHandle | None:
    """Begin a fault; None if the fault can't begin now. ``tell`` is called right before, once the fault is sure."""
    host, holding = mark.hosts[0], mark.aim == "holder"
    match fault:
        case Kill():
            return OVER if field.kill(host, tell, holding=holding) else None
        case Freeze():
            if not field.pause(host, fault.length(field.lease()) or 0.0, tell, holding=holding):
                return None
            return FaultHandle(is_over=lambda: not field.stands(host), end=lambda: field.wake(host))
        case Drain():
            return FaultHandle(is_over=lambda: field.is_gone(host)) if field.drain(host, tell) else None
        case LeaseBreak():
            return OVER if mark.lock and field.operate(mark.lock, fault.action, tell) else None
        case RequestFault():
            tell()
            return _rules(fault, field, mark)
    raise TypeError(f"nobody knows how to begin {fault!r}")


def _rules(fault: RequestFault, field: Field, mark: Mark) -> FaultHandle:
    """Add rules to the wires of some hosts, until the fault is ended; then requests that still hang fail at once."""
    match, action = _match(fault, mark), action_of(fault.fate, fault.fate_seconds)
    wires = [wire for host in mark.hosts if (wire := field.wires.get(host)) is not None]
    added: list[tuple[Wire, list[Rule]]] = [(wire, wire.add(match, action)) for wire in wires]

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


def _cut(wires: list[Wire]) -> None:
    for wire in wires:
        wire.cut()


def _match(fault: RequestFault, mark: Mark) -> Match:
    """Match all requests at which the fault aims, and a share of the rest."""
    if not isinstance(fault, ShareFault):
        return everything
    coins = random.Random(f"{fault.kind} {fault.at} {mark.hosts}")
    aimed = REQUESTS.get(mark.aim, "")

    def match(request: Request) -> bool:
        if fault.methods and request.method not in fault.methods:
            return False
        return (bool(aimed) and request.operation == aimed) or coins.random() * 100 < fault.percent

    return match
