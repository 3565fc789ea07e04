"""Findings on other decorators around or below a guard: facts which they hide from the guard."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from simulator.appcheck.rules import RULES
from singleton.decorator import guards_of
from singleton.functions.body_result import WRITTEN_ONE_BY_ONE
from singleton.functions.guard import ONCE_MARK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.appcheck.checked_app import Subject
    from simulator.appcheck.finding import Finding


def check_wrapping(subject: Subject) -> Iterator[Finding]:
    """Yield the decorators that keep a guard from knowing its function, or its function from being awaited."""
    if inspect.isgeneratorfunction(_guarded(subject.call)) and not (
        subject.trigger.is_replayed or subject.trigger.returns in WRITTEN_ONE_BY_ONE
    ):
        guard = subject.guards[0]
        yield RULES["generator-function"].broken(
            f"{guard.function} has a yield, so a call of it runs nothing of its body: each invocation fails. Do the "
            "work in the function, and return a value or a list",
            subject.name,
            subject.place_of(guard),
        )
    for guard in subject.guards:
        if subject.hidden and not subject.trigger.is_replayed:
            yield RULES["hidden-by-decorator"].broken(
                f"the decorator {getattr(subject.call, '__qualname__', '?').partition('.')[0]} hides {guard.function}, "
                f"so {guard.decorator} knows neither its trigger nor its invocation. Use functools.wraps there, or put "
                f"{guard.decorator} above all others",
                subject.name,
                subject.place_of(guard),
            )
        users = guard.code
        is_coroutine = users is not None and bool(users.co_flags & inspect.CO_COROUTINE)
        if is_coroutine and not subject.is_async:
            yield RULES["sync-wrapper-around-async"].broken(
                f"{guard.function} is async, and a decorator makes a plain function of it: if that returns the "
                f"coroutine, each invocation fails. Put {guard.decorator} right above the async def",
                subject.name,
                subject.place_of(guard),
            )


def _guarded(call: Any) -> object:
    """Return what is below the guards of a function; None where it has none."""
    if not _is_guarded(call):
        return None
    while _is_guarded(call):
        call = getattr(call, "__wrapped__", None)
    return call


def _is_guarded(call: object) -> bool:
    return bool(guards_of(call)) or hasattr(call, ONCE_MARK)
