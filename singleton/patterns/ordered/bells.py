"""Bells: queue messages that say only that a key has messages. The queue's order, and repeats, do not matter to them.

A bell is sent after the first message of each log, and now and then after later ones. A consumer that received it
deletes it after it has read the log to its end under the key's lock, or found no log: all messages of the key were
handled. A consumer that finds the key in use sends another bell for later, and then deletes this one.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import ConfigurationError
from singleton.base.invocation import log as _log
from singleton.base.words import quoted
from singleton.locking.holder import answered
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from singleton.defer.trigger_queue import Encoding
    from singleton.stores.message_store import MessageStore, Sent

_LONGEST_DELAY: Final = 604_000
"""Seconds; the service allows seven days."""


@dataclass(frozen=True, slots=True)
class Bell:
    """The content of a bell.

    Attributes:
        spot: the key, in its form in names.
        again: how often the bell came before: its key was in use, or the process that answered the bell died.
    """

    inbox: str
    spot: str
    again: int = 0

    def text(self, encoding: Encoding) -> str:
        """Return it as a message's text."""
        said = json.dumps({"inbox": self.inbox, "log": self.spot, "again": self.again}, separators=(",", ":"))
        return base64.b64encode(said.encode()).decode() if encoding == "base64" else said

    @property
    def pause(self) -> int:
        """Seconds after which the bell comes again, if its key is in use."""
        return min(1 << min(self.again, 4), 10)


def bell_in(message: Any, inbox: str) -> Bell:
    """Read a bell: a text, bytes, or a message as the Functions worker or the SDK has it.

    A bell that was delivered more than once came before. ``ConfigurationError``: it is no bell of this inbox.
    """
    said = message.get_body() if callable(getattr(message, "get_body", None)) else getattr(message, "content", message)
    try:
        raw = said.encode() if isinstance(said, str) else bytes(said)
        told = json.loads(raw if raw.lstrip()[:1] == b"{" else base64.b64decode(raw, validate=True))
        delivered = getattr(message, "dequeue_count", None) or 1
        bell = Bell(str(told["inbox"]), str(told["log"]), int(told.get("again", 0)) + max(0, delivered - 1))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, binascii.Error):
        raise ConfigurationError(
            f"{quoted(str(said)[:60])} is not a message of inbox {inbox!r}: only inbox.send may write to its queue"
        ) from None
    if bell.inbox != inbox:
        raise ConfigurationError(
            f"a message of inbox {bell.inbox!r} came to the queue of {inbox!r}: give each inbox its own queue"
        )
    return bell


async def ring(queue: MessageStore, bell: Bell, encoding: Encoding, delay: float = 0) -> Sent | None:
    """Put a bell into the queue, and make that where it is missing; None, and a warning: it could not be.

    After a repeated request the queue may have two bells, which does no harm.
    """
    text, seconds = bell.text(encoding), min(max(0, math.ceil(delay)), _LONGEST_DELAY)
    try:
        try:
            return await answered(lambda: queue.send(text, delay=seconds, life=None))
        except StoreFailure as failure:
            if failure.code != "QueueNotFound":
                raise
            await answered(queue.create)
            return await answered(lambda: queue.send(text, delay=seconds, life=None))
    except StoreFailure as failure:
        _log.warning(
            "inbox %s: the queue was not told of messages of %s (%s): they wait until a worker looks for left ones",
            *(bell.inbox, bell.spot, failure),
        )
        return None
