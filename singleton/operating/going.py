"""How an operator's command goes through the blobs of a container, page by page, while others lock.

Several blobs are worked on at a time. Where the storage answers slowly they become fewer, one in the end, so that
renewals get through.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from singleton.operating.listing import next_page

if TYPE_CHECKING:
    from singleton.stores.keeping import Listed, LockKeeping

_MOST: Final = 16
"""Blobs that are worked on at a time, where the storage answers fast."""
_SLOW: Final = 0.5
"""Seconds of an answer from which the storage has too much to do: those who lock come first."""


class Counts:
    """Base of a record that says how many blobs came to which end: each of its fields is one."""

    __slots__ = ()

    @property
    def seen(self) -> int:
        """All of them."""
        return sum(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type] # a dataclass


_CountsT = TypeVar("_CountsT", bound=Counts)


class Going(ABC, Generic[_CountsT]):
    """One go through a container.

    Args:
        keeping: the container.
        container: its name.
        counts: the record of what became of the blobs.
        due: the field of it that counts those to work on; without working on them in a dry run.
        prefix: only names that begin with it.
        dry_run: change nothing.
    """

    _page: ClassVar[int] = 1000
    """Blobs that are listed at a time."""

    def __init__(
        self, keeping: LockKeeping, container: str, counts: type[_CountsT], due: str, *, prefix: str, dry_run: bool
    ) -> None:
        self._keeping = keeping
        self._container = container
        self._counts = counts
        self._due = due
        self._prefix = prefix
        self._dry_run = dry_run
        self._ends: Counter[str] = Counter()
        self._marker: str | None = None
        self._at_once = _MOST // 4

    @property
    def result(self) -> _CountsT:
        """What became of the blobs so far."""
        return self._counts(**self._ends)

    @property
    def done(self) -> int:
        """How many were worked on; in a dry run, would be."""
        return self._ends[self._due]

    @abstractmethod
    def _end_of(self, blob: Listed, at: float) -> str:
        """Say what is to become of a blob that was listed at this time by the service's clock."""

    @abstractmethod
    async def _work_on(self, blob: Listed) -> str:
        """Do it; say what became of it."""

    async def go_on(self) -> bool:
        """Work on the next page; tell whether there are more.

        Raises:
            StorageError: the storage refuses, or does not answer. What was done is counted.
        """
        page = await next_page(self._keeping, self._container, self._prefix, self._marker, self._page)
        due: list[Listed] = []
        for blob in page.entries:
            end = self._end_of(blob, page.at)
            if end == self._due and not self._dry_run:
                due.append(blob)
            else:
                self._ends[end] += 1
        while due:
            batch, due = due[: self._at_once], due[self._at_once :]
            await self._work_on_all(batch)
        self._marker = page.marker
        return page.marker is not None

    async def _work_on_all(self, batch: list[Listed]) -> None:
        """Work on these at once; the next time on more, or on half as many where that took long."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        tasks = [asyncio.ensure_future(self._work_on(blob)) for blob in batch]
        try:
            for task in tasks:
                self._ends[await task] += 1
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if loop.time() - began > _SLOW:
            self._at_once = max(1, self._at_once // 2)
        else:
            self._at_once = min(_MOST, self._at_once + 1)
