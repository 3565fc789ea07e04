"""Types that several rooms share: kinds of locks, of owners and of losses."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, Literal, TypeAlias, get_args

Level = Literal["function", "host"]
"""Whose a lock is: one function's, or all functions' of a host that name the same scope (W-6)."""
LEVELS: Final[tuple[Level, ...]] = get_args(Level)

Mode = Literal["function", "listener"]
"""For how long: around each invocation, or for the life of the process (W-5)."""

Use = Literal["function", "listener", "lock", "semaphore", "leadership", "periodic"]
"""What a lock is used for: the modes of functions, and the ways of the lock clients."""

Stamp = Literal["none", "owner", "token"]
"""What an acquisition writes on the blob: nothing; its owner, as WebJobs does (W-57); or owner, host and token."""

LossReason = Literal["expired", "stolen", "broken", "blob gone", "closed", "too long"]
"""Why a hold was lost."""

WhenFull = Literal["raise", "defer"]
"""What an invocation does where as many of its process wait for the lock as ``max_waiting`` allows."""

Seconds: TypeAlias = float | timedelta
"""A duration: seconds, or a ``timedelta``."""
