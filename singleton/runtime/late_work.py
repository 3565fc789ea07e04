"""Late work: code of a result which would run only after the lock is released.

A coroutine runs when somebody awaits it, an iterator when somebody asks for items, a stream and a background task when
a server sends the response. A guarded body must not return them. Objects without code of the user's pass: files,
cursors, iterators over lists. Objects which make iterators pass, too: the app's collections are results.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import inspect
import itertools
import os
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from types import AsyncGeneratorType, CodeType, CoroutineType, GeneratorType, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Union, get_args, get_origin

from singleton.base.callables import annotations_of
from singleton.base.errors import ConfigurationError
from singleton.base.forks import importing
from singleton.base.invocation import log as _log
from singleton.base.tasks import ends_the_thread
from singleton.base.words import with_article

if TYPE_CHECKING:
    from collections.abc import Callable

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
_MOST: Final = 1000
"""How many values of a result are looked at, the outer ones first: it takes the event loop about a millisecond."""
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
    of: object = None,
    waits: bool,
    iterated: bool = False,
    lock: str | None = None,
) -> Any:
    """Return the result of a body, with no late work. Call while the lock is held.

    Args:
        arguments: of the body. The items of an iterator in a ``func.Out`` are made here.
        who: the beginning of an error's message; ``decorator``: how the message names the lock's decorator.
        of: the function as it is written. A ``@once`` around learns that its body has run (``left_out``).
        waits: whether the caller may be suspended.
        iterated: whether the worker will go through the result: its items are made here.

    Raises:
        ConfigurationError: the result has late work. Generators and promises in it were closed.
    """
    outputs = [each for each in arguments if _is_output(each) and each.get() is not None]
    for each in outputs:
        if _is_lazy(given := each.get()):
            each.set([*given])
    if iterated and (_is_lazy(result) or _is_iterated_by_the_app(result)):
        result = [*result]
    found: list[tuple[Any, str]] = []
    if type(result) not in _PLAIN:
        with contextlib.suppress(Exception):  # code of the user's, in a value which says nothing then
            found += _late_parts(result)
    if not found:
        return result
    for part in [each for late, _ in found for each in (late, *_inside(late))]:
        if part is not result and isinstance(part, Future | asyncio.Future):
            continue  # it may be shared: others may wait for it
        try:
            await _close(part, waits=waits)
        except BaseException as failure:  # the user's code
            if not (isinstance(failure, Exception) or ends_the_thread(failure, awaited=waits)):
                raise
            _log.exception("%s failed as it was closed", with_article(type(part).__name__))
    part, kind = found[0]
    begins = getattr(result, "cr_code", None) or getattr(result, "gi_code", None)
    has_run = begins is None or begins is not getattr(of, "__code__", None)
    done = "The body ran until it returned: what it did stays done" if has_run else "The body has not begun"
    lost = ", and the outputs that it set are not written" if has_run and outputs else ""
    error = ConfigurationError(
        f"{who} returned {with_article(type(part).__name__)}, which would run after the lock is released. "
        f"{done}{lost}. {_REMEDIES[kind].format(decorator)}",
        lock=lock,
        reason=LATE_RESPONSE if kind in ("stream", "task") else None,
    )
    if has_run:
        with importing:
            from singleton.runtime.reentry import leave_out

        leave_out((of, error))
    raise error


def declared_late_work(function: Callable[..., Any]) -> str | None:
    """Tell by the annotations of a function, in words, that its result or a parameter brings late work."""
    written = inspect.unwrap(function)
    late = "which would run after the lock is released"
    for name, annotation in annotations_of(written).items():
        classes = _annotated(annotation, getattr(written, "__globals__", {}))
        found = {each for one in classes for each in _names(one)}
        if name == "return" and found & STREAMS:
            return f"returns {with_article(min(found & STREAMS))}, {late}. {_REMEDIES['stream']}"
        if found & _TASKS and "starlette" in found:
            return f"adds tasks to {name}, {late}. {_REMEDIES['task']}"
    return None


def _annotated(annotation: Any, names: dict[str, Any]) -> list[Any]:
    """Return the classes in an annotation: a union has several. A text which has no value here stays a text."""
    annotation = getattr(annotation, "__forward_arg__", annotation)
    if isinstance(annotation, str):
        with contextlib.suppress(Exception):  # a name that only a type checker knows
            annotation = eval(annotation, names)  # noqa: S307 - the app's own source
    if (origin := get_origin(annotation)) is Annotated:
        return _annotated(get_args(annotation)[0], names)
    if origin in (Union, UnionType):
        return [each for one in get_args(annotation) for each in _annotated(one, names)]
    return [annotation]


def _is_output(value: object) -> bool:
    return type(value).__name__ == "Out" and all(callable(getattr(value, name, None)) for name in ("get", "set"))


def _is_lazy(value: object) -> bool:
    """Tell whether a value is an iterator, whose items the worker would ask for. Files run no code."""
    return isinstance(value, Iterator) and not hasattr(value, "read")


def _is_iterated_by_the_app(value: object) -> bool:
    """Tell whether code of the app's makes the iterators of an object; a text and a mapping are one value."""
    kind = type(value)
    is_one = isinstance(value, str | bytes | Mapping)
    return isinstance(value, Iterable) and not is_one and _has_own(kind, "__iter__", "__getitem__")


def _late_parts(result: Any) -> Iterator[tuple[Any, str]]:
    """Yield the objects with late work in a result, each with its kind of late work."""
    parts = [result]
    for value in parts:
        kind = _kind(value)
        if kind == "response" and (background := getattr(value, "background", None)) is not None:
            kind = "task" if getattr(background, "tasks", True) else ""
        elif kind == "builtin":
            kind = "iterator" if any(map(_is_of_the_app, gc.get_referents(value))) else ""
        elif kind == "promise" and isinstance(value, Future | asyncio.Future) and value.done():
            kind = ""
        if kind in _REMEDIES:
            yield value, kind
        elif kind in ("container", "wsgi"):
            inner = (getattr(value, "response", None),) if kind == "wsgi" else value
            parts += itertools.islice(dict.values(inner) if isinstance(inner, dict) else inner, _MOST - len(parts))


def _kind(value: object) -> str:
    """Return what may be late in an object, by its class; ``""``: nothing."""
    return _kind_by_class(type(value))  # type: ignore[arg-type]


@functools.lru_cache(256)
def _kind_by_class(kind: Any) -> str:
    awaited = getattr(kind, "__await__", None)
    names = _names(kind)
    is_reader = hasattr(kind, "read") or hasattr(kind, "fetchone")
    if issubclass(kind, _CONTAINERS):
        return "container"
    if issubclass(kind, Coroutine | Future | asyncio.Future) or (awaited and not _is_of_library(awaited)):
        return "promise"
    if issubclass(kind, contextlib.ContextDecorator | contextlib.AsyncContextDecorator):
        return "block"
    if (names & STREAMS and names & {"django", "starlette"}) or ("starlette" in names and _has_own(kind, "__call__")):
        return "stream"
    if names & {"starlette", "werkzeug"}:
        return "response" if "starlette" in names else "wsgi"
    if issubclass(kind, _GENERATORS + _ADAPTERS) or (not is_reader and _has_own(kind, "__next__", "__anext__")):
        return "iterator"
    return "builtin" if kind.__module__ in ("builtins", "_csv") and hasattr(kind, "__next__") else ""


def _is_of_the_app(reached: object) -> bool:
    """Tell whether a built-in iterator runs code of the app's by an object which the iterator goes through."""
    function = reached.func if isinstance(reached, functools.partial) else reached
    kind = _kind(function)
    is_own = kind != "container" and _has_own(type(function), "__call__", "__getitem__")
    return is_own or kind == "iterator" or not _is_of_library(function)


def _has_own(kind: type[Any], *methods: str) -> bool:
    """Tell whether a class has one of these methods in Python code of the app's."""
    return not all(_is_of_library(getattr(kind, each, None)) for each in methods)


def _is_of_library(method: object) -> bool:
    """Tell whether a package or the standard library has a method. A method without Python code is theirs."""
    code = getattr(method, "__code__", None)
    if type(code) is not CodeType:  # a mock has a code, too
        return True
    file = code.co_filename
    return file.startswith(_LIBRARIES) or "site-packages" in file or "dist-packages" in file


def _names(annotation: Any) -> set[str]:
    """Return the names of a class, of its bases and of their packages; of a text the last name of each class."""
    if isinstance(annotation, str):
        return {each.strip(" '\"").rpartition(".")[2] for each in annotation.split("|")}
    classes = getattr(annotation, "__mro__", ())
    return {name for each in classes for name in (each.__name__, str(each.__module__).partition(".")[0])}


def _inside(part: Any) -> Iterator[object]:
    """Yield what is inside a late part: the iterator of a stream, and the generators through which a part would go."""
    body = getattr(part, "body_iterator", None)
    if body is not None:
        yield body
    wraps = getattr(getattr(body, "ag_code", None), "co_name", "") == "iterate_in_threadpool"  # Starlette's
    goes_through = isinstance(part, _ADAPTERS) or _kind(part) == "builtin"
    unread = [body] if wraps else [part] if goes_through else []
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
