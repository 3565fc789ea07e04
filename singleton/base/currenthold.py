"""The hold under which code runs: what ``current_hold`` returns."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING

from singleton.base.valued import Valued

if TYPE_CHECKING:
    from singleton.base.hold import Hold

shown_hold: contextvars.ContextVar[Hold] = contextvars.ContextVar("singleton_hold")


def current_hold() -> Hold:
    """Return the hold of the guarded call that this code runs in.

    Raises:
        RuntimeError: this code does not run inside a function guarded by ``@singleton``, ``@once``, ``@ordered`` or a
            lock client's decorator. A thread that the function starts by itself doesn't either: hand it the hold.
    """
    try:
        return shown_hold.get()
    except LookupError:
        raise RuntimeError(
            "current_hold() was called outside a function guarded by @singleton, @once, @ordered or a lock client's "
            "decorator"
        ) from None


def showing(hold: Hold) -> Valued[Hold]:
    """Make this the hold that ``current_hold`` returns in the block."""
    return Valued(shown_hold, hold)
