"""What the locks of a host keep when nobody uses them: nothing of a hold whose lease was given back.

left of a hold   nobody of a host has a lock or waits for one, and a task, a timer, an entry or a span of a hold is left

A span begins and ends with the events of its wait or hold.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import FunctionType, MappingProxyType, MethodType
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.oracle.conduct import Checks
from simulator.virtual.time.machine import Timer
from singleton.base.hold import Hold
from singleton.locking.line import Waiter
from singleton.locking.record import SectionRecord
from singleton.locking.renewals import Renewable
from singleton.runtime.call_result import CallResult

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from simulator.virtual.time.machine import Machine
    from singleton.base.events import LockEvent

_OF_A_HOLD: Final = (Hold, SectionRecord, Renewable, Waiter, CallResult, asyncio.Task)
_BEGIN: Final = ("waiting", "acquired")
_END: Final = ("contended", "coalesced", "failed", "released")
_FOR_LIFE: Final = ("listener", "leadership")
"""Modes whose holds have no spans."""
_MANY: Final = (list, tuple, set, frozenset, deque)
_PLAIN: Final = frozenset((str, bytes, int, float, bool, type(None)))


@dataclass(slots=True)
class RestChecks(Checks):
    """Counts, at a time of quiet, what is left on a machine at rest."""

    connections: tuple[type, ...] = ()
    """The kinds of what is kept for the next request."""
    _spans: defaultdict[Machine, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))

    def hear(self, machine: Machine, event: LockEvent) -> None:
        """Take an event of a machine."""
        if event.kind in _BEGIN and event.mode not in _FOR_LIFE:
            self._spans[machine][event.use] = f"{event.owner}'s {event.kind} of {event.lock}"
        elif event.kind in _END:
            self._spans[machine].pop(event.use, None)

    def take(self, machine: Machine, roots: Mapping[str, object], jobs: Container[asyncio.Task[Any]]) -> None:
        """Blame what is left on a machine at rest; ``roots``: what its locks keep, by name."""
        loop = self.evidence.loop
        self.evidence.reached["hosts at rest"] += 1
        tasks = [
            task.get_name() for task, host in loop.leftover_tasks().items() if host is machine and task not in jobs
        ]
        timers = [name for timer in loop.timers(machine) if (name := self._name(timer))]
        spans = [f"the span of {name}" for name in self._spans[machine].values()]
        left = [
            *spans,
            *(f"the task {name}" for name in tasks),
            *(f"the timer of {name}" for name in timers),
            *entries(roots),
        ]
        if left:
            self._blame("left of a hold", f"{machine.name} is at rest, and keeps {left[0]}")

    def _name(self, timer: Timer) -> str:
        """Name what a timer calls; empty: a connection is kept for the next request."""
        call = timer.call[0].func if isinstance(timer.call[0], partial) else timer.call[0]
        kept = isinstance(getattr(call, "__self__", None), self.connections)
        return "" if kept else getattr(call, "__qualname__", repr(call))


def entries(roots: Mapping[str, object]) -> Iterator[str]:
    """Name what of holds, waits and calls can be reached from these objects: through containers and our own objects.

    A plain ``object`` stands for somebody who waits.
    """
    seen: set[int] = set()
    todo: deque[tuple[str, Any]] = deque(roots.items())
    while todo:
        path, each = todo.popleft()
        if type(each) in _PLAIN or id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, _OF_A_HOLD) or type(each) is object:
            yield f"a {type(each).__name__} in {path}"
        else:
            todo.extend(_within(path, each))


def _within(path: str, each: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(each, dict | MappingProxyType):
        return [(f"{path}[]", value) for pair in [*each.items()] for value in pair]
    if isinstance(each, _MANY):
        return [(f"{path}[]", value) for value in each]
    if isinstance(each, partial):
        return [(path, value) for value in (each.func, *each.args, *each.keywords.values())]
    if isinstance(each, MethodType):
        return [(path, each.__self__)]
    if isinstance(each, Timer):
        return [(path, value) for value in each.call]
    if isinstance(each, FunctionType):
        return [(path, cell.cell_contents) for cell in each.__closure__ or ()]
    kind: Any = type(each)
    slots = _slots_of(kind)
    if slots is None:
        return ()
    names = [*(name for name in slots if hasattr(each, name)), *getattr(each, "__dict__", ())]
    return [(f"{path}.{name}", getattr(each, name)) for name in sorted(names)]


@lru_cache(4096)
def _slots_of(kind: type) -> frozenset[str] | None:
    """Return the slots of a class of ours; None: it is somebody else's."""
    if not any(each.__module__.startswith("singleton.") for each in kind.__mro__):
        return None
    slots = {name for each in kind.__mro__ for name in getattr(each, "__slots__", ())}
    return frozenset(slots - {"__weakref__", "__dict__"})
