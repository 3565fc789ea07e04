"""Literal types of several rooms: kinds of locks, stamps and losses."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, Literal, TypeAlias, get_args

Level = Literal["function", "host"]
"""Owner of the lock: one function, or every function of a host with the same scope (W-6)."""
LEVELS: Final[tuple[Level, ...]] = get_args(Level)

Mode = Literal["function", "listener"]
"""Duration of the hold: one invocation, or the life of the process (W-5)."""

LayoutName = Literal["default", "webjobs", "dequeueable"]
"""Layout of ``@singleton``: decides where the lock's blob is."""

Use = Literal["function", "listener", "lock", "semaphore", "leadership", "periodic"]
"""Use of a lock: the modes of functions, and the calls of lock clients."""

Stamp = Literal["none", "owner", "token"]
"""Stamp of an acquisition on the blob: none; the owner, as in WebJobs (W-57); or owner, host and fencing token."""

LossReason = Literal["expired", "stolen", "broken", "blob gone", "closed", "too long"]
"""Reason of the loss of a hold."""

OnLoss = Literal["raise", "tell"]
"""End of a block whose hold was lost: the block raises ``LockLost``, or only ``hold.lost`` tells of the loss."""

Policy = Literal["wait", "skip", "raise", "defer", "conflict", "coalesce"]
"""What to do when another invocation has the lock: wait for it, skip this one as a success, raise
``LockNotAcquired``, put a storage queue's message back for a while, answer an HTTP request with 409, or end this one as
a success while another invocation waits. Your function returns a policy; not ``"coalesce"``."""
POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)

WhenFull = Literal["raise", "defer"]
"""Policy of an invocation which meets ``max_waiting`` waiters in its process."""

Seconds: TypeAlias = float | timedelta
"""A duration: seconds, or a ``timedelta``."""
