"""A visit to a key: handles the messages in order, under the key's lock, until the log has no more.

A bell asks for a visit. If messages are left after the visit, another bell is sent.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from singleton.base import clock
from singleton.base.errors import LockNotAcquired, StorageUnavailable
from singleton.base.invocation import log as _log
from singleton.functions.body_result import refuse_unanswered
from singleton.locking.section import claims
from singleton.patterns.handler_call import call, call_async, told
from singleton.patterns.ordered.aside_messages import put_aside
from singleton.patterns.ordered.log_reader import LogReader, Position
from singleton.patterns.ordered.messages import InboxMessage
from singleton.runtime.cancellation import cancelled_when_lost
from singleton.runtime.reentry import BodyContext
from singleton.stores.protocol import StoreFailure, within

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from singleton.base.hold import Hold
    from singleton.base.state import Kept
    from singleton.patterns.ordered.bells import Bell
    from singleton.patterns.ordered.entries import Entry
    from singleton.patterns.ordered.messages import Rules
    from singleton.patterns.ordered.service import Service
    from singleton.runtime.calls import Locks
    from singleton.runtime.registry import Registry

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_NO_END: Final = "its process ended, or lost the key's lock, in the middle of too many attempts"
_FEWEST: Final = 2
"""The fewest attempts without an end after which a message is spent: a single attempt may be a success, not kept."""
_TAKEN: Final = "the inbox keeps its position there. For your own state take a lock of your own"


class VisitOutcome(NamedTuple):
    """What became of a visit.

    Attributes:
        again: seconds after which the key is to be visited again; None: it need not be.
        error: what a handler raised; None: nothing, or it is over.
    """

    again: float | None = None
    error: Exception | None = None


@dataclass(slots=True)
class Visit:
    """A visit of the key of a bell.

    Attributes:
        service: the inbox.
        locks: where locks live, as the handler's thread or loop reaches them.
        insurance: rings again if this process dies.
        is_async: whether the handler is awaited, and cancelled at the loss of the key's lock.
        outputs: bindings whose items are made under the key's lock.
        stopping: whether to end behind the message in hand.
        again: whether the visit before may have ended in the middle of a message.
    """

    service: Service
    locks: Locks
    bell: Bell
    handler: Callable[[InboxMessage], Any]
    rules: Rules
    insurance: Insurance
    is_async: bool
    owner: str = ""
    outputs: Collection[Any] = ()
    stopping: Callable[[], bool] = lambda: False
    again: bool = field(default=False, init=False)

    async def made(self) -> VisitOutcome:
        """Handle the messages of the key. Afterwards the answered bell may be deleted.

        Raises:
            SingletonError: the key was not read to its end. The bell must stay, or ring again.
        """
        bell, insurance = self.bell, self.insurance
        self.again = bool(bell.again)
        if self.again and await self.locks.call_async(lambda registry: self.service.is_drained(registry, bell.spot)):
            await insurance.end(None)
            return VisitOutcome()
        outcome = await self._under_lock()
        await insurance.end(outcome.again)
        return outcome

    async def _under_lock(self) -> VisitOutcome:
        hold = await self.locks.call_async(self.service.attempt(self.bell.spot, self.owner))
        if isinstance(hold, LockNotAcquired):
            return VisitOutcome(again=self.bell.pause)
        hold.stateless = _TAKEN
        kept = claims(hold)  # by this frame, which an interrupt ends, and not by a variable that has the hold
        try:
            with BodyContext(hold):
                return await self._under(hold)
        finally:
            await self.locks.release_async(hold)
            kept.clear()

    async def _under(self, hold: Hold) -> VisitOutcome:
        keeper = hold.keeper()

        async def read(registry: Registry) -> tuple[Kept, float]:
            return await keeper.read(), registry.wall()

        kept, at = await self.locks.call_async(read)
        position = Position.read(hold.lock, kept)
        if position.stopped:
            _log.warning("inbox %s: %s is stopped: %s", self.service.names.inbox, self.bell.spot, position.stopped)
            return VisitOutcome()
        if 0 < (left := position.until - at) <= _LONGEST_PAUSE:  # more was said by another clock
            return VisitOutcome(again=left)
        reader: LogReader | None = None
        ends = clock.now() + self.rules.slice

        async def more(registry: Registry) -> list[Entry]:
            nonlocal reader
            reader = reader or LogReader(self.service.store(registry), self.service.names, self.bell.spot, position)
            return await reader.more()

        begun = False
        while entries := await self.locks.call_async(more):
            if not begun:
                await self.insurance.begin()
                begun = True
            for entry in entries:
                if self.stopping() or clock.now() >= ends:
                    return VisitOutcome(again=0)
                if position.is_repeat(entry):
                    position.passed(entry)
                    continue
                if (outcome := await self._one(hold, position, entry)) is not None:
                    return outcome
        return VisitOutcome()

    async def _one(self, hold: Hold, position: Position, entry: Entry) -> VisitOutcome | None:
        """Handle one message and keep the position; None: go on."""
        error = None if position.aside else await self._attempted(hold, position, entry)
        outcome = None if error is None else await self._failed(position, entry, error)
        if position.aside:
            await self._put_aside(hold, position, entry, error)
        if outcome is None:
            position.passed(entry)
        await self._keep(hold, position)
        return outcome

    async def _keep(self, hold: Hold, position: Position) -> None:
        keeping = partial(self.service.keep, hold.keeper(), self.bell.spot, position)
        await self.locks.call_async(keeping)

    async def _attempted(self, hold: Hold, position: Position, entry: Entry) -> Exception | None:
        """Count and make an attempt, unless the attempts are used up; return its error, or None."""
        if self._is_spent(position):
            failed = f"it has failed {position.failures} times, and at most {self.rules.attempts} attempts are allowed"
            return RuntimeError(failed if position.failures >= self.rules.attempts else _NO_END)
        counted = self.again or position.tried > 0
        if counted:  # if this process dies of the message, the begun attempt is kept
            position.begun += 1
            await self._keep(hold, position)
        self.again = False
        error = await self._tried(hold, entry, max(position.tried, 1))
        position.begun -= counted
        position.failures += error is not None
        return error

    def _is_spent(self, position: Position) -> bool:
        return position.failures >= self.rules.attempts or position.begun >= max(self.rules.attempts, _FEWEST)

    async def _tried(self, hold: Hold, entry: Entry, attempt: int) -> Exception | None:
        hold.raise_if_lost()
        try:
            message = InboxMessage(
                key=entry.key,
                body=entry.value,
                id=f"{entry.sender}-{entry.number}",
                attempt=attempt,
                token=hold.token,
            )
            with cancelled_when_lost(hold) if self.is_async else nullcontext():
                try:
                    if self.is_async:
                        await call_async(self.handler, message, self.outputs)
                    else:
                        call(self.handler, message, self.outputs)
                except BaseException as error:
                    what = f"the handler of inbox {self.service.names.inbox}"
                    refuse_unanswered(what, error, is_async=self.is_async)
                    raise
        except Exception as error:  # noqa: BLE001 - of the handler, or of a body that can't be read: counted
            hold.raise_if_lost()
            return error
        return None

    async def _failed(self, position: Position, entry: Entry, error: Exception) -> VisitOutcome | None:
        """Say what follows a failure; None: the message is to be put aside, and the key goes on."""
        said = self.service.names.inbox, entry.key, position.tried
        if not self._is_spent(position):
            pause = min(_FIRST_PAUSE * 2 ** min(position.failures - 1, 10), _LONGEST_PAUSE)
            position.until = await self.locks.call_async(_wall) + pause
            _log.warning("inbox %s: a message of %r has failed %d times; the later ones of its key wait", *said)
            return VisitOutcome(again=pause, error=error)
        why = told(error)
        if self.rules.on_poison == "stop":
            position.stopped, position.key = why, entry.key
            _log.error("inbox %s: %r is stopped until it is resumed: a message failed %d times", *said)
            return VisitOutcome(error=error)
        position.aside = why
        return None

    async def _put_aside(self, hold: Hold, position: Position, entry: Entry, error: Exception | None) -> None:
        """Put a message aside. The decision is kept first: from then on no consumer handles the message."""
        if error is not None:
            await self._keep(hold, position)
        putting = partial(put_aside, names=self.service.names, spot=self.bell.spot, entry=entry, why=position.aside)
        name = await self.locks.call_async(lambda registry: putting(self.service.store(registry)))
        said = self.service.names.inbox, entry.key, position.tried, name
        _log.error("inbox %s: a message of %r failed %d times; it was moved to %s", *said, exc_info=error)


async def _wall(registry: Registry) -> float:
    return registry.wall()


INSURED: Final = 20
"""Seconds after which another bell rings where the process that was at a key has died: a lease, and some."""
_CALL: Final = 10.0


class Insurance(Protocol):
    """A bell that rings by itself unless it is put off: a key then goes on after the death of its consumer."""

    async def begin(self) -> None:
        """Make sure that the bell is in the queue."""

    async def end(self, again: float | None) -> None:
        """Ring the bell again in ``again`` seconds; None: delete it, no message is left."""


@dataclass(slots=True)
class SpareBell:
    """A bell of our own, rung for later before the first message is handled, beside the one that is answered."""

    service: Service
    locks: Locks
    bell: Bell
    _known: tuple[str, str] | None = None

    async def begin(self) -> None:
        """See ``Insurance.begin``."""

        async def rung(registry: Registry) -> None:
            sent = await self.service.ring(registry, replace(self.bell, again=1), INSURED)
            self._known = None if sent is None else (sent.id, sent.receipt)

        await self.locks.call_async(rung)

    async def end(self, again: float | None) -> None:
        """See ``Insurance.end``. Where the spare bell was received by somebody meanwhile, that does no harm."""
        known, self._known = self._known, None

        async def ended(registry: Registry) -> None:
            if not await put_off(self.service, registry, known, again) and again is not None:
                bell = replace(self.bell, again=self.bell.again + 1)
                if await self.service.ring(registry, bell, again) is None:
                    raise StorageUnavailable(f"the queue could not be told of {bell.spot} again", reason="no bell")

        if again is not None or known is not None:
            await self.locks.call_async(ended)


async def put_off(service: Service, registry: Registry, known: tuple[str, str] | None, again: float | None) -> bool:
    """Have a bell that is ours ring in so many seconds, or delete it; tell whether that was done."""
    if known is None:
        return False
    queue, seconds = service.queue(registry), math.ceil(again or 0)
    try:
        await within(_CALL, queue.delete(*known) if again is None else queue.hide(*known, seconds))
    except StoreFailure:
        return False
    return True
