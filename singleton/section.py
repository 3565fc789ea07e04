"""Those who wait for a lock of this process, and what they get: a hold with two ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from singleton.hold import Hold

if TYPE_CHECKING:
    from singleton.errors import SingletonError
    from singleton.lease import Lease


@dataclass(slots=True, eq=False)
class Waiter:
    """Somebody in line. ``once``: it asks once, instead of waiting."""

    owner: str
    since: float
    deadline: float
    once: bool
    granted: asyncio.Future[Section]

    def refuse(self, error: SingletonError) -> None:
        """End the wait with an error, unless it has ended."""
        if not self.granted.done():
            error.owner = self.owner
            self.granted.set_exception(error)


class Section(Hold):
    """A hold with its two ends: the caller's (ended) and ours (settled: handed on, or given back)."""

    __slots__ = ("ended", "settled")

    def __init__(self, lock: str, owner: str, token: int | None, lease: Lease) -> None:
        super().__init__(lock, owner=owner, token=token, lease=lease)
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        """The caller's end: its section is over."""
        if not self.ended.done():
            self.ended.set_result(None)
