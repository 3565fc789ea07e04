"""The worker half of a host: the one event loop and the one thread pool that the user's functions run on.

As in the real worker, async bodies share the main thread's loop and sync bodies share a pool, so a body that blocks its
loop stalls the other async bodies, and one that waits in a thread occupies it. The host half (listeners, renewals,
journal) lives on a thread and loop of its own, because the real host is another process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from simulator.host.context import Context, RetryContext, TraceContext
from simulator.host.triggers.bindings import Out
from simulator.host.triggers.typed import given_back
from singleton.settings.appsettings import filled
from singleton.settings.connection import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simulator.host.app.model import IndexedFunction, Parameter
    from simulator.host.triggers.typed import Typed

_THREADS: Final = "PYTHON_THREADPOOL_THREAD_COUNT"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an invocation ended: an error as ``Type: text``, or None and what the function gave back."""

    error: str | None = None
    outputs: tuple[tuple[Parameter, Typed], ...] = ()


class Worker:
    """Runs the bodies of functions; `run` occupies the thread that calls it until `stop`."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._loop = asyncio.new_event_loop()
        self._pool = ThreadPoolExecutor(thread_count(settings), thread_name_prefix="worker")
        self._storage = threading.local()
        self._stopping = False

    def run(self) -> None:
        """Run the worker's loop until `stop` is called."""
        asyncio.set_event_loop(self._loop)
        while not self._stopping:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                # A task of the user's own ended with it. The real worker would die; a fake host tells, and goes on.
                _log.exception("a task of the app tried to end the worker")

    def stop(self) -> None:
        """End `run`; callable from any thread."""

        def end() -> None:
            self._stopping = True
            self._loop.stop()

        self._loop.call_soon_threadsafe(end)

    def close(self) -> None:
        """Close the loop and the pool, once `run` has ended; nothing must run any more."""
        self._pool.shutdown()
        self._loop.close()

    def submit(
        self, function: IndexedFunction, invocation: str, value: Callable[[], Any], retry: RetryContext
    ) -> Future[Outcome]:
        """Start an invocation from any thread; its future never raises what the function raised.

        ``value`` makes the trigger's value, and what it raises fails the invocation; ``retry`` tells how often it was
        tried before.
        """
        context = Context(function.name, function.directory, invocation, self._storage, TraceContext.fresh(), retry)
        return asyncio.run_coroutine_threadsafe(self._invoke(function, context, value), self._loop)

    async def _invoke(self, function: IndexedFunction, context: Context, value: Callable[[], Any]) -> Outcome:
        try:
            arguments: dict[str, Any] = {function.trigger.name: value()}
            outputs = {name: Out() for name in function.outputs}
            arguments |= outputs
            self._storage.invocation_id = context.invocation_id
            if function.wants_context:
                arguments["context"] = context
            if function.is_async:
                result = await function.call(**arguments)
            else:
                result = await self._in_pool(function, context, arguments)
            return Outcome(outputs=given_back(function, outputs, result))
        except BaseException as error:  # noqa: BLE001 - whatever a function raises, the host lives on
            _log.error("function %s failed (invocation %s)", function.name, context.invocation_id, exc_info=error)
            return Outcome(error=describe(error))
        finally:
            sys.stdout.flush()

    async def _in_pool(self, function: IndexedFunction, context: Context, arguments: dict[str, Any]) -> Any:
        def run() -> tuple[Any, BaseException | None]:
            self._storage.invocation_id = context.invocation_id
            try:
                return function.call(**arguments), None
            except BaseException as error:  # noqa: BLE001 - given to the loop as a value: futures choke on some
                return None, error
            finally:
                self._storage.invocation_id = None

        result, error = await self._loop.run_in_executor(self._pool, run)
        if error is not None:
            raise error
        return result


def thread_count(settings: Mapping[str, str]) -> int:
    """Return the size of the worker's thread pool: ``PYTHON_THREADPOOL_THREAD_COUNT``, else min(32, cores + 4)."""
    text = filled(settings, _THREADS)
    if text is not None:
        if text.isascii() and text.isdigit() and int(text) > 0:
            return int(text)
        _log.warning("%s is %r, not a whole number above 0: the default is used", _THREADS, text)
    return min(32, (os.cpu_count() or 1) + 4)


def describe(error: BaseException) -> str:
    """Return ``Type: text`` without its secrets, with what the real worker would make of an error that escapes it."""
    text = f"{type(error).__name__}: {redact(str(error))}" if str(error) else type(error).__name__
    if isinstance(error, asyncio.CancelledError):
        return f"{text} (it escapes the real worker, which then never answers this invocation)"
    if not isinstance(error, Exception):
        return f"{text} (it ends the real worker's process)"
    return text
