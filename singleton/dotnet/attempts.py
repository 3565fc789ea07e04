"""A wait for a lock other than in line, as Dequeueable waits: some attempts with delays between (D-29 to D-31)."""

from __future__ import annotations

import asyncio
import math
from itertools import repeat
from typing import TYPE_CHECKING, Final

from singleton.base.errors import LockNotAcquired, StorageUnavailable
from singleton.dotnet.dequeueable import SECTION

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Iterator

    from singleton.base.hold import Hold
    from singleton.layouts.attempt_delays import Attempts

_SHORTEST: Final = 0.1
"""The least seconds between two attempts: with no shortest delay, a wait with a time-out would be a storm."""


def delays(attempts: Attempts, rng: random.Random) -> Iterator[float]:
    """Yield the seconds after each failed attempt (D-31), without end."""
    yield float(attempts.shortest)
    part = float(attempts.shortest)
    while attempts.shortest and (delay := attempts.shortest + rng.uniform(0.8, 1.2) * part) < attempts.longest:
        yield delay
        part *= 2
    yield from repeat(float(attempts.longest if attempts.shortest else 0))


async def repeated(
    attempt: Callable[[], Awaitable[Hold]],
    attempts: Attempts,
    rng: random.Random,
    *,
    timeout: float | None,
    within: float | None = None,
) -> Hold:
    """Repeat an attempt as often as ``attempts`` says (D-29), or with a timeout until its end; 0 asks once.

    Args:
        timeout: seconds for all attempts; None: their number ends the wait.
        within: the wait ends after so many seconds in any case; None: no such end.

    Errors are those of the last attempt (D-30).
    """
    loop = asyncio.get_running_loop()
    ends = loop.time() + min(math.inf if limit is None else limit for limit in (timeout, within))
    left = attempts.retries if timeout is None else math.inf
    pauses = delays(attempts, rng)
    while True:
        try:
            return await attempt()
        except (LockNotAcquired, StorageUnavailable) as error:
            if left == 0 and isinstance(error, LockNotAcquired):
                raise LockNotAcquired(
                    f"{error.message}; the retry limit of {attempts.retries} ({SECTION}:MaxRetries) is reached",
                    lock=error.lock,
                    owner=error.owner,
                    reason="retries",
                    holder=error.holder,
                ) from None
            if left == 0 or loop.time() >= ends:
                raise
        left -= 1
        await asyncio.sleep(min(max(next(pauses), _SHORTEST), ends - loop.time()))
