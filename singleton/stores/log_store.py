"""What is asked of a container to keep logs in it: append blobs. A protocol of its own beside ``LeaseStore``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_BLOCK: Final = 4 * 2**20
"""Bytes of one block, at most."""
MOST_BLOCKS: Final = 50_000
"""Blocks of one log, at most. A full log never takes another block."""
FULL: Final = "BlockCountExceedsLimit"
"""The code with which a block is refused that a full log has no room for."""
NO_LOG: Final = "InvalidBlobType"
"""The code with which a block is refused where a blob of that name is no log."""
BEYOND: Final = "InvalidRange"
"""The code with which a read is refused that begins at the end of the log, or behind it."""


class Tail(NamedTuple):
    """A part of a log, and the log as that request found it.

    Attributes:
        etag: of the log. A new block changes the ETag.
        full: whether the log can have no more blocks.
        body: the bytes that were asked for; fewer at the end of the log.
    """

    etag: str
    metadata: Mapping[str, str]
    blocks: int
    full: bool
    body: bytes


@runtime_checkable
class LogStore(Protocol):
    """Logs in a container. Every method is one request, unless it says more, and may raise ``StoreFailure``."""

    async def start_log(self, name: str, metadata: Mapping[str, str]) -> bool:
        """Make an empty log, and a missing container; False: a blob of this name exists already.

        With a missing container the call takes three requests, once.
        """

    async def append(self, name: str, block: bytes) -> int:
        """Add a block to the log, whole or not at all; return the offset at which it begins."""

    async def tail(self, name: str, start: int, most: int) -> Tail:
        """Read at most ``most`` bytes from ``start`` on; a second request where the log is empty.

        Where the log has no byte at ``start``, and that is not 0, it is refused (``InvalidRange``).
        """

    async def label(self, name: str, metadata: Mapping[str, str], etag: str) -> str:
        """Replace the metadata if the log has this ETag; return the new one."""

    async def drop(self, name: str, etag: str) -> None:
        """Delete the blob if it has this ETag and nobody has the lease (else code ``LeaseIdMissing``)."""
