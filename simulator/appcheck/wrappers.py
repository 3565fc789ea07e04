"""Findings on other decorators around or below a guard: facts which they hide from the guard."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from simulator.appcheck.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.appcheck.checked_app import Subject
    from simulator.appcheck.finding import Finding
    from singleton.functions.guard import Guard


def check_wrapping(subject: Subject, guard: Guard) -> Iterator[Finding]:
    """Yield the decorators that keep a guard from knowing its function, or its function from being awaited."""
    trigger = subject.trigger
    if subject.hidden and not trigger.is_replayed:
        yield RULES["hidden-by-decorator"].broken(
            f"the decorator {getattr(subject.call, '__qualname__', '?').partition('.')[0]} hides {guard.function}, "
            f"so {guard.decorator} knows neither its trigger nor its invocation. Use functools.wraps there, or put "
            f"{guard.decorator} above all others"
        )
        if "defer" in (guard.on_contention, guard.when_full):
            yield RULES["defer-without-trigger"].broken(
                f"'defer' needs to know the queue, and {guard.decorator} does not see its trigger here. Use "
                f"functools.wraps in the decorator, or put {guard.decorator} above all others"
            )
    if inspect.iscoroutinefunction(guard.written) and not subject.is_async:
        yield RULES["sync-wrapper-around-async"].broken(
            f"{guard.function} is async, and a decorator makes a plain function of it: if that returns the "
            f"coroutine, each invocation fails. Put {guard.decorator} right above the async def"
        )
