"""The few requests by which a queue message goes back: the protocol of a queue. See ``protocol.py`` of leases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

GONE: Final = frozenset({"MessageNotFound", "PopReceiptMismatch"})
"""The receipt is none any more: the message was deleted or received again, or its invisibility was prolonged."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """A hidden message: the new receipt, and the end of the invisibility, by the service's clock since 1970."""

    receipt: str
    until: float


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was put into a queue: its id, the receipt with which it can be deleted again, and when that was.

    The time is the service's, since 1970.
    """

    id: str
    receipt: str
    inserted: float


@dataclass(frozen=True, slots=True)
class Taken:
    """A message as it was received: id, receipt, text, and the number of receives."""

    id: str
    receipt: str
    text: str
    dequeued: int


class MessageStore(Protocol):
    """One queue. Every method is one request, and may raise ``StoreFailure``."""

    async def create(self) -> None:
        """Make the queue. An existing queue is no failure."""

    async def now(self) -> float:
        """Return the service's clock, since 1970."""

    async def hide(self, id: str, receipt: str, seconds: int) -> Hidden:  # noqa: A002 - the service's own word
        """Hide a received message for so many seconds from now. Earlier receipts become void."""

    async def send(self, text: str, *, delay: int, life: int | None) -> Sent:
        """Put a message into the queue, invisible for ``delay`` seconds; ``life`` seconds, or None without an end."""

    async def delete(self, id: str, receipt: str) -> None:  # noqa: A002
        """Delete a message."""

    async def take(self, most: int, seconds: int) -> list[Taken]:
        """Receive at most so many messages (1 to 32), which nobody else sees for so many seconds."""

    async def aclose(self) -> None:
        """Let go of connections. The store can't be used afterwards."""
