"""The hold of the running guarded call, for ``current_hold``."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING

from singleton.base.valued import Valued

if TYPE_CHECKING:
    from singleton.base.hold import Hold

shown_hold: contextvars.ContextVar[Hold] = contextvars.ContextVar("singleton_hold")


def current_hold() -> Hold:
    """Return the hold of the guarded call around the caller.

    Raises:
        RuntimeError: the caller runs outside a function guarded by ``@singleton``, ``@once``, ``@ordered`` or a lock
            client's decorator. A thread started by the function counts as outside: pass the hold to the thread.
    """
    try:
        return shown_hold.get()
    except LookupError:
        raise RuntimeError(
            "current_hold() was called outside a function guarded by @singleton, @once, @ordered or a lock client's "
            "decorator"
        ) from None


def showing(hold: Hold) -> Valued[Hold]:
    """Have ``current_hold`` return this hold in the block."""
    return Valued(shown_hold, hold)
