"""The outbox: a change of state and a message in one transaction, and a relay that sends the messages later (S-15).

The promise: a message that was committed is sent at least once, and messages of one key in order. A relay is a periodic
worker: one instance works at a time, under a lock. If it was paused past its lease, the database refuses it, because
its fencing token is smaller than one that was seen. The message that it was sending may be sent twice, by it and by its
successor. So a receiver must recognise a message by its id, and may recognise the later sender by the token.

``OutboxStore`` is what a relay asks of a database. ``singleton.patterns.sql`` has it for SQL.
"""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from singleton.base.errors import ConfigurationError, LockLost
from singleton.base.hold import Hold
from singleton.base.naming import log as _log
from singleton.base.tasks import to_its_end
from singleton.base.words import quoted
from singleton.patterns.calling import is_async
from singleton.patterns.rows import StaleClaim
from singleton.patterns.telling import told
from singleton.settings.durations import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from datetime import timedelta

    from singleton.base.kinds import Seconds
    from singleton.client import AsyncLockClient, LockClient
    from singleton.clients.worker import PeriodicWorker

TIDIED: Final = 1000
"""Sent messages that a store deletes at a time, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message, as it is handed to what sends it.

    Attributes:
        id: the same at each attempt, and different for each message, so that the receiver can recognise a repeat.
        body: what was given to ``add``.
        key: messages of one key are sent in order; None: in any order.
        destination: where it goes to, if that was given.
        attempt: which attempt this is, from 1.
        token: fencing token of the relay's hold.
        position: its place in the order.
    """

    id: str
    body: Any = field(repr=False)
    key: str | None = None
    destination: str | None = None
    attempt: int
    token: int
    position: int


class OutboxStore(Protocol):
    """What a relay asks of the database in which the messages are. Each method is one transaction.

    Each keeps the greatest token that it was given, and raises ``StaleClaim`` without a write when its own is smaller.
    Where ``asynchronous`` is true, each returns an awaitable of what it would return.
    """

    asynchronous: bool

    def claim(self, token: int, limit: int, /) -> Any:
        """Return up to ``limit`` messages (a list of ``Message``) that may be sent now, in their order.

        Not among them: one that waits for its next attempt, and those of its key behind it.
        """

    def attempt(self, message: Message, /) -> Any:
        """Count the attempt that begins. Return False, and count nothing, when it is not the message's turn any more.

        It is its turn while it is pending and no earlier message of its key is.
        """

    def sent(self, message: Message, /) -> Any:
        """Note that it was sent."""

    def failed(self, message: Message, error: str, /, *, again_in: float | None, stops: bool) -> Any:
        """Note a failure: again in so many seconds; None: put it aside as poison. ``stops``: with its key."""

    def tidy(self, token: int, older_than: float, /) -> Any:
        """Delete up to ``TIDIED`` messages that were sent more than so many seconds ago. Return how many were."""


class OutboxRelay:
    """Sends the messages of an outbox, one after the other, each at least once.

    Args:
        outbox: where they are: a ``SqlOutbox``, or another ``OutboxStore``.
        send: a function, or a coroutine function, that takes a ``Message``. If it returns, the message is sent; any
            exception is a failure. Give it a time-out of its own: while it runs, nothing else is sent.
        attempts: how often a message is tried, at least 1. After that it is poison: it stays in the outbox with its
            last error.
        backoff: seconds until the second attempt, above 0; doubled for each further one.
        longest: seconds between two attempts, at most.
        on_poison: ``"skip"``: the later messages of its key go on. ``"stop"``: they wait until it is put back, or put
            aside.
        batch: how many messages are read at a time, from 1 to 10,000.
        keep: seconds, or a timedelta, for which sent messages are kept; None: they are never deleted.

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
        self._sends_async = is_async(send)
        self._attempts = whole(attempts, "attempts", most=1_000_000)
        self._backoff = seconds(backoff, "backoff", above=0)
        self._longest = seconds(longest, "longest", above=0)
        self._stops = on_poison == "stop"
        self._batch = whole(batch, "batch", most=10_000)
        self._keep = None if keep is None else seconds(keep, "keep")

    @property
    def asynchronous(self) -> bool:
        """Whether ``work`` returns a coroutine: when the outbox or ``send`` is of that kind."""
        return self._sends_async or self._outbox.asynchronous

    def work(self, hold: Hold) -> Any:
        """Send what is due, under a hold: in a timer's function, or with a lock of your own.

        Returns:
            None; a coroutine, when the outbox or ``send`` is asynchronous.

        Raises:
            LockLost: the hold is lost, or a later holder has been at the outbox. Nothing was written after that.
            ConfigurationError: the hold has no fencing token.
        """
        run = self._run(hold, lambda: False)
        return run if self.asynchronous else _driven(run)

    def worker(
        self, locks: LockClient | AsyncLockClient, name: str, *, every: Seconds = 5.0, owner: str = ""
    ) -> PeriodicWorker:
        """Make the worker that sends what is due every so many seconds, on one instance at a time.

        Args:
            locks: a lock client.
            name: name of the lock: one for each outbox, and never another one for the same.
            every, owner: as for ``LockClient.periodic``.
        """

        def work(hold: Hold) -> None:
            _driven(self._run(hold, lambda: worker.stopping))

        async def work_async(hold: Hold) -> None:
            await self._run(hold, lambda: worker.stopping)

        worker = locks.periodic(name, work_async if self.asynchronous else work, every=every, owner=owner)
        return worker

    # --- one run ------------------------------------------------------------------------------------------------------

    async def _run(self, hold: Hold, stopping: Callable[[], bool]) -> None:
        token = fencing_token(hold)
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
        """Try one message. Tell whether the next one of its key may follow."""
        if message.attempt > self._attempts:
            return await self._failed(message, "the process ended in the middle of the last attempt")
        if not await self._ask(self._outbox.attempt, message):
            return False
        hold.raise_if_lost()
        try:
            returned = await (self._send(message) if self._sends_async else self._call(self._send, message))
        except LockLost:
            raise
        except Exception as error:  # noqa: BLE001 - what a user's send raises
            return await self._failed(message, told(error))
        _refuse_awaitable(returned, "send returned an awaitable: give a coroutine function (async def)")
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

    # --- sync and async -----------------------------------------------------------------------------------------------

    async def _ask(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if self._outbox.asynchronous:
            return await method(*arguments, **named)
        returned = await self._call(method, *arguments, **named)
        _refuse_awaitable(returned, "a method of the outbox returned an awaitable: set its asynchronous to True")
        return returned

    async def _call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if not self.asynchronous:
            return function(*arguments, **named)
        calling = asyncio.ensure_future(asyncio.to_thread(function, *arguments, **named))
        await to_its_end(calling, cancel=False)  # a thread can't be cancelled
        return calling.result()


def _driven(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("nothing waits where neither the outbox nor send does")


def _refuse_awaitable(returned: object, told_so: str) -> None:
    if inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()
        raise ConfigurationError(told_so)


def fencing_token(hold: Hold) -> int:
    """Return the token of a hold; 0 while locking is switched off."""
    if not isinstance(hold, Hold):
        raise ConfigurationError(f"hold is {quoted(hold)}: give a hold, such as current_hold()")
    if hold.token is None and hold.lease_id is not None:
        raise ConfigurationError(f"the hold of {hold.lock!r} has no fencing token: set fencing_tokens to True")
    return hold.token or 0


def whole(value: object, name: str, *, most: int) -> int:
    """Return an argument that must be a whole number from 1 on."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ConfigurationError(f"{name} is {quoted(value)}: give a whole number from 1 to {most:,}")
    return value
