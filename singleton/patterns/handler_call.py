"""Calls of handlers: the work of a handler has ended before its message counts as handled. Texts of errors, to keep."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable


def is_async(handler: object) -> bool:
    """Tell whether a handler is a coroutine function, or an object whose ``__call__`` is a coroutine function."""
    call = getattr(handler, "__call__", None)  # noqa: B004 - what it is matters, not whether it is
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def call(handler: Callable[..., Any], *arguments: Any) -> None:
    """Call a sync handler.

    Raises:
        ConfigurationError: the handler returned an awaitable, whose work would end after the message.
    """
    returned = handler(*arguments)
    refuse_awaitable(
        returned,
        f"the handler returned a {type(returned).__name__}, which is not awaited here: give a coroutine function "
        "(async def) to worker, ahandle or @ordered",
    )


def refuse_awaitable(returned: object, said: str) -> None:
    """Raise ``ConfigurationError`` with the message ``said`` for an awaitable, whose work would never end."""
    if inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()
        raise ConfigurationError(said)


async def call_async(handler: Callable[..., Any], *arguments: Any) -> None:
    """Call an async handler; a plain function has done its work when it returns."""
    returned = handler(*arguments)
    if inspect.isawaitable(returned):
        await returned


_ERROR: Final = 1000
"""Characters of an error that are kept with its message."""
_CREDENTIALS: Final = re.compile(r"(?<=://)\S+(?=@)|(?<=[?&]sig=)[^&\s]+|(?<=(?i:password)=)[^;&\s]+")


def told(error: BaseException) -> str:
    """Return what is kept of an error: its kind and its text, cut short, without the credentials of URLs."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - somebody else's code
        text = ""
    return storable(_CREDENTIALS.sub("***", f"{type(error).__name__}: {text}")[:_ERROR])


def storable(text: str) -> str:
    """Return a text without what not every database takes: no note of a failure may fail for it."""
    return text.encode(errors="replace").decode().replace("\0", "?")
