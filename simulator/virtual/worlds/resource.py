"""The fenced resource that the bodies of virtual worlds write to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter

    from singleton.base.hold import Hold


class Refused(Exception):
    """The fenced resource refused a stale token."""


class Resource:
    """The bodies write to it. It remembers the highest token of each lock, and refuses a smaller one."""

    def __init__(self, reached: Counter[str]) -> None:
        self._highest: dict[str, int] = {}
        self._reached = reached

    def write(self, hold: Hold) -> None:
        """Write under the token of ``hold``."""
        self._reached["writes after a loss"] += hold.lost.is_set()
        token = hold.token or 0
        if token < self._highest.get(hold.lock, 0):
            self._reached["stale holder refused"] += 1
            raise Refused(f"token {token} is older than {self._highest[hold.lock]}")
        self._highest[hold.lock] = token
        self._reached["writes"] += 1
