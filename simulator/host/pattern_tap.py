"""See what is asked of ``hold.state``, ``hold.lost``, blocks of ``once``, inboxes, outboxes and Durable's client.

Each use has two records: ``pattern_asked`` before the product is called, so that a kill hides no use, and
``pattern_answered`` with the error, if any. A value is told by its digest. `tap_patterns` must run before the app is
imported: what the product does inside a method, or leaves out, changes nothing in the records.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import re
import sys
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from simulator.expected.declaration import in_seconds
from simulator.history.journal import clock
from simulator.history.pattern_uses import AGAIN, CALLBACK
from simulator.history.value_digest import NOTHING, UNREADABLE, digest
from simulator.host.client_tap import around, watch
from simulator.host.once_runs import tap_runs, worked
from simulator.witness.witness import inbox_name, inbox_rules, invoked
from singleton.base.hold import Hold, LossSignal
from singleton.base.state import State
from singleton.clients.blocks import dropped_at_the_end
from singleton.patterns import durable
from singleton.patterns.once.block import AsyncOnceBlock, AsyncOperation, OnceBlock, Operation
from singleton.patterns.ordered.inbox import Inbox
from singleton.patterns.outbox import OutboxRelay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType
    from typing import TypeAlias

    from simulator.history.journal import Write
    from simulator.witness.witness import Witness
    from singleton.patterns.outbox import Message

    _Use: TypeAlias = tuple[dict[str, Any], Callable[[Any], dict[str, Any]] | None]
    """What is told of a call, and what follows from the returned value."""


def tap_patterns(write: Write, witness: Witness) -> None:
    """Write a record of each use from now on."""
    tap = _Tap(write)
    tap.methods(State, _state_read, "read", "aread")
    tap.methods(State, _state_written, "write", "awrite")
    tap.methods(State, _state_removed, "remove", "aremove")
    for block, enter, leave in ((OnceBlock, "__enter__", "__exit__"), (AsyncOnceBlock, "__aenter__", "__aexit__")):
        tap.methods(block, _once_begun, enter)
        tap.methods(block, _once_left, leave)
        setattr(block, leave, dropped_at_the_end(getattr(block, leave)))
    for operation in (Operation, AsyncOperation):
        tap.methods(operation, _once_finished, "finish")
    tap_runs(write)
    tap.methods(Inbox, _inbox_send, "send", "asend")
    tap.methods(Inbox, _inbox_resend, "resend", "aresend")
    tap.methods(Inbox, _inbox_resumed, "resume", "aresume")
    tap.methods(Inbox, lambda inbox, message: _inbox_resumed(inbox, message.key), "discard", "adiscard")

    def watched(inbox: Inbox, *given: Any, handler: Any = None, **rules: Any) -> None:
        """Watch a handler that is passed to an inbox; functions of ``@ordered`` are watched anyway."""
        for each in [each for each in (handler, *given) if callable(each)][:1]:
            witness.watch_handler(each, inbox_name(inbox), inbox_rules(**rules))

    for name in ("worker", "handle", "ahandle"):  # which call the app's own code
        setattr(Inbox, name, tap.call(getattr(Inbox, name), watched))
    _tap_losses(tap)
    _tap_relays(tap)
    _tap_starts(tap)
    shown: Any = Hold.state

    def state(hold: Hold) -> State:
        given: State = shown.fget(hold)
        if given._lock != hold.lock:  # noqa: SLF001 - nothing else names it
            tap.tell(lambda: ({"of": "other state", "what": given._lock, "name": hold.lock}, None))  # noqa: SLF001
        return given

    Hold.state = property(functools.wraps(shown.fget)(state))  # type: ignore[method-assign,assignment]


def _state_read(state: State, default: Any = None) -> _Use:
    return _of_state(state, "read"), lambda value: {"digest": digest(value), "default": digest(default)}


def _state_written(state: State, value: Any) -> _Use:
    return {**_of_state(state, "write"), "digest": digest(value)}, None


def _state_removed(state: State) -> _Use:
    return {**_of_state(state, "write"), "digest": NOTHING}, None


def _of_state(state: State, what: str) -> dict[str, Any]:
    store: Any = state  # a lock client may have the same name in another container
    for name in ("_keeper", "_fencing", "_store"):
        store = getattr(store, name, None)
    where = getattr(store, "_container", None) or urlsplit(getattr(getattr(store, "container", None), "url", "")).path
    return {"of": "hold.state", "what": what, "name": getattr(state, "_lock", ""), "key": where}


_RELAYS: Final = {name: each.default for name, each in inspect.signature(OutboxRelay).parameters.items()}
_CHANGES: Final = re.compile(
    r"\b(?:UPDATE|DELETE\s+FROM|MERGE\s+INTO|DROP\s+TABLE|TRUNCATE)\s+([^\s(]+)", re.IGNORECASE
)
_MOST: Final = 200
"""Messages of an outbox of which one look tells."""
_OFTEN: Final = 0.5
"""Seconds in which one record of the app's own changes of a table is enough."""

_containers: Final[dict[int, str]] = {}
"""The containers of operations by their ids: an operation takes no further attribute."""


def _once_begun(block: OnceBlock | AsyncOnceBlock) -> _Use:
    place = getattr(block._client, "_place", None)  # noqa: SLF001 - the container, which no user asks a client for
    where = "" if place is None else f"{urlsplit(place.account.endpoint).path}/{place.container}"

    def found(operation: Operation | AsyncOperation) -> dict[str, Any]:
        _containers[id(operation)] = where
        if not operation.done:
            return {"digest": NOTHING}
        try:
            return {"digest": digest(operation.result)}
        except Exception:  # noqa: BLE001 - the result could not be kept
            return {"digest": UNREADABLE}

    return {"of": "once", "what": "read", "name": block.lock, "key": block.key, "where": where}, found


def _once_left(block: OnceBlock | AsyncOnceBlock, kind: type[BaseException] | None = None, *_: Any) -> _Use | None:
    """Tell of what a block keeps at its end: nothing after an error, or if the app has called ``finish``."""
    return None if kind is not None or block._operation.done else _once_finished(block._operation)  # noqa: SLF001


def _once_finished(operation: Operation | AsyncOperation, result: Any = None) -> _Use | None:
    if getattr(_used.get(), "_operation", None) is operation:
        return None  # by the product, as its block ends
    where = _containers.get(id(operation), "")
    about = {"of": "once", "what": "write", "name": operation.lock, "key": operation.key, "where": where}
    return {**about, "digest": worked(result), "keep": getattr(operation, "_keep", None)}, None


def _inbox_send(inbox: Inbox, key: str, body: Any) -> _Use:
    queue = getattr(inbox.service, "_queue", "")
    about = {"of": "inbox", "what": "send", "name": inbox_name(inbox), "key": key, "queue": queue}
    return {**about, "digest": digest(body)}, None


def _inbox_resend(inbox: Inbox, message: Any) -> _Use:
    return _inbox_send(inbox, message.key, message.body)


def _inbox_resumed(inbox: Inbox, key: str, **_: Any) -> _Use:
    return {"of": "resumed inbox", "what": "resume", "name": inbox_name(inbox), "key": key}, None


def _tap_losses(tap: _Tap) -> None:
    """Tell of each long wait of a body for the loss of a hold, and of each of the app's callbacks until its call."""

    def heard(answer: Any) -> dict[str, Any]:
        return {"digest": NOTHING if answer in {None, False} else str(answer)}

    def use(what: str) -> Callable[..., _Use | None]:
        def told(signal: LossSignal, timeout: float | None = None) -> _Use | None:
            about = {"of": "hold.lost", "what": what, "name": signal._whose[0]}  # noqa: SLF001 - nothing else names it
            long = timeout is None or timeout > _SHORT
            return (about, heard) if long and invoked.get() else None

        return told

    adding = LossSignal.add_callback

    @functools.wraps(adding)
    def added(signal: LossSignal, callback: Callable[[Any], None]) -> Callable[[], None]:
        if str(sys._getframe(1).f_globals.get("__name__")).startswith("singleton."):  # noqa: SLF001 - not the app's
            return adding(signal, callback)
        uncalled, where = ExitStack(), copy_context()
        answer = uncalled.enter_context(tap.told(use(CALLBACK), (signal,), {}))

        def called(reason: Any) -> None:
            if answer:
                where.copy().run(tap.tell, use(AGAIN), signal)
            answer.append(reason)
            uncalled.close()
            callback(reason)

        forget = adding(signal, called)

        def forgotten() -> None:
            uncalled.close()  # without an answer
            forget()

        return forgotten

    tap.methods(LossSignal, use("hold.lost.wait()"), "wait")
    tap.methods(LossSignal, use("an await of hold.lost"), "_wait_async")
    LossSignal.add_callback = added  # type: ignore[method-assign,assignment]


_SHORT: Final = 1.0
"""Seconds of a wait after which its caller looks at the hold anyway."""


def _tap_relays(tap: _Tap) -> None:
    """Tell of each message that a relay sends, and of each that it notes as sent."""
    real = OutboxRelay.__init__

    @functools.wraps(real)
    def tapped(relay: OutboxRelay, outbox: Any, send: Any, **more: Any) -> None:
        relays: list[dict[str, Any]] | None = getattr(outbox, "_witnessed", None)
        if relays is None:
            relays = outbox._witnessed = []  # noqa: SLF001 - the rules of each, in an attribute of this module's
        name, rules = _outbox_name(outbox), {**_RELAYS, **more}

        def use(what: str) -> Callable[..., _Use]:
            def told(message: Message, *_: Any, **how: Any) -> _Use:
                does = "again" if how.get("again_in") is not None else what
                stops = hasattr(outbox, "set_aside") and all(each["on_poison"] == "stop" for each in relays)
                does = "stopped" if does == "failed" and stops else does
                about = {"what": does, "name": name, "id": message.id, **_content(message.body, message.key)}
                about |= {"where": message.destination, "place": message.position}
                about |= {"attempt": message.attempt, "token": message.token}
                about |= {"keep": _pause(rules, message.attempt) if all(each == rules for each in relays) else None}
                return {**about, "left": rules["attempts"] - message.attempt}, None

            return told

        def noting(method: str) -> None:
            noted = getattr(outbox, method, None)
            if callable(noted):
                setattr(outbox, method, tap.call(noted, use(method)))

        if not relays:
            noting("sent")
            noting("failed")
        relays.append(rules)
        real(relay, outbox, tap.call(send, use("send")) if callable(send) else send, **more)

    OutboxRelay.__init__ = tapped  # type: ignore[method-assign, assignment]


def _pause(rules: Mapping[str, Any], attempt: int) -> float | None:
    """Return for how long a relay with these rules lets a message rest after a failed attempt."""
    longest, first = in_seconds(rules["longest"]), in_seconds(rules["backoff"])
    return None if longest is None or first is None else min(longest, first * 2.0 ** min(attempt - 1, 64))


def _tap_starts(tap: _Tap) -> None:
    """Tell of each look at an instance, and of each start, that `start_singleton` asks a client for."""
    real = durable.start_singleton

    class WatchedClient:
        def __init__(self, client: Any, instance: Any) -> None:
            self._client = client
            self._about = {"of": "instance", "name": str(instance), "id": tap.number()}

        def __getattr__(self, name: str) -> Any:
            method = getattr(self._client, name)
            return tap.call(method, lambda *_, **__: ({**self._about, "what": name}, None))

    @functools.wraps(real)
    async def started(client: Any, orchestrator: Any, instance_id: Any, *args: Any, **more: Any) -> Any:
        known = hasattr(client, "get_status") and hasattr(client, "start_new")
        watched = WatchedClient(client, instance_id) if known else client
        return await real(watched, orchestrator, instance_id, *args, **more)

    durable.start_singleton = started


def _content(body: Any, key: str | None) -> dict[str, Any]:
    """Return what is told of a message of an outbox; its table may change what is no text."""
    return {"of": "outbox", "key": key, "digest": digest(body) if isinstance(body, str) else UNREADABLE}


def _added(outbox: Any, _: Any, body: Any, *, key: Any = None, destination: Any = None, **__: Any) -> _Use:
    about = {"what": "add", "name": _outbox_name(outbox), "where": destination, **_content(body, key)}
    return about, lambda added: {"id": added}


def _resumed(outbox: Any, id: str) -> _Use:  # noqa: A002 - the product's name
    return {"of": "outbox", "what": "resume", "name": _outbox_name(outbox), "id": id}, None


def tap_rows(write: Write) -> None:
    """Tell what is claimed in tables, what becomes of it, and what is added, if the app has imported the patterns.

    A look tells what a claimer found, and for how many more there was room: none, if the app claims some rows only. A
    touch is a change of a table by which the app itself may have ended work, or begun it anew. What an outbox has left
    is read in the transaction of each claim of its relay.
    """
    module, boxes = (sys.modules.get(f"singleton.patterns.sql.{name}") for name in ("rowstates", "sql_outbox"))
    tap = _Tap(write)

    @contextmanager
    def keeping(box: Any, connection: Any, *_: Any) -> Iterator[list[Any]]:
        from sqlalchemy import select

        yield []
        if hasattr(box, "_witnessed"):  # its relay tells what it sends
            table = box.table.c
            left = connection.execute(select(table.id).where(table.state != "sent").limit(_MOST)).scalars().all()
            with tap.told(_look, ("left", box, _MOST, None, str), {}) as found:
                found.append(left)

    for box in () if boxes is None else (boxes.SqlOutbox, boxes.AsyncSqlOutbox):
        watch(box, keeping, "_claim")
        tap.methods(box, _added, "add")
        tap.methods(box, _resumed, "put_back", "set_aside")
        tap.methods(box, lambda box, token, limit: _look("outbox", box, limit, token, lambda each: each.id), "claim")

    @contextmanager
    def claiming(rows: Any, limit: int = 1, *, token: Any = None) -> Iterator[list[Any]]:
        room, number = limit if rows._where is None else 0, getattr(token, "token", token)  # noqa: SLF001 - the app's
        with tap.told(_look, ("rows", rows, room, number, _row), _stage(rows)) as answer:
            yield answer
        for claim in answer[0]:
            with tap.told(functools.partial(_of_row, "claim"), (rows, claim), {}) as got:
                got.append(claim)

    for owner in () if module is None else (module.RowStates, module.AsyncRowStates):
        watch(owner, claiming, "claim")
        for what in ("done", "failed", "give_back", "renew"):
            tap.methods(owner, functools.partial(_of_row, what), what)
        tap.methods(owner, lambda rows, *_, **__: (_touch("put_back", _outbox_name(rows)), None), "put_back")
    if module or boxes:
        _tap_changes(tap)


def _row(claim: Any) -> str:
    return repr([*claim.key.values()])


def _stage(rows: Any) -> dict[str, str]:
    """Tell of the columns and states of claimers: a table may have several, one for each stage of its rows."""
    return {"where": digest(repr([[*map(str, rows._column.values())], rows._state]))}  # noqa: SLF001 - as the app gave it


def _touch(what: str, name: str) -> dict[str, str]:
    return {"of": "touch", "what": what, "name": name}


def _look(what: str, store: Any, limit: int, token: Any, key: Callable[[Any], str], *, where: str = "") -> _Use:
    about: dict[str, Any] = {"of": "look", "what": what, "name": _outbox_name(store), "where": where}
    about |= {"token": token} if type(token) is int else {}
    return about, lambda found: {"found": [key(each) for each in found], "left": limit - len(found)}


def _of_row(what: str, rows: Any, claim: Any, *_: Any, retry_in: Any = 0.0, connection: Any = None, **__: Any) -> _Use:
    about = {"of": "rows", "what": what, "name": _outbox_name(rows), "key": _row(claim), "place": claim.version}
    if what != "failed":
        return {**about, "keep": rows._stuck_after}, None  # noqa: SLF001 - as the app gave it
    if connection is not None:
        return about, None  # in a transaction of the app's, of whose end nothing is known
    left = rows._attempts - claim.attempt  # noqa: SLF001 - as the app gave it
    about |= {"attempt": claim.attempt, "left": left, "token": claim.token, **_stage(rows)}
    return {**about, "keep": in_seconds(retry_in)}, None


def _tap_changes(tap: _Tap) -> None:
    """Tell of the tables that the app itself changes."""
    from sqlalchemy import Engine, event

    told: dict[str, float] = {}

    def changing(_: Any, __: Any, statement: str, *___: Any) -> None:
        table = re.sub(r"[\"`\[\]]", "", found[1]).rpartition(".")[2] if (found := _CHANGES.search(statement)) else ""
        if table and clock() - told.get(table, -_OFTEN) >= _OFTEN and not _is_products():
            told[table] = clock()
            tap.tell(lambda: (_touch("SQL", table), None))

    event.listen(Engine, "before_cursor_execute", changing)


def _is_products() -> bool:
    """Tell whether the calling code was called by the product."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - only the frames tell
    while frame is not None and not str(frame.f_globals.get("__name__")).startswith("singleton.patterns.sql."):
        frame = frame.f_back
    return frame is not None


def _outbox_name(outbox: Any) -> str:
    """Name an outbox by its table and database; one whose database is not known, by this process and the object."""
    table, url = getattr(outbox, "table", None), getattr(getattr(outbox, "_engine", None), "url", None)
    if table is None or url is None or url.database in {None, "", ":memory:"}:
        return f"{type(outbox).__name__} {id(outbox)} of process {os.getpid()}"
    return f"{table.fullname} in {url}"  # without the password


_used: ContextVar[object] = ContextVar("simulated_use", default=None)
"""The object of which a method runs that is told."""


class _Tap:
    """Puts what tells of each call in the place of functions."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._numbers = itertools.count(1)

    def number(self) -> str:
        """Return the next number, which no other process has."""
        return f"{os.getpid()}-{next(self._numbers)}"

    def methods(self, owner: type, use: Callable[..., _Use | None], *names: str) -> None:
        """Tell of each call of these methods by the app from now on, and not of a call within another of the object."""

        @contextmanager
        def watching(thing: Any, *args: Any, **kwargs: Any) -> Iterator[list[Any]]:
            outer = _used.get()
            with self.told((lambda *_, **__: None) if thing is outer else use, (thing, *args), kwargs) as answer:
                _used.set(thing)
                try:
                    yield answer
                finally:
                    _used.set(outer)

        watch(owner, watching, *names)

    def call(self, real: Callable[..., Any], use: Callable[..., _Use | None]) -> Callable[..., Any]:
        """Return a function that tells of each call what ``use`` says of the call: None if there is nothing to tell."""
        return around(real, lambda *args, **kwargs: self.told(use, args, kwargs))

    def tell(self, use: Callable[..., _Use | None], *args: Any) -> None:
        """Tell of a call that is over."""
        with self.told(use, args, {}):
            pass

    @contextmanager
    def told(
        self, use: Callable[..., _Use | None], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Iterator[list[Any]]:
        """Tell that a call begins, and at the end of the block how it ended, with the value in the block's list."""
        try:
            told = use(*args, **kwargs)
        except (TypeError, ValueError):  # wrong arguments: the call itself raises
            told = None
        if told is None:
            yield []
            return
        about, found = told
        number = self.number()
        self._write("pattern_asked", number=number, invocation=invoked.get(), **about)
        answer: list[Any] = []
        try:
            yield answer
        except BaseException as error:
            why = {"error": type(error).__name__, "reason": getattr(error, "reason", None)}
            self._write("pattern_answered", number=number, **why)
            raise
        self._write("pattern_answered", number=number, **(found(answer[0]) if found and answer else {}))
