"""The queue service's documented behaviour, in memory, on the running loop's clock: receipts, visibility, ends.

Not a stub: a receipt is good until the next is given out, each receive counts, and an ended message is gone.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from singleton.stores.message_store import Hidden, Sent, Taken
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

_WEEK = 604_800


@dataclass(slots=True)
class StoredMessage:
    """A message in a queue; times are the loop's."""

    id: str
    text: str
    inserted: float
    expires: float
    visible: float
    receipt: str
    dequeued: int = 0


class MemoryMessageStore:
    """A ``MessageStore`` without a network; several hosts may share one.

    ``calls`` counts requests by name, for tests that hold a deferral to its number of requests.
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self._messages: dict[str, StoredMessage] = {}
        self._numbers = itertools.count(1)

    async def create(self) -> None:
        self._begin("create")

    async def now(self) -> float:
        return self._begin("now")

    async def hide(self, id: str, receipt: str, seconds: int) -> Hidden:  # noqa: A002
        now = self._begin("hide")
        message = self._owned(id, receipt)
        message.visible, message.receipt = now + seconds, self._number("receipt")
        return Hidden(message.receipt, message.visible)

    async def send(self, text: str, *, delay: int, life: int | None) -> Sent:
        self._begin("send")
        if life is not None and delay >= life:
            raise StoreFailure(400, "OutOfRangeQueryParameterValue", f"a delay of {delay} s in a life of {life} s")
        message = self.put(text, life=math.inf if life is None else life)
        message.visible, message.receipt = message.inserted + delay, self._number("receipt")
        return Sent(message.id, message.receipt, message.inserted)

    async def delete(self, id: str, receipt: str) -> None:  # noqa: A002
        self._begin("delete")
        self._owned(id, receipt)
        del self._messages[id]

    async def take(self, most: int, seconds: int) -> list[Taken]:
        self._begin("take")
        received = [self.receive(seconds) for _ in range(most)]
        return [Taken(each.id, each.receipt, each.text, each.dequeued) for each in received if each is not None]

    async def aclose(self) -> None:
        """See ``MessageStore.aclose``."""

    def put(self, text: str, *, life: float = _WEEK) -> StoredMessage:
        """Put a message into the queue as a producer does."""
        now = self._now()
        message = StoredMessage(self._number("message"), text, now, now + life, now, "")
        self._messages[message.id] = message
        return message

    def receive(self, visibility: float = 600.0) -> StoredMessage | None:
        """Take the oldest message that is visible, as a host does."""
        now = self._now()
        message = next((message for message in self.messages() if message.visible <= now), None)
        if message is not None:
            message.visible, message.receipt = now + visibility, self._number("receipt")
            message.dequeued += 1
        return message

    def messages(self) -> Iterator[StoredMessage]:
        """Yield all messages that have not ended, the invisible ones too, the oldest first."""
        now = self._now()
        yield from [message for message in self._messages.values() if message.expires > now]

    def _begin(self, call: str) -> float:
        self.calls[call] += 1
        return self._now()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _owned(self, id: str, receipt: str) -> StoredMessage:  # noqa: A002
        now = self._now()
        message = self._messages.get(id)
        if message is None or message.expires <= now:
            raise StoreFailure(404, "MessageNotFound", at=now)
        if message.receipt != receipt:
            raise StoreFailure(400, "PopReceiptMismatch", at=now)
        return message

    def _number(self, what: str) -> str:
        return f"{what}-{next(self._numbers)}"
