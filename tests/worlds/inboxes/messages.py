"""Messages as they are planned, and what happened to each; keys as the service has them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from singleton.patterns.ordered.log_reader import Position

if TYPE_CHECKING:
    import random

    from simulator.virtual.time.machine import Machine
    from singleton.base.state import Json

HEAVY: Final = 90_000
"""Bytes of a long message: three of them are more than a reader reads at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A message: after a ``pause``; how often it ``fails``, and how long it ``takes``."""

    number: int
    pause: float
    key: str
    fails: int
    takes: float
    careful: bool
    heavy: bool
    sync: bool
    cancel_after: float | None

    @property
    def body(self) -> Json | bytes:
        """What is sent."""
        return str(self.number).encode().ljust(HEAVY) if self.heavy else {"number": self.number}


def drawn(rng: random.Random, number: int, keys: int, attempts: int, *, heavy: bool, in_bursts: bool) -> Plan:
    """Draw a message."""
    return Plan(
        number=number,
        pause=rng.choice((0.0, 0.0, 0.0, 40.0) if in_bursts else (0.0, 0.0, 0.5, 5.0, 15.0)) * rng.random(),
        key=f"customer {rng.randrange(keys)}",
        fails=rng.choice((0, 0, 0, 0, 0, 1, 2, attempts)),
        takes=rng.choice((0.0, 0.01, 0.5, 3.0, 12.0)) * rng.uniform(0.5, 1.0),
        careful=rng.random() < 0.8,
        heavy=heavy and rng.random() < 0.7,
        sync=rng.random() < 0.2,
        cancel_after=rng.choice((0.01, 0.05, 3.0)) * rng.random() if rng.random() < 0.05 else None,
    )


def number_in(body: Any) -> int:
    """Return the number of a message."""
    told: int = int(body) if isinstance(body, bytes) else body["number"]
    return told


@dataclass(slots=True, eq=False)
class Send:
    """One send of a message, and what happened to it.

    Attributes:
        number: of the message.
        again: whether it is one that was put aside.
        ended: when it returned or raised; None: it did not.
        ok: whether it returned.
        id: that of its entry; empty: it is in no log yet.
        begun: when a handler first got it.
        done: whether a handler has come to its end.
        aside: whether it was put aside.
    """

    number: int
    key: str
    machine: Machine
    since: float
    again: bool = False
    ended: float | None = None
    ok: bool = False
    id: tuple[str, int] | None = None
    begun: float | None = None
    done: bool = False
    aside: bool = False

    @property
    def settled(self) -> bool:
        """Whether nobody must handle it any more."""
        return self.done or self.aside

    def __repr__(self) -> str:
        return f"message {self.number}{' (sent again)' if self.again else ''} of {self.machine.name}"

    def before(self, other: Send) -> bool:
        """Tell whether it was sent before another, and its place is before it, if it has one."""
        if self.ended is None or self.ended >= other.since:
            return False
        return self.ok or (self.machine is other.machine and not self.again and not other.again)


@dataclass(slots=True)
class Key:
    """A key: its state at the service, and what else is known of it.

    Attributes:
        kept: the state.
        numbers: the greatest number of each sender that was ever kept.
        sends: all messages that were sent, in the order of their sends.
        attempt: the greatest attempt that has failed since failures were last forgotten.
        counted_by: the lease under which an attempt was counted that has not begun; empty: there is none.
        failed_at: what the wall clock showed when a handler failed last.
        failed_in: when that was, in true time.
        due: what it must show when the message is tried again.
        skips: whether an operator puts a message aside.
    """

    kept: Position = field(default_factory=Position)
    numbers: dict[str, int] = field(default_factory=dict)
    sends: list[Send] = field(default_factory=list)
    attempt: int = 0
    counted_by: str = ""
    failed_at: float = 0.0
    failed_in: float = -math.inf
    due: float = 0.0
    skips: bool = False

    @property
    def tried(self) -> int:
        """How often the current message was tried; deaths of its consumers count too."""
        return max(self.attempt, self.kept.tried)

    @property
    def next_attempt(self) -> int:
        """The number of the attempt that may begin; 0: it must be counted before."""
        return self.kept.tried if self.counted_by else int(not self.kept.tried)

    def begins(self) -> None:
        """Take the beginning of a handler."""
        self.counted_by = ""

    def may_count(self, state: Position, lease_id: str) -> bool:
        """Take the count that is kept; tell whether it is one that may be: each attempt counts once."""
        grown = state.tried - self.kept.tried
        has_failed = state.until != self.kept.until or state.stopped or state.aside
        twice = False
        if not state.tried:
            self.attempt, self.counted_by = 0, ""
        elif grown and not has_failed:  # before it begins
            twice, self.counted_by = self.counted_by == lease_id, lease_id
        return grown <= 1 and not twice

    def is_kept(self, name: tuple[str, int]) -> bool:
        """Tell whether the offset behind an entry was kept."""
        return name[1] <= self.numbers.get(name[0], 0)


def state_in(body: bytes) -> Position:
    """Read the state of a key."""
    return Position(**json.loads(body or b"{}"))
