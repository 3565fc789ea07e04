"""Count who is inside a block at the same time."""

from __future__ import annotations

import threading


class Headcount:
    """Counts how many threads or tasks are inside a block at the same time. Put it where the work is.

    Attributes:
        now: how many are inside.
        most: the greatest number that was inside at once.
        total: how many have entered so far.

    Example:
        >>> inside = Headcount()
        >>> with inside:
        ...     pass
        >>> inside.most, inside.total
        (1, 1)
    """

    def __init__(self) -> None:
        self.now = self.most = self.total = 0
        self._door = threading.Lock()

    def __enter__(self) -> None:
        with self._door:
            self.now += 1
            self.total += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._door:
            self.now -= 1

    def __repr__(self) -> str:
        return f"<Headcount: {self.now} inside, {self.most} at most, {self.total} in all>"
