"""What ``"defer"`` needs of a function and its messages, and the work that puts one back.

A storage queue's message carries all that is needed: its id, its receipt, and when it ends. What can't be deferred is
refused at the declaration where the trigger is known, else at the invocation, which then fails: nothing is lost.
"""

from __future__ import annotations

import base64
import logging
import math
import os
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from singleton.deferral import Received, put_back
from singleton.errors import ConfigurationError
from singleton.queueplace import QUEUE_TRIGGER, Encoding, QueuePlace, queue_place
from singleton.telemetry import LockEvent, emit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from singleton.guard import Call, Guard
    from singleton.registry import Registry
    from singleton.steps import Work
    from singleton.triggers import Trigger

LONGEST_WAIT: Final = 240.0
"""Seconds that an invocation may wait before it defers: the host changes the message's receipt after 300 (H-35)."""
_LONGEST_DELAY: Final = 604_800  # the service's limit, seven days
JITTER: Final = 0.25
"""By how much of itself a delay may be longer or shorter."""
_NO_END: Final = 9000  # messages that never expire do so in the year 9999
_REPLACED: Final = "\N{REPLACEMENT CHARACTER}".encode()

_log = logging.getLogger("singleton")


def check_deferrable(function: str, timeout: float | timedelta | None, trigger: Trigger | None) -> None:
    """Refuse a declaration with ``on_contention="defer"`` that can't be kept.

    Raises:
        ConfigurationError: the trigger, the time-out or the installation does not allow it.
    """
    wait = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if wait is not None and wait > LONGEST_WAIT:
        raise ConfigurationError(
            f"timeout is {wait:g} beside on_contention='defer': give at most {LONGEST_WAIT:g} seconds, as the host "
            "changes a message's receipt soon after; a deferred message waits in its queue anyway"
        )
    if trigger is not None:
        _check_trigger(function, trigger)
    _check_installed()


def _check_trigger(function: str, trigger: Trigger) -> None:
    if trigger.type != QUEUE_TRIGGER:
        raise ConfigurationError(
            f"{function} can't defer: its trigger is a {trigger.type}, and only a storage queue's messages "
            "(queueTrigger) can be put back; use 'wait', 'skip' or 'raise'"
        )


def _check_installed() -> None:
    try:
        found = find_spec("azure.storage.queue")
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise ConfigurationError(
            "on_contention='defer' needs azure-storage-queue: add azure-functions-singleton[defer] to requirements.txt "
            "(pip install 'azure-functions-singleton[defer]')"
        )


def check_message(function: str, trigger: Trigger | None, arguments: Mapping[str, Any]) -> None:
    """Refuse an invocation whose message could not be put back: at its start, rather than when the lock is busy.

    Raises:
        ConfigurationError: its trigger is not known or no queue's, or its message came without id and receipt.
    """
    if trigger is None:
        raise ConfigurationError(
            f"{function} can't defer: its trigger is not known here; put @singleton above the trigger's decorator"
        )
    _check_trigger(function, trigger)
    message = arguments.get(trigger.parameter)
    given = [getattr(message, name, None) for name in ("id", "pop_receipt")]
    if not all(isinstance(value, str) and value for value in given) or not hasattr(message, "get_body"):
        raise ConfigurationError(
            f"{function} can't defer: its parameter {trigger.parameter} is a {type(message).__name__} without an id "
            "and a receipt; annotate it as func.QueueMessage"
        )


def deferral(guard: Guard, call: Call) -> Work:
    """Return the work that puts the message of a call back; after it, the invocation may end as a success.

    Raises:
        ConfigurationError: the call has no message that can be put back.

    The work itself may raise ``MessageElsewhere`` or a ``StorageError``: then the invocation must fail.
    """
    _check_installed()
    trigger = guard.trigger
    check_message(call.function, trigger, call.arguments)
    assert trigger is not None
    place = queue_place(trigger, os.environ, guard.app_dir)
    message = received(call.function, trigger, call.arguments[trigger.parameter], place.encoding)
    return partial(_deferred, call=call, place=place, message=message, delay=guard.options.defer_delay)


async def _deferred(registry: Registry, *, call: Call, place: QueuePlace, message: Received, delay: float) -> None:
    def handed_on(copy: str) -> None:
        """Tell of the copy before the original ends: who reads the events never sees neither."""
        emit(
            LockEvent(
                kind="deferred",
                lock=call.lock,
                function=call.function,
                owner=call.owner,
                mode=call.mode,
                message_id=message.id,
                copy_id=copy,
            )
        )

    # Messages that were refused together would come back together.
    seconds = round(delay * registry.rng.uniform(1 - JITTER, 1 + JITTER))
    seconds = min(max(1, seconds), _LONGEST_DELAY)
    copy = await put_back(registry.queue(place), message, delay=seconds, handed_on=handed_on)
    if copy is None:
        _log.warning("%s: message %s was not put back in time; it comes back by itself", call.function, message.id)
    else:
        _log.info(
            "%s deferred: lock %s is held by another invocation; message %s comes back in %d s as %s",
            *(call.function, call.lock, message.id, seconds, copy),
        )


def received(function: str, trigger: Trigger, message: Any, encoding: Encoding) -> Received:
    """Read the message of an invocation, as its queue had it.

    Raises:
        ConfigurationError: its body may not be what is in the queue.
    """
    return Received(
        id=message.id,
        receipt=message.pop_receipt,
        text=_encoded(function, trigger, message.get_body(), encoding),
        invisible_until=_instant(getattr(message, "time_next_visible", None)),
        expires=_end(getattr(message, "expiration_time", None)),
    )


def _encoded(function: str, trigger: Trigger, body: bytes, encoding: Encoding) -> str:
    if _REPLACED in body and not _is_binary(trigger):
        raise ConfigurationError(
            f"{function} can't defer this message: its body has the character U+FFFD, with which the host replaces "
            "bytes that are no text, so it may not be what is in the queue; give the trigger "
            "data_type=func.DataType.BINARY"
        )
    return base64.b64encode(body).decode() if encoding == "base64" else body.decode()


def _is_binary(trigger: Trigger) -> bool:
    kind = trigger.settings.get("dataType")
    return str(getattr(kind, "name", kind)).upper() in {"BINARY", "STREAM"}


def _instant(date: datetime | None) -> float | None:
    return None if date is None else date.timestamp()


def _end(date: datetime | None) -> float | None:
    return math.inf if date is not None and date.year > _NO_END else _instant(date)
