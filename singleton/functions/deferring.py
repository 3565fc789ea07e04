"""What ``"defer"`` needs of a function and its messages, and the work that puts one back.

A storage queue's message carries all that is needed: its id, its receipt, and when it ends. What can't be deferred is
refused at the declaration where the trigger is known, else at the invocation, which then fails: nothing is lost.
"""

from __future__ import annotations

import base64
import math
import os
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import ConfigurationError, LockNotAcquired, StorageError
from singleton.base.events import tell
from singleton.base.naming import log as _log
from singleton.defer.deferral import MessageElsewhere, Received, move, put_back
from singleton.defer.queueplace import Encoding, QueuePlace, queue_place
from singleton.defer.strikes import note_strikes, strikes_of
from singleton.functions.misdeclared import OF_THE_APP
from singleton.functions.triggers import QUEUE
from singleton.settings.connection import StorageAccount, resolve_queue_account

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    from singleton.base.events import Call
    from singleton.functions.triggers import Trigger
    from singleton.process.onthread import Locks
    from singleton.process.registry import Place, Registry

LONGEST_WAIT: Final = 240.0
"""Seconds that an invocation may wait before it defers: the host changes the message's receipt after 300 (H-35)."""
_LONGEST_DELAY: Final = 604_800  # the service's limit, seven days
JITTER: Final = 0.25
"""By how much of itself a delay may be longer or shorter."""
_NO_END: Final = 9000  # messages that never expire do so in the year 9999
_REPLACED: Final = "\N{REPLACEMENT CHARACTER}".encode()


def check_deferrable(function: str, wait: float | None, trigger: Trigger | None) -> None:
    """Refuse a declaration with ``on_contention="defer"`` that can't be kept.

    Raises:
        ConfigurationError: the trigger, the time-out or the installation does not allow it.
    """
    if wait is not None and wait > LONGEST_WAIT:
        raise ConfigurationError(
            f"timeout is {wait:g} beside on_contention='defer': give at most {LONGEST_WAIT:g} seconds, as the host "
            "changes a message's receipt soon after; a deferred message waits in its queue anyway"
        )
    if trigger is not None:
        _check_trigger(function, trigger)
    _check_installed()


def _check_trigger(function: str, trigger: Trigger) -> None:
    if trigger.type != QUEUE:
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
            "(pip install 'azure-functions-singleton[defer]')",
            reason=OF_THE_APP,
        )


@dataclass(frozen=True, slots=True)
class Deferring:
    """Puts the messages of one function back.

    Attributes:
        trigger: its trigger, where it is known.
        app_dir: the folder that has host.json.
        delay: seconds for which a message stays away, give or take a quarter.
        notes: the container that remembers how often a message has failed.
    """

    trigger: Trigger | None
    app_dir: Path | None
    delay: float
    notes: Place

    async def put_back(self, call: Call, contended: LockNotAcquired, locks: Locks) -> None:
        """Put the message of a call back; afterwards the invocation may end as a success.

        Raises:
            ConfigurationError: the call has no message that can be put back.
            LockNotAcquired: the message can't be put back: it may be another receiver's by now, or its host has kept it
                for so long that it can't be told.
            StorageError: its queue did not do it; it comes back by itself.
        """
        _check_installed()
        place, message = self._message(call)
        try:
            await locks.call_async(partial(self._deferred, call=call, place=place, message=message))
        except MessageElsewhere:
            _log.info("%s: message %s can't be put back, its receipt is too old", call.function, message.id)
            contended.add_note("Its message could not be put back: another receiver may have it by now.")
            raise contended from None

    async def strike(self, call: Call, locks: Locks) -> None:
        """Count a failure: a message that has failed too often, in all its lives, is poison.

        What never was put back is the host's to count.

        Raises:
            ConfigurationError: the call has no message that could have been put back.
        """
        place, message = self._message(call)
        await locks.call_async(partial(self._struck, call=call, place=place, message=message))

    def _message(self, call: Call) -> tuple[QueuePlace, Received]:
        trigger = check_message(call.function, self.trigger, call.arguments)
        place = queue_place(trigger.settings, os.environ, self.app_dir, _account_named)
        return place, received(call.function, trigger, call.arguments[trigger.parameter], place.encoding)

    # --- on the lock thread -------------------------------------------------------------------------------------------

    async def _deferred(self, registry: Registry, *, call: Call, place: QueuePlace, message: Received) -> None:
        store = registry.store(self.notes)
        strikes = await strikes_of(store, place.queue, message.id)
        failures = strikes + message.dequeue_count - 1
        # Messages that were refused together would come back together.
        seconds = round(self.delay * registry.rng.uniform(1 - JITTER, 1 + JITTER))
        seconds = min(max(1, seconds), _LONGEST_DELAY)

        # The copy is told of before the original ends: who reads the events never sees neither.
        def told(copy: str) -> None:
            tell("deferred", call, message_id=message.id, copy_id=copy)

        copy = await put_back(registry.queue(place.account, place.queue), message, delay=seconds, handed_on=told)
        if copy is None:
            _log.warning("%s: message %s was not put back in time; it comes back by itself", call.function, message.id)
            return
        _log.info(
            "%s deferred: lock %s is held by another invocation; message %s comes back in %d s as %s",
            *(call.function, call.lock, message.id, seconds, copy),
        )
        if failures:
            await note_strikes(store, place.queue, copy, failures)
        if strikes:
            await note_strikes(store, place.queue, message.id, 0)

    async def _struck(self, registry: Registry, *, call: Call, place: QueuePlace, message: Received) -> None:
        store = registry.store(self.notes)
        strikes = await strikes_of(store, place.queue, message.id)
        failures = strikes + message.dequeue_count
        if not strikes or failures < place.max_dequeue_count:
            return
        if message.dequeue_count < place.max_dequeue_count:  # otherwise the host is about to do it
            if place.poison is None:
                return
            try:
                source, poison = (registry.queue(place.account, name) for name in (place.queue, place.poison))
                moved = await move(source, poison, message)
            except (MessageElsewhere, StorageError) as error:
                _log.warning("message %s failed %d times, but can't be poisoned: %s", message.id, failures, error)
                return
            if not moved:
                return
            _log.warning(
                "message %s failed %d times in %s: moved to %s",
                *(message.id, failures, call.function, place.poison),
            )
            tell("poisoned", call, message_id=message.id)
        await note_strikes(store, place.queue, message.id, 0)


def check_message(function: str, trigger: Trigger | None, arguments: Mapping[str, Any]) -> Trigger:
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
    return trigger


def _account_named(connection: str) -> StorageAccount:
    """Resolve a trigger's connection; where locks live elsewhere, queues do, and no setting is asked."""
    from singleton.process.current import provided_account

    if provided_account(connection) is not None:
        return StorageAccount()
    return resolve_queue_account(connection, os.environ)


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
        dequeue_count=getattr(message, "dequeue_count", None) or 1,
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
