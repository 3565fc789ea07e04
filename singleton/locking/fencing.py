"""Fencing tokens: numbers that strictly increase per lock, across holders, processes and crashes.

The number comes from the lock blob, written under the lease, never from a clock of ours. A token is the blob's *epoch*,
with a section number of this process's own beneath it, so that handing the lock on inside a process needs no request
and still increases. The epoch counts up from a thousand times the second in which the service made the blob, so it goes
on increasing when somebody, or a lifecycle rule, deletes the blob and it is made again: no lock is taken a thousand
times a second. Tokens stay below 2^53, so that JSON and JavaScript keep them exact.
"""

from __future__ import annotations

import os
import re
import socket
from typing import TYPE_CHECKING

from singleton.base.naming import current
from singleton.stores.protocol import BlobState, LeaseStore, StoreFailure

if TYPE_CHECKING:
    from collections.abc import Mapping

EPOCH_KEY = "SingletonEpoch"
OWNER_KEY = "FunctionInstance"
"""The key under which WebJobs keeps the owner, too (W-57)."""
HOST_KEY = "SingletonHost"
"""The key of the machine that the owner runs on: the instance id in Azure, else the machine's name."""
PID_KEY = "SingletonPid"
"""The key of the owner's process id there."""
FUNCTION_KEY = "SingletonFunction"
"""The key of the function whose invocation asked, where one did."""
STAMP_KEYS = frozenset(key.lower() for key in (EPOCH_KEY, OWNER_KEY, HOST_KEY, PID_KEY, FUNCTION_KEY))
"""All that a stamp writes, in lower case. A blob with other metadata keeps something else as well."""
SECTIONS = 1_000
"""Tokens per epoch, one of them unused: the most sections under one lease."""
_EPOCHS_A_SECOND = 1_000


class FencingCounter:
    """The epoch of one lock, as this process last saw it; without ``counts``, only who has it."""

    def __init__(self, store: LeaseStore, name: str, *, counts: bool = True) -> None:
        self._store = store
        self._name = name
        self.counts = counts
        self._epoch = 0
        self._etag = ""
        self._metadata: Mapping[str, str] = {}

    async def stamp(self, lease_id: str, etag: str, owner: str) -> None:
        """Write the next epoch and the owner under the lease, beside what others wrote.

        One request while the blob is as we left it (its ETag tells), else two; none where there is nothing to write.
        It is written on condition of that ETag: a stamp that arrives late, even under its own lease, changes nothing,
        so the epoch only ever goes up. Where the condition does not hold, that may be a stamp of our own whose reply
        was lost: it is read, and counted on from.
        """
        if not (self.counts or owner):
            return
        if etag != self._etag:
            await self._read()
        try:
            await self._write(lease_id, owner)
        except StoreFailure as failure:
            if failure.meaning != "changed":
                raise
            await self._read()
            await self._write(lease_id, owner)

    async def _read(self) -> None:
        state = await self._store.read(self._name)
        self._etag = state.etag
        self._metadata = state.metadata
        self._epoch = max(self._epoch, _epoch_in(state)) if self.counts else 0

    async def _write(self, lease_id: str, owner: str) -> None:
        epoch = self._epoch + 1
        ours = STAMP_KEYS if self.counts else {OWNER_KEY.lower()}
        metadata = {key: value for key, value in self._metadata.items() if key.lower() not in ours}
        if self.counts:
            metadata[EPOCH_KEY] = str(epoch)
            metadata[HOST_KEY] = _header_safe(this_host())
            metadata[PID_KEY] = str(os.getpid())
            if (asking := current()) is not None and asking.function:
                metadata[FUNCTION_KEY] = _header_safe(asking.function)
        if owner:
            metadata[OWNER_KEY] = _header_safe(owner)
        self._etag = await self._store.write(self._name, lease_id, metadata, self._etag)
        self._metadata = metadata
        self._epoch = epoch

    def token(self, section: int) -> int:
        """Return the token of the ``section``-th section (1 to ``SECTIONS`` - 1) under the stamped lease."""
        return self._epoch * SECTIONS + section


def this_host() -> str:
    """Name the machine that this process runs on, as an operator would look for it."""
    return os.environ.get("WEBSITE_INSTANCE_ID") or socket.gethostname() or "?"


def metadata_value(state: BlobState, key: str) -> str | None:
    """Return a value of the blob's metadata, whose keys have no case; None where there is none."""
    return next((value for spelt, value in state.metadata.items() if spelt.lower() == key.lower()), None)


def written_epoch(text: str) -> int | None:
    """Return the epoch that stands on a blob; None where that is no number of ours."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None


def lifted_epoch(state: BlobState) -> int:
    """Return an epoch above all that a blob can have had when it was last written, also those that it lost."""
    written = written_epoch(metadata_value(state, EPOCH_KEY) or "")
    return max((written or 0) + 1, (state.modified + 1) * _EPOCHS_A_SECOND)


def _epoch_in(state: BlobState) -> int:
    """Return the last epoch of a blob, or for a new one that with which it begins."""
    text = metadata_value(state, EPOCH_KEY)
    if text is None:
        return state.modified * _EPOCHS_A_SECOND
    if (epoch := written_epoch(text)) is not None:
        return epoch
    detail = f"the blob's metadata {EPOCH_KEY} is {text[:40]!r}, not a number of ours: somebody else wrote it"
    raise StoreFailure(400, None, f"{detail}; delete that key, or the blob")


def _header_safe(owner: str) -> str:
    """Metadata travels as HTTP headers: keep printable ASCII, at most 200 characters, and single spaces within."""
    kept = "".join(char if " " <= char < "\x7f" else "?" for char in owner[:200])
    return re.sub(r"^ | $| (?= )", "?", kept)
