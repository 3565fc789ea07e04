"""How a check says what it found, and how locks and numbers are named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simulator.history.names import readable


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence on what is wrong.

    Attributes:
        kind: ``violation``: a promise was broken. ``unproven``: nothing was broken, but something that the run should
            show did not happen. ``note``: worth knowing, and not the lock's fault.
        text: the sentence.
    """

    kind: Literal["violation", "unproven", "note"]
    text: str


def violation(text: str) -> Finding:
    """Say that a promise was broken."""
    return Finding("violation", text)


def unproven(text: str) -> Finding:
    """Say that something was not shown."""
    return Finding("unproven", text)


def note(text: str) -> Finding:
    """Say something worth knowing."""
    return Finding("note", text)


def label(lock: str) -> str:
    """Return a short name of a lock: its blob's path without folders, host id and escapes, safe to print.

    Example:
        >>> label("locks/my-host/ship.tenant%2Da")
        'ship.tenant-a'
    """
    return readable(lock)


def count(number: int, one: str, many: str = "") -> str:
    """Write a number with its noun.

    Example:
        >>> count(1, "kill"), count(1200, "body", "bodies")
        ('1 kill', '1,200 bodies')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def fleet_of(hosts: int, *, same_app: bool) -> str:
    """Say how the hosts of a run belong together.

    Example:
        >>> fleet_of(5, same_app=False), fleet_of(2, same_app=True), fleet_of(1, same_app=False)
        ('5 hosts, each an app of its own', '2 hosts, instances of one app', '1 host')
    """
    if hosts == 1:
        return count(hosts, "host")
    return f"{count(hosts, 'host')}, {'instances of one app' if same_app else 'each an app of its own'}"
