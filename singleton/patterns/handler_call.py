"""Calls of handlers: the work of a handler has ended before its message counts as handled. Texts of errors, to keep."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from singleton.base.callables import finish, refuse_awaitable, refuse_iterator
from singleton.runtime.calls import at_once
from singleton.runtime.late_work import settled

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


def call(handler: Callable[..., Any], argument: object, outputs: Collection[Any] = ()) -> None:
    """Call a sync handler; refuse an awaitable and an iterator, whose work would end after the message.

    The items of an iterator in ``outputs``, the invocation's bindings, are made here.
    """
    returned = handler(argument)
    refuse_awaitable(
        returned,
        f"the handler returned a {type(returned).__name__}, which is not awaited here: give a coroutine function "
        "(async def) to worker, ahandle or @ordered",
    )
    refuse_iterator(returned, "the handler")
    at_once(settled(None, outputs, "", "", waits=False))


async def call_async(handler: Callable[..., Any], argument: object, outputs: Collection[Any] = ()) -> None:
    """Call an async handler; a plain function has done its work when it returns. ``outputs``: as for ``call``."""
    await finish(handler(argument), "the handler")
    await settled(None, outputs, "", "", waits=True)


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
