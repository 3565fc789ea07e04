"""How a guard acquires its lock other than in line: by attempts, or a lock with two names.

A lock under a new name and an old name: both are held, and tokens go on above those of both. Versions of an app that
know only one of the names exclude a version that takes both. So no two of them overlap, as long as the version with
both names runs between the others.

* **The same order for every caller**: by container and name, old or new. So no deadlock is possible.
* **One token**, the greater of the two. Whoever comes next under either name alone gets a greater one: the epoch of the
  lock that was behind is raised to that of the token, under its lease, before the section begins (``fencing.py``). The
  raise takes a write, and is needed only if the epochs differ. So only old versions move the epochs apart. A version
  with the new name alone can't know of that: ``singleton-locks ahead`` finds the keys whose old lock is ahead.
* **A lock without tokens** (``layout="webjobs"``) has no part in this: its holders have no token.
"""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import TYPE_CHECKING, Final

from singleton.base.forks import importing
from singleton.base.hold import Hold
from singleton.base.several import ONE_ANSWER, JointSignal, all_or_none, none_lost
from singleton.locking.acquisition import storage_error
from singleton.locking.lease import as_failure
from singleton.locking.section import Section
from singleton.runtime.holders import LongWait
from singleton.stores.protocol import within

if TYPE_CHECKING:
    from collections.abc import Iterable

    from singleton.layouts.attempt_delays import Attempts
    from singleton.runtime.address import Address
    from singleton.runtime.registry import Registry

_CALL: Final = 5.0
_TRIES: Final = 3
"""A write whose answer is lost is tried again: both leases were got, and would be given back for nothing."""
_PAUSE: Final = 0.2


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
    """Acquire the lock by some attempts, as its layout says. Errors are those of ``dotnet.attempts.repeated``."""
    with importing:
        from singleton.dotnet.attempts import repeated

    attempt = partial(registry.acquire, address, timeout=0, owner=owner, at_least=at_least, max_hold=max_hold)
    with LongWait(registry, address, owner):
        return await repeated(attempt, attempts, registry.rng, timeout=timeout, within=within)


def in_order(addresses: Iterable[Address]) -> list[Address]:
    """Return the names of a lock in the order in which every process takes them."""
    return sorted(addresses, key=lambda address: (address.place.container, address.name))


async def acquire_both(
    registry: Registry,
    new: Address,
    old: Address,
    *,
    timeout: float | None,
    owner: str,
    at_least: float = 0.0,
    max_hold: float | None = None,
    by: float = math.inf,
) -> Hold:
    """Acquire the lock of both names, or none. Arguments and errors: as of ``Registry.acquire`` and ``all_or_none``."""
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def ask(address: Address, left: float | None) -> Hold:
        return await registry.acquire(address, timeout=left, owner=owner, by=by)

    locks, drop = in_order((new, old)), registry.dropping
    async with all_or_none(locks, ask, drop, timeout=timeout, owner=owner, by=by) as holds:
        async with none_lost([hold.own_lost for hold in holds.values()]):
            token = await _one_token(holds[new], holds[old], began + timeout + ONE_ANSWER if timeout else by)
        both = DoubleHold(holds[new], holds[old], token)
        both.raise_if_lost()
    both.waited = loop.time() - began
    return registry.kept(both, at_least, max_hold)


class DoubleHold(Hold):
    """A hold of two locks. The user sees the first lock; a loss of either is a loss of this hold, with its reason."""

    __slots__ = ("_parts",)

    def __init__(self, first: Hold, other: Hold, token: int | None) -> None:
        super().__init__(first.lock, owner=first.owner, token=token)
        self._parts = (first, other)
        self.lease_id = first.lease_id
        self.stateless = (
            "also= is given, and state stays with the name under which it was written: move it after the second "
            "deployment"
        )
        self.own_lost = self.lost = JointSignal(first.own_lost, other.own_lost)


async def _one_token(first: Hold, other: Hold, by: float) -> int | None:
    """Return the token for a section under both leases, above all that were given under either. See ``_reach``."""
    if first.token is None or other.token is None:
        return first.token
    token = max(first.token, other.token)
    for part in (first, other):
        assert isinstance(part, Section)
        await _reach(part, token, by)
    return token


async def _reach(part: Section, token: int, by: float) -> None:
    """Raise the epoch before the time ``by``, so that every later token of this lock is greater than ``token``.

    ``LockLost``: the storage says that the lease is another's. ``StorageError``: the epoch was not written.
    """
    assert part.fencing is not None
    loop = asyncio.get_running_loop()
    for left in reversed(range(_TRIES)):
        seconds = max(1, int(10 * min(_CALL, by - loop.time()))) / 10  # as an error says them
        try:
            await within(seconds, part.fencing.raise_above(part.lease.id, part.owner, token))
        except Exception as error:  # whatever a store raises is no answer
            failure = as_failure(error)
            if failure.loss is not None:
                part.lease.lose(failure.loss, failure)
                part.raise_if_lost()
            if not left or failure.meaning != "transient" or loop.time() + _PAUSE >= by:
                raise storage_error(part.lock, failure) from error
        else:
            return
        await asyncio.sleep(_PAUSE)
