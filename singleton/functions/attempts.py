"""Other ways to acquire a lock than in line: by attempts, as a layout may say (D-29 to D-31), or a slot of several."""

from __future__ import annotations

import asyncio
import math
from itertools import repeat
from typing import TYPE_CHECKING, Final, TypedDict

from singleton.base.errors import LockNotAcquired, StorageUnavailable

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from singleton.base.hold import Hold
    from singleton.layouts.layout import Attempts
    from singleton.process.address import Address
    from singleton.process.registry import Registry

_SHORTEST: Final = 0.1
"""Seconds between two attempts, at least: with no shortest delay, a wait for a time-out would be a storm."""


class Kept(TypedDict):
    """For how many seconds a hold is kept: at least, and at most."""

    at_least: float
    max_hold: float | None


async def acquire_slot(
    registry: Registry, address: Address, limit: int, *, timeout: float | None, owner: str, kept: Kept
) -> Hold:
    """Acquire one of ``limit`` slots. The hold shows no token: that of a slot is no fence among holders of others."""
    hold = await registry.acquire(address, timeout=timeout, owner=owner, limit=limit, **kept)
    hold.token, hold.stateless = None, f"with limit={limit}, several have it at a time"
    return hold


def delays(attempts: Attempts, rng: random.Random) -> Iterator[float]:
    """Yield the seconds after each failed attempt (D-31), without end."""
    yield float(attempts.shortest)
    part = float(attempts.shortest)
    while attempts.shortest and (delay := attempts.shortest + rng.uniform(0.8, 1.2) * part) < attempts.longest:
        yield delay
        part *= 2
    yield from repeat(float(attempts.longest if attempts.shortest else 0))


async def acquire_by_attempts(
    registry: Registry,
    address: Address,
    attempts: Attempts,
    *,
    timeout: float | None,
    owner: str,
    within: float | None = None,
    at_least: float = 0.0,
    max_hold: float | None = None,
) -> Hold:
    """Try as often as ``attempts`` says (D-29), or with a time-out until then; 0 asks once.

    Where ``within`` is given, it ends after so many seconds in any case.

    Raises:
        LockNotAcquired: somebody else had it at the last attempt (D-30).
        StorageUnavailable: the storage did not answer the last attempt.
    """
    loop = asyncio.get_running_loop()
    ends = loop.time() + min(math.inf if limit is None else limit for limit in (timeout, within))
    left = attempts.retries if timeout is None else math.inf
    pauses = delays(attempts, registry.rng)
    with registry.long_wait(address, owner):
        while True:
            try:
                return await registry.acquire(address, timeout=0, owner=owner, at_least=at_least, max_hold=max_hold)
            except (LockNotAcquired, StorageUnavailable) as error:
                if left == 0 and isinstance(error, LockNotAcquired):
                    raise _exhausted(error, attempts) from None
                if left == 0 or loop.time() >= ends:
                    raise
            left -= 1
            await asyncio.sleep(min(max(next(pauses), _SHORTEST), ends - loop.time()))


def _exhausted(error: LockNotAcquired, attempts: Attempts) -> LockNotAcquired:
    tried = f"the retry limit of {attempts.retries} ({attempts.named}) is reached"
    return LockNotAcquired(
        f"{error.message}; {tried}", lock=error.lock, owner=error.owner, reason="retries", holder=error.holder
    )
