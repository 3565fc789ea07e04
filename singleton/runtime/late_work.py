"""Late work: code of a result which would run only after the lock is released.

A coroutine runs when somebody awaits it, an iterator when somebody asks for items, a stream and a background task when
a server sends the response. A guarded body must not return them. Objects without code of the user's pass: files,
cursors, iterators over lists. So do objects which make iterators.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import itertools
import os
from collections import deque
from collections.abc import Collection, Coroutine, Iterable
from concurrent.futures import Future
from functools import lru_cache
from types import AsyncGeneratorType, CodeType, CoroutineType, GeneratorType, NoneType
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import ConfigurationError
from singleton.base.invocation import log as _log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LATE_RESPONSE: Final = "late-response"
"""The ``reason`` of an error that refuses a streamed response or a background task."""
_REMEDIES: Final = {
    "promise": "Await it in the function, and return its result. If a decorator below {0} wraps an async function in a "
    "plain one, put {0} right above the async def",
    "iterator": "Return a list of its items, or take the lock in the generator: `with locks.lock(…)`",
    "stream": "Return a response with all its content, or take the lock in the generator: `async with locks.lock(…)`",
    "task": "Do the work of the background task in the function, or take the lock in the task: "
    "`async with locks.lock(…)`",
    "block": "This is a context manager: take the lock inside",
}
_PLAIN: Final = frozenset({NoneType, bool, bytes, float, int, str})
_CONTAINERS: Final = (deque, dict, frozenset, list, set, tuple)
_DEPTH: Final = 3
"""How deep the containers of a result are looked into."""
_GENERATORS: Final = (AsyncGeneratorType, CoroutineType, GeneratorType)
_ADAPTERS: Final = (enumerate, filter, map, zip, *(each for each in vars(itertools).values() if isinstance(each, type)))
_LINKS: Final[tuple[type[Any], ...]] = (tuple, type(iter(())), *_ADAPTERS)
"""Types of the objects between an adapter and the generators which it goes through."""
STREAMS: Final = frozenset({"EventSourceResponse", "StreamingHttpResponse", "StreamingResponse"})
"""Names of classes: of Starlette and FastAPI, sse-starlette and Django."""
_TASKS: Final = frozenset({"BackgroundTask", "BackgroundTasks"})
_LIBRARIES: Final = ("<frozen", os.path.join(os.path.dirname(os.__file__), ""))  # noqa: PTH118, PTH120 - as in code


async def settled(
    result: Any,
    arguments: Iterable[Any],
    who: str,
    decorator: str,
    *,
    waits: bool,
    iterated: bool = False,
    lock: str | None = None,
) -> Any:
    """Return the result of a body, with no late work. Call while the lock is held.

    Args:
        arguments: of the body. Items that the body gave lazily to a ``func.Out`` are made here.
        who: the beginning of an error's message; ``decorator``: how the message names the lock's decorator.
        waits: whether the caller may be suspended.
        iterated: whether the worker will go through the result: its items are made here.

    Raises:
        ConfigurationError: the result has late work. Each part was closed: it never begins, or has ended.
    """
    for each in arguments:
        if type(each).__name__ == "Out" and _is_lazy(given := each.get()):
            each.set([*given])
    if iterated and _is_lazy(result):
        result = [*result]
    if type(result) in _PLAIN or not (found := [*_late_parts(result, _DEPTH)]):
        return result
    for part in [each for late, _ in found for each in (late, *_inside(late))]:
        try:
            await _close(part, waits=waits)
        except Exception:  # noqa: BLE001 - the user's code
            _log.exception("a %s failed as it was closed", type(part).__name__)
    part, kind = found[0]
    raise ConfigurationError(
        f"{who} returned a {type(part).__name__}, which would run after the lock is released. The body ran until it "
        f"returned: what it did stays done. {_REMEDIES[kind].format(decorator)}",
        lock=lock,
        reason=LATE_RESPONSE if kind in ("stream", "task") else None,
    )


def declared_late_work(function: Callable[..., Any]) -> str | None:
    """Tell by the annotations of a function, in words, that its result or a parameter brings late work."""
    annotations = getattr(function, "__annotations__", {})
    with contextlib.suppress(Exception):  # a name that only a type checker knows
        annotations = inspect.get_annotations(inspect.unwrap(function), eval_str=True)
    late = "which would run after the lock is released"
    for name, annotation in annotations.items():
        found = _names(annotation)
        if name == "return" and found & STREAMS:
            return f"returns a {min(found & STREAMS)}, {late}. {_REMEDIES['stream']}"
        if found & _TASKS and "starlette" in found:
            return f"adds tasks to {name}, {late}. {_REMEDIES['task']}"
    return None


def _is_lazy(value: object) -> bool:
    """Tell whether the worker, which goes through an output's items, would run code for them. Files run no code."""
    is_other = isinstance(value, Collection) or hasattr(value, "read") or hasattr(value, "__await__")
    return isinstance(value, Iterable) and not is_other


def _late_parts(value: Any, depth: int) -> Iterator[tuple[Any, str]]:
    """Yield the objects with late work in a result, each with its kind of late work."""
    kind = _kind(type(value))  # type: ignore[arg-type]
    if kind == "response" and (background := getattr(value, "background", None)) is not None:
        kind = "task" if getattr(background, "tasks", True) else ""
    if kind == "container" and depth:
        for each in [*value.values()] if isinstance(value, dict) else [*value]:
            if type(each) not in _PLAIN:
                yield from _late_parts(each, depth - 1)
    elif kind == "wsgi":
        yield from _late_parts(getattr(value, "response", None), depth)
    elif kind in _REMEDIES:
        yield value, kind


@lru_cache(256)
def _kind(kind: type[Any]) -> str:
    """Return what may be late in objects of a class; ``""``: nothing."""
    awaited = getattr(kind, "__await__", None)
    names = _names(kind)
    is_reader = hasattr(kind, "read") or hasattr(kind, "fetchone")
    if issubclass(kind, _CONTAINERS):
        return "container"
    if issubclass(kind, Coroutine | Future | asyncio.Future) or (awaited and not _is_of_library(awaited, in_c=False)):
        return "promise"
    if issubclass(kind, contextlib.ContextDecorator | contextlib.AsyncContextDecorator):
        return "block"
    if not STREAMS.isdisjoint(names):
        return "stream"
    if names & {"starlette", "werkzeug"}:
        return "response" if "starlette" in names else "wsgi"
    own = [each for each in ("__next__", "__anext__") if not _is_of_library(getattr(kind, each, None), in_c=True)]
    return "iterator" if issubclass(kind, _GENERATORS + _ADAPTERS) or (own and not is_reader) else ""


def _is_of_library(method: object, *, in_c: bool) -> bool:
    """Tell whether a package or the standard library has a method; ``in_c``: the answer without Python code."""
    code = getattr(method, "__code__", None)
    if type(code) is not CodeType:  # a mock has a code, too
        return in_c
    file = code.co_filename
    return file.startswith(_LIBRARIES) or "site-packages" in file or "dist-packages" in file


def _names(annotation: Any) -> set[str]:
    """Return the names of a class, of its bases and of their packages; of a text its last name."""
    if isinstance(annotation, str):
        return {annotation.strip("'\"").rpartition(".")[2]}
    classes = getattr(annotation, "__mro__", ())
    return {name for each in classes for name in (each.__name__, str(each.__module__).partition(".")[0])}


def _inside(part: Any) -> Iterator[object]:
    """Yield what is inside a late part: the iterator of a stream, and the generators through which a part would go."""
    body = getattr(part, "body_iterator", None)
    if body is not None:
        yield body
    wraps = getattr(getattr(body, "ag_code", None), "co_name", "") == "iterate_in_threadpool"  # Starlette's
    unread = [body] if wraps else [part] if isinstance(part, _ADAPTERS) else []
    while unread:
        for each in gc.get_referents(unread.pop()):
            if isinstance(each, _GENERATORS):
                yield each
            elif isinstance(each, _LINKS):
                unread.append(each)


async def _close(part: Any, *, waits: bool) -> None:
    if isinstance(part, asyncio.Future):
        with contextlib.suppress(RuntimeError):  # no loop runs here
            if part.get_loop() is asyncio.get_running_loop():
                part.cancel()  # at once, before a task has begun
                return
        with contextlib.suppress(RuntimeError):  # its loop is closed
            part.get_loop().call_soon_threadsafe(part.cancel)
        return
    names = ("aclose", "close", "cancel")
    closing = next((each for name in names if callable(each := getattr(part, name, None))), None)
    step: Any = None if closing is None else closing()
    if waits and inspect.isawaitable(step):
        await step
    elif hasattr(step, "send"):
        with contextlib.suppress(StopIteration):
            step.send(None)
            step.close()
