"""A mutex, for the few things that several threads touch: held for moments, never while waiting."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

Mutex: TypeAlias = "AbstractContextManager[object]"


def new_mutex() -> Mutex:
    """Return a mutex that nobody has. A thread that has it may take it again.

    Garbage may be collected while somebody has it, and what is abandoned then may give back what it held.
    """
    return threading.RLock()
