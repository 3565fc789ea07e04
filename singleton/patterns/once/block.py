"""``once`` outside Functions: a block with an operation which is done already, or done and finished in the block."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from singleton.base.callables import finish, refuse_iterator, returns_coroutine
from singleton.base.errors import ConfigurationError, StorageUnavailable
from singleton.base.words import quoted
from singleton.clients.blocks import dropped_at_the_end
from singleton.patterns.once.keys import once_name
from singleton.patterns.once.results import kept_as, look
from singleton.scopes.template import filled_text
from singleton.settings.durations import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from singleton.base.hold import Hold
    from singleton.base.state import Crossing, Kept
    from singleton.client import AsyncLockClient, LockClient
    from singleton.clients.blocks import Exit
    from singleton.patterns.once.results import Look, Outcome
    from singleton.runtime.calls import Work


class BaseOperation:
    """The common part of both kinds of operations."""

    __slots__ = ("_failure", "_hold", "_keep", "_look", "_outcome", "key", "lock")

    def __init__(self, key: str, lock: str, look: Look, keep: float) -> None:
        self.key = key
        self.lock = lock
        self._look = look
        self._keep = keep
        self._hold: Hold | None = None
        self._outcome: Outcome | None = look.outcome
        self._failure: Exception | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.lock!r} {'done' if self.done else 'to be done'}>"

    @property
    def done(self) -> bool:
        """Tell whether the operation is done: before the block, or by ``finish`` in the block."""
        return self._outcome is not None

    @property
    def result(self) -> Any:
        """The kept result, equal for every caller.

        Raises:
            ResultNotKept: the operation is done, but its result was not kept.
            RuntimeError: the operation is not done yet.
        """
        if self._outcome is None:
            raise RuntimeError(f"{quoted(self.lock)} is not done yet: do the work, and call finish(result)")
        return self._outcome.given(self.lock)

    @property
    def token(self) -> int | None:
        """The fencing token, for resources which refuse a smaller token. None if the operation was done before."""
        return None if self._hold is None else self._hold.token

    def raise_if_lost(self) -> None:
        """Check the hold just before a side effect. See ``Hold.raise_if_lost``."""
        if self._hold is not None:
            self._hold.raise_if_lost()

    def _begin(self, hold: Hold, kept: Kept) -> bool:
        """Take the content read under the lease; tell whether the operation is to be done."""
        self._outcome = self._look.outcome_in(self.lock, kept)
        if self._outcome is None:
            hold.raise_if_lost()  # the look may have taken long
            self._hold = hold
        return self._outcome is None

    @contextmanager
    def _keeping(self, result: Any) -> Iterator[tuple[Hold, Kept]]:
        """Yield the hold, and the content for the result, to be written in the block. No other result is accepted."""
        if self.done or self._failure is not None:
            raise RuntimeError(
                f"{quoted(self.lock)} is finished already, and its result can't be replaced"
            ) from self._failure
        assert self._hold is not None
        text = f"finish of {self.lock!r} was interrupted: it is not known whether the result was kept"
        self._failure = StorageUnavailable(text, lock=self.lock, reason="interrupted")
        kept, outcome = kept_as(result, {}, self._look.service_time + self._keep)
        try:
            yield self._hold, kept
        except Exception as error:
            self._failure = error
            raise
        self._outcome, self._failure = outcome, None
        _ = self.result

    @property
    def _unfinished(self) -> bool:
        """Tell whether a block without an error must finish the operation. A failed ``finish`` is raised again."""
        if self._failure is not None and self._hold is not None:
            raise self._failure
        return not self.done


class Operation(BaseOperation):
    """An operation, in a ``with`` block.

    Attributes:
        key: the key, as text.
        lock: name of the lock's blob, which keeps the result.
    """

    __slots__ = ()

    def finish(self, result: Any = None) -> None:
        """Keep the result: from now on the operation is done. Call once, after the effect.

        Args:
            result: a value of JSON (a tuple is read back as a list), or bytes; at most 8 MiB of JSON, or 6 MiB of
                bytes.

        Raises:
            LockLost: the lock was lost before: the result does not count. Another process may repeat the operation.
            StorageUnavailable: it is not known whether the result was kept, because no answer came for 30 seconds, or
                before the lock was lost. Don't take the operation for undone: a repeat will find out.
            ResultNotKept: the operation is done and will not be repeated, but a result of this kind can't be kept.
        """
        with self._keeping(result) as (hold, kept):
            _way(hold).call(lambda _: hold.keeper().write(kept))

    def _end(self) -> None:
        """End a block without an error: finish an unfinished operation without a result."""
        if self._unfinished:
            self.finish()


class AsyncOperation(BaseOperation):
    """An operation, in an ``async with`` block: ``Operation`` with an awaitable ``finish``."""

    __slots__ = ()

    async def finish(self, result: Any = None) -> None:
        """Keep the result. See ``Operation.finish``."""
        with self._keeping(result) as (hold, kept):
            await _way(hold).call_async(lambda _: hold.keeper().write(kept))

    async def _end(self) -> None:
        if self._unfinished:
            await self.finish()


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
        self.key = filled_text(key, "key")
        self.lock = once_name(*filter(None, (name, self.key)))
        self._client: _ClientT = client
        self._keep = seconds(keep, "keep", above=0)
        # ``finish`` raises after a loss, and a kept result counts: a cancellation in between would hide which is true.
        self._block: Any = client.lock(self.lock, timeout=timeout, owner=owner, on_loss="tell")
        self._locked = False
        self._entered = False

    def begins_with(self, leaving: Exit) -> None:
        """See ``Entered.begins_with``: the exit has the claims of the lock's block."""
        self._block.begins_with(leaving)

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
        if not operation.done:
            hold = self._block.__enter__()
            try:
                self._locked = operation._begin(hold, _way(hold).call(lambda _: hold.keeper().glance()))  # noqa: SLF001
            finally:
                if not self._locked:
                    self._block.__exit__(None, None, None)
        self._operation = operation
        return operation

    @dropped_at_the_end
    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._operation._end()  # noqa: SLF001
        finally:
            if self._locked:
                self._block.__exit__(None, None, None)

    def run(self, /, *arguments: Any, **named: Any) -> Any:
        """Call ``work`` with the arguments, unless the operation is done; return the kept result.

        The first argument is ``work``. With it, a keyword ``work`` is an argument of the function.

        Raises:
            TypeError: ``work`` is a coroutine function, or returned a coroutine: use ``AsyncLockClient``.
            LockLost, StorageUnavailable, ResultNotKept: see ``Operation.finish``.
        """
        work, *given = _with_work(arguments, named)
        if returns_coroutine(work):
            raise _async_work()
        with self as operation:
            if not operation.done:
                result = work(*given, **named)
                if inspect.isawaitable(result):
                    if inspect.iscoroutine(result):
                        result.close()
                    raise _async_work()
                refuse_iterator(result, "work")
                operation.finish(result)
        return operation.result


class AsyncOnceBlock(_Once["AsyncLockClient"]):
    """An ``async with`` block of one operation. Enter the block once, or await ``run`` instead."""

    async def __aenter__(self) -> AsyncOperation:
        look = await self._client._do(self._begin())  # noqa: SLF001
        operation = AsyncOperation(self.key, self.lock, look, self._keep)
        if not operation.done:
            hold = await self._block.__aenter__()
            try:
                kept = await _way(hold).call_async(lambda _: hold.keeper().glance())
                self._locked = operation._begin(hold, kept)  # noqa: SLF001
            finally:
                if not self._locked:
                    await self._block.__aexit__(None, None, None)
        self._operation = operation
        return operation

    @dropped_at_the_end
    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                await self._operation._end()  # noqa: SLF001
        finally:
            if self._locked:
                await self._block.__aexit__(None, None, None)

    async def run(self, /, *arguments: Any, **named: Any) -> Any:
        """Call ``work``, and await the result if it is awaitable. See ``OnceBlock.run``."""
        work, *given = _with_work(arguments, named)
        async with self as operation:
            if not operation.done:
                await operation.finish(await finish(work(*given, **named), "work"))
        return operation.result


def _way(hold: Hold) -> Crossing:
    assert hold.crossing is not None
    return hold.crossing


def _async_work() -> TypeError:
    return TypeError("work is a coroutine function: give a plain one, or use AsyncLockClient")


def _with_work(arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    if not arguments and "work" not in named:
        raise TypeError("run() has no argument work: give the function to call")
    return arguments or (named.pop("work"),)
