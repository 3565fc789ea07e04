"""How often a message has failed before it was put back: its copy counts from one again, so the number goes with it.

The number stands on a blob named after the copy, in the container of the locks. Only messages that failed have one. It
is looked for when such a message may be concerned: when one is put back, and when a body fails. A message that works
costs nothing; should it have had a number, that is left behind, a blob without content.

Nothing here can lose or hold up a message: where the storage does not answer, the number is forgotten.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from singleton.base.naming import log as _log
from singleton.stores.protocol import NoteStore, StoreFailure, within

_PREFIX: Final = "deferred"
_KEY: Final = "failures"
_ANSWER: Final = 5.0


def note_name(queue: str, message_id: str) -> str:
    """Return the name of the blob that has the number of a message."""
    return f"{_PREFIX}/{quote(queue, safe='')}/{quote(message_id, safe='')}"


async def strikes_of(store: object, queue: str, message_id: str) -> int:
    """Return how often this message failed before it got its present id."""
    if not isinstance(store, NoteStore):
        return 0
    try:
        metadata = await within(_ANSWER, store.noted(note_name(queue, message_id)))
        return max(0, int(metadata.get(_KEY, "0")))
    except (StoreFailure, ValueError) as error:
        if not (isinstance(error, StoreFailure) and error.meaning == "missing"):
            _log.warning("message %s: whether it failed before is not known (%s)", message_id, error)
        return 0


async def note_strikes(store: object, queue: str, message_id: str, number: int) -> None:
    """Note how often a message failed before it gets this id; 0 takes the note away."""
    if not isinstance(store, NoteStore):
        return
    name = note_name(queue, message_id)
    try:
        await within(_ANSWER, store.note(name, {_KEY: str(number)}) if number else store.remove(name))
    except StoreFailure as error:
        _log.warning("message %s: that it failed %d times before is not noted (%s)", message_id, number, error)
