"""A storage queue's message as a function gets it, and which of its names are its own: what ``"defer"`` needs.

It carries all that is needed to put it back: its id, its receipt, and when it ends. Its body may hide some of that
(H-80); then it goes back without.
"""

from __future__ import annotations

import base64
import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import ConfigurationError
from singleton.defer.deferral import Received
from singleton.functions.ownnames import is_binary, own, replaced_names

if TYPE_CHECKING:
    from datetime import datetime

    from singleton.defer.queue_account import Encoding
    from singleton.functions.triggers import Trigger

_NO_END: Final = 9000  # messages that never expire do so in the year 9999
_REPLACED: Final = "\N{REPLACEMENT CHARACTER}".encode()


def is_whole(message: Any, trigger: Trigger) -> bool:
    """Tell whether a message came with what its queue knows of it: id and receipt, or its body's in their place."""
    given = {name: getattr(message, name, None) for name in ("id", "pop_receipt")}
    if not callable(getattr(message, "get_body", None)) or not all(isinstance(each, str) for each in given.values()):
        return False
    blank = {name for name, value in given.items() if not value}
    return not blank or blank <= replaced_names(message, trigger)


def received(function: str, trigger: Trigger, message: Any, encoding: Encoding) -> Received:
    """Read the message of an invocation, as its queue had it.

    Raises:
        ConfigurationError: its body may not be what is in the queue.
    """
    replaced = replaced_names(message, trigger)
    known = partial(own, message, replaced=replaced)
    return Received(
        id=known("id"),
        receipt=known("pop_receipt"),
        text=_encoded(function, trigger, message, encoding),
        inserted=_instant(known("insertion_time")),
        invisible_until=_instant(known("time_next_visible")),
        expires=_end(known("expiration_time")),
        dequeue_count=None if "dequeue_count" in replaced else known("dequeue_count") or 1,
    )


def _encoded(function: str, trigger: Trigger, message: Any, encoding: Encoding) -> str:
    body: bytes = message.get_body()
    if is_damaged(message, trigger):
        raise ConfigurationError(
            f"{function} can't defer this message: its body has the character U+FFFD, with which the host replaces "
            "bytes that are no text, so it may not be what is in the queue; give the trigger "
            "data_type=func.DataType.BINARY"
        )
    return base64.b64encode(body).decode() if encoding == "base64" else body.decode()


def is_damaged(message: Any, trigger: Trigger) -> bool:
    """Tell whether bytes of a body may have been replaced: such a message can't be put back."""
    return _REPLACED in message.get_body() and not is_binary(trigger)


def _instant(date: datetime | None) -> float | None:
    return None if date is None else date.timestamp()


def _end(date: datetime | None) -> float | None:
    return math.inf if date is not None and date.year > _NO_END else _instant(date)
