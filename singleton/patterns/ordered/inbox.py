"""An inbox: messages with keys; messages of one key are handled in the order sent.

A worker loads an app with an inbox without the modules of its work: they are imported when they are first used.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from singleton.base.callables import returns_coroutine
from singleton.base.errors import ConfigurationError
from singleton.base.forks import cached_property, importing
from singleton.base.words import quoted
from singleton.patterns.ordered.bell_queue import BellQueue
from singleton.patterns.ordered.messages import check_number, checked_rules
from singleton.settings.argument_names import with_explained_arguments
from singleton.settings.durations import seconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from singleton.base.kinds import Seconds
    from singleton.base.state import Json
    from singleton.defer.trigger_queue import Encoding
    from singleton.patterns.ordered.aside_messages import AsideMessage
    from singleton.patterns.ordered.inbox_worker import InboxWorker
    from singleton.patterns.ordered.messages import InboxMessage, OnPoison, Rules
    from singleton.patterns.ordered.operators import StoppedKey
    from singleton.patterns.ordered.service import Service
    from singleton.runtime.calls import Calls, Locks, Work

_T = TypeVar("_T")


@with_explained_arguments
class Inbox:
    """Messages of one key in the order sent, with one consumer of a key at a time; different keys run in parallel.

    Service Bus calls this sessions. Send from anywhere; handle in a Functions app with ``@ordered``, elsewhere with
    ``worker`` or ``handle``. Senders and consumers must use one inbox name, account and container.

    ``send``, ``look`` and the other plain methods block the thread; ``asend``, ``alook`` … are coroutines.

    Args:
        name: from 3 to 63 lower-case letters, digits and dashes, as in a queue's name.
        connection: app setting of the storage account, or prefix of its settings; or a connection string.
        queue: queue for the inbox's notices (its bells), used by this inbox only; by default the inbox's name.
        encoding: encoding of the bells, equal to ``messageEncoding`` in the consumer's host.json.
        options: options of the locks, for example container and lease period; by default ``SingletonOptions()``.

    Raises:
        ConfigurationError: an argument is wrong.

    Example::

        inbox = Inbox("orders")
        inbox.send("customer-7", {"order": 12})
    """

    def __init__(
        self,
        name: str,
        connection: str = "AzureWebJobsStorage",
        *,
        queue: str | None = None,
        encoding: Encoding = "base64",
        options: Any = None,
    ) -> None:
        self.name = _checked_name("name", name)
        if encoding not in ("base64", "none"):
            raise ConfigurationError(f'encoding is {quoted(encoding)}: give "base64" or "none"')
        queue = name if queue is None else _checked_name("queue", queue)
        self.bells = BellQueue(name, _checked_text("connection", connection).strip(), queue, encoding)
        self._options = options

    @cached_property
    def service(self) -> Service:
        """The inbox in this process."""
        with importing:
            from singleton.patterns.ordered.service import Service

        return Service(self.bells, self._options)

    def __repr__(self) -> str:
        return f"Inbox({self.name!r})"

    def send(self, key: str, body: Json | bytes) -> None:
        """Send a message. On return the message is stored, behind the earlier messages of its key.

        Args:
            key: a text, for example of a customer, a device, an account: messages with it are handled in order.
            body: a value of JSON with at most 500 levels of nesting, or bytes; a bit less than 4 MiB.

        Raises:
            TypeError, ValueError: the body is neither JSON nor bytes, too long, or nested too deeply.
            StorageError: the storage refuses.
            StorageUnavailable: the storage did not answer for 30 seconds. It is not known whether the message was sent.
        """
        self._do(self._sending(key, body))

    async def asend(self, key: str, body: Json | bytes) -> None:
        """See ``send``."""
        await self._ado(self._sending(key, body))

    def _sending(self, key: str, body: Json | bytes) -> Work[None]:
        with importing:
            from singleton.patterns.ordered.entries import Entry, checked_body

        spot = self._spot(key)
        kind, content = checked_body(key, body)
        entry = Entry("", 0, key, kind, content)
        return partial(self.service.send, spot, entry)

    def handle(
        self,
        bell: Any,
        handler: Callable[[InboxMessage], object],
        *,
        attempts: int = 5,
        on_poison: OnPoison = "skip",
    ) -> None:
        """Handle the messages of a bell: for a receive loop of your own. ``worker`` has a receive loop.

        On return, delete the bell; after an error, leave the bell in the queue.

        Args:
            bell: the queue message, or its text.
            handler: called with the messages in order.
            attempts, on_poison: as for ``ordered``.

        Raises:
            ConfigurationError: the message is no bell of this inbox, or the handler is a coroutine function.
            Exception: the handler's error. The failed message is tried again later: the bell may be deleted.
            LockLost: the key's lock was lost; another consumer goes on with the key.
            StorageError: the storage refuses, or does not answer.
        """
        rules = checked_rules(attempts, on_poison)
        if returns_coroutine(handler):
            raise ConfigurationError("handler is a coroutine function: give a plain function, or await ahandle")
        with importing:
            from singleton.runtime.calls import SyncLocks, at_once

        at_once(self._answered(SyncLocks(self._lock_thread()), bell, handler, rules, is_async=False))

    async def ahandle(
        self,
        bell: Any,
        handler: Callable[[InboxMessage], Awaitable[object]],
        *,
        attempts: int = 5,
        on_poison: OnPoison = "skip",
    ) -> None:
        """See ``handle``. The handler is cancelled if the key's lock is lost."""
        await self._answered(self._lock_thread(), bell, handler, checked_rules(attempts, on_poison), is_async=True)

    async def _answered(
        self,
        locks: Locks,
        message: Any,
        handler: Callable[[InboxMessage], object],
        rules: Rules,
        *,
        is_async: bool,
    ) -> None:
        with importing:
            from singleton.patterns.ordered.bells import bell_in
            from singleton.patterns.ordered.visit import SpareBell, Visit

        bell = bell_in(message, self.name)
        spare = SpareBell(self.service, locks, bell)
        outcome = await Visit(self.service, locks, bell, handler, rules, spare, is_async).made()
        if outcome.error is not None:
            raise outcome.error

    def worker(
        self,
        handler: Callable[[InboxMessage], object],
        *,
        attempts: int = 5,
        on_poison: OnPoison = "skip",
        keys: int = 8,
        look_every: Seconds = 30.0,
    ) -> InboxWorker:
        """Make a worker which handles messages until it is stopped, outside of Functions.

        Args:
            handler: a function or coroutine function, called with every message.
            attempts, on_poison: as for ``ordered``.
            keys: greatest number of keys which the worker handles at a time.
            look_every: seconds between two looks for forgotten messages, over the workers of the inbox together.

        Raises:
            ConfigurationError: an argument is wrong.

        Example::

            with inbox.worker(ship):
                serve()
        """
        with importing:
            from singleton.patterns.ordered.inbox_worker import InboxWorker

        rules = checked_rules(attempts, on_poison)
        if not callable(handler):
            raise ConfigurationError(f"handler is {quoted(handler)}: give a function, or a coroutine function")
        check_number("keys", keys)
        every = seconds(look_every, "look_every", above=0)
        return InboxWorker(self.service, handler, rules, keys=keys, every=every, is_async=returns_coroutine(handler))

    def look(self) -> int:
        """Send a bell for every key with unhandled messages; return the number of keys. Call ``look`` now and then.

        If a sender dies between its message and its bell, no consumer knows of the message. Workers call ``look``
        automatically; a Functions app needs a timer.

        Raises:
            StorageError: the storage refuses, or does not answer.
        """
        return self._do(self.service.look)

    async def alook(self) -> int:
        """See ``look``."""
        return await self._ado(self.service.look)

    def stopped(self) -> list[StoppedKey]:
        """Return the keys stopped by ``on_poison="stop"``."""
        return self._do(self._operation("stopped"))

    async def astopped(self) -> list[StoppedKey]:
        """See ``stopped``."""
        return await self._ado(self._operation("stopped"))

    def resume(self, key: str, *, skip: bool = False) -> None:
        """Let a stopped key go on: its failed message is tried again at once, also if it waits for its next attempt.

        Args:
            key: the key.
            skip: first put aside the first unhandled message.

        Raises:
            LockNotAcquired: a consumer had the key for half a minute.
            StorageError: the storage refuses, or does not answer.
        """
        self._do(self._operation("resume", self._spot(key), skip=skip))

    async def aresume(self, key: str, *, skip: bool = False) -> None:
        """See ``resume``."""
        await self._ado(self._operation("resume", self._spot(key), skip=skip))

    def aside(self) -> list[AsideMessage]:
        """Return the messages which failed too often and were put aside."""
        with importing:
            from singleton.patterns.ordered.aside_messages import that_is_aside

        return self._do(partial(that_is_aside, self.service))

    async def aaside(self) -> list[AsideMessage]:
        """See ``aside``."""
        with importing:
            from singleton.patterns.ordered.aside_messages import that_is_aside

        return await self._ado(partial(that_is_aside, self.service))

    def resend(self, message: AsideMessage) -> None:
        """Send again, once, a message which was put aside, behind the other messages of its key."""
        self._do(self._operation("resend", message))

    async def aresend(self, message: AsideMessage) -> None:
        """See ``resend``."""
        await self._ado(self._operation("resend", message))

    def discard(self, message: AsideMessage) -> None:
        """Delete a message which was put aside."""
        self._do(self._operation("discard", message))

    async def adiscard(self, message: AsideMessage) -> None:
        """See ``discard``."""
        await self._ado(self._operation("discard", message))

    def _operation(self, name: str, *arguments: Any, **options: Any) -> Work[Any]:
        """Return the work of an operator's command."""
        with importing:
            from singleton.patterns.ordered import operators

        return partial(getattr(operators, name), self.service, *arguments, **options)

    def _spot(self, key: str) -> str:
        try:
            return self.service.names.spot(_checked_text("key", key))
        except UnicodeEncodeError as error:
            raise ConfigurationError(f"key is {quoted(key)}: give a text that can be written in UTF-8") from error

    def _do(self, work: Work[_T]) -> _T:
        return self._lock_thread().call(work)

    async def _ado(self, work: Work[_T]) -> _T:
        return await self._lock_thread().call_async(work)

    def _lock_thread(self) -> Calls:
        with importing:
            from singleton.runtime.lock_thread import runtime

        _ = self.service  # which needs the SDK of queues: the lock thread loads it before its start
        return runtime()


def _checked_text(what: str, text: object) -> str:
    if not isinstance(text, str) or not text.strip():
        raise ConfigurationError(f"{what} is {quoted(text)}: give a text")
    return text


def _checked_name(what: str, name: object) -> str:
    if isinstance(name, str) and 3 <= len(name) <= 63:
        parts = name.split("-")
        if all(each.isascii() and each.isalnum() and each == each.lower() for each in parts):
            return name
    raise ConfigurationError(
        f"{what} is {quoted(name)}: give from 3 to 63 lower-case letters, digits and single dashes"
    )
