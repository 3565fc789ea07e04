"""Suggestions for a name, a prefix or a function that has no lock."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final

from singleton.locking.slots import slot_name
from singleton.operating.listing import next_page
from singleton.operating.locks import lock_info

if TYPE_CHECKING:
    from singleton.operating.locks import LockInfo
    from singleton.stores.lock_keeping import LockKeeping

_READ: Final = 1000
"""Names that are looked at for one that was meant."""
_SHOWN: Final = 3
_PART: Final = re.compile(r"(?<=[/.])")


async def names_like(keeping: LockKeeping, container: str, name: str, *, answer: float) -> list[str]:
    """Return a few names of locks that may have been meant by this one, of which there is no blob.

    They are those that are spelt much like it; else those of which it is the scope, a value of it, or the function.
    """
    names: set[str] = set()
    parts: list[str] = []
    for prefix in _beginnings(name):
        locks = await _some(keeping, container, prefix, answer)
        names.update(lock.name for lock in locks)
        parts += [lock.name for lock in locks if name == lock.function or name in lock.scope]
        if close := difflib.get_close_matches(name, names, n=_SHOWN, cutoff=0.75):
            return close
    return list(dict.fromkeys(parts))[:_SHOWN]


async def prefixes_like(keeping: LockKeeping, container: str, prefix: str, *, answer: float) -> list[str] | None:
    """Return a few beginnings of names that may have been meant by one with which no name begins.

    None: no lock was found at all, so that the prefix may be right.
    """
    found: set[str] = set()
    for start in _beginnings(prefix):
        for lock in await _some(keeping, container, start, answer):
            ends = [match.start() for match in _PART.finditer(lock.name)]
            found.update(lock.name[:end] for end in (*ends, len(lock.name)))
        if close := difflib.get_close_matches(prefix, found, n=_SHOWN):
            return close
    holding = sorted((text for text in found if prefix.casefold() in text.casefold()), key=len)
    return holding[:1] if found else None


async def slots_of(keeping: LockKeeping, container: str, name: str, *, answer: float) -> list[LockInfo]:
    """Return the locks that are the slots of the semaphore of this name, in the order of their numbers."""
    slots = [lock for lock in await _some(keeping, container, slot_name(name, 0)[:-1], answer) if is_slot(lock, name)]
    return sorted(slots, key=lambda lock: int(lock.name.rpartition("-")[2]))


def is_slot(lock: LockInfo, name: str) -> bool:
    """Tell whether this lock is a slot of the semaphore of this name."""
    number = lock.name.rpartition("-")[2]
    return number.isascii() and number.isdigit() and lock.name == slot_name(name, int(number))


def _beginnings(text: str) -> list[str]:
    """Return with which prefixes to look for what is like a text: the nearest first."""
    folder = text[: text.rfind("/") + 1]
    return list(dict.fromkeys((text[: len(folder) + 3], folder, "")))


async def _some(keeping: LockKeeping, container: str, prefix: str, answer: float) -> list[LockInfo]:
    page = await next_page(keeping, container, prefix, None, _READ, answer=answer)
    return [lock for blob in page.entries if (lock := lock_info(blob, container)) is not None]
