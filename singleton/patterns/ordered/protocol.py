r"""The logs of an inbox: where they are, and why nothing is lost, read twice, or read out of order.

    inbox/NAME/logs/KEY           the log of a key: an append blob; a message is one block, its entry
    inbox/NAME/logs/KEY/CHAIN/1   what follows a log that got full (50,000 blocks), CHAIN being a hash of its ETag
    inbox/NAME/keys/KEY           the key's lock; its state says how far the log was read
    inbox/NAME/aside/KEY/…        messages that failed too often

**One name a key.** All senders append to the same name. The service puts appends in an order, and an append that was
answered stands before each that is sent later. So the order of the log is that of the sends, whoever sent.

**A log that was read is deleted on condition of its ETag** (``If-Match``), and only if it has no more blocks than
entries were read. An append in between changes the ETag: the delete is refused, and the reader reads on. An append
after it finds no log, and makes one (``If-None-Match: *``), under the same name: where the reader looks, too. So
*there is a log where there is a message that was not read*, no append lands in a place that nobody reads, and a
listing of the logs (``look``) finds all that waits.

**Another log begins at 0.** An offset must never be taken for one in another log of the same name. What a log is made
with can't tell: the request that made it may arrive a second time, after it was read and deleted. So its reader puts a
label on it, made at random, on condition of its ETag, and keeps that with the offset. A short log, read at once and of
128 messages at most, needs none: no offset in it is kept, and where it is read again that begins at 0; what was read is
known by its senders. So it is with the first 256 KiB of another, of 128 senders at most, while so much is added that no
label gets through.

**Repeats.** A request without an answer is sent again, so an entry may be in a log twice, and the first request may
even arrive late, in the log after. Each entry has the id of its sender (of one process, made at random) and a number
that only goes up; a sender has one append under way for a key. So an entry whose number is not above the last that was
read of its sender is a repeat, or a message whose ``send`` raised: it is passed over. The state has the last number of
each of the 256 senders that were read last, so it has those of a short log. A copy of a process would have the id of
its original, and its messages would be taken for repeats: a fork makes an id of its own, and so does a process whose
clocks have moved against each other.

**Full logs.** A full log is never appended to again, by anybody: that is what makes a move safe. Its ETag never
changes, so a hash of it is the name of its chain. Its senders go to part 1, then 2. The first log stays for as long as
there are parts: who is new is refused there, and follows. The reader ends the last part by a delete, as above, and puts
a mark in its place, a blob that is no log: a sender that comes late is refused by it (``InvalidBlobType``). Then the
first log is deleted, by the reader, or by a sender that met the mark while the reader died; and all begin anew. Were a
part made again between the delete and the mark, the mark could not be put there, and the reader reads on. What a chain
leaves behind is deleted a day after: a send ends within half a minute.

**The lease is on the lock, never on a log**: a sender has no lease id, and would be refused. A reader that stands still
past its lease may delete a log only if it has read all of it and nobody has appended since, and its successor handles
the same entries; the service refuses its state. So the reader repeats only the entry in hand.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from singleton.locking.holder import answered
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from singleton.stores.log_store import LogStore
    from singleton.stores.protocol import ContentStore, LeaseStore

    class HasEtag(Protocol):
        """A blob as it was seen."""

        @property
        def etag(self) -> str:
            """Its ETag then."""

    class Store(LogStore, ContentStore, LeaseStore, Protocol):
        """A container with locks, their state, and logs."""


LOG_KEY: Final = "SingletonLog"
"""The key of metadata that has the label of a log, or one of these."""
NEW: Final = {LOG_KEY: "new"}
ENDED: Final = "ended"
_LONGEST_SPOT: Final = 600
"""Characters of a key as it stands in names, at most: a name has 1,024."""
_HASHED: Final = "!"
"""No key that is quoted has it."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of an inbox's blobs. A ``spot`` is a key as it stands in them."""

    inbox: str

    @staticmethod
    def spot(key: str) -> str:
        """Return the spot of a key; different keys have different ones."""
        spot = quote(key, safe="").replace(".", "%2E")
        return spot if len(spot) <= _LONGEST_SPOT else _HASHED + hashlib.sha256(key.encode()).hexdigest()

    @staticmethod
    def key(spot: str) -> str | None:
        """Return the key; None: it was too long to stand in a name."""
        return None if spot.startswith(_HASHED) else unquote(spot)

    @property
    def logs(self) -> str:
        """What the names of all logs begin with."""
        return f"inbox/{self.inbox}/logs/"

    @property
    def locks(self) -> str:
        """What the names of all locks begin with."""
        return f"inbox/{self.inbox}/keys/"

    @property
    def asides(self) -> str:
        """What the names of all that was put aside begin with."""
        return f"inbox/{self.inbox}/aside/"

    def log(self, spot: str, chain: str = "", part: int = 0) -> str:
        """Return the name of the log of a spot, or of a part that follows it."""
        return f"{self.logs}{spot}/{chain}/{part:06d}" if part else f"{self.logs}{spot}"

    def lock(self, spot: str) -> str:
        """Return the name of its lock."""
        return f"{self.locks}{spot}"


def id_in(metadata: Mapping[str, str]) -> str:
    """Return the label of a log, or that it is new, or that a part has ended."""
    return next((value for key, value in metadata.items() if key.lower() == LOG_KEY.lower()), "")


def chain_of(log: HasEtag) -> str:
    """Return the name of a full log's chain, from the log's ETag, which never changes."""
    return hashlib.sha256(log.etag.strip('"').encode()).hexdigest()[:16]


async def end_chain(store: Store, name: str, chain: str) -> None:
    """Delete the full log of this name if it is the one whose parts have ended: anybody may.

    Raises:
        StoreFailure: it could not be asked for.
    """

    async def asked() -> None:
        found = await store.read(name)
        if chain_of(found) == chain:
            await store.drop(name, found.etag)

    try:
        await answered(asked)
    except StoreFailure as failure:
        if failure.meaning not in ("missing", "changed"):
            raise
