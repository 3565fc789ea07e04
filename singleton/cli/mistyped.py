"""A name, a prefix or a function of which there is no lock: what is said, and what may have been meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from singleton.base.words import did_you_mean, listed, quoted
from singleton.cli.lines import say
from singleton.cli.trouble import READING
from singleton.cli.words import state_of
from singleton.operating.alike import names_like, prefixes_like, slots_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from singleton.cli.session import Session

_SLOTS: Final = 10
"""Slots of a semaphore that are named."""


def no_such_lock(session: Session, name: str) -> str:
    """Say that there is no lock of this name, or that it is a semaphore's, which has one for each slot."""
    if slots := named_slots(session, name):
        return f"{name!r} is a semaphore, and each of its slots is a lock: name one of them: {slots}"
    like = session.ask(lambda keeping: names_like(keeping, session.container, name, answer=READING))
    return (
        f"there is no lock {name!r} in container {session.container!r}: it is mistyped, or was never taken, or was "
        f"swept{_hint(like)}"
    )


def named_slots(session: Session, name: str) -> str:
    """Name the slots of the semaphore of this name, each with its state; empty: there is none."""
    slots = session.ask(lambda keeping: slots_of(keeping, session.container, name, answer=READING))
    named = ", ".join(f"{slot.name!r} ({state_of(slot)})" for slot in slots[:_SLOTS])
    return named + (f" and {len(slots) - _SLOTS:,} more" if len(slots) > _SLOTS else "")


def tell_of_slots(session: Session, name: str) -> None:
    """Say, of a lock that is there, that a semaphore has the same name, if one has: its slots may be what is meant."""
    if slots := named_slots(session, name):
        say(f"{name!r} is also the name of a semaphore, whose slots are locks of their own: {slots}", err=True)


def no_such_prefix(session: Session, prefix: str) -> str | None:
    """Say that no lock's name begins so; None where there is no lock at all yet."""
    like = session.ask(lambda keeping: prefixes_like(keeping, session.container, prefix, answer=READING))
    if like is None:
        return None
    return f"no lock in container {session.container!r} has a name that begins with {prefix!r}{_hint(like)}"


def no_such_function(session: Session, function: str, functions: Iterable[str], prefix: str = "") -> str:
    """Say that no lock is this function's."""
    among = f" with a name that begins with {prefix!r}" if prefix else ""
    known = sorted(functions)
    others = f". Those that have any: {listed(known)}" if known else ": no lock there is a function's"
    hint = did_you_mean(function, known) or others
    return f"there is no lock of function {function!r}{among} in container {session.container!r}{hint}"


def _hint(like: Iterable[str]) -> str:
    """Return the question whether one of these was meant; names are whole, so that they can be copied."""
    names = ", ".join(quoted(name, 1024) for name in like)
    return f". Did you mean {names}?" if names else ""
