"""Errors about a name, a prefix or a function that has no lock, with suggestions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from singleton.cli.output import say, state_of
from singleton.cli.silence import READING
from singleton.operating.missing_lock import (
    function_is_missing,
    lock_is_missing,
    names_like,
    prefix_is_missing,
    prefixes_like,
    slots_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from singleton.cli.session import Session

_SLOTS: Final = 10
"""Slots of a semaphore that are named."""


def no_such_lock(session: Session, name: str) -> str:
    """Say that there is no lock of this name, or that it is a semaphore's, which has one for each slot."""
    if slots := named_slots(session, name):
        return f"{name!r} is a semaphore, and each of its slots is a lock. Name one of them: {slots}"
    like = session.ask(lambda keeping: names_like(keeping, session.container, name, answer=READING))
    return lock_is_missing(session.container, name, like)


def named_slots(session: Session, name: str) -> str:
    """Name the slots of the semaphore of this name, each with its state; empty: there is none."""
    slots = session.ask(lambda keeping: slots_of(keeping, session.container, name, answer=READING))
    named = ", ".join(f"{slot.name!r} ({state_of(slot)})" for slot in slots[:_SLOTS])
    return named + (f" and {len(slots) - _SLOTS:,} more" if len(slots) > _SLOTS else "")


def tell_of_slots(session: Session, name: str) -> None:
    """Say, of a lock that is there, that a semaphore has the same name, if one has: its slots may be what is meant."""
    if slots := named_slots(session, name):
        say(f"{name!r} is also the name of a semaphore, and each of its slots is a lock: {slots}", err=True)


def no_such_prefix(session: Session, prefix: str) -> str | None:
    """Say that no lock's name begins so; None where there is no lock at all yet."""
    like = session.ask(lambda keeping: prefixes_like(keeping, session.container, prefix, answer=READING))
    if like is None:
        return None
    return prefix_is_missing(session.container, prefix, like)


def no_such_function(session: Session, function: str, functions: Iterable[str], prefix: str = "") -> str:
    """Say that no lock is this function's."""
    return function_is_missing(session.container, function, functions, prefix)
