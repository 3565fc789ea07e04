"""How often a message failed before it was put back: a copy counts from one again, so the number goes with the copy.

The number stands on a blob named after the copy, in the container of the locks. Only failed messages have a number. The
number is looked for when a message is put back, and when a body fails. A message that works costs nothing; a number of
such a message is left behind, as a blob without content.

A message whose body hides the id (H-80) is known by its body, and by the second of its insertion into the queue.
Messages with equal body and second may take one another's number: a failure is counted, but perhaps for the other.

Nothing here can lose or hold up a message: where the storage does not answer, the number is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from singleton.base.invocation import log as _log
from singleton.stores.protocol import NoteStore, StoreFailure, within

if TYPE_CHECKING:
    from singleton.defer.deferral import Received
    from singleton.stores.message_store import Sent

_PREFIX: Final = "deferred"
_BEFORE: Final = "failures"
_HERE: Final = "since"
_LAST: Final = "last"
_ANSWER: Final = 5.0


@dataclass(frozen=True, slots=True)
class FailureCount:
    """The failures of a message.

    Attributes:
        before: under earlier ids of the message.
        here: under the present id; counted only where the body hides the number of receives.
        last: the last failed invocation: several guards of one invocation count once.
    """

    before: int = 0
    here: int = 0
    last: str = ""

    @property
    def total(self) -> int:
        """Failures under all ids."""
        return self.before + self.here

    def __bool__(self) -> bool:
        return self.total > 0


def key_of(message: Received) -> str:
    """Return the name under which a message's failures are counted."""
    return message.id or _key(message.text, message.inserted)


def key_of_copy(message: Received, copy: Sent) -> str:
    """Return the name under which the failures of a message's copy are counted: the body hides equal properties."""
    return _key(message.text, None if message.inserted is None else copy.inserted) if message.id is None else copy.id


def _key(text: str, inserted: float | None) -> str:
    second = "" if inserted is None else int(inserted)
    return f"body-{sha256(f'{second} {text}'.encode()).hexdigest()}"


def note_name(queue: str, key: str) -> str:
    """Return the name of the blob that has the number of a message."""
    return f"{_PREFIX}/{quote(queue, safe='')}/{quote(key, safe='')}"


async def failures_of(store: NoteStore, queue: str, key: str) -> FailureCount:
    """Return how often this message failed, as far as the host can't tell."""
    try:
        noted = await within(_ANSWER, store.noted(note_name(queue, key)))
        before, here = (max(0, int(noted.get(name, "0"))) for name in (_BEFORE, _HERE))
        return FailureCount(before, here, noted.get(_LAST, ""))
    except (StoreFailure, ValueError) as error:
        if not (isinstance(error, StoreFailure) and error.meaning == "missing"):
            _log.warning("message %s: its earlier failures could not be read (%s)", key, error)
        return FailureCount()


async def note_failures(store: NoteStore, queue: str, key: str, strikes: FailureCount) -> None:
    """Note how often a message failed; without a failure take the note away."""
    name = note_name(queue, key)
    said = {_BEFORE: str(strikes.before or ""), _HERE: str(strikes.here or ""), _LAST: strikes.last}
    said = {key: value for key, value in said.items() if value}
    try:
        await within(_ANSWER, store.note(name, said) if strikes else store.remove(name))
    except StoreFailure as error:
        _log.warning("message %s: its failure was not noted (%s)", key, error)
