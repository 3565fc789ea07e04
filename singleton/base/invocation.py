"""For which invocation a line is logged.

The Functions host drops lines that a worker logs without the id of a current invocation, and locks live on a thread
that belongs to no invocation. So an invocation is noted at its begin, and kept with its waits and holds. A line about a
wait or hold is logged under the invocation's id, in the ways in which the workers find the id for a thread (facts §6).

Without a Functions worker no invocation exists, and a line is logged without an id.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import threading
import traceback
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from singleton.base.callables import refuse_awaitable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextvars import Context, Token

_IN_A_TASK: Final = "__azure_function_invocation_id__"
"""The attribute by which the worker's log handler knows the tasks of an invocation."""


class Invocation:
    """One invocation of a function: a block which works for the invocation, until its end. Enter once.

    In the block of another invocation everything belongs to the outer one: the host knows nothing of the inner.

    Attributes:
        id: as the host calls it; None: nobody's.
        function: name of its function; "": not known.
        storage: the worker's ``context.thread_local_storage``, or None.
        scope: value of the scope of its lock; "": without a scope, or not to be shown.
        since: when the invocation began, by the lock thread's clock; None: not yet known to the lock thread.
        over: whether the invocation has ended: no more lines are logged in its name.
    """

    __slots__ = ("_token", "function", "id", "over", "scope", "since", "storage")

    def __init__(
        self,
        id: str | None = None,  # noqa: A002 - what it is
        storage: Any = None,
        function: str = "",
        scope: str = "",
    ) -> None:
        self.id = id or None
        self.function = function
        self.scope = scope
        self.storage = storage
        self.since: float | None = None
        self.over = False
        self._token: Token[Invocation | None] | None = None

    def __enter__(self) -> None:
        if current() is None:
            self._token = _current.set(self)

    def __exit__(self, *_: object) -> None:
        token, self._token = self._token, None  # a token keeps its context, and a lease keeps the invocation
        if token is not None:
            self.over = True
            _current.reset(token)


_NOBODY: Final = Invocation()
_current: ContextVar[Invocation | None] = ContextVar("singleton_invocation", default=None)


def current() -> Invocation | None:
    """Return the invocation of the running code; None: no invocation, or an ended invocation."""
    known = _current.get()
    return None if known is None or known is _NOBODY or known.over else known


class SpeakingOf:
    """A block that logs in the name of this invocation. Enter once.

    A generator would take nearly three times as long, and every request for a lock enters several blocks.
    """

    __slots__ = ("_invocation", "_token")

    def __init__(self, invocation: Invocation | None) -> None:
        self._invocation = invocation or _NOBODY
        self._token: Token[Invocation | None]

    def __enter__(self) -> None:
        self._token = _current.set(self._invocation)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def speak_of(invocation: Invocation | None) -> None:
    """Log in the name of this invocation from now on."""
    _current.set(invocation or _NOBODY)


def speak_in(context: Context) -> None:
    """Log in a copy of the caller's context in the name of the caller's invocation, also without a guard."""
    if _current.get() is None:
        context.run(speak_of, _told_by_the_worker())


_OF_THE_CALL: Final = ("created", "msecs", "relativeCreated", "thread", "threadName", "taskName")
"""Attributes of a record which tell when and where a line was logged. Python 3.11 has no ``taskName``."""


class _Log(logging.LoggerAdapter[logging.Logger]):
    """The logger of this package; each line goes out in the name of the invocation that it is about.

    Where lines are handed to the log thread, nothing of the app's runs before: no filter, record factory or handler.
    No mutex of ``logging`` is taken either. An interrupted main thread may have left the mutex taken for ever.
    """

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - as in ``logging``
        return level >= self.logger.getEffectiveLevel()

    def log(
        self,
        level: int,
        msg: object,
        *args: object,
        exc_info: Any = None,
        extra: Mapping[str, object] | None = None,
        **_: Any,
    ) -> None:
        """Log a line, as ``logging.Logger.log`` does; perhaps on another thread (``say_by``).

        A field of ``extra`` is left out if None, or if the app has a field of this name.
        """
        try:
            if level < self.logger.getEffectiveLevel():
                return
            if isinstance(exc_info, BaseException):
                exc_info = (type(exc_info), exc_info, exc_info.__traceback__)
            elif exc_info:
                exc_info = sys.exc_info()
            file, number, function, _stack = self.logger.findCaller(stacklevel=2)
            line = logging.LogRecord(self.logger.name, level, file, number, msg, args, exc_info, function)
            invocation = _current.get()
            told = None if invocation is None or invocation.over else invocation.id
            _here.way(partial(copy_context().run, self._say, line, extra or {}, invocation, told))
        except caught_here() as error:
            print_unlogged(error)

    def _say(
        self, line: logging.LogRecord, extra: Mapping[str, object], invocation: Invocation | None, name: str | None
    ) -> None:
        if not self.logger.isEnabledFor(line.levelno):
            return
        record = self._made(line)
        for key, value in extra.items():
            if value is not None:
                vars(record).setdefault(key, value)
        try:
            with _told_to_the_worker(invocation, name):
                self.logger.handle(record)
        except caught_here() as error:
            print_unlogged(error)

    def _made(self, line: logging.LogRecord) -> logging.LogRecord:
        """Return the record by the app's factory; if the factory fails, the plain record."""
        where = line.pathname, line.lineno, line.msg, line.args, line.exc_info, line.funcName
        try:
            record = self.logger.makeRecord(line.name, line.levelno, *where)  # type: ignore[arg-type]
        except caught_here() as error:
            print_unlogged(error)
            return line
        vars(record).update((key, value) for key, value in vars(line).items() if key in _OF_THE_CALL)
        return record


def print_unlogged(error: BaseException) -> None:
    """Print an error of the app's log handler, filter or record factory, as ``logging`` does: a line would fail too."""
    with suppress(caught_here()):
        if logging.raiseExceptions and sys.stderr is not None:
            sys.stderr.write("--- Logging error in a line of singleton ---\n")
            traceback.print_exception(error)


class _Here(threading.local):
    """How the app's watchers are called on a thread: see ``say_by`` and ``catch_by``."""

    def __init__(self) -> None:
        self.way: Callable[[Callable[[], None]], None] = lambda say: say()
        self.caught: Callable[[], type[BaseException]] = lambda: Exception


_here: Final = _Here()


def say_by(way: Callable[[Callable[[], None]], None]) -> None:
    """Have the lines of the calling thread said by ``way(say)``, instead of at once: where a handler may block."""
    _here.way = way


def catch_by(caught: Callable[[], type[BaseException]]) -> None:
    """Catch these errors of watchers on the calling thread, in place of ``Exception``."""
    _here.caught = caught


def caught_here() -> type[BaseException]:
    """Return the errors of watchers which are caught on this thread.

    ``BaseException`` on a thread that others rely on. On a thread of the app's a ``KeyboardInterrupt`` is the app's.
    """
    return _here.caught()


def say(line: Callable[[], None]) -> None:
    """Have ``line()`` called where lines of the calling thread are logged."""
    _here.way(line)


log: Final = _Log(logging.getLogger("singleton"))


@cache
def warn_once(said: str, *values: object) -> None:
    """Log a warning, unless this process has logged the same warning about the same values."""
    log.warning(said, *values)


def warn_unlocked() -> None:
    """Log, once a process, that the option ``enabled`` is false."""
    warn_once("locking is switched off: the option enabled is false. Functions and orchestrations run without locks")


def call_watcher(said: str, watcher: Callable[..., object], *arguments: object) -> None:
    """Call code of the app's which is told of something and changes nothing: an error is logged as ``said``, once.

    A watcher is a callback of ``hold.lost``, a listener of events, a counter of requests, a meter or a tracer.
    """
    try:
        if inspect.iscoroutine(returned := watcher(*arguments)):
            refuse_awaitable(returned, "it returned an awaitable, which nobody awaits: give a plain function (def)")
    except caught_here():
        log.exception(said)


@contextmanager
def _told_to_the_worker(invocation: Invocation | None, name: str | None) -> Iterator[None]:
    """Let the worker's log handler find the name of the invocation on this thread, or none where it had ended."""
    if invocation is None:
        yield
        return
    storage, variable = invocation.storage, _workers_variable()
    before = getattr(storage, "invocation_id", None)
    token = None if variable is None else variable.set(name)
    if storage is not None:
        storage.invocation_id = name
    try:
        yield
    finally:
        if storage is not None:
            storage.invocation_id = before
        if variable is not None and token is not None:
            variable.reset(token)


def _workers_variable() -> ContextVar[str | None] | None:
    """Return the variable that the worker of Python 3.13 and later reads."""
    found = getattr(sys.modules.get("azure_functions_runtime"), "invocation_id_cv", None)
    return found if isinstance(found, ContextVar) else None


def _told_by_the_worker() -> Invocation | None:
    """Return the invocation that the worker's log handler would find here."""
    classic = sys.modules.get("azure_functions_worker.dispatcher")
    variable = _workers_variable()
    if classic is None and variable is None:
        return None
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs on this thread
        task = None
    storage = getattr(classic, "_invocation_id_local", None)
    name = getattr(task, _IN_A_TASK, None) or (variable and variable.get()) or getattr(storage, "invocation_id", None)
    return Invocation(name, storage) if name else None
