"""A callback of a virtual loop: asyncio's handle, with the machine that it belongs to."""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.virtual.machine import Machine

HOST: contextvars.ContextVar[Machine | None] = contextvars.ContextVar("simulated_host", default=None)
"""The machine on which the running code is; None for the network, the service, and who watches."""


class Callback(asyncio.TimerHandle):
    """Runs ``callback`` in ``context`` (by default a copy of the current one), soon or at ``when``."""

    __slots__ = ("machine",)

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None,
        when: float = 0.0,
    ) -> None:
        """Set what asyncio's own constructors set, in half the time."""
        if context is None:
            context = contextvars.copy_context()
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = False
        self.machine = context.get(HOST)

    def cancel(self) -> None:
        """Never run; let go of what would have run."""
        self._cancelled = True
        self._callback, self._args = bool, ()
