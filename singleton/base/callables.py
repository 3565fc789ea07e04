"""What the app's functions are declared as, and what becomes of results whose work has not run yet."""

from __future__ import annotations

import functools
import inspect
import sys
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any

from singleton.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

if sys.version_info >= (3, 14):
    # Annotations are read when somebody asks for them. A decorator asks before the names below the function exist.
    from annotationlib import Format, ForwardRef, get_annotations

    def signature_of(function: Callable[..., Any]) -> inspect.Signature:
        """Return the signature of a function. A name in its annotations may have no value yet."""
        return inspect.signature(function, annotation_format=Format.FORWARDREF)

    def annotations_of(function: object) -> dict[str, Any]:
        """Return the annotations of a function. One without a value yet is a text."""
        if not hasattr(function, "__annotate__"):
            return {}
        known = get_annotations(function, format=Format.FORWARDREF)
        return {name: each.__forward_arg__ if isinstance(each, ForwardRef) else each for name, each in known.items()}

else:

    def signature_of(function: Callable[..., Any]) -> inspect.Signature:
        """Return the signature of a function."""
        return inspect.signature(function)

    def annotations_of(function: object) -> dict[str, Any]:
        """Return the annotations of a function."""
        return getattr(function, "__annotations__", {})


def returns_coroutine(function: object) -> bool:
    """Tell whether a call of the function returns a coroutine.

    True for a coroutine function, a method or partial of one, and an object whose ``__call__`` is one. A plain function
    around an async function is known only by its result: see ``finish`` and ``refuse_awaitable``.
    """
    while isinstance(function, functools.partial):
        function = function.func
    call = getattr(type(function), "__call__", None)  # noqa: B004 - whether it is async matters, not whether it is
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def refuse_async(function: object, argument: str) -> None:
    """Raise ``ConfigurationError`` for an async function where nobody would await the answer."""
    if returns_coroutine(function):
        name = getattr(function, "__name__", repr(function))
        raise ConfigurationError(f"{argument} is the async function {name}: give a plain function (def)")


async def finish(returned: object, what: str) -> object:
    """Return what the call of ``what`` returned, awaited if it is awaitable; refuse an iterator over the work."""
    if inspect.isawaitable(returned):
        returned = await returned
    refuse_iterator(returned, what)
    return returned


def refuse_awaitable(returned: object, said: str) -> None:
    """Raise ``ConfigurationError`` with the message ``said`` for an awaitable, whose work would never end."""
    if inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()
        raise ConfigurationError(said)


def refuse_iterator(returned: object, what: str) -> None:
    """Raise ``ConfigurationError`` if the call of ``what`` returned an iterator over its work, which nobody begins."""
    if isinstance(returned, AsyncGeneratorType | GeneratorType | filter | map | zip):
        raise ConfigurationError(
            f"{what} returned a {type(returned).__name__}, and its body did not run: give a function without yield, "
            "which goes through a map, a filter or a zip itself"
        )
