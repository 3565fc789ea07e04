"""Other decorators around and below a guard: what they hide from it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from singleton.checking.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from singleton.checking.finding import Finding
    from singleton.checking.subject import Subject


def check_wrapping(subject: Subject) -> Iterator[Finding]:
    """Yield the decorators that keep a guard from knowing its function, or its function from being awaited."""
    for guard in subject.guards:
        if subject.hidden:
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
