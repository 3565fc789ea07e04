"""A pass of an operator's command over the blobs of a container, page by page, while apps use the locks.

The pass works on several blobs at a time. The apps come first, so the pass measures its own requests. At first one is
under way. While answers come about as fast as they ever came, each batch has one request more, up to sixteen; with
slower answers the next batch has half as many, and after an error or a timeout one. After each batch comes a rest, a
multiple of the time of the batch. So a storage that does one thing at a time has the rest for the apps, too.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import fields
from statistics import median
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from singleton.operating.container import next_page

if TYPE_CHECKING:
    from collections.abc import Iterable

    from singleton.stores.lock_keeping import Listed, LockKeeping


class Counts:
    """Base of a record with a field for each outcome: the number of blobs with this outcome."""

    __slots__ = ()

    @property
    def seen(self) -> int:
        """Number of blobs, over all outcomes."""
        return sum(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type] # a dataclass


_CountsT = TypeVar("_CountsT", bound=Counts)


class ContainerPass(ABC, Generic[_CountsT]):
    """One pass over a container.

    Args:
        keeping: the container.
        container: name of the container.
        counts: type of the record of outcomes.
        due: field of ``counts`` for blobs to work on; a dry run only counts these blobs.
        prefix: only blobs whose names begin with this text.
        dry_run: change nothing.
        rest: length of a rest as a multiple of the work before, for the lockers' sake; a dry run does not rest.
    """

    _page: ClassVar[int] = 1000
    """Blobs that are listed at a time."""

    def __init__(
        self,
        keeping: LockKeeping,
        container: str,
        counts: type[_CountsT],
        due: str,
        *,
        prefix: str,
        dry_run: bool,
        rest: float = 0.0,
    ) -> None:
        self._keeping = keeping
        self._container = container
        self._counts = counts
        self._due = due
        self._prefix = prefix
        self._dry_run = dry_run
        self._ends: Counter[str] = Counter()
        self._marker: str | None = None
        self._waiting: list[Listed] = []
        self._listed = 0
        self._pace = Pace(0.0 if dry_run else rest)

    @property
    def result(self) -> _CountsT:
        """Outcomes so far."""
        return self._counts(**self._ends)

    @property
    def done(self) -> int:
        """Number of blobs worked on; in a dry run, of blobs to work on."""
        return self._ends[self._due]

    @property
    def left(self) -> int:
        """Number of blobs listed and not worked on yet."""
        return self._listed - self.result.seen

    @abstractmethod
    def _end_of(self, blob: Listed, at: float) -> str:
        """Return the intended outcome of a blob listed at this time by the service's clock."""

    @abstractmethod
    async def _work_on(self, blob: Listed) -> str:
        """Work on a blob; return the outcome."""

    async def go_on(self) -> bool:
        """Work on the next few blobs, or list the next page; return whether work is left.

        Raises:
            StorageError: the storage refuses or does not answer. Finished work is counted.
        """
        await self._pace.turn()
        began = asyncio.get_running_loop().time()
        try:
            if self._waiting:
                at_once = self._pace.at_once
                batch, self._waiting = self._waiting[:at_once], self._waiting[at_once:]
                await self._work_on_all(batch)
            else:
                await self._list()
        finally:
            self._pace.rest_after(began)
        return bool(self._waiting) or self._marker is not None

    async def _list(self) -> None:
        page = await next_page(self._keeping, self._container, self._prefix, self._marker, self._page)
        for blob in page.entries:
            end = self._end_of(blob, page.at)
            if end == self._due and not self._dry_run:
                self._waiting.append(blob)
            else:
                self._ends[end] += 1
        self._listed += len(page.entries)
        self._marker = page.marker

    async def _work_on_all(self, batch: list[Listed]) -> None:
        """Work on these blobs at once."""
        tasks = [asyncio.ensure_future(self._timed(blob)) for blob in batch]
        try:
            times = [await task for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        self._pace.adapt(times)

    async def _timed(self, blob: Listed) -> float:
        """Work on a blob; return the seconds of this work."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._ends[await self._work_on(blob)] += 1
        return loop.time() - began


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
        rest: length of a rest as a multiple of the work before.

    Attributes:
        at_once: number of requests that may be under way now.
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
        """Count a request that was refused for load, or not answered."""
        self._failed = True

    def rest_after(self, began: float) -> None:
        """Begin to rest; ``began``: begin of the work by the loop's clock, in seconds."""
        now = asyncio.get_running_loop().time()
        self._rests_until = now + min(self._rest * (now - began), _LONGEST)

    def adapt(self, times: Iterable[float]) -> None:
        """Choose the number of requests at a time from the seconds that the last requests took."""
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
