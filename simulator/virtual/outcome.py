"""What came of a world."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter

    from simulator.history.journal import Record
    from simulator.virtual.oracle import Violation


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a world: violations, states reached, and all that happened."""

    violations: tuple[Violation, ...]
    reached: Counter[str]
    seconds: float
    turns: int
    records: tuple[Record, ...] = field(repr=False, default=())

    @property
    def history(self) -> str:
        """A hash of all that happened."""
        digest = hashlib.sha256()
        for record in self.records:
            digest.update(repr((record.t, record.host, record.event, record.fields)).encode())
        return digest.hexdigest()[:16]
