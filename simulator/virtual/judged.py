"""The verdict on a world: the one that real hosts get, by the same checks, from records of the same schema.

Hosts and faults write what real hosts and the fleet write. Beside that a world says that anything may strike in it
(``rough``), so that what no lock can help is excused, and that its kills are not aimed at holders: the verdict's bound
on failovers is that of a quiet network, and means nothing here. The oracle judges failovers, by what each fault does.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from simulator.checks.verdict import judge
from simulator.history.journal import Record
from singleton.decorator import guards_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from simulator.virtual.machine import Machine
    from simulator.virtual.world import World
    from singleton.functions.guard import Guard


def broken_promises(records: Iterable[Record]) -> tuple[str, ...]:
    """Return what the verdict says was broken, a sentence each: exclusion, tokens, guards, messages."""
    begin = Record(0.0, "world", "run_started", {"rough": True, "aimed": False})
    return judge([begin, *(record for record in records if record.event != "request")]).violations


def declare(world: World, functions: Mapping[str, Callable[..., Any]], *, queue: str = "") -> None:
    """Tell oracle and verdict of the guarded functions that will be called; ``queue`` triggers them."""
    guards = {name: guards_of(function)[0] for name, function in functions.items()}
    world.oracle.callers.know(guards)
    for name, function in functions.items():
        is_async = inspect.iscoroutinefunction(function)
        world.note("world", "function", **told_of(name, guards[name], queue=queue, is_async=is_async))


def told_of(name: str, guard: Guard | None, *, queue: str, is_async: bool) -> dict[str, Any]:
    """Return what a host's journal tells of a function, as far as the verdict asks for it."""
    told: dict[str, Any] = {"name": name, "trigger": "queue" if queue else "", "queue": queue, "async": is_async}
    if guard is None:
        return {**told, "guarded": False}
    policy = guard.on_contention if isinstance(guard.on_contention, str) else "custom"
    return {**told, "guarded": True, "mode": guard.mode, "on_contention": policy, "lease": guard.period}


def note_start(world: World, machine: Machine, function: str, invocation: str, message: str | None) -> None:
    """Write down the beginning of an invocation, for the message of this id."""
    world.note(machine.name, "invocation_started", function=function, invocation=invocation, message=message)


def note_end(world: World, machine: Machine, invocation: str, outcome: str) -> None:
    """Write down the end of an invocation: ``ok``, or the name of its error."""
    told = {"outcome": "ok"} if outcome == "ok" else {"outcome": "error", "error": outcome}
    world.note(machine.name, "invocation_ended", invocation=invocation, **told)
