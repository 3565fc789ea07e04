"""The hold of the invocation that runs: what ``current_hold`` returns."""

from __future__ import annotations

import contextlib
import contextvars
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from singleton.base.hold import Hold

_current: contextvars.ContextVar[Hold] = contextvars.ContextVar("singleton_hold")


def current_hold() -> Hold:
    """Return the hold of the guarded invocation that this code runs in.

    Raises:
        RuntimeError: this code does not run inside a function guarded by ``@singleton``. A thread that the function
            starts by itself doesn't either: hand it the hold.
    """
    try:
        return _current.get()
    except LookupError:
        raise RuntimeError("current_hold() was called outside a function guarded by @singleton") from None


@contextlib.contextmanager
def current(hold: Hold) -> Iterator[None]:
    """Make this the hold that ``current_hold`` returns."""
    token = _current.set(hold)
    try:
        yield
    finally:
        _current.reset(token)
