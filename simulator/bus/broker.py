"""The broker's rule, on a driven clock: peek and lock, settle, deliver again, give up.

A message is locked for its receiver when it is received. That is a delivery, and the count of deliveries grows by one.
The receiver completes it, which removes it, or abandons it, which makes it available at once. If it does neither, it
becomes available when its lock has expired, unless it was renewed before. A message whose last allowed delivery ends
without success is dead-lettered.

With sessions, the messages of one session are received one at a time, in their order.

The numbers are Service Bus's: https://learn.microsoft.com/azure/service-bus-messaging/message-transfers-locks-settlement
and https://learn.microsoft.com/azure/service-bus-messaging/service-bus-dead-letter-queues.
"""

from __future__ import annotations

import itertools
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MOST_DELIVERIES: Final = 10
"""How often Service Bus delivers a message by default before it is dead-lettered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A queue or a subscription.

    Attributes:
        name: the same for all receivers.
        lock: seconds for which a received message is locked.
        most: how often a message is delivered at most.
        sessions: whether the messages of one session are received in order, one at a time.
    """

    name: str
    lock: float
    most: int = MOST_DELIVERIES
    sessions: bool = False


@dataclass(slots=True, kw_only=True)
class Item:
    """A message, and the lock on it.

    Attributes:
        sequence: its place in the entity.
        enqueued: when it was sent, by the broker's clock.
        count: how often it was delivered.
        token: of its lock; the empty text if it is available.
        until: when its lock expires.
    """

    entity: str
    id: str
    body: str
    metadata: Mapping[str, Any]
    sequence: int
    enqueued: float
    count: int = 0
    token: str = ""
    until: float = 0.0

    @property
    def session(self) -> str:
        """The session of the message; the empty text if to none."""
        return str(self.metadata.get("SessionId") or "")


@dataclass(slots=True)
class _LockedItem:
    entity: Entity
    items: list[Item] = field(default_factory=list)
    dead: list[Item] = field(default_factory=list)


class Broker:
    """The entities of a run. Not thread-safe; times come from ``clock``."""

    def __init__(self, clock: Callable[[], float], on_dead: Callable[[Item], None] = lambda _: None) -> None:
        """Start without entities; ``on_dead`` hears of each message that is dead-lettered as its lock expired."""
        self._clock = clock
        self._on_dead = on_dead
        self._held: dict[str, _LockedItem] = {}
        self._locked: dict[str, Item] = {}
        self._numbers = itertools.count(1)

    def open(self, entity: Entity) -> None:
        """Create an entity, unless the entity exists."""
        self._held.setdefault(entity.name, _LockedItem(entity))

    def send(self, entity: str, body: str, metadata: Mapping[str, Any], name: str = "") -> str:
        """Put a message into an entity; return its id, which is ``name`` if that is given."""
        item = Item(
            entity=entity,
            id=name or secrets.token_hex(16),
            body=body,
            metadata=metadata,
            sequence=next(self._numbers),
            enqueued=self._clock(),
        )
        self._held[entity].items.append(item)
        return item.id

    def receive(self, entity: str) -> Item | None:
        """Lock the first available message for a receiver, and count the delivery; None: there is none."""
        self._expire()
        held = self._held[entity]
        item = next(self._available(held), None)
        if item is not None:
            item.count += 1
            item.token = secrets.token_hex(16)
            item.until = self._clock() + held.entity.lock
            self._locked[item.token] = item
        return item

    def renew(self, token: str) -> bool:
        """Lock a message for its full time again; False: the lock has expired."""
        self._expire()
        item = self._locked.get(token)
        if item is None:
            return False
        item.until = self._clock() + self._held[item.entity].entity.lock
        return True

    def complete(self, token: str) -> bool:
        """Remove a message that was processed; False: its lock has expired, and it comes again."""
        self._expire()
        item = self._locked.pop(token, None)
        if item is None:
            return False
        self._held[item.entity].items.remove(item)
        return True

    def abandon(self, token: str) -> Item | None:
        """Give a message back: it is available at once, or dead-lettered; None: its lock has expired."""
        self._expire()
        item = self._locked.pop(token, None)
        if item is not None:
            self._give_back(item)
        return item

    def is_dead(self, item: Item) -> bool:
        """Tell whether a message was dead-lettered."""
        return item in self._held[item.entity].dead

    def left(self, entity: str) -> tuple[list[str], int]:
        """Return the ids of the messages that nobody has locked, and the number of those that somebody has."""
        self._expire()
        items = self._held[entity].items
        ready = [item.id for item in items if not item.token]
        return ready, len(items) - len(ready)

    def dead(self, entity: str) -> list[str]:
        """Return the ids of the messages that were dead-lettered."""
        self._expire()
        return [item.id for item in self._held[entity].dead]

    def waiting(self) -> int:
        """Return how many messages are in all entities, also those that are locked."""
        self._expire()
        return sum(len(held.items) for held in self._held.values())

    def next_expiry(self) -> float | None:
        """Return when the next lock expires; None: nothing is locked."""
        return min((item.until for item in self._locked.values()), default=None)

    def _available(self, held: _LockedItem) -> Iterator[Item]:
        busy: set[str] = set()
        for item in held.items:
            if not item.token and item.session not in busy:
                yield item
            if held.entity.sessions:  # whether it is locked or waits: what comes after it in its session must wait
                busy.add(item.session)

    def _expire(self) -> None:
        now = self._clock()
        for token, item in [*self._locked.items()]:
            if item.until <= now:
                del self._locked[token]
                self._give_back(item)
                if self.is_dead(item):
                    self._on_dead(item)

    def _give_back(self, item: Item) -> None:
        item.token = ""
        held = self._held[item.entity]
        if item.count >= held.entity.most:
            held.items.remove(item)
            held.dead.append(item)
