r"""The logs of an inbox: their places, and why nothing is lost, read twice, or read out of order.

    inbox/NAME/logs/KEY           the log of a key: an append blob; a message is one block, its entry
    inbox/NAME/logs/KEY/CHAIN/1   the part behind a log that got full (50,000 blocks); CHAIN: a hash of that log's ETag
    inbox/NAME/keys/KEY           the key's lock; its state says how far the log was read
    inbox/NAME/aside/KEY/…        messages that failed too often

**One name a key.** All senders append to one name. The service puts appends in an order, and an answered append stands
before each append that is sent later. So the order of the log is the order of the sends, over all senders.

**A log that was read is deleted on condition of its ETag** (``If-Match``), and only if it has no more blocks than
entries were read. An append in between changes the ETag: the delete is refused, and the reader reads on. An append
after the delete finds no log, and makes a log (``If-None-Match: *``), under the name at which the reader looks. So *a
message that was not read is in a log*, no append lands in a place that nobody reads, and a listing of the logs
(``look``) finds every waiting message.

**A new log begins at 0.** An offset must never be applied to a later log of the same name. The making of a log can't
mark the log: the request may arrive a second time, after the log was read and deleted. So the reader puts a label, made
at random, on the log, on condition of its ETag, and keeps the label with the offset. A short log, read at once and of
128 messages at most, needs no label: no offset is kept, a second reading begins at 0, and the numbers of the senders
tell the entries that were read. So do the first 256 KiB of a longer log, of 128 senders at most, while appends are so
frequent that no label gets through.

**Repeats.** A request without an answer is sent again, so an entry may be in a log twice, and the first request may
even arrive late, in the log after. Each entry has the id of its sender (of one process, made at random) and a number
that only goes up; a sender has one append under way for a key. So an entry whose number is not above the last number
read of its sender is a repeat, or a message whose ``send`` raised: the reader passes over the entry. The state has the
last numbers of the 256 senders that were read last, and so of every sender in a short log. A copy of a process would
have the id of its original, and its messages would be taken for repeats: a fork makes a new id, and so does a process
whose clocks have moved against each other.

**Full logs.** Nobody ever appends to a full log again, so a move is safe. The ETag of a full log never changes, so a
hash of the ETag names its chain. The senders go on to part 1, then 2. The first log stays for as long as the chain has
parts: a new sender is refused by the first log, and follows. The reader ends the last part by a delete, as above, and
puts a mark in its place, a blob that is no log: the mark refuses a late sender (``InvalidBlobType``). Then the first
log is deleted, by the reader, or by a sender that met the mark while the reader died; reader and senders begin anew. If
a sender makes the part again between delete and mark, the mark can't be put there, and the reader reads on. The remains
of a chain are deleted a day after: a send ends within half a minute.

**A key without a log, and without messages put aside, may be swept.** The position says only what was read of logs that
are gone, and which numbers of senders. A request of a send may still need a number: a send ends within half a minute,
by the wall clock too, as a machine may sleep. A message put aside needs a number for as long as the message lies there:
each resend has the same sender, and may be repeated after a crash. So a week after the position was written, a sweep
may delete the position, if the key has no log and nothing aside. The looks for these come after the listing, and the
delete is on condition of the listed ETag, without a lease: a reader that has come since is refused nothing, and loses
nothing. A message is put aside while it is in the log, and the position says so before, which changes the ETag. What a
sender appends after the look is a new log, which begins at 0, as does a reader without a position.

**The lease is on the lock, never on a log**: a sender has no lease id, and would be refused. A reader that stands still
past its lease may delete a log only if the reader has read the whole log and nobody has appended since. Its successor
handles the same entries; the service refuses the state of the late reader. So a reader repeats only the entry in hand.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from singleton.base.state import marked
from singleton.locking.holder import answered
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from singleton.stores.lock_keeping import BlobStore

    class HasEtag(Protocol):
        """A blob as it was seen."""

        @property
        def etag(self) -> str:
            """Its ETag then."""


LOG_KEY: Final = "SingletonLog"
"""The key of metadata that has the label of a log, or one of these."""
NEW: Final = {LOG_KEY: "new"}
ENDED: Final = "ended"
_LONGEST_SPOT: Final = 600
"""Characters of a key as it stands in names, at most: a name has 1,024."""
_HASHED: Final = "!"
"""A letter that no quoted key has."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of an inbox's blobs. A ``spot`` is a key as it stands in them."""

    inbox: str

    @staticmethod
    def spot(key: str) -> str:
        """Return the spot of a key; different keys have different ones."""
        spot = quote(key, safe="").replace(".", "%2E")
        return spot if len(spot) <= _LONGEST_SPOT else _HASHED + hashlib.sha256(key.encode()).hexdigest()

    @property
    def logs(self) -> str:
        """The prefix of the names of logs."""
        return f"inbox/{self.inbox}/logs/"

    @property
    def locks(self) -> str:
        """The prefix of the names of locks."""
        return f"inbox/{self.inbox}/keys/"

    @property
    def asides(self) -> str:
        """The prefix of the names of messages that were put aside."""
        return f"inbox/{self.inbox}/aside/"

    def log(self, spot: str, chain: str = "", part: int = 0) -> str:
        """Return the name of the log of a spot, or of a part that follows it."""
        return f"{self.logs}{spot}/{chain}/{part:06d}" if part else f"{self.logs}{spot}"

    def lock(self, spot: str) -> str:
        """Return the name of its lock."""
        return f"{self.locks}{spot}"

    def uses(self, spot: str) -> str:
        """Return what keeps the position of a spot in use: its log, and its messages that were put aside."""
        return f"{self.log(spot)} {self.asides}{spot}/"


def id_in(metadata: Mapping[str, str]) -> str:
    """Return the label of a log, or that it is new, or that a part has ended."""
    return marked(metadata, LOG_KEY) or ""


def chain_of(log: HasEtag) -> str:
    """Return the name of a full log's chain, from the log's ETag, which never changes."""
    return hashlib.sha256(log.etag.strip('"').encode()).hexdigest()[:16]


async def end_chain(store: BlobStore, name: str, chain: str) -> None:
    """Delete a full log whose parts have ended: any sender or reader may. ``StoreFailure``: refused, or no answer."""

    async def asked() -> None:
        found = await store.read(name)
        if chain_of(found) == chain:
            await store.drop(name, found.etag)

    try:
        await answered(asked)
    except StoreFailure as failure:
        if failure.meaning not in ("missing", "changed"):
            raise
