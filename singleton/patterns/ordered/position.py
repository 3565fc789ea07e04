"""Position of the reader in a key's log, failures and senders: the state kept with the key's lock."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import StorageError
from singleton.base.state import read_as, written_as

if TYPE_CHECKING:
    from singleton.base.state import Kept
    from singleton.patterns.ordered.entries import Entry

MOST_SENDERS: Final = 256
"""Number of senders with a kept last number."""


@dataclass(slots=True)
class Position:
    """Position of the reader of a key.

    Attributes:
        log: label of the current log; empty: a log without our label, read from its beginning.
        at: offset of the first unread entry.
        entries: number of entries before ``at``.
        part: number of the current log behind a full log; 0: the key's first log.
        chain: label of the full log before the part.
        failures: number of failures of the message at ``at``.
        begun: number of attempts at the message without a known end.
        until: earliest time of the next attempt, by the wall clock.
        stopped: error which stopped the key; empty: not stopped.
        key: the key, if known.
        aside: reason for putting the message at ``at`` aside without a further attempt; empty: none.
        senders: last number read from every sender, the most recent sender at the end.
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
        """Return the position in the kept state.

        Raises:
            StorageError: the state is not understood.
        """
        told: Any = read_as(lock, kept, {})
        try:
            return cls(**{name: told[name] for name in (each.name for each in fields(cls)) if name in told})
        except TypeError:
            raise StorageError(
                f"lock {lock!r}: its state is not that of an inbox", lock=lock, reason="state not understood"
            ) from None

    def kept(self) -> Kept:
        """Return the state to keep; empty fields are left out."""
        said = asdict(self)
        if not self.log:
            said["at"] = said["entries"] = 0
        return written_as({name: value for name, value in said.items() if value})

    @property
    def tried(self) -> int:
        """Number of counted attempts at the message at ``at``."""
        return self.failures + self.begun

    def is_repeat(self, entry: Entry) -> bool:
        """Tell whether the entry was read before."""
        return entry.number <= self.senders.get(entry.sender, 0)

    def passed(self, entry: Entry) -> None:
        """Go behind an entry which is handled, put aside, or a repeat."""
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
        """Go to the beginning of the log."""
        self.log, self.at, self.entries = "", 0, 0

    def next_part(self, chain: str) -> None:
        """Go to the part behind a full log; ``chain``: label of the first full log."""
        self.chain = self.chain or chain
        self.part += 1
        self.begin()

    def restart(self) -> None:
        """Go to the key's first log: the parts have ended."""
        self.part, self.chain = 0, ""
        self.begin()
