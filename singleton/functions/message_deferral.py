"""``on_contention="defer"``: how a message is put back, and how its failures are counted."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from singleton.base.errors import LockNotAcquired, SingletonError, StorageError
from singleton.base.events import tell
from singleton.base.invocation import log as _log
from singleton.base.tasks import undisturbed
from singleton.defer.deferral import MessageElsewhere, Moved, Received, move, put_back, withdraw
from singleton.defer.failure_count import FailureCount, failures_of, key_of, key_of_copy, note_failures
from singleton.defer.trigger_queue import TriggerQueue, poison_queue, trigger_queue
from singleton.functions.deferrable import check_installed
from singleton.functions.message_properties import is_damaged, is_whole, received
from singleton.functions.misdeclaration import OF_THE_APP
from singleton.functions.trigger_rules import check_message
from singleton.functions.triggers import QUEUE
from singleton.runtime.provided import provided_account
from singleton.settings.connection import DEFAULT_CONNECTION, StorageAccount, resolve_queue_account

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from singleton.base.events import Call
    from singleton.functions.triggers import Trigger
    from singleton.runtime.calls import Locks
    from singleton.runtime.registry import Registry
    from singleton.settings.accounts import LockContainer
    from singleton.stores.protocol import NoteStore

_T = TypeVar("_T")

_LONGEST_DELAY: Final = 604_800  # the service's limit, seven days
JITTER: Final = 0.25
"""By how much of itself a delay may be longer or shorter."""


@dataclass(frozen=True, slots=True)
class Deferring:
    """Puts the messages of one function back. Its queue's place is worked out once; an error is not kept.

    Attributes:
        trigger: the function's trigger; None: unknown.
        app_dir: the folder that has host.json.
        delay: seconds for which a message stays away, give or take a quarter.
        notes: returns the container that remembers how often a message has failed.
    """

    trigger: Trigger | None
    app_dir: Path | None
    delay: float
    notes: Callable[[], LockContainer]
    _places: dict[bool, TriggerQueue] = field(default_factory=dict, init=False, repr=False)

    async def put_back(self, call: Call, contended: LockNotAcquired, locks: Locks) -> None:
        """Put the message of a call back; afterwards the invocation may end as a success.

        Raises:
            ConfigurationError: the call has no message that can be put back.
            LockNotAcquired: the message can't be put back: another host may have received the message, or the host
                has kept the message for too long to know.
            StorageError: the queue refused or failed; the message comes back by itself.
        """
        check_installed("on_contention='defer'", OF_THE_APP)
        trigger = check_message(f"@singleton on {call.function}", self.trigger, call.arguments)
        place = self._place(trigger)
        message = received(call.function, trigger, call.arguments[trigger.parameter], place.encoding)
        try:
            await _Unfinished().done_by(locks, partial(self._deferred, call=call, place=place, message=message))
        except MessageElsewhere:
            _log.info("%s: %s can't be put back: its receipt is too old", call.function, message, extra=call.fields)
            contended.add_note("Its message could not be put back: another host may have received it by now.")
            raise contended from None

    async def failed(self, call: Call, error: Exception, locks: Locks) -> bool:
        """Count the failure of a body. A message with too many failures, copies included, is poison.

        A delivery fails once, however often the host tries it: by its last try, or by a failed try before it is put
        back. The host counts for a message that was never put back, or can't be put back. An error here never takes
        the place of the body's error.

        Returns:
            whether the message is in the poison queue and its host is to delete it, as nobody else can: the invocation
            must end as a success.
        """
        trigger = self.trigger
        message = None if trigger is None else call.arguments.get(trigger.parameter)
        try:
            if call.may_repeat or trigger is None or trigger.type != QUEUE or not is_whole(message, trigger):
                return False
            if is_damaged(message, trigger):
                return False
            place = self._place(trigger)
            struck = received(call.function, trigger, message, place.encoding)
            poisoned = await _Unfinished().done_by(locks, partial(self._struck, call=call, place=place, message=struck))
        except Exception:  # noqa: BLE001 - whatever it is, it is not what the caller is to hear of
            _log.warning("%s failed, and its failure was not counted", call.function, exc_info=True, extra=call.fields)
            return False
        if poisoned:
            _log.error(
                *("%s failed too often: its message is in the poison queue, so it ends as a success", call.function),
                exc_info=error,
                extra=call.fields,
            )
        return poisoned

    def _place(self, trigger: Trigger) -> TriggerQueue:
        """Return the place of the trigger's queue. A test that moves locks elsewhere moves queues too."""
        elsewhere = provided_account(DEFAULT_CONNECTION) is not None
        if elsewhere not in self._places:
            self._places[elsewhere] = trigger_queue(trigger.settings, os.environ, self.app_dir, _account_named)
        return self._places[elsewhere]

    # --- on the lock thread -------------------------------------------------------------------------------------------

    async def _deferred(
        self, registry: Registry, unfinished: _Unfinished, *, call: Call, place: TriggerQueue, message: Received
    ) -> None:
        store, key = registry.store(self.notes()), key_of(message)
        strikes = await failures_of(store, place.queue, key)
        failures = strikes.before + (strikes.here if message.dequeue_count is None else message.dequeue_count - 1)
        failures += call.tried > 0
        if failures >= place.max_dequeue_count:
            unfinished.moved = await self._poisoned(registry, call, place, message, failures=failures)
            if unfinished.moved is not None:
                await self._forget(unfinished, store, place.queue, key, strikes)
                return
        # Messages that were refused together would come back together.
        seconds = round(self.delay * registry.rng.uniform(1 - JITTER, 1 + JITTER))
        seconds = min(max(1, seconds), _LONGEST_DELAY)

        # The copy is told of before the original ends: who reads the events never sees neither.
        def told(copy: str) -> None:
            tell("deferred", call, message_id=message.id, copy_id=copy)

        moved = await put_back(registry.queue(place.account, place.queue), message, delay=seconds, handed_on=told)
        if moved is None:
            _log.warning(
                *("%s: %s was not put back: it comes back by itself, or expires", call.function, message),
                extra=call.fields,
            )
            return
        _log.info(
            "%s deferred: lock %s is held by another invocation; %s comes back in %d s as message %s",
            *(call.function, call.lock, message, seconds, moved.copy.id),
            extra={**call.fields, "message_id": message.id, "copy_id": moved.copy.id},
        )
        copys_key = key_of_copy(message, moved.copy)
        unfinished.moved = moved
        await self._forget(unfinished, store, place.queue, key, strikes)
        if failures:
            await note_failures(store, place.queue, copys_key, FailureCount(failures))
            unfinished.notes.insert(0, partial(note_failures, store, place.queue, copys_key, FailureCount()))

    async def _struck(
        self, registry: Registry, unfinished: _Unfinished, *, call: Call, place: TriggerQueue, message: Received
    ) -> bool:
        store, key, most = registry.store(self.notes()), key_of(message), place.max_dequeue_count
        noted = await failures_of(store, place.queue, key)
        counted = noted if message.dequeue_count is None else replace(noted, here=message.dequeue_count)
        if message.dequeue_count is None and not (call.owner and call.owner == noted.last):
            counted = replace(noted, here=noted.here + 1, last=call.owner)
        moved = None
        if noted.before and counted.total >= most > counted.here:  # otherwise the host counts that far, too
            moved = await self._poisoned(registry, call, place, message, failures=counted.total)
        unfinished.moved = moved
        if moved is not None or counted.here >= most:
            await self._forget(unfinished, store, place.queue, key, noted)
        elif message.dequeue_count is None:
            await note_failures(store, place.queue, key, counted)
        return moved is not None and moved.by_host

    @staticmethod
    async def _forget(unfinished: _Unfinished, store: NoteStore, queue: str, key: str, noted: FailureCount) -> None:
        """Take the note of a message away that ends here."""
        if noted:
            await note_failures(store, queue, key, FailureCount())
            unfinished.notes.append(partial(note_failures, store, queue, key, noted))

    async def _poisoned(
        self, registry: Registry, call: Call, place: TriggerQueue, message: Received, *, failures: int
    ) -> Moved | None:
        """Move a message to the poison queue; None: it is not there."""
        by_host, poison = may_end_as_success(self.trigger), poison_queue(place.queue)
        if poison is None or (message.known is None and not by_host):
            return None

        def told() -> None:
            _log.warning(
                *("%s failed %d times in %s: moved to %s", message, failures, call.function, poison),
                extra={**call.fields, "message_id": message.id},
            )
            tell("poisoned", call, message_id=message.id)

        try:
            source, target = (registry.queue(place.account, name) for name in (place.queue, poison))
            return await move(source, target, message, by_host=by_host, handed_on=told)
        except (MessageElsewhere, StorageError) as error:
            _log.warning(
                "%s failed %d times, but can't be moved to the poison queue: %s",
                *(message, failures, error),
                extra=call.fields,
            )
            return None


@dataclass(slots=True)
class _Unfinished:
    """Work for the message of an invocation. The host finishes the message when the invocation succeeds.

    After a cancellation the message stays with the host, and a copy is withdrawn if the host was to delete the
    original. Requests under way end before.

    ``moved``: the message and the copy, after a move. ``notes`` restore the notes of the failures.
    """

    moved: Moved | None = None
    notes: list[Callable[[], Coroutine[Any, Any, None]]] = field(default_factory=list)
    _cancelled: bool = False
    _work: asyncio.Task[Any] | None = None

    async def done_by(self, locks: Locks, work: Callable[[Registry, _Unfinished], Coroutine[Any, Any, _T]]) -> _T:
        """Do the work on the lock thread. A cancellation is raised when nothing is left half done."""
        try:
            return await locks.call_async(partial(self._done, work))
        except asyncio.CancelledError:
            self._cancelled = True
            with suppress(SingletonError):  # a lock thread that closes takes no more calls
                await locks.call_async(self._undone)
            raise

    @undisturbed
    async def _done(self, work: Callable[[Registry, _Unfinished], Coroutine[Any, Any, _T]], registry: Registry) -> _T:
        if self._cancelled:
            raise asyncio.CancelledError
        self._work = asyncio.current_task()
        result = await work(registry, self)
        if self._cancelled:
            await self._take_back()
        return result

    @undisturbed
    async def _undone(self, _: Registry) -> None:
        if self._work is not None:
            await asyncio.wait({self._work})
        await self._take_back()

    async def _take_back(self) -> None:
        moved, self.moved = self.moved, None
        if moved is None or not moved.by_host:
            return
        await withdraw(moved)
        for note in self.notes:
            await note()


def may_end_as_success(trigger: Trigger | None) -> bool:
    """Tell whether an invocation whose body failed may end as a success, with None: not beside a ``$return`` output."""
    return trigger is None or trigger.may_end_as_none


def _account_named(connection: str) -> StorageAccount:
    """Resolve a trigger's connection; where locks live elsewhere, queues do, and no setting is asked."""
    if provided_account(connection) is not None:
        return StorageAccount()
    return resolve_queue_account(connection, os.environ)
