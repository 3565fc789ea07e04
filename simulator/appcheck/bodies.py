"""Findings in the body of a function: a blocked event loop, a coroutine without ``await``, a hold without a guard."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Final

from simulator.appcheck.checked_app import is_the_apps
from simulator.appcheck.finding import Place
from simulator.appcheck.rules import RULES
from simulator.appcheck.source_calls import Call, Instance, Method, calls_in, makes_coroutine
from singleton.base.hold import current_hold
from singleton.client import AsyncLockClient, LockClient
from singleton.decorator import guards_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from simulator.appcheck.checked_app import Subject
    from simulator.appcheck.finding import Finding

_IN_A_THREAD: Final = "call it by asyncio.to_thread"
_BLOCKING: Final = {
    ("time", "sleep"): "await asyncio.sleep()",
    **dict.fromkeys(
        (("subprocess", name) for name in ("call", "check_call", "check_output", "run")),
        f"await asyncio.create_subprocess_exec(), or {_IN_A_THREAD}",
    ),
    ("urllib.request", "urlopen"): _IN_A_THREAD,
}
"""Functions that block the thread, by module and name, each with the remedy."""
_HTTP: Final = frozenset({"httpx", "httpx._client", "requests.api", "requests.sessions"})
"""The modules of HTTP clients that have functions and classes which block."""
_VERBS: Final = frozenset({"delete", "get", "head", "options", "patch", "post", "put", "request", "send", "stream"})
_SDKS: Final = (
    "azure.cosmos.",
    "azure.data.",
    "azure.eventhub.",
    "azure.keyvault.",
    "azure.servicebus.",
    "azure.storage.",
)
_CLIENTS: Final = ("Client", "Proxy", "Receiver", "Sender")
_SILENT: Final = re.compile(r"_|close$|from_|.*_(client|sender|receiver)$")
"""Methods of the SDK's clients that send nothing."""
_FUTURES: Final = (asyncio.create_task, asyncio.ensure_future, asyncio.gather, asyncio.shield)
"""Functions that make what is to be awaited, and are no coroutine functions."""
_ASYNC_CLIENT: Final = "use AsyncLockClient, with async with and await"


def check_body(subject: Subject) -> Iterator[Finding]:
    """Yield the mistakes in the body of a function."""
    written, folder = subject.written, subject.app.folder
    if written is None or subject.trigger.is_replayed:
        return
    yield from _not_awaited(subject, written)
    if subject.is_async and inspect.iscoroutinefunction(written):
        for call, place in _reached(written, folder):
            if (remedy := _blocks(call)) is not None:
                yield RULES["blocking-call"].broken(
                    f"{call.name} blocks the event loop of the worker: no other async function of this worker goes on "
                    f"meanwhile, and no body is cancelled when its lock is lost. {remedy[0].upper()}{remedy[1:]}",
                    place=place,
                )
    if not (subject.guards or subject.inbox or subject.refused) and written is getattr(
        subject.call, "__func__", subject.call
    ):
        for call, place in _reached(written, folder, surely=True):
            if call.function is current_hold and not call.caught:
                yield RULES["hold-without-guard"].broken(
                    "current_hold() is called in a function without a guard: it raises RuntimeError. Put @singleton on "
                    "the function, or take the hold of a block: with locks.lock(…) as hold",
                    place=place,
                )


def _not_awaited(subject: Subject, written: FunctionType) -> Iterator[Finding]:
    for call in calls_in(written):
        makes_future = call.function in _FUTURES
        if not makes_future and not makes_coroutine(call.function):
            continue
        if isinstance(call.around, ast.Return) and inspect.iscoroutinefunction(written) == subject.is_async:
            became = "the function returns it, so the invocation fails: it would run without the lock"
        elif isinstance(call.around, ast.Expr) and not makes_future:
            became = "nobody awaits it, so its work is not done"
        else:
            continue
        yield RULES["coroutine-not-awaited"].broken(
            f"{call.name} makes a {'future' if makes_future else 'coroutine'}, and {became}. Write await, in an async "
            "def",
            place=_place(call, written, subject.app.folder),
        )


def _reached(
    function: FunctionType, folder: Path | None, *, surely: bool = False, seen: set[FunctionType] | None = None
) -> Iterator[tuple[Call, Place]]:
    """Yield the calls of a function and of the app's functions below it; with ``surely`` the calls of every run."""
    is_below, seen = seen is not None, set() if seen is None else seen
    seen.add(function)
    for call in calls_in(function):
        is_sure = call.sure and not call.caught
        if is_sure or not (surely and is_below):
            yield call, _place(call, function, folder)
        called = call.function
        if (
            isinstance(called, FunctionType)
            and called not in seen
            and not hasattr(called, "__wrapped__")
            and is_the_apps(called.__code__.co_filename, folder)
            and (is_sure or not surely)
        ):
            yield from _reached(called, folder, surely=surely, seen=seen)


def _place(call: Call, function: FunctionType, folder: Path | None) -> Place:
    shown = call.around if isinstance(call.around, ast.Return) else call.node
    return Place.of(function.__code__.co_filename, shown.lineno, folder)


def _blocks(call: Call) -> str | None:
    """Return the remedy for a call that blocks the thread; None: the call does not block."""
    function = call.function
    if isinstance(call.target, Method):
        return _blocks_on(call, call.target.of, call.target.function.__name__)
    if not isinstance(function, FunctionType | BuiltinFunctionType) or inspect.iscoroutinefunction(function):
        return None
    name = (function.__module__, function.__name__)
    if name == ("singleton.patterns.once.entry_point", "once") and call.entered:
        kind = call.given.of if isinstance(call.given, Instance) else type(call.given)
        return _ASYNC_CLIENT if issubclass(kind, LockClient) else None
    if guards_of(function):
        return f"{_IN_A_THREAD}, or make it async: it waits for its lock"
    if name[0] in _HTTP and name[1] in _VERBS:
        return f"use an async HTTP client, or {_IN_A_THREAD}"
    return _BLOCKING.get(name)


def _blocks_on(call: Call, kind: type, name: str) -> str | None:
    """Return the remedy for a method that blocks the thread; None: the method does not block."""
    if issubclass(kind, LockClient):
        waits = call.entered or inspect.iscoroutinefunction(getattr(AsyncLockClient, name, None))
        return _ASYNC_CLIENT if waits else None
    modules = {each.__module__ for each in kind.__mro__}
    if any(each.startswith("singleton.") for each in modules):
        has_twin = inspect.iscoroutinefunction(getattr(kind, f"a{name}", None))
        return f"await a{name}()" if has_twin else None
    sdks = [each for each in kind.__mro__ if each.__module__.startswith(_SDKS)]
    if sdks and sdks[0].__name__.endswith(_CLIENTS) and ".aio" not in sdks[0].__module__ and not _SILENT.match(name):
        return f"use the client of the same name in the SDK's module aio, or {_IN_A_THREAD}"
    if modules & _HTTP and name in _VERBS and "Async" not in kind.__name__:
        return f"use an async HTTP client, or {_IN_A_THREAD}"
    return None
