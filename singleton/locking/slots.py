"""The slots of a semaphore: what their blobs are called, and in which order they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from singleton.base.errors import ConfigurationError
from singleton.base.words import quoted

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

MOST: Final = 2**31 - 1
"""The highest limit (M-60)."""

_RING: Final = 8
_AT_ONCE: Final = 32
"""Slots that are asked for in one poll, after each has been asked for once."""


def slot_name(name: str, number: int) -> str:
    """Return the name of a slot's blob."""
    return f"{name}/slot-{number}"


def checked_limit(limit: object) -> int:
    """Return a semaphore's limit if it is one."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise ConfigurationError(f"limit is {quoted(limit)}: give a whole number from 1 to {MOST:,}")
    return limit


class Slots:
    """The numbers of the slots, in the order in which one process asks for them.

    Attributes:
        warm: those that this process had last, as far as it knows: taking one saves requests.
    """

    def __init__(self, limit: int, rng: random.Random) -> None:
        self.warm: set[int] = set()
        self._limit = limit
        self._rng = rng
        self._next = 0

    def all(self) -> Iterator[int]:
        """The warm ones, then the others in rings of doubling size: a free one among the lowest is found first."""
        warm = sorted(self.warm)
        self._rng.shuffle(warm)
        yield from warm
        tried = set(warm)
        start, size = 0, _RING
        while start < self._limit:
            ring = range(start, min(start + size, self._limit))
            offset = self._rng.randrange(len(ring))
            turned = (ring[(step + offset) % len(ring)] for step in range(len(ring)))
            yield from (number for number in turned if number not in tried)
            start += size
            size = start

    def some(self) -> Iterator[int]:
        """All, or the next of many, so that all get their turn."""
        if self._limit <= _AT_ONCE:
            return self.all()
        start, self._next = self._next, (self._next + _AT_ONCE) % self._limit
        return iter([(start + step) % self._limit for step in range(_AT_ONCE)])
