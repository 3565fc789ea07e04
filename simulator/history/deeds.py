"""What one record says of things that last: of which lock it speaks, when they began, and that they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def by_a_guard(record: Record) -> bool:
    """Tell whether what a record says of a lock was done by a guard, and not by a lock client in an app's body."""
    return record.get("mode") in (None, "function", "listener")


def about_of(record: Record) -> dict[str, Any]:
    """Return which lock a record speaks of, and whose doing it is."""
    mode: Mode = "listener" if record.get("mode") == "listener" else "function"
    names = {name: record.text(name) for name in ("lock", "function", "owner")}
    return {**names, "host": record.host, "mode": mode, "worker": int(record.get("worker") or 0)}
