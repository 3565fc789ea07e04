"""Count who is inside a block at the same time."""

from __future__ import annotations

import threading


class Headcount:
    """Counts the threads or tasks that are inside a block at the same time. Put the block around the work.

    Attributes:
        now: number inside now.
        most: greatest number inside at once.
        total: number of entries so far.

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
