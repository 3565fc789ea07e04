"""What one record says of things that last: of which lock it speaks, when they began, and that they end."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from simulator.history.facts import Function

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simulator.history.facts import Ending, Invocation, Mode, Section, Sight, Wait
    from simulator.history.journal import Record


def end(things: Iterable[Section | Wait | Invocation | Sight], record: Record, ending: Ending) -> None:
    """Let things end with a record."""
    for thing in things:
        thing.end, thing.ending = record.t, ending


def began(things: Iterable[Wait | Invocation], record: Record) -> float:
    """Return when the last of these began; with the record where there is none."""
    return max((thing.start for thing in things), default=record.t)


def function_of(record: Record) -> Function:
    """Return what a host has told of a function."""
    listener = record.get("listener") or {}
    led = {"listener_lease": listener.get("lease"), "recovery": listener.get("poll")}
    told: dict[str, Any] = {**record.fields, **led, "sync": record.get("async") is False}
    return Function(**{field.name: told[field.name] for field in fields(Function) if told.get(field.name)})


def of_a_guard(record: Record) -> bool:
    """Tell whether a record speaks of a function's lock, and not of a lock client's in the body of a function."""
    return record.get("mode") in (None, "function", "listener")


def about_of(record: Record) -> dict[str, Any]:
    """Return which lock a record speaks of, and whose doing it is."""
    mode: Mode = "listener" if record.get("mode") == "listener" else "function"
    names = {name: record.text(name) for name in ("lock", "function", "owner")}
    return {**names, "host": record.host, "mode": mode, "worker": int(record.get("worker") or 0)}
