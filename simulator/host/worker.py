"""The inside of a worker: the one event loop and the one thread pool on which the user's functions run.

As in the real worker, async bodies share the main thread's loop and sync bodies share a pool, so a body that blocks its
loop stalls the other async bodies, and one that waits in a thread occupies it. If a body raises something that is no
``Exception``, the invocation is never answered, or the worker ends (H-84).

The worker hands the context to a function that has a ``context`` parameter. As in the worker, the context is no
instance of ``func.Context``. Other attributes may be set; its own attributes are read-only.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from simulator.host.triggers.bindings import Out
from simulator.host.triggers.outputs import given_back
from simulator.witness.witness import invoked
from singleton.base.appsettings import filled
from singleton.base.errors import SingletonError
from singleton.settings.connection import redact

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping

    from simulator.host.app.app_model import IndexedFunction, Parameter
    from simulator.host.triggers.delivery import Delivery
    from simulator.host.triggers.outputs import Typed
    from simulator.host.triggers.queue import QueueMessage
    from simulator.host.triggers.timer import Tick
    from simulator.host.web.site import HttpRequest, HttpResponse
    from simulator.witness.witness import Witness


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCall:
    """The host asks for an invocation."""

    function: str
    invocation: str
    cause: QueueMessage | Tick | Delivery | HttpRequest
    retry: RetryContext


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAnswer:
    """The worker's answer to a call: an error as ``Type: text``, or None and the queue messages to send.

    ``blames``: the error's class, if the error is the lock's. ``messages``: for each a queue's name and the text.
    """

    invocation: str
    error: str | None = None
    blames: str = ""
    messages: tuple[tuple[str, str], ...] = ()
    response: HttpResponse | None = None


@dataclass
class RetryContext:
    """How often this invocation was tried before, under the worker's three names; ``exception`` is no worker's name."""

    retry_count: int = 0
    max_retry_count: int = 0
    rpc_exception: Any = None


class TraceContext:
    """The W3C trace context of a new trace, under both the current and the older names."""

    def __init__(self) -> None:
        self._parent = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
        self._attributes: dict[str, str] = {}

    trace_parent = Traceparent = property(attrgetter("_parent"))
    trace_state = Tracestate = property(lambda _: "")
    attributes = Attributes = property(attrgetter("_attributes"))


class Context:
    """What a function can learn of its invocation.

    ``function_directory`` is the folder of the function's file. ``invocation_id`` is the same over all tries. A thread
    of the app puts the id into ``thread_local_storage``, so that its logs can be told apart.
    """

    def __init__(
        self, name: str, directory: str, invocation: str, storage: threading.local, retry: RetryContext
    ) -> None:
        self._name = name
        self._directory = directory
        self._invocation = invocation
        self._storage = storage
        self._trace = TraceContext()
        self._retry = retry

    function_name = property(attrgetter("_name"))
    function_directory = property(attrgetter("_directory"))
    invocation_id = property(attrgetter("_invocation"))
    thread_local_storage = property(attrgetter("_storage"))
    trace_context = property(attrgetter("_trace"))
    retry_context = property(attrgetter("_retry"))


_THREADS: Final = "PYTHON_THREADPOOL_THREAD_COUNT"
_NO_STDOUT: Final = (
    "the app has closed or replaced sys.stdout, which the worker flushes after each invocation: each of them fails "
    "with {}, here and in Azure"
)
_RUNTIME: Final = "azure_functions_runtime"
_log = logging.getLogger(__name__)
_invocation_id: ContextVar[str | None] = ContextVar("invocation_id", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyOutcome:
    """How an invocation ended: an error as ``Type: text``, or None and what the function returned.

    ``blames`` is the error's class if it is an error of the lock; ``remark`` is what the app's user should know.
    """

    error: str | None = None
    blames: str = ""
    remark: str = ""
    outputs: tuple[tuple[Parameter, Typed], ...] = ()


class Worker:
    """Runs the bodies of functions. `run` occupies its thread until `stop`."""

    def __init__(self, settings: MutableMapping[str, str], witness: Witness) -> None:
        self._witness = witness
        self._loop = asyncio.new_event_loop()
        witness.follow(self._loop)
        self._pool = ThreadPoolExecutor(thread_count(settings), thread_name_prefix="worker")
        self._storage = threading.local()
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self) -> None:
        """Run the worker's loop until `stop` is called.

        Raises:
            SystemExit, KeyboardInterrupt: a body or a task of the app ended with it, so the worker ends too.
        """
        # Libraries find the invocation's id in threads, under the real worker's name.
        module = sys.modules.setdefault(_RUNTIME, ModuleType(_RUNTIME, "What the fake worker has of the real one."))
        module.__dict__["invocation_id_cv"] = _invocation_id
        asyncio.set_event_loop(self._loop)
        with self._witness.leftovers.threads_followed():
            self._loop.run_forever()

    def stop(self) -> None:
        """End `run`; callable from any thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)

    def close(self) -> None:
        """Close the loop and the pool after `run` has ended; nothing may run any more."""
        self._pool.shutdown()
        self._loop.close()

    def submit(
        self,
        function: IndexedFunction,
        invocation: str,
        value: Callable[[], Any],
        retry: RetryContext,
        answer: Callable[[BodyOutcome], Awaitable[None]],
        *,
        told: Mapping[str, object],
    ) -> None:
        """Start an invocation from any thread; ``answer`` gets the outcome, if any (H-84).

        ``value`` makes the trigger's value; an error of ``value`` fails the invocation. ``retry`` has the number of
        tries before. ``told`` is written into the records of the body.
        """
        context = Context(function.name, function.directory, invocation, self._storage, retry)

        async def serve() -> None:
            await answer(await self._invoke(function, context, value, told))

        self._loop.call_soon_threadsafe(self._start, serve())

    def _start(self, serving: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(serving)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _invoke(
        self, function: IndexedFunction, context: Context, value: Callable[[], Any], told: Mapping[str, object]
    ) -> BodyOutcome:
        try:
            arguments: dict[str, Any] = {function.trigger.name: value()}
            outputs = {name: Out() for name in function.outputs}
            arguments |= outputs
            self._storage.invocation_id = context.invocation_id
            if function.wants_context:
                arguments["context"] = context
            trigger = arguments[function.trigger.name]
            with self._witness.invocation(context.invocation_id, function.name, trigger, told):
                if function.is_async:
                    result = await function.call(**arguments)
                else:
                    result = await self._loop.run_in_executor(self._pool, self._call, function, context, arguments)
            given = given_back(function, outputs, result)
            if (error := unflushed()) is not None:
                return BodyOutcome(error=describe(error), remark=_NO_STDOUT.format(describe(error)))
            return BodyOutcome(outputs=given)
        except Exception as error:  # noqa: BLE001 - whatever a function raises is its answer
            _tell("function %s failed (invocation %s)", function.name, context.invocation_id, exc_info=error)
            closed = unflushed()
            remark = "" if closed is None else _NO_STDOUT.format(describe(closed))
            return BodyOutcome(error=describe(error), blames=blames(error), remark=remark)
        except BaseException as error:
            what = "function %s (invocation %s) ended with %s, which the worker never answers"
            _tell(what, function.name, context.invocation_id, type(error).__name__)
            raise

    def _call(self, function: IndexedFunction, context: Context, arguments: dict[str, Any]) -> Any:
        self._storage.invocation_id = context.invocation_id
        token = _invocation_id.set(context.invocation_id)
        invoked.set(context.invocation_id)
        try:
            return function.call(**arguments)
        finally:
            _invocation_id.reset(token)
            self._storage.invocation_id = None


def _tell(*words: str, exc_info: Exception | None = None) -> None:
    """Log an error. A handler of the app's that raises must not change how an invocation ends."""
    with suppress(Exception):
        _log.error(*words, exc_info=exc_info)


def unflushed() -> Exception | None:
    """Flush the app's output, as the worker does after each invocation; return why that can't be done."""
    try:
        sys.stdout.flush()
    except Exception as error:  # noqa: BLE001 - it may be a stream of the app's own
        return error
    return None


def thread_count(settings: MutableMapping[str, str]) -> int | None:
    """Return the size of the worker's thread pool: the host sets 1000 if the app sets none (H-83).

    None is Python's own default: the worker uses it if the value is no size.
    """
    text = filled(settings, _THREADS)
    if text is None:
        text = settings[_THREADS] = "1000"
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count > 0:
        return count
    _log.warning("%s is %r, not a whole number above 0: the default is used", _THREADS, text)
    return None


def blames(error: BaseException) -> str:
    """Return the class of an error of the lock; the empty text for other errors, also of an equal name."""
    return type(error).__name__ if isinstance(error, SingletonError) else ""


def describe(error: BaseException) -> str:
    """Return ``Type: text`` without its secrets."""
    try:
        text = redact(str(error))
    except Exception as trouble:  # noqa: BLE001 - as the worker, it answers all the same
        text = f"its text can't be had: {type(trouble).__name__}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
