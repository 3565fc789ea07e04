"""The metadata of a lock's blob: the keys, and how values are written and read.

* ``SingletonEpoch``: the epoch of the fencing tokens. Not written at the creation: ``epoch_in`` says what counts.
* ``FunctionInstance``: the owner, under the key of WebJobs (W-57). Without tokens a stamp is this key alone.
* ``SingletonHost``: machine of the owner: the instance id in Azure, else the machine's name.
* ``SingletonPid``: process id of the owner on the machine.
* ``SingletonHeld``: seconds that the owner's hold had lasted at the write; 0: the hold had just begun.
* ``SingletonFunction``: function whose invocation asked for the lock, if any.
* ``SingletonScope``: value of the scope in the invocation: the lock's name has the value escaped, or cut.
* ``SingletonFailover``, ``SingletonFailoverLease``: mark of a hold with ``failover`` (``base/failover_mark.py``).
* ``SingletonState``: kind of the content: state of ``hold.state``, or a result of ``once`` (``base/state.py``).
* ``SingletonUntil``: second since 1970 from which a sweep may delete the content: a result of ``once``, or a position.
* ``SingletonNext``: word of the seat of a lock: ``waiting`` or ``begun`` (``locking/seat.py``).
* ``SingletonWhile``: blobs; while one of them exists, no sweep deletes the content: the log of a key of an inbox, and
  the messages of the key that were put aside.

``FencingCounter`` (``locking/fencing.py``) writes them: at the creation, with a stamp, at the first renewal of a hold,
with a touch, with content. ``lift_epochs`` (``operating/container_pass.py``) writes the epoch alone. Keys of other
tools are kept on a lock, and not on a seat. Blobs that are no locks have other keys: logs of an inbox
(``patterns/ordered/protocol.py``), failure counts of deferred messages (``defer/failure_count.py``).
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from singleton.base.failover_mark import LEASE_KEY, MARK_KEY
from singleton.base.invocation import current
from singleton.base.state import MOST_STATE, STATE_KEY, UNTIL_KEY, WHILE_KEY, Kept, marked
from singleton.stores.protocol import NOTHING, StoreFailure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from singleton.stores.protocol import BlobState, Content

EPOCH_KEY = "SingletonEpoch"
OWNER_KEY = "FunctionInstance"
HOST_KEY = "SingletonHost"
PID_KEY = "SingletonPid"
FUNCTION_KEY = "SingletonFunction"
SCOPE_KEY = "SingletonScope"
HELD_KEY = "SingletonHeld"
WORD_KEY = "SingletonNext"
STAMP_KEYS = frozenset(
    key.lower()
    for key in (
        *(EPOCH_KEY, OWNER_KEY, HOST_KEY, PID_KEY, FUNCTION_KEY, SCOPE_KEY, HELD_KEY),
        *(LEASE_KEY, MARK_KEY, WORD_KEY),
    )
)
"""The keys of a stamp, in lower case. A blob with other metadata keeps something else as well."""
CONTENT_KEYS: Final = frozenset(key.lower() for key in (STATE_KEY, UNTIL_KEY, WHILE_KEY))
"""What belongs to the content of the blob, in lower case."""
EPOCHS_A_SECOND: Final = 1_000
"""Epochs with which a blob can begin within one second, before it begins with that of the next."""


@dataclass(slots=True)
class Highest:
    """The highest epoch in which this process may have given tokens of a lock, whatever the options; -1: it has not."""

    epoch: int = -1


def this_host() -> str:
    """Name the machine that this process runs on, as an operator would look for it."""
    return os.environ.get("WEBSITE_INSTANCE_ID") or socket.gethostname() or "?"


def signature(owner: str, held: float, *, counts: bool) -> dict[str, str]:
    """Return what a stamp writes of who has the lock, but for the epoch; without ``counts`` that is the owner alone.

    ``held``: for how many seconds; 0: from now on.
    """
    signed = {}
    if counts:
        signed[HOST_KEY] = header_safe(this_host())
        signed[PID_KEY] = str(os.getpid())
        signed[HELD_KEY] = f"{max(held, 0.1):.1f}" if held else "0"
        asking = current()
        if asking is not None and asking.function:
            signed[FUNCTION_KEY] = header_safe(asking.function)
        if asking is not None and asking.scope:
            signed[SCOPE_KEY] = header_safe(asking.scope)
    if owner:
        signed[OWNER_KEY] = header_safe(owner)
    return signed


def tells_of_content(key: str) -> bool:
    """Tell whether this key of metadata belongs to the content of the blob."""
    return key.lower() in CONTENT_KEYS


def unsigned(metadata: Mapping[str, str], *, counts: bool) -> Mapping[str, str]:
    """Return what of metadata no stamp of ours writes; without ``counts`` one is an owner alone. As a rule nothing."""
    ours = STAMP_KEYS if counts else {OWNER_KEY.lower()}
    return {key: value for key, value in metadata.items() if key.lower() not in ours} or NOTHING


def without_content(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return what of metadata does not belong to the content of the blob."""
    return {key: value for key, value in metadata.items() if not tells_of_content(key)}


def foreign_bytes(state: BlobState) -> int:
    """Return how many bytes of content the blob has, if the content lacks the mark of our state, or is too long."""
    return state.size if metadata_value(state, STATE_KEY) is None or state.size > MOST_STATE else 0


def kept_in(found: Content) -> Kept:
    """Return the content of a blob with the marks that tell of it."""
    if foreign := foreign_bytes(found.blob):
        return Kept(at=found.at, foreign=foreign)
    marks = {key: value for key, value in found.blob.metadata.items() if tells_of_content(key)}
    return Kept(found.body, marks, found.at)


def metadata_value(state: BlobState, key: str) -> str | None:
    """Return a value of the blob's metadata, whose keys have no case; None where the key is missing."""
    return marked(state.metadata, key)


def written_epoch(text: str) -> int | None:
    """Return the epoch that stands on a blob; None: not a number of ours."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None


def recorded_epoch(state: BlobState) -> int | None:
    """Return the epoch of a blob that some process of ours has signed; None: unknown."""
    text = metadata_value(state, EPOCH_KEY)
    if text is not None:
        return written_epoch(text)
    return None if metadata_value(state, HOST_KEY) is None else state.modified * EPOCHS_A_SECOND


def lifted_epoch(state: BlobState) -> int:
    """Return an epoch above every epoch that the blob can have had at its last write, lost epochs included."""
    written = written_epoch(metadata_value(state, EPOCH_KEY) or "")
    return max((written or 0) + 1, (state.modified + 1) * EPOCHS_A_SECOND)


def is_ahead(old: BlobState, new: BlobState) -> bool:
    """Tell whether tokens given under a lock's old name are not below the next ones under its new name.

    After a lift of both names none is ahead, whichever was lifted last: no token of a lifted epoch was given.
    """
    before = recorded_epoch(old)
    if before is None or (_is_lifted(old) and _is_lifted(new)):
        return False
    return before > (recorded_epoch(new) or new.modified * EPOCHS_A_SECOND)


def _is_lifted(state: BlobState) -> bool:
    """Tell whether a lift was the last to write: holders stamp other epochs, and creation writes none."""
    epoch = written_epoch(metadata_value(state, EPOCH_KEY) or "")
    return epoch is not None and epoch % EPOCHS_A_SECOND == 0 and epoch >= state.modified * EPOCHS_A_SECOND


def epoch_in(state: BlobState) -> int:
    """Return the last epoch of a blob, or for a new one that with which it begins."""
    text = metadata_value(state, EPOCH_KEY)
    if text is None:
        return state.modified * EPOCHS_A_SECOND
    if (epoch := written_epoch(text)) is not None:
        return epoch
    detail = f"the blob's metadata {EPOCH_KEY} is {text[:40]!r}, not a number for tokens: another tool wrote it"
    raise StoreFailure(400, None, f"{detail}. Delete that key, or the blob")


def header_safe(owner: str) -> str:
    """Metadata travels as HTTP headers: keep printable ASCII, at most 200 characters, and single spaces within."""
    kept = "".join(char if " " <= char < "\x7f" else "?" for char in owner[:200])
    return re.sub(r"^ | $| (?= )", "?", kept)
