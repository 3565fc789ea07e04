"""Queue messages: what a listener asks of a queue service, how bodies are encoded, where poison goes."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from singleton.defer.queueplace import Encoding

_QUEUE_NAME: Final = re.compile(r"[a-z0-9](?:-?[a-z0-9])*\Z")
_POISON: Final = "-poison"


class QueueMissing(Exception):
    """There is no such queue, or it is being deleted."""


class MessageGone(Exception):
    """The message was deleted, expired, or belongs to another receiver by now (H-41)."""


class QueueTrouble(Exception):
    """The service did not do it: a time-out, a refusal, an error of its own; it may be asked again."""


@dataclass(slots=True, kw_only=True)
class Message:
    """A received message. ``pop_receipt`` changes with each renewal; ``text`` is the body as the queue holds it."""

    id: str
    text: str
    dequeue_count: int
    pop_receipt: str
    inserted: datetime | None = None
    expires: datetime | None = None
    next_visible: datetime | None = None
    body: bytes = b""


class QueueService(Protocol):
    """The requests that a host makes of its queues. All may raise `QueueTrouble`."""

    async def receive(self, queue: str, count: int, visibility: float) -> list[Message]:
        """Take up to ``count`` messages, invisible to others for ``visibility`` seconds; may raise `QueueMissing`."""

    async def set_visibility(self, queue: str, message: Message, visibility: float) -> None:
        """Hide the message for ``visibility`` seconds from now and renew its receipt; may raise `MessageGone`."""

    async def delete(self, queue: str, message: Message) -> None:
        """Delete the message; may raise `MessageGone`."""

    async def send(self, queue: str, text: str) -> str:
        """Put a message into the queue, creating the queue where it is missing; return the message's id."""


def decode(text: str, encoding: Encoding) -> bytes:
    """Return the body of a message.

    Raises:
        ValueError: it is not base64, though the host expects that.
    """
    if encoding == "none":
        return text.encode()
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("its text is not base64, which host.json's messageEncoding asks for") from error


def encode(body: bytes, encoding: Encoding) -> str:
    """Return the text under which a body is put into a queue."""
    return base64.b64encode(body).decode() if encoding == "base64" else body.decode("utf-8", "replace")


def is_queue_name(name: str) -> bool:
    """Tell whether the service allows a queue of this name (H-40)."""
    return 3 <= len(name) <= 63 and _QUEUE_NAME.match(name) is not None


def poison_queue(queue: str) -> str | None:
    """Return where the queue's poison messages go, or None where nowhere (H-39, H-40)."""
    poison = queue + _POISON
    return None if queue.endswith(_POISON) or not is_queue_name(poison) else poison
