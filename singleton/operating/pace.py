"""How fast a command goes through a container in which others lock: those come first.

What it asks of the storage is measured by its own requests. One is under way at first. Where they are answered about as
fast as they ever were, there is one more the next time, up to sixteen; where they take longer, half as many; after an
error or a time-out, one. After each batch comes a rest that is a multiple of the time that the batch took. So also a
storage that does one thing at a time, and for which one request is much, has the rest for those who lock.
"""

from __future__ import annotations

import asyncio
import math
from statistics import median
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST: Final = 16
"""Requests under way at a time, where the storage does not mind."""
_ENOUGH: Final = 8
"""Requests whose times are compared with the best: a single one says little."""
_SLOWER: Final = 1.25
_NOISE: Final = 0.01
"""Seconds: from a quarter more than the best, and this, the storage has too much to do."""
_LONGEST: Final = 30.0
"""Seconds of a rest, at most."""


class Pace:
    """The pace of one command.

    Args:
        rest: how many times as long as it worked it is to rest.

    Attributes:
        at_once: how many requests it may have under way now.
    """

    def __init__(self, rest: float) -> None:
        self.at_once = 1
        self._rest = rest
        self._rests_until = -math.inf
        self._best = math.inf
        self._times: list[float] = []
        self._failed = False

    async def turn(self) -> None:
        """Wait until the rest is over."""
        if (left := self._rests_until - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(left)

    def failed(self) -> None:
        """Take into account that a request was refused for load, or not answered."""
        self._failed = True

    def rest_after(self, began: float) -> None:
        """Begin to rest; ``began``: when the work began, by the loop's clock."""
        now = asyncio.get_running_loop().time()
        self._rests_until = now + min(self._rest * (now - began), _LONGEST)

    def adapt(self, times: Iterable[float]) -> None:
        """Choose how many are under way from now on, by the seconds that the last of them took."""
        self._times += times
        if self._failed:
            self.at_once = 1
        elif len(self._times) < _ENOUGH:
            return
        else:
            typical = median(self._times)
            self._best = min(self._best, typical)
            slow = typical > self._best * _SLOWER + _NOISE
            self.at_once = max(1, self.at_once // 2) if slow else min(_MOST, self.at_once + 1)
        self._times, self._failed = [], False
