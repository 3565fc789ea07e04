"""A block of a lock client as a decorator of a function."""

from __future__ import annotations

import functools
import inspect
from contextlib import AsyncContextDecorator, ContextDecorator, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from singleton.base.currenthold import showing
from singleton.base.errors import ConfigurationError
from singleton.base.hold import holds_in
from singleton.base.invocation import log as _log
from singleton.base.words import quoted
from singleton.process.cancellation import cancelled_when_lost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from singleton.base.hold import Hold

_SKIPPED = "%s skipped: somebody else has lock %s"


def guarded(
    function: Callable[..., Any],
    name: str,
    block: Callable[[], AbstractContextManager[Any]],
    *,
    skips: bool = False,
) -> Callable[..., Any]:
    """Return the function with a new block around each call.

    Args:
        function: what is called.
        name: what the blocks ask for, in words.
        block: makes a new block.
        skips: whether a block without a hold skips the call.

    Raises:
        ConfigurationError: a block of this kind can't hold the lock around ``function``.
    """
    _check(name, function, is_async=False)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with block() as got:
            if skips and got is None:
                return _skip(function, name)
            holds = holds_in(got)
            with _current(holds):
                _raise_if_lost(holds)
                result = function(*args, **kwargs)
            if inspect.iscoroutine(result):
                result.close()
                raise _refused(name, function, "returned a coroutine, which would run without the lock")
            if isinstance(result, (ContextDecorator, AsyncContextDecorator)):  # as @contextmanager makes them
                raise _refused(
                    name, function, "returned a context manager, whose block would run without the lock: take it inside"
                )
            _raise_if_lost(holds)
            return result

    return call


def guarded_async(
    function: Callable[..., Any],
    name: str,
    block: Callable[[], AbstractAsyncContextManager[Any]],
    *,
    skips: bool = False,
) -> Callable[..., Any]:
    """Return the coroutine function with a block around each call. See ``guarded``."""
    _check(name, function, is_async=True)

    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        async with block() as got:
            if skips and got is None:
                return _skip(function, name)
            holds = holds_in(got)
            with _current(holds), ExitStack() as watched:
                for hold in holds:
                    watched.enter_context(cancelled_when_lost(hold))
                _raise_if_lost(holds)
                result = await function(*args, **kwargs)
            _raise_if_lost(holds)
            return result

    return call


@contextmanager
def _current(holds: tuple[Hold, ...]) -> Iterator[None]:
    """Make ``current_hold`` return the hold; with a set of locks ``current_hold`` changes nothing."""
    if len(holds) != 1:
        yield
        return
    with showing(holds[0]):
        yield


def _raise_if_lost(holds: tuple[Hold, ...]) -> None:
    for hold in holds:
        if hold.lost.is_set():
            hold.raise_if_lost()


def _skip(function: Callable[..., Any], lock: str) -> None:
    _log.info(_SKIPPED, getattr(function, "__qualname__", repr(function)), lock, extra={"lock": lock})


def _check(lock: str, function: object, *, is_async: bool) -> None:
    if isinstance(function, (staticmethod, classmethod)):
        raise _refused(lock, function.__func__, f"is a {type(function).__name__}: put the lock below that decorator")
    if not inspect.isroutine(function) and not isinstance(function, functools.partial):
        raise ConfigurationError(
            f"lock {lock!r} decorates {quoted(function)}, which is no function: give it a function. Put it below "
            "decorators that make something else of a function, such as a trigger of Azure Functions"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise _refused(
            lock, function, "is a generator, whose body runs after the call has ended: take the lock inside it"
        )
    if is_async and not inspect.iscoroutinefunction(function):
        raise _refused(lock, function, "is no coroutine function: make it `async def`, or use LockClient")
    if not is_async and inspect.iscoroutinefunction(function):
        raise _refused(lock, function, "is a coroutine function: use AsyncLockClient")


def _refused(lock: str, function: object, why: str) -> ConfigurationError:
    called = getattr(function, "__qualname__", repr(function))
    return ConfigurationError(f"lock {lock!r} can't decorate {called}: it {why}", lock=lock)
