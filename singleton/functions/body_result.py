"""The result of a body.

An invocation that the worker would never answer fails: cancellations, exits, awaitables.
An iterator, which the worker would go through only after the body, is gone through under the lock.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from concurrent.futures import Future
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, Final

from singleton.base.errors import ConfigurationError, text_of
from singleton.base.tasks import ends_more

WRITTEN_ONE_BY_ONE: Final = ("eventGrid", "queue")
"""Types of ``$return`` outputs for which the worker goes through whatever can be iterated."""


def refuse_unanswered(function: str, error: BaseException, *, is_async: bool) -> None:
    """Fail the invocation if its body raised an error which the Functions worker never answers for (facts §6).

    Call in the handler of the error, and raise any other error again.
    """
    if not ends_more(error, awaited=is_async):
        return
    match error:
        case asyncio.CancelledError():
            said = "raised CancelledError, but nobody cancelled it"
        case StopIteration():
            said = "raised StopIteration"
        case SystemExit():
            said = f"called exit({error.code!r}): a function must return, or raise an error"
        case _:
            said = f"raised {type(error).__name__}, which is no Exception: {text_of(error)}"
    raise RuntimeError(f"{function} {said}") from error


def finished(function: str, result: Any, returns: str | None, *, decorator: str) -> Any:
    """Return what a body returned, with nothing left to be done, which would run without the lock.

    A generator, or another iterator, is gone through here if the worker would do that. Every awaitable is refused.
    An awaitable comes from a decorator of another library that wraps an async function in a plain one, or from a
    missing ``await``. The worker would not run the awaitable either: the invocation would fail. A coroutine never
    begins then; a future is cancelled.

    Args:
        returns: the type of the output for the result; None: unknown.
        decorator: by which it is guarded.

    Raises:
        ConfigurationError: it is an awaitable, a future or a generator.
    """
    if result is None:
        return None
    if returns in WRITTEN_ONE_BY_ONE and isinstance(result, Iterator):
        return list(result)
    if isinstance(result, CoroutineType | GeneratorType):
        result.close()
    elif isinstance(result, Future):
        result.cancel()
    elif isinstance(result, asyncio.Future):
        _cancel(result)
    elif not (hasattr(type(result), "__await__") or isinstance(result, AsyncGeneratorType)):
        return result
    raise ConfigurationError(
        f"{decorator} on {function}: its body returned a {type(result).__name__}, which would run after the lock is "
        "released. Await it in the function, and return its result (of a generator, a list). If a decorator below "
        f"{decorator} wraps an async function in a plain one, put {decorator} right above the async def"
    )


def _cancel(future: asyncio.Future[Any]) -> None:
    """Cancel a future, on its loop; if that loop runs here, at once, before a task has begun."""
    try:
        here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if future.get_loop() is here:
        future.cancel()
        return
    with contextlib.suppress(RuntimeError):  # its loop is closed
        future.get_loop().call_soon_threadsafe(future.cancel)
