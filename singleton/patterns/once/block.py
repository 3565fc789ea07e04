"""``once`` outside Functions: a block with an operation which is done already, or done and finished in the block."""

from __future__ import annotations

import inspect
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from singleton.base.errors import ConfigurationError
from singleton.base.words import quoted
from singleton.patterns.once.keys import checked_key, once_name
from singleton.patterns.once.operation import AsyncOperation, Operation
from singleton.patterns.once.outcome import look
from singleton.settings.durations import seconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from types import TracebackType

    from singleton.base.hold import Hold
    from singleton.base.state import Crossing
    from singleton.client import AsyncLockClient, LockClient
    from singleton.patterns.once.outcome import Look
    from singleton.process.calls import Work

_ClientT = TypeVar("_ClientT", "LockClient", "AsyncLockClient")


class _Once(Generic[_ClientT]):
    """The common part of both kinds of blocks."""

    def __init__(
        self,
        client: _ClientT,
        key: object,
        *,
        name: str,
        keep: float | timedelta,
        timeout: float | timedelta | None,
        owner: str,
    ) -> None:
        if not isinstance(name, str):
            raise ConfigurationError(f"name is {quoted(name)}: give a text such as 'charge', or leave it out")
        self.key = checked_key(key)
        self.lock = once_name(*filter(None, (name, self.key)))
        self._client: _ClientT = client
        self._keep = seconds(keep, "keep", above=0)
        self._block: Any = client.lock(self.lock, timeout=timeout, owner=owner)
        self._stack: Any = None
        self._entered = False

    def _begin(self) -> Work[Look]:
        if self._entered:
            raise RuntimeError("this block was entered before: call once(…) again for a new one")
        self._entered = True
        client: LockClient | AsyncLockClient = self._client
        lock = self.lock
        place = client._known_address(lock).place  # noqa: SLF001 - a client's own request, which no user makes
        return client._through(lock, lambda registry: look(registry.store(place), lock))  # noqa: SLF001


class OnceBlock(_Once["LockClient"]):
    """A ``with`` block of one operation. Enter the block once, or call ``run`` instead.

    Attributes:
        key: the key, as text.
        lock: name of the lock's blob, which keeps the result.
    """

    def __enter__(self) -> Operation:
        look = self._client._do(self._begin())  # noqa: SLF001
        operation = Operation(self.key, self.lock, look, self._keep)
        with ExitStack() as stack:
            if not operation.done:
                hold = stack.enter_context(self._block)
                if operation._begin(hold, _way(hold).call(lambda _: hold.keeper().glance())):  # noqa: SLF001
                    self._stack = stack.pop_all()
        self._operation = operation
        return operation

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack or ExitStack():
            if kind is None:
                self._operation._end()  # noqa: SLF001

    def run(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call ``work`` with the arguments, unless the operation is done; return the kept result.

        Raises:
            TypeError: ``work`` is a coroutine function, or returned a coroutine: use ``AsyncLockClient``.
            LockLost, StorageUnavailable, ResultNotKept: see ``Operation.finish``.
        """
        if inspect.iscoroutinefunction(work):
            raise _async_work()
        with self as operation:
            if not operation.done:
                result = work(*arguments, **named)
                if inspect.iscoroutine(result):
                    result.close()
                    raise _async_work()
                operation.finish(result)
        return operation.result


class AsyncOnceBlock(_Once["AsyncLockClient"]):
    """An ``async with`` block of one operation. Enter the block once, or await ``run`` instead."""

    async def __aenter__(self) -> AsyncOperation:
        look = await self._client._do(self._begin())  # noqa: SLF001
        operation = AsyncOperation(self.key, self.lock, look, self._keep)
        async with AsyncExitStack() as stack:
            if not operation.done:
                hold = await stack.enter_async_context(self._block)
                if operation._begin(hold, await _way(hold).call_async(lambda _: hold.keeper().glance())):  # noqa: SLF001
                    self._stack = stack.pop_all()
        self._operation = operation
        return operation

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async with self._stack or AsyncExitStack():
            if kind is None:
                await self._operation._end()  # noqa: SLF001

    async def run(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call ``work``, and await the result if it is awaitable. See ``OnceBlock.run``."""
        async with self as operation:
            if not operation.done:
                result = work(*arguments, **named)
                await operation.finish(await result if inspect.isawaitable(result) else result)
        return operation.result


def _way(hold: Hold) -> Crossing:
    assert hold.crossing is not None
    return hold.crossing


def _async_work() -> TypeError:
    return TypeError("work is a coroutine function: give a plain one, or use AsyncLockClient")
