"""All requests to a container: those of locks, of content, of notes and of logs; and the listing for operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from singleton.stores.log_store import LogStore
from singleton.stores.protocol import MOST_LISTED, BlobState, ContentStore, LeaseStore, NoteStore

LONGEST_BREAK: Final = 60
"""Seconds of a break period, at most."""
IN_USE: Final = "LeaseIdMissing"
"""The code with which the service refuses to delete a leased blob."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(BlobState):
    """A blob as a listing shows it."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a listing, in the order of the names.

    Attributes:
        marker: the argument for the next page; None: this page is the last.
        at: the service's clock as it answered, seconds since 1970.
    """

    entries: tuple[Listed, ...]
    marker: str | None
    at: float


class BlobStore(LeaseStore, ContentStore, NoteStore, LogStore, Protocol):
    """Every request to a container."""

    async def page(self, prefix: str, marker: str | None = None, most: int = MOST_LISTED) -> Page:
        """List blobs whose names begin with ``prefix``, at most ``most`` of them, from where ``marker`` says."""
