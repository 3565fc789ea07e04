"""The current invocation: its hold, which ``current_hold`` returns, and its name, under which lines are logged."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from singleton.base.currenthold import current_hold, showing, shown_hold
from singleton.base.naming import Invocation, under_way
from singleton.process.reentry import enter, leave

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from singleton.base.events import Call
    from singleton.base.hold import Hold

__all__ = ["around", "current", "current_hold", "in_its_name"]

_SelfT = TypeVar("_SelfT")
_P = ParamSpec("_P")


def around(owner: str) -> Hold | None:
    """Return the hold that this invocation has already, by a declaration around this one: as a listener."""
    hold = shown_hold.get(None)
    return hold if owner and hold is not None and hold.owner == owner else None


@contextlib.contextmanager
def current(hold: Hold) -> Iterator[None]:
    """Make this the hold that ``current_hold`` returns."""
    with showing(hold):
        entered = enter(hold)
        try:
            yield
        finally:
            leave(entered)


def in_its_name(
    run: Callable[Concatenate[_SelfT, Call, _P], Coroutine[Any, Any, Any]],
) -> Callable[Concatenate[_SelfT, Call, _P], Coroutine[Any, Any, Any]]:
    """Make what is logged while ``run`` runs a call go out in the name of its invocation."""

    async def named(self: _SelfT, call: Call, /, *args: _P.args, **kwargs: _P.kwargs) -> Any:
        with under_way(Invocation(call.owner, call.storage, call.function)):
            return await run(self, call, *args, **kwargs)

    return named
