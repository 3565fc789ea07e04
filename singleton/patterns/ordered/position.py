"""How far a key's log was read, what failed there, and the senders: the state of the key's lock."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import StorageError
from singleton.base.state import read_as, written_as

if TYPE_CHECKING:
    from singleton.base.state import Kept
    from singleton.patterns.ordered.entries import Entry

MOST_SENDERS: Final = 256
"""Senders whose last numbers are kept."""


@dataclass(slots=True)
class Position:
    """Where the reader of one key is.

    Attributes:
        log: the label of the log that is read; empty: it has none of ours, and is read from its beginning.
        at: offset of the first entry that was not read.
        entries: how many stand before it.
        part: number of the log that is read, behind one that is full; 0: it is the key's first.
        chain: which full log the part is behind.
        failures: how often the message at ``at`` has failed.
        begun: how often it was begun, and no end of that is known.
        until: not to be tried before, by the wall clock.
        stopped: why the key stands still; empty: it does not.
        key: the key, where that was needed.
        aside: why the message at ``at`` is to be put aside, and not to be tried any more; empty: it is not.
        senders: the last number that was read of each sender, the one that was read last at the end.
    """

    log: str = ""
    at: int = 0
    entries: int = 0
    part: int = 0
    chain: str = ""
    failures: int = 0
    begun: int = 0
    until: float = 0.0
    stopped: str = ""
    key: str = ""
    aside: str = ""
    senders: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, lock: str, kept: Kept) -> Position:
        """Return what the state says.

        Raises:
            StorageError: it is not understood.
        """
        told: Any = read_as(lock, kept, {})
        try:
            return cls(**{name: told[name] for name in (each.name for each in fields(cls)) if name in told})
        except TypeError:
            raise StorageError(
                f"lock {lock!r}: its state is not that of an inbox", lock=lock, reason="state not understood"
            ) from None

    def kept(self) -> Kept:
        """Return the state; what says nothing is left out."""
        said = asdict(self)
        if not self.log:
            said["at"] = said["entries"] = 0
        return written_as({name: value for name, value in said.items() if value})

    @property
    def tried(self) -> int:
        """How often the message at ``at`` was tried, as far as that was counted."""
        return self.failures + self.begun

    def is_repeat(self, entry: Entry) -> bool:
        """Tell whether this entry was read before."""
        return entry.number <= self.senders.get(entry.sender, 0)

    def passed(self, entry: Entry) -> None:
        """Go behind an entry: it is handled, put aside, or a repeat."""
        if not self.is_repeat(entry):
            self.senders.pop(entry.sender, None)
            self.senders[entry.sender] = entry.number
            while len(self.senders) > MOST_SENDERS:
                del self.senders[next(iter(self.senders))]
            self.aside = ""
            self.failures, self.begun, self.until = 0, 0, 0.0
        self.at = entry.end
        self.entries += 1

    def begin(self) -> None:
        """Go to the beginning of the log, whichever is there."""
        self.log, self.at, self.entries = "", 0, 0

    def next_part(self, chain: str) -> None:
        """Go to what follows a full log; ``chain``: the first of them, where this is it."""
        self.chain = self.chain or chain
        self.part += 1
        self.begin()

    def restart(self) -> None:
        """Go to the key's first log: the parts have ended."""
        self.part, self.chain = 0, ""
        self.begin()
