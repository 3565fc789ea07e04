"""Reads single records about waits, bodies and invocations: the lock, the begin and the end."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from simulator.history.functions import Function

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simulator.history.facts import Ending, Invocation, Section, Sight, Wait
    from simulator.history.functions import Mode
    from simulator.history.journal import Record


_SLOT: Final = re.compile(r"/slot-[0-9]+\Z")


def end(things: Iterable[Section | Wait | Invocation | Sight], record: Record, ending: Ending) -> None:
    """End things with a record."""
    for thing in things:
        thing.end, thing.ending = record.t, ending


def began(things: Iterable[Wait | Invocation], record: Record) -> float:
    """Return when the last of these began; the record's time if there is none."""
    return max((thing.start for thing in things), default=record.t)


def function_of(record: Record) -> Function:
    """Return what a host has told of a function."""
    listener = record.get("listener") or {}
    led = {"listener_lease": listener.get("lease"), "recovery": listener.get("poll")}
    told: dict[str, Any] = {**record.fields, **led, "sync": record.get("async") is False}
    most = {} if told.get("max_waiting") is None else {"max_waiting": told["max_waiting"]}  # none is a number here
    return Function(**{field.name: told[field.name] for field in fields(Function) if told.get(field.name)} | most)


def of_a_guard(record: Record) -> bool:
    """Tell whether a record is about a function's lock, and not about a client's lock in a function's body."""
    return record.get("mode") in (None, "function", "listener")


def about_of(record: Record) -> dict[str, Any]:
    """Return which lock a record is about, and who did it."""
    mode: Mode = "listener" if record.get("mode") == "listener" else "function"
    names = {name: record.text(name) for name in ("lock", "function", "owner")}
    return {**names, "host": record.host, "mode": mode, "worker": int(record.get("worker") or 0)}


def semaphore_of(slot: str) -> str:
    """Return the name of the semaphore whose slot this is.

    >>> semaphore_of("locks/app/ship.north/slot-2"), semaphore_of("locks/app/ship.north")
    ('locks/app/ship.north', 'locks/app/ship.north')
    """
    return _SLOT.sub("", slot)
