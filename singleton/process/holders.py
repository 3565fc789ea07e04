"""Puts the lock's holder into the error of a caller that did not get the lock.

Reading the holder is a request, so it is sent at most once a minute for each lock of this process (``longwaits.py``).
It is a task of its own, and nobody waits long for its answer; a late answer serves the next caller that is refused.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from singleton.base.errors import LockNotAcquired

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from singleton.process.address import Address
    from singleton.process.registry import Registry

_LONG: Final = 1.0
"""Seconds that an answer is waited for by whoever waited for the lock that long, or fails for want of it."""
_SHORT: Final = 0.25
"""The same for whoever skips, or would not wait a second for the lock."""


def patience(timeout: float | None, *, skips: bool = False) -> float:
    """Return how long to wait to hear who has a lock that was waited for so long; 0: it was asked for once."""
    return _SHORT if skips or (timeout is not None and 0 < timeout < _LONG) else _LONG


async def name_holder(registry: Registry, address: Address, error: LockNotAcquired, seconds: float) -> None:
    """Put into the error who has the lock, unless it is there; wait no longer for the answer than so many seconds."""
    if error.holder is None:
        try:
            async with asyncio.timeout(seconds):
                error.holder = await registry.who_has(address).holder()
        except TimeoutError:
            pass


@asynccontextmanager
async def naming_holder(registry: Registry, address: Address, timeout: float | None) -> AsyncIterator[None]:
    """Acquire a lock in this block; the error of one that is not acquired in time says who has it."""
    try:
        yield
    except LockNotAcquired as error:
        await name_holder(registry, address, error, patience(timeout))
        raise
