r"""The findings of a check, and the names of locks and numbers in findings.

Names for people: of locks, without folders, escapes and long hashes, and safe for a terminal.

Examples:
>>> label("locks/my-host/ship.tenant%2Da")
'ship.tenant-a'
>>> label("locks/my-host/ship.tenant%2Da/slot-2"), label("locks/my-host/ship~listener")
('ship.tenant-a #2', 'ship (listener)')
>>> label("locks/my-host/ship.8c87b489ce35cf2e2f39f80e282cb2e804932a56")
'ship.8c87b489…'
>>> printable("up\x1b[2Jdown")
'up\\x1b[2Jdown'
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence on a fault.

    Attributes:
        kind: ``violation``: a promise was broken. ``unproven``: nothing was broken, but an event that the run should
            show did not happen. ``note``: worth knowing, and not the lock's fault.
        text: the sentence.
        too_slow: from when to when, in seconds of the run, the machine was too slow to judge.
    """

    kind: Literal["violation", "unproven", "note"]
    text: str
    too_slow: tuple[float, float] | None = None


def violation(text: str) -> Finding:
    """Say that a promise was broken."""
    return Finding("violation", text)


def unproven(text: str, too_slow: tuple[float, float] | None = None) -> Finding:
    """Say that something was not shown."""
    return Finding("unproven", text, too_slow)


def note(text: str) -> Finding:
    """Say something worth knowing."""
    return Finding("note", text)


def count(number: int, one: str, many: str = "") -> str:
    """Write a number with its noun.

    >>> count(1, "kill"), count(1200, "body", "bodies")
    ('1 kill', '1,200 bodies')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def by_function(numbers: Mapping[str, int], what: str, one: str = "invocation", many: str = "") -> Iterator[Finding]:
    """Yield a violation for each function, or queue, with a number above 0: ``3 bodies of 'ship'``, then ``what``."""
    for name, number in sorted(numbers.items()):
        if number > 0:
            yield violation(f"{count(number, one, many)} of {name!r} {what}")


def fleet_of(hosts: int, *, same_app: bool, apps: int = 0) -> str:
    """Say how the hosts of a run belong together.

    >>> fleet_of(5, same_app=False), fleet_of(2, same_app=True), fleet_of(1, same_app=False)
    ('5 hosts, each an app of its own', '2 hosts, instances of one app', '1 host')
    >>> fleet_of(4, same_app=False, apps=2)
    '4 hosts, instances of 2 apps'
    """
    if hosts == 1:
        return count(hosts, "host")
    if apps:
        return f"{count(hosts, 'host')}, instances of {count(apps, 'app')}"
    return f"{count(hosts, 'host')}, {'instances of one app' if same_app else 'each an app of its own'}"


_FOLDER: Final = re.compile(r"\Alocks/[^/]+/(?=.)")
_SLOT: Final = re.compile(r"/slot-([0-9]+)\Z")
_LISTENER: Final = re.compile(r"(?:~listener|\.Listener)\Z")
_DOTNET: Final = "Host.Functions."
_HASH: Final = re.compile(r"(?<![0-9a-f])([0-9a-f]{8})[0-9a-f]{24,56}(?![0-9a-f])")
_SELECTORS: Final = range(0xFE00, 0xFE10)
"""They change the drawn width of the character before them, and no two terminals agree on this width."""


@lru_cache(maxsize=16384)
def label(lock: str) -> str:
    """Return a short name of a lock: its function and scope, decoded, with hashes shortened, safe to print."""
    name = _FOLDER.sub("", lock)
    slot = _SLOT.search(name)
    name = _SLOT.sub("", name)
    led = _LISTENER.search(name)
    name = unquote(_LISTENER.sub("", name).removeprefix(_DOTNET))
    name = _HASH.sub(r"\1…", name)
    return printable(name) + " (listener)" * bool(led) + (f" #{slot[1]}" if slot else "")


_NUMBERED: Final = re.compile(r"(.*?)([0-9]{1,15})?(?:[.]([0-9]{1,15}))?", re.DOTALL)


def natural(name: str) -> tuple[str, int, int, str]:
    """Order names by the numbers at their ends: ``host-2`` before ``host-2.2``, and before ``host-10``.

    >>> sorted(["host-10", "host-2.2", "host-2", "a"], key=natural)
    ['a', 'host-2', 'host-2.2', 'host-10']
    """
    stem, number, again = _NUMBERED.fullmatch(name).groups()  # type: ignore[union-attr]  # it matches every text
    return stem, int(number or 0), int(again or 0), name


def shortened(name: str, most: int = 40) -> str:
    """Return a name of at most `most` characters; a longer name loses its middle.

    >>> shortened("ship.a-tenant-with-a-long-name", 15)
    'ship.a-…ng-name'
    """
    tail = (most - 1) // 2
    return name if len(name) <= most else f"{name[: most - 1 - tail]}…{name[len(name) - tail :]}"


def printable(text: str) -> str:
    """Return text without characters that steer a terminal, or have different widths on different terminals."""
    return "".join(_shown(char) for char in text)


def _shown(char: str) -> str:
    if char.isascii():
        return char if char.isprintable() else char.encode("unicode_escape").decode()
    steers = unicodedata.category(char)[0] == "C" or unicodedata.category(char) in {"Zl", "Zp"}
    return char.encode("unicode_escape").decode() if steers or ord(char) in _SELECTORS else char
