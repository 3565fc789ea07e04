"""See what user code asks of ``hold.state``, blocks of ``once``, inboxes and outboxes, at the boundary to the product.

Each use has two records: ``pattern_asked`` before the product is called, so that a kill hides no use, and
``pattern_answered`` with the error, if any. A value is told by its digest. `tap_patterns` must run before the app is
imported: what the product does inside a method, or leaves out, changes nothing in the records.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from simulator.history.value_digest import NOTHING, UNREADABLE, digest
from simulator.witness.witness import inbox_name, invoked
from singleton.base.state import State
from singleton.patterns.once.block import AsyncOnceBlock, AsyncOperation, OnceBlock, Operation
from singleton.patterns.ordered.inbox import Inbox
from singleton.patterns.outbox import OutboxRelay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from simulator.history.journal import Write
    from simulator.witness.witness import Witness
    from singleton.patterns.outbox import Message


def tap_patterns(write: Write, witness: Witness) -> None:
    """Write a record of each use from now on."""
    tap = _Tap(write)
    for name, way in {"read": "aread", "write": "awrite", "remove": "aremove"}.items():
        for method in (name, way):
            tap.method(State, method, getattr(_StateUse, name))
    for block, operation in ((OnceBlock, Operation), (AsyncOnceBlock, AsyncOperation)):
        tap.method(block, "__enter__" if block is OnceBlock else "__aenter__", _once_begun)
        tap.method(operation, "finish", _once_finished)
    for method in ("send", "asend"):
        tap.method(Inbox, method, _inbox_send)
    for method in ("resend", "aresend"):
        tap.method(Inbox, method, _inbox_resend)
    for method in ("worker", "handle", "ahandle"):
        _watch_handlers(method, witness)
    _tap_relays(tap)


class _StateUse:
    """What is told of each use of ``hold.state``."""

    @staticmethod
    def read(state: State, default: Any = None) -> tuple[dict[str, Any], Callable[[Any], dict[str, Any]]]:
        return _of_state(state, "read"), lambda value: {"digest": digest(value), "default": digest(default)}

    @staticmethod
    def write(state: State, value: Any) -> tuple[dict[str, Any], None]:
        return {**_of_state(state, "write"), "digest": digest(value)}, None

    @staticmethod
    def remove(state: State) -> tuple[dict[str, Any], None]:
        return {**_of_state(state, "write"), "digest": NOTHING}, None


def _of_state(state: State, what: str) -> dict[str, Any]:
    where: Any = state  # a lock client may have the same name in another container
    for name in ("_keeper", "_fencing", "_store", "_container"):
        where = getattr(where, name, "")
    return {"of": "hold.state", "what": what, "name": getattr(state, "_lock", ""), "key": str(where)}


def _once_begun(block: OnceBlock | AsyncOnceBlock) -> tuple[dict[str, Any], Callable[[Any], dict[str, Any]]]:
    def found(operation: Operation | AsyncOperation) -> dict[str, Any]:
        if not operation.done:
            return {"digest": NOTHING}
        try:
            return {"digest": digest(operation.result)}
        except Exception:  # noqa: BLE001 - the result could not be kept
            return {"digest": UNREADABLE}

    return {"of": "once", "what": "read", "name": block.lock, "key": block.key}, found


def _once_finished(operation: Operation | AsyncOperation, result: Any = None) -> tuple[dict[str, Any], None]:
    about = {"of": "once", "what": "write", "name": operation.lock, "key": operation.key}
    return {**about, "digest": digest(result), "keep": getattr(operation, "_keep", None)}, None


def _inbox_send(inbox: Inbox, key: str, body: Any) -> tuple[dict[str, Any], None]:
    queue = getattr(inbox.service, "_queue", "")
    about = {"of": "inbox", "what": "send", "name": inbox_name(inbox), "key": key, "queue": queue}
    return {**about, "digest": digest(body)}, None


def _inbox_resend(inbox: Inbox, message: Any) -> tuple[dict[str, Any], None]:
    return _inbox_send(inbox, message.key, message.body)


def _watch_handlers(method: str, witness: Witness) -> None:
    """Watch the handlers that are passed to a method of inboxes; functions of ``@ordered`` are watched anyway."""
    real = getattr(Inbox, method)
    signature = inspect.signature(real)

    @functools.wraps(real)
    def tapped(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        witness.watch_handler(given["handler"], inbox_name(given["self"]))
        return real(*args, **kwargs)

    setattr(Inbox, method, tapped)


def _tap_relays(tap: _Tap) -> None:
    """Tell of each message that a relay sends, and of each that it notes as sent."""
    real = OutboxRelay.__init__

    @functools.wraps(real)
    def tapped(relay: OutboxRelay, outbox: Any, send: Any, **more: Any) -> None:
        name = _outbox_name(outbox)

        def use(what: str) -> Callable[..., tuple[dict[str, Any], None]]:
            def told(message: Message, *_: Any, **how: Any) -> tuple[dict[str, Any], None]:
                does = "again" if how.get("again_in") is not None else what
                about = {"of": "outbox", "what": does, "name": name, "key": message.key, "id": message.id}
                return {**about, "place": message.position}, None

            return told

        def noting(method: str) -> None:
            noted = getattr(outbox, method, None)
            if callable(noted):
                setattr(outbox, method, tap.call(noted, use(method)))

        if not hasattr(outbox, "_witnessed"):
            noting("sent")
            noting("failed")
            outbox._witnessed = True  # noqa: SLF001 - an attribute of this module's
        real(relay, outbox, tap.call(send, use("send")) if callable(send) else send, **more)

    OutboxRelay.__init__ = tapped  # type: ignore[method-assign, assignment]


def _outbox_name(outbox: Any) -> str:
    """Name an outbox by its table and database; one whose database is not known, by this process and the object."""
    table, url = getattr(outbox, "table", None), getattr(getattr(outbox, "_engine", None), "url", None)
    if table is None or url is None or url.database in {None, "", ":memory:"}:
        return f"{type(outbox).__name__} {id(outbox)} of process {os.getpid()}"
    return f"{table.fullname} in {url}"  # without the password


class _Tap:
    """Puts what tells of each call in the place of functions."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._numbers = itertools.count(1)

    def method(self, owner: type, name: str, use: Callable[..., Any]) -> None:
        """Tell of each call of a method from now on."""
        setattr(owner, name, self.call(getattr(owner, name), use))

    def call(self, real: Callable[..., Any], use: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that tells of each call; ``use`` says what, and what follows from the returned value."""
        if inspect.iscoroutinefunction(inspect.unwrap(real)):

            @functools.wraps(real)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                with self._told(use, args, kwargs) as answer:
                    answer.append(await real(*args, **kwargs))
                return answer[0]

            return awaited

        @functools.wraps(real)
        def called(*args: Any, **kwargs: Any) -> Any:
            with self._told(use, args, kwargs) as answer:
                answer.append(real(*args, **kwargs))
            return answer[0]

        return called

    @contextmanager
    def _told(self, use: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[list[Any]]:
        try:
            about, found = use(*args, **kwargs)
        except TypeError:  # wrong arguments: the call itself raises
            yield []
            return
        number = f"{os.getpid()}-{next(self._numbers)}"
        self._write("pattern_asked", number=number, invocation=invoked.get(), **about)
        answer: list[Any] = []
        try:
            yield answer
        except BaseException as error:
            self._write("pattern_answered", number=number, error=type(error).__name__)
            raise
        self._write("pattern_answered", number=number, **(found(answer[0]) if found else {}))
