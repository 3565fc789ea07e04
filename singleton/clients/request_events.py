"""Events about the requests of lock clients, the same as for guards; and sets of locks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from singleton.base.errors import LockNotAcquired
from singleton.base.events import Call, no_longer_going, tell, tell_failed
from singleton.base.several import all_or_none
from singleton.base.timespan import format_timespan
from singleton.locking.line import ENDLESS
from singleton.locking.section import Section
from singleton.runtime.holders import name_holder, patience
from singleton.runtime.reentry import REENTRY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from singleton.base.hold import Hold
    from singleton.base.kinds import LossReason
    from singleton.locking.record import SectionRecord
    from singleton.runtime.address import Address
    from singleton.runtime.calls import Work
    from singleton.runtime.registry import Registry


async def told(call: Call, ask: Callable[[], Awaitable[Hold]], *, otherwise: str) -> Hold:
    """Acquire by ``ask`` on the lock thread, and tell events; ``otherwise`` is the reason told after contention."""
    tell("waiting", call)
    try:
        hold = await ask()
    except LockNotAcquired:
        tell("contended", call, reason=otherwise)
        raise
    except BaseException as error:
        tell_failed(call, error)
        raise
    _follow(call, hold)
    return hold


def _follow(call: Call, hold: Hold) -> None:
    """Tell that the hold was acquired, and later of the end, without a reference: a caller may drop the hold (M-37)."""
    tell("acquired", call, hold, lock=hold.lock)
    record = hold.record if isinstance(hold, Section) else None
    end = partial(_tell_of_end, call, hold.lock, hold.token, record)
    hold.lost.add_callback(end)
    if record is not None:
        record.when_settled(end)


def _tell_of_end(
    call: Call, lock: str, token: int | None, record: SectionRecord | None, reason: LossReason | None = None
) -> None:
    """Tell of the loss of a hold; without a reason, of its release."""
    if reason is not None:
        tell("lost", call, reason=reason, token=token, lock=lock)
        return
    given_up = None if record is None else record.given_up
    tell("released", call, given_up=given_up, token=token, lock=lock)


class CandidateRequests:
    """The attempts of a candidate to lead, with events: ``waiting`` lasts from the first attempt to the lock.

    ``for_ever``: an attempt in vain is a poll; else the candidate gives up.
    """

    def __init__(self, name: str, owner: str, attempt: Work[Hold], *, for_ever: bool) -> None:
        self.owner = owner
        self._attempt = attempt
        self._for_ever = for_ever
        self._call = Call(name, "", owner, mode="leadership")

    async def ask(self, registry: Registry) -> Hold:
        """Make an attempt, on the lock thread."""
        if not self._call.times.waits:
            self._call = replace(self._call)
            tell("waiting", self._call)
        try:
            hold = await self._attempt(registry)
        except LockNotAcquired:
            if not self._for_ever:
                tell("contended", self._call, reason="timeout")
            raise
        _follow(self._call, hold)
        return hold

    def end(self) -> None:
        """List the candidate no longer: no attempt follows."""
        no_longer_going(self._call)


async def acquire_all(
    registry: Registry, addresses: Sequence[Address], *, timeout: float | None, owner: str
) -> tuple[Hold, ...]:
    """Acquire the locks in the order of their names (two sets never wait for each other), or no lock.

    Returns the holds in the order of ``addresses``. The time-out is for all together. See ``LockClient.lock_all``.
    """

    async def ask(address: Address, left: float | None) -> Hold:
        call = Call(address.name, "", owner, mode="lock")
        otherwise = "raise" if left == 0 else "timeout"
        return await told(call, lambda: registry.acquire(address, timeout=left, owner=owner), otherwise=otherwise)

    in_order = sorted(addresses, key=lambda each: each.name)
    try:
        async with all_or_none(in_order, ask, registry.dropping, timeout=timeout, owner=owner) as holds:
            return tuple(holds[address] for address in addresses)
    except LockNotAcquired as error:
        if error.reason in (ENDLESS, REENTRY):
            raise
        address = next(each for each in addresses if each.name == error.lock)
        await name_holder(registry, address, error, patience(timeout))
        within = f"within {format_timespan(timeout)}" if timeout else "at once"
        text = f"{len(addresses)} locks were not acquired {within}: {error.lock!r} is in use"
        raise LockNotAcquired(text, lock=error.lock, owner=error.owner, holder=error.holder) from error
