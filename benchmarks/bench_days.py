"""What does a day of locks cost? The shipped code lives through days on virtual time, and its requests are counted.

Storage bills a request by its kind. Of those that a lock makes only the making of a blob is a *write*; acquiring,
renewing, releasing, breaking, reading and writing metadata are *other* operations (general-purpose v2 accounts).
Requests that are refused are billed, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from benchmarks.measuring import heading, say, table
from singleton import AsyncLockClient, LockNotAcquired, SingletonOptions, singleton
from singleton.stores.request_count import count_requests, counted
from singleton.testing import held_elsewhere, virtual_time
from singleton.testing.memory import current

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.measuring import Rows, Tables

    Day = Callable[[], Awaitable[None]]

OTHER: Final = 0.0044
"""Dollars for 10,000 other operations: the hot tier, locally redundant, as listed for East US in 2026."""
WRITES: Final = 0.055
"""Dollars for 10,000 writes there."""
_DAY: Final = 86_400 - 1
"""Seconds. Virtual time of tests ends after a day."""
_TICKS: Final = 24 * 60
_MESSAGES: Final = 100_000
_FEW: Final = 1_000


def calls_of(day: Day, *elsewhere: str) -> Counter[str]:
    """Count the requests of a day, from when its store is open; somebody else has some locks."""
    calls: Counter[str] = Counter()

    @virtual_time
    async def live() -> None:
        async with AsyncLockClient("AzureWebJobsStorage").lock("opens the store"):
            pass
        with contextlib.ExitStack() as held:
            for name in elsewhere:
                held.enter_context(held_elsewhere(name))
            held.callback(count_requests(lambda operation, _: calls.update([operation])))
            (store,) = current()._stores.values()  # noqa: SLF001
            counted(store, "blob")
            await day()

    live()
    return calls


async def _timer() -> None:
    """Tick each minute; nobody else uses the lock."""

    @singleton
    async def job() -> None:
        await asyncio.sleep(1)

    for number in range(_TICKS):
        await asyncio.sleep(59 if number else 0)
        await job()


def messages(count: int, values: int) -> Day:
    """Handle so many messages, which have so many scope values."""

    async def day() -> None:
        @singleton(scope="Id")
        async def ship(msg: dict[str, int]) -> None: ...

        for number in range(count):
            await ship({"Id": number % values})

    return day


def _calls_of_messages(values: int) -> Counter[str]:
    """Count for a few, and from there on what one more takes: it is the same for each."""
    few, more = (calls_of(messages(count, values)) for count in (_FEW, 2 * _FEW))
    each = (_MESSAGES - _FEW) // _FEW
    return Counter({name: few[name] + each * (more[name] - few[name]) for name in more})


async def _leads() -> None:
    """Lead, or try to."""
    async with AsyncLockClient("AzureWebJobsStorage").leadership("leader"):
        await asyncio.sleep(_DAY)


def _holds(options: SingletonOptions) -> Day:
    async def day() -> None:
        async with AsyncLockClient("AzureWebJobsStorage", options=options).lock("held"):
            await asyncio.sleep(_DAY)

    return day


def _waits(options: SingletonOptions) -> Day:
    async def day() -> None:
        with contextlib.suppress(LockNotAcquired):
            await AsyncLockClient("AzureWebJobsStorage", options=options).acquire("held", timeout=_DAY)

    return day


def _all_days() -> dict[str, Counter[str]]:
    usual = SingletonOptions()
    days = {
        "a timer, every minute": calls_of(_timer),
        f"{_MESSAGES:,} messages, each with a new scope value": _calls_of_messages(_MESSAGES),
        f"{_MESSAGES:,} messages, one after the other, 100 scope values": _calls_of_messages(100),
        "a listener or leader": calls_of(_leads),
        "a process that tries to become it": calls_of(_leads, "leader"),
        "a lock held all day": calls_of(_holds(usual)),
        "a process that waits for it all day": calls_of(_waits(usual), "held"),
    }
    if hasattr(usual, "failover"):
        fast = usual.replace(failover=2.0)
        days["a lock held all day, `failover=2.0`"] = calls_of(_holds(fast))
        days["a process that waits for it all day, `failover=2.0`"] = calls_of(_waits(fast), "held")
    return days


def main(other: float = OTHER, writes: float = WRITES) -> Tables:
    """Count, and show."""
    heading("A day of locks, on virtual time")
    say(f"$ {other:g} for 10,000 calls, $ {writes:g} for those that make a blob")
    rows: Rows = [("a day of", "calls", "of these make a blob", "$ a day", "$ a month")]
    logging.disable(logging.WARNING)  # waits of hours
    try:
        days = _all_days()
    finally:
        logging.disable(logging.NOTSET)
    for name, calls in days.items():
        made = calls["blob.create"]
        cost = ((calls.total() - made) * other + made * writes) / 10_000
        rows.append((name, f"{calls.total():,}", f"{made:,}", f"{cost:.4f}", f"{cost * 30:.2f}"))
    table(rows)
    return {"days": rows}


if __name__ == "__main__":
    main()
