"""The outbox: a change of state and a message in one transaction, and a relay that sends the messages later (S-15).

``docs/how-to/outbox.md`` has the promises. ``OutboxStore`` is the interface of the database. ``singleton.patterns.sql``
implements ``OutboxStore`` for SQL.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from singleton.base.callables import refuse_awaitable, refuse_iterator, returns_coroutine
from singleton.base.errors import ConfigurationError, LockLost, SingletonError
from singleton.base.hold import Hold
from singleton.base.invocation import log as _log
from singleton.base.invocation import warn_once
from singleton.base.tasks import Deciding, decided_in_thread
from singleton.base.words import quoted
from singleton.patterns.handler_call import told
from singleton.runtime.calls import at_once
from singleton.settings.durations import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from singleton.base.kinds import Seconds
    from singleton.client import AsyncLockClient, LockClient
    from singleton.clients.periodic_worker import PeriodicWorker


class StaleClaim(SingletonError):
    """A later claim, a greater token, or an earlier write of the claim exists: this call wrote nothing (S-12, S-13)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claimed row.

    Attributes:
        key: the row's primary key, column to value.
        row: the row at the time of the claim, column to value.
        version: number of the claim. A later claim of the row has a greater number, and writes with this number are
            then refused.
        attempt: number of the attempt, from 1.
        token: fencing token of the claimer's hold; None without a lock.
    """

    key: Mapping[str, Any]
    row: Mapping[str, Any] = field(repr=False)
    version: int
    attempt: int
    token: int | None = None


TIDIED: Final = 1000
"""Greatest number of sent messages which a store deletes at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of the outbox, for the ``send`` function.

    Attributes:
        id: unique for the message and equal at every attempt, for receivers which must recognise a repeat.
        body: the body given to ``add``.
        key: messages of one key are sent in order; None: in no order.
        destination: the destination given to ``add``, or None.
        attempt: number of the attempt, from 1.
        token: fencing token of the relay's hold; 0 while locking is switched off.
        position: place in the order of messages.
    """

    id: str
    body: Any = field(repr=False)
    key: str | None = None
    destination: str | None = None
    attempt: int
    token: int
    position: int


class OutboxStore(Protocol):
    """The database of an outbox, for a relay. Every method is one transaction.

    A method keeps the greatest token it was given, and raises ``StaleClaim`` without a write for a smaller token. A
    token of 0 comes while locking is switched off: a method then compares no token, and keeps none.
    With ``asynchronous`` true, methods return awaitables.
    """

    asynchronous: bool

    def claim(self, token: int, limit: int, /) -> Any:
        """Return up to ``limit`` messages (a list of ``Message``) which are due, in order.

        A message which waits for its next attempt is left out, with the later messages of its key.
        """

    def attempt(self, message: Message, /) -> Any:
        """Count the attempt which begins. Return False, and count nothing, unless the message is next.

        A message is next while it is pending and no earlier message of its key is pending.
        """

    def sent(self, message: Message, /) -> Any:
        """Note that the message was sent."""

    def failed(self, message: Message, error: str, /, *, again_in: float | None, stops: bool) -> Any:
        """Note a failure; try again in ``again_in`` seconds, None: the message is poison. ``stops``: stop its key."""

    def tidy(self, token: int, older_than: float, /) -> Any:
        """Delete up to ``TIDIED`` messages sent more than ``older_than`` seconds ago. Return their number."""


class OutboxRelay:
    """Sends the messages of an outbox, one after the other, at least once.

    Args:
        outbox: a ``SqlOutbox``, or another ``OutboxStore``.
        send: a function or coroutine function with a ``Message`` as its argument. A return means sent, an exception
            means failed. Give ``send`` a time-out of its own: nothing else is sent meanwhile.
        attempts: number of attempts at a message, at least 1. After the last one the message is poison: it stays in
            the outbox with its last error.
        backoff: seconds until the second attempt, above 0; doubled for every further attempt.
        longest: greatest number of seconds between two attempts.
        on_poison: ``"skip"``: later messages of the key go on. ``"stop"``: later messages wait until the poisoned
            message is put back or set aside.
        batch: number of messages in one read, from 1 to 10,000.
        keep: seconds, or a timedelta, for which sent messages are kept; None: for ever.

    Raises:
        ConfigurationError: an argument is wrong.

    Example::

        relay = OutboxRelay(SqlOutbox(engine), send)
        with relay.worker(LockClient("AzureWebJobsStorage"), "orders-outbox", every=5):
            serve()
    """

    def __init__(
        self,
        outbox: OutboxStore,
        send: Callable[[Message], Any],
        *,
        attempts: int = 10,
        backoff: Seconds = 1.0,
        longest: Seconds = 300.0,
        on_poison: Literal["skip", "stop"] = "skip",
        batch: int = 100,
        keep: float | timedelta | None = 7 * 86400.0,
    ) -> None:
        if not all(callable(getattr(outbox, name, None)) for name in ("claim", "attempt", "sent", "failed", "tidy")):
            raise ConfigurationError(f"outbox is a value of type {type(outbox).__name__}: give an OutboxStore")
        if not callable(send):
            raise ConfigurationError(
                f"send is {quoted(send)}: give a function, or a coroutine function, that takes a message"
            )
        if on_poison not in {"skip", "stop"}:
            raise ConfigurationError(f"on_poison is {quoted(on_poison)}: give 'skip' or 'stop'")
        self._outbox = outbox
        self._send = send
        self._sends_async = returns_coroutine(send)
        self._attempts = whole(attempts, "attempts", most=1_000_000)
        self._backoff = seconds(backoff, "backoff", above=0)
        self._longest = seconds(longest, "longest", above=0)
        self._stops = on_poison == "stop"
        self._batch = whole(batch, "batch", most=10_000)
        self._keep = None if keep is None else seconds(keep, "keep")

    @property
    def asynchronous(self) -> bool:
        """Whether ``work`` returns a coroutine: true with an asynchronous outbox or ``send``."""
        return self._sends_async or self._outbox.asynchronous

    def work(self, hold: Hold) -> Any:
        """Send the due messages under a hold: in a timer's function, or with a lock of your own.

        Returns:
            None; a coroutine, if ``asynchronous`` is true.

        Raises:
            LockLost: the hold is lost, or a later holder has used the outbox. Nothing was written afterwards.
            ConfigurationError: the hold has no fencing token.
        """
        run = self._run(hold, lambda: False)
        return run if self.asynchronous else at_once(run)

    def worker(
        self, locks: LockClient | AsyncLockClient, name: str, *, every: Seconds = 5.0, owner: str = ""
    ) -> PeriodicWorker:
        """Make a worker which sends the due messages every ``every`` seconds, on one instance at a time.

        Args:
            locks: a lock client.
            name: name of the lock. Every process must use one name for an outbox, and another name for another outbox.
            every, owner: as for ``LockClient.periodic``.
        """

        def work(hold: Hold) -> None:
            at_once(self._run(hold, lambda: worker.stopping))

        async def work_async(hold: Hold) -> None:
            await self._run(hold, lambda: worker.stopping)

        worker = locks.periodic(name, work_async if self.asynchronous else work, every=every, owner=owner)
        return worker

    async def _run(self, hold: Hold, stopping: Callable[[], bool]) -> None:
        token = fencing_token(hold) or 0
        try:
            more = True
            while more and not stopping():
                hold.raise_if_lost()
                batch: list[Message] = await self._ask(self._outbox.claim, token, self._batch)
                more = len(batch) >= self._batch
                await self._send_all(hold, batch, stopping)
            more = self._keep is not None
            while more and not stopping():
                hold.raise_if_lost()
                more = await self._ask(self._outbox.tidy, token, self._keep) >= TIDIED
        except StaleClaim as error:
            text = f"lock {hold.lock!r} had another holder meanwhile: the outbox has seen a greater token than {token}"
            raise LockLost(text, lock=hold.lock, owner=hold.owner, reason="stolen") from error

    async def _send_all(self, hold: Hold, batch: list[Message], stopping: Callable[[], bool]) -> None:
        waiting = set[str]()
        for message in batch:
            if stopping():
                return
            if message.key in waiting:
                continue
            hold.raise_if_lost()
            if not await self._over(hold, message) and message.key is not None:
                waiting.add(message.key)

    async def _over(self, hold: Hold, message: Message) -> bool:
        """Try a message. Tell whether the next message of its key may follow."""
        if message.attempt > self._attempts:
            return await self._failed(message, "the process ended in the middle of the last attempt")
        if not await self._ask(self._outbox.attempt, message):
            return False
        hold.raise_if_lost()
        try:
            with Deciding("send"):  # an exit, or a panic of a library, is an error of this message only
                returned = await (self._send(message) if self._sends_async else self._call(self._send, message))
                if self.asynchronous and inspect.isawaitable(returned):
                    returned = await returned
            refuse_awaitable(returned, "send returned an awaitable: give a coroutine function (async def)")
            refuse_iterator(returned, "send")
        except Exception as error:  # noqa: BLE001 - an error of the user's send
            if isinstance(error, LockLost):  # of the relay's hold, or of another lock which send took
                hold.raise_if_lost()
            return await self._failed(message, told(error))
        await self._ask(self._outbox.sent, message)
        return True

    async def _failed(self, message: Message, error: str) -> bool:
        poison = message.attempt >= self._attempts
        doubled = min(message.attempt - 1, 64)
        again = None if poison else min(self._longest, self._backoff * 2.0**doubled)
        await self._ask(self._outbox.failed, message, error, again_in=again, stops=poison and self._stops)
        if again is not None:
            _log.info("message %s of the outbox failed; trying again in %g s", message.id, again)
            return False
        _log.error(
            "message %s of the outbox failed (attempts: %d), and will not be tried again", message.id, self._attempts
        )
        return not self._stops

    async def _ask(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if self._outbox.asynchronous:
            return await method(*arguments, **named)
        returned = await self._call(method, *arguments, **named)
        refuse_awaitable(returned, "a method of the outbox returned an awaitable: set its asynchronous to True")
        return returned

    async def _call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if not self.asynchronous:
            return function(*arguments, **named)
        what = "send" if function is self._send else "the outbox"
        return await decided_in_thread(what, partial(function, *arguments, **named))


def fencing_token(hold: Hold) -> int | None:
    """Return the token of a hold; None, after a warning, while locking is switched off."""
    if not isinstance(hold, Hold):
        raise ConfigurationError(f"hold is {quoted(hold)}: give a hold, such as current_hold()")
    if hold.token is None and hold.lease_id is not None:
        remedy = "give the hold of a lock without limit= and layout='webjobs', and with fencing_tokens True"
        raise ConfigurationError(f"the hold of {hold.lock!r} has no fencing token: {remedy}")
    if hold.token is None:
        warn_once("locking is switched off (enabled is false): no fencing token guards outboxes and rows meanwhile")
    return hold.token


def whole(value: object, name: str, *, most: int) -> int:
    """Return the argument if it is a whole number from 1 to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ConfigurationError(f"{name} is {quoted(value)}: give a whole number from 1 to {most:,}")
    return value
