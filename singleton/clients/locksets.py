"""Several locks at once: all or none, acquired in the order of their names by every caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from singleton.base.errors import LockNotAcquired
from singleton.base.events import Call
from singleton.base.several import all_or_none
from singleton.base.timespan import format_timespan
from singleton.clients.request_events import told
from singleton.process.holders import name_holder, patience

if TYPE_CHECKING:
    from collections.abc import Sequence

    from singleton.base.hold import Hold
    from singleton.process.address import Address
    from singleton.process.registry import Registry


async def acquire_all(
    registry: Registry, addresses: Sequence[Address], *, timeout: float | None, owner: str
) -> tuple[Hold, ...]:
    """Acquire all locks in the order of their names, so that two sets never wait for each other; or none.

    Returns the holds in the order of ``addresses``. The time-out is for all together.

    Raises:
        LockNotAcquired: a lock was in use for the whole time-out; the locks acquired before are given back.
        LockLost: a lock was lost during the wait for the next.
        LockClosed, StorageError: see ``Lock.acquire``.
    """

    async def ask(address: Address, left: float | None) -> Hold:
        return await _told(registry, address, left, owner)

    in_order = sorted(addresses, key=lambda each: each.name)
    try:
        async with all_or_none(in_order, ask, registry.release, timeout=timeout) as holds:
            return tuple(holds[address] for address in addresses)
    except LockNotAcquired as error:
        address = next(each for each in addresses if each.name == error.lock)
        await name_holder(registry, address, error, patience(timeout))
        raise _not_all(error, len(addresses), timeout) from error


async def _told(registry: Registry, address: Address, timeout: float | None, owner: str) -> Hold:
    call = Call(address.name, "", owner, mode="lock")
    otherwise = "raise" if timeout == 0 else "timeout"
    return await told(call, lambda: registry.acquire(address, timeout=timeout, owner=owner), otherwise=otherwise)


def _not_all(error: LockNotAcquired, wanted: int, timeout: float | None) -> LockNotAcquired:
    """Name the time-out that was given for all, and the lock that could not be had."""
    within = f"within {format_timespan(timeout)}" if timeout else "at once"
    text = f"{wanted} locks were not acquired {within}: {error.lock!r} is in use"
    return LockNotAcquired(text, lock=error.lock, owner=error.owner, holder=error.holder)
