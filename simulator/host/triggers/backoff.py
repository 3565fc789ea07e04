"""How long a queue listener waits between polls of an empty queue (H-43)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from random import Random

MINIMUM: Final = 0.1


class Backoff:
    """Exponential waits with a jitter of 20 %: 0.1 s, about 0.2, 0.3, 0.5, 0.9, 1.7 … and then always the maximum."""

    def __init__(self, maximum: float, random: Random, minimum: float = MINIMUM) -> None:
        self._minimum = min(minimum, maximum)
        self._maximum = maximum
        self._random = random
        self._exponent = 0
        self._at_maximum = False

    def reset(self) -> None:
        """Start again from the minimum: something was found."""
        self._exponent = 0
        self._at_maximum = False

    def next(self) -> float:
        """Return the next wait in seconds."""
        if self._at_maximum:
            return self._maximum
        wait = self._minimum
        if self._exponent > 0:
            wait += self._random.uniform(0.8, 1.2) * 2 ** (self._exponent - 1) * self._minimum
        if wait < self._maximum:
            self._exponent += 1
            return wait
        self._at_maximum = True
        return self._maximum
