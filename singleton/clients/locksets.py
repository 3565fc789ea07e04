"""Several locks at once: all or none, in an order that is the same for everybody."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from singleton.base.errors import LockNotAcquired
from singleton.base.events import Call
from singleton.base.timespan import format_timespan
from singleton.clients.telling import told
from singleton.process.holders import name_holder, patience

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from singleton.base.hold import Hold
    from singleton.process.address import Address
    from singleton.process.registry import Registry


_ONE_ANSWER: Final = 0.5
"""Seconds that an answer may take: with less left, a lock is asked for once, lest others' use be told as silence."""


async def acquire_all(
    registry: Registry, addresses: Sequence[Address], *, timeout: float | None, owner: str
) -> tuple[Hold, ...]:
    """Acquire all locks, one after the other by name, so that two sets can't wait for each other; or none.

    Returns the holds in the order of ``addresses``. The time-out is for all together.

    Raises:
        LockNotAcquired: one of them could not be had in time; those that were are given back.
        LockLost: one of them was lost while the others were waited for.
        LockClosed, StorageError: see ``Lock.acquire``.
    """
    loop = asyncio.get_running_loop()
    ends = None if timeout is None else loop.time() + timeout
    holds: dict[Address, Hold] = {}
    try:
        for address in sorted(addresses, key=lambda each: each.name):
            left = None if ends is None else ends - loop.time()
            if left is not None and left < _ONE_ANSWER:
                left = 0.0
            try:
                async with _none_lost(holds.values()):
                    holds[address] = await _told(registry, address, left, owner)
            except LockNotAcquired as error:
                await name_holder(registry, address, error, patience(timeout))
                raise _not_all(error, len(addresses), timeout) from error
        for hold in holds.values():
            hold.raise_if_lost()
    except BaseException:
        giving_back = [loop.create_task(registry.release(hold)) for hold in holds.values()]
        if giving_back:
            await asyncio.shield(asyncio.wait(giving_back))
        raise
    return tuple(holds[address] for address in addresses)


@asynccontextmanager
async def _none_lost(holds: Iterable[Hold]) -> AsyncIterator[None]:
    """End the block with ``LockLost`` as soon as one of these holds is lost: what it waits for would be in vain."""
    loop = asyncio.get_running_loop()
    mine = tuple(holds)
    try:
        async with asyncio.timeout(None) as block:

            def end(_: object) -> None:
                if not block.expired():
                    block.reschedule(loop.time())

            forget = [hold.lost.add_callback(end) for hold in mine]
            try:
                yield
            finally:
                for each in forget:
                    each()
    except TimeoutError:
        for hold in mine:
            hold.raise_if_lost()
        raise


async def _told(registry: Registry, address: Address, timeout: float | None, owner: str) -> Hold:
    call = Call(address.name, "", owner, mode="lock")
    otherwise = "raise" if timeout == 0 else "timeout"
    return await told(call, lambda: registry.acquire(address, timeout=timeout, owner=owner), otherwise=otherwise)


def _not_all(error: LockNotAcquired, wanted: int, timeout: float | None) -> LockNotAcquired:
    """Name the time-out that was given for all, and the lock that could not be had."""
    within = f"within {format_timespan(timeout)}" if timeout else "at once"
    text = f"{wanted} locks were not acquired {within}: {error.lock!r} is in use"
    return LockNotAcquired(text, lock=error.lock, owner=error.owner, holder=error.holder)
