"""Findings on other decorators around or below a guard: facts which they hide from the guard."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from simulator.appcheck.rules import RULES
from singleton.decorator import guards_of
from singleton.functions.body_result import WRITTEN_ONE_BY_ONE
from singleton.functions.triggers import ONCE_MARK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.appcheck.checked_app import Subject
    from simulator.appcheck.finding import Finding
    from singleton.functions.guard import Guard


def check_wrapping(subject: Subject, guard: Guard) -> Iterator[Finding]:
    """Yield the decorators that keep a guard from knowing its function, or its function from being awaited."""
    trigger = subject.trigger
    may_yield = trigger.is_replayed or trigger.returns in WRITTEN_ONE_BY_ONE
    if not may_yield and guard is subject.guards[0] and inspect.isgeneratorfunction(_guarded(subject.call)):
        yield RULES["generator-function"].broken(
            f"{guard.function} has a yield, so a call of it runs nothing of its body: each invocation fails. Do "
            "the work in the function, and return a value or a list"
        )
    if subject.hidden and not trigger.is_replayed:
        yield RULES["hidden-by-decorator"].broken(
            f"the decorator {getattr(subject.call, '__qualname__', '?').partition('.')[0]} hides {guard.function}, "
            f"so {guard.decorator} knows neither its trigger nor its invocation. Use functools.wraps there, or put "
            f"{guard.decorator} above all others"
        )
    if inspect.iscoroutinefunction(guard.written) and not subject.is_async:
        yield RULES["sync-wrapper-around-async"].broken(
            f"{guard.function} is async, and a decorator makes a plain function of it: if that returns the "
            f"coroutine, each invocation fails. Put {guard.decorator} right above the async def"
        )


def _guarded(call: Any) -> object:
    """Return the callable below the guards of a function; None: the function has no guard."""
    if not _is_guarded(call):
        return None
    while _is_guarded(call):
        call = getattr(call, "__wrapped__", None)
    return call


def _is_guarded(call: object) -> bool:
    return bool(guards_of(call)) or hasattr(call, ONCE_MARK)
