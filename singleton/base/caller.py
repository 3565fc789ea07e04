"""The caller for whom the lock thread works: its thread, its task, its event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
import weakref
from contextvars import ContextVar
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

_PACKAGE: Final = str(Path(__file__).parents[1])

LoopRef: TypeAlias = "weakref.ref[asyncio.AbstractEventLoop]"


class Caller(NamedTuple):
    """A caller of the locks of this process.

    ``blocks_at``: for a call that blocks the event loop, the call's place in the code, empty where nothing else is on
    the loop; None: no loop is blocked.
    """

    thread: int
    task: weakref.ref[asyncio.Task[object]] | None = None
    loop: LoopRef | None = None
    blocks_at: str | None = None

    def is_inside(self, block: Caller) -> bool:
        """Tell whether the caller is the thread, or task, of a block."""
        return self[:2] == block[:2]


serving: Final[ContextVar[Caller | None]] = ContextVar("singleton_caller", default=None)
"""On the lock thread: the caller who waits for the present task; None: nobody waits."""

alone: Final[ContextVar[bool]] = ContextVar("singleton_alone", default=False)
"""Whether nothing else is on the event loop of the running code: a blocked loop does no harm."""


def this_caller(*, blocks: bool = False) -> Caller:
    """Return the running thread, task and loop; ``blocks``: the call blocks the thread."""
    loop, thread = asyncio._get_running_loop(), threading.get_ident()  # noqa: SLF001 - there is no public way without an error
    if loop is None:
        return Caller(thread)
    task = asyncio.current_task(loop)
    known = None if task is None else weakref.ref(task)
    place = None if not blocks else "" if alone.get() else _place()
    return Caller(thread, known, weakref.ref(loop), place)


def _place() -> str:
    """Return the file and the line of the call to this package."""
    frame = sys._getframe(1)  # noqa: SLF001 - there is no other way
    while (caller := frame.f_back) is not None:
        frame = caller
        if not (frame.f_code.co_filename.startswith(_PACKAGE) or frame.f_globals.get("__name__") == "contextlib"):
            break
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
