"""What an operator asks of a container: which locks there are, to end a lease, to delete what nobody uses.

No lock needs these requests, so they are a protocol beside ``LeaseStore``. Each method is one request, on the
conditions that it names, and may raise ``StoreFailure``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from singleton.stores.protocol import MOST_LISTED, BlobState

LONGEST_BREAK: Final = 60
"""Seconds of a break period, at most."""
IN_USE: Final = "LeaseIdMissing"
"""The code with which the service refuses to delete a blob on which somebody has the lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(BlobState):
    """A blob as a listing shows it.

    Attributes:
        name: the blob's name.
        size: bytes of its content.
    """

    name: str
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a listing, in the order of the names.

    Attributes:
        entries: the blobs.
        marker: what to ask for the next page with; None: this is the last.
        at: the service's clock as it answered, seconds since 1970.
    """

    entries: tuple[Listed, ...]
    marker: str | None
    at: float


@runtime_checkable
class LockKeeping(Protocol):
    """What an operator may ask of the container of a ``LeaseStore``."""

    async def page(self, prefix: str, marker: str | None = None, most: int = MOST_LISTED) -> Page:
        """List blobs whose names begin with ``prefix``, at most ``most`` of them, from where ``marker`` says."""

    async def shorten(self, name: str, after: int | None, etag: str | None = None) -> int:
        """Let anybody's lease end in ``after`` seconds (0 to 60) or as it is; return in how many it will.

        From now on it can't be renewed. With None it lasts as long as it would without a renewal; one that never
        expires ends at once. A later call can only bring the end nearer. With an ETag, only if the blob has it.
        """

    async def erase(self, name: str, etag: str) -> None:
        """Delete the blob if it has this ETag and nobody has the lease (else code ``LeaseIdMissing``)."""
