"""The current invocation: its hold, which ``current_hold`` returns, and its name, under which lines are logged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from singleton.base.currenthold import current_hold, shown_hold
from singleton.base.invocation import Invocation, UnderWay
from singleton.process.reentry import enter, leave

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Token

    from singleton.base.events import Call
    from singleton.base.hold import Hold
    from singleton.process.reentry import Nesting

__all__ = ["BodyContext", "around", "current_hold", "in_its_name"]

_SelfT = TypeVar("_SelfT")
_P = ParamSpec("_P")


def around(owner: str) -> Hold | None:
    """Return the hold of an outer declaration for the same invocation: the seat of a listener."""
    hold = shown_hold.get(None)
    return hold if owner and hold is not None and hold.owner == owner else None


class BodyContext:
    """A block in which ``current_hold`` returns this hold."""

    __slots__ = ("_entered", "_hold", "_shown")

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._shown: Token[Hold]
        self._entered: tuple[Nesting, ...]

    def __enter__(self) -> None:
        self._shown = shown_hold.set(self._hold)
        self._entered = enter(self._hold)

    def __exit__(self, *_: object) -> None:
        leave(self._entered)
        shown_hold.reset(self._shown)


def in_its_name(
    run: Callable[Concatenate[_SelfT, Call, _P], Coroutine[Any, Any, Any]],
) -> Callable[Concatenate[_SelfT, Call, _P], Coroutine[Any, Any, Any]]:
    """Make what is logged while ``run`` runs a call go out in the name of its invocation."""

    async def named(self: _SelfT, call: Call, /, *args: _P.args, **kwargs: _P.kwargs) -> Any:
        with UnderWay(Invocation(call.owner, call.storage, call.function, call.scope)):
            return await run(self, call, *args, **kwargs)

    return named
