"""Who has a lock, and how an operator takes it away: what can be asked of a lock without taking it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from singleton.locking.acquisition import storage_error
from singleton.locking.fencing import HOST_KEY, OWNER_KEY, SECTIONS, metadata_value, recorded_epoch
from singleton.locking.lease import as_failure
from singleton.stores.protocol import LeaseStore, StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_T = TypeVar("_T")

_ANSWER = 10.0
"""Seconds for storage that fails to give an answer, all tries together."""
_CALL = 5.0
_PAUSE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who has a lock, as its blob tells anybody who may read it. What is not recorded there is None.

    A process records itself when it makes the blob, or gets the lock after another one; and each owner at the first
    renewal of a lease, after half a lease period. Until then ``owner``, ``since`` and ``token`` are those of an earlier
    hold of the same process. It records nothing with ``fencing_tokens`` off; then an earlier holder may stand here.

    Attributes:
        lock: name of the lock's blob.
        owner: who asked: an invocation id, or what the caller gave.
        host: the machine: the instance id in Azure, else its name.
        since: when this was recorded, by the service's clock, whole seconds.
        token: the least fencing token that the holder may have.
    """

    lock: str
    owner: str | None = None
    host: str | None = None
    since: datetime | None = None
    token: int | None = None


async def holder(store: LeaseStore, name: str) -> Holder | None:
    """Read who has the lock; None when nobody has.

    Raises:
        StorageError: the storage refuses, or does not answer.
    """
    try:
        state = await _answered(lambda: store.read(name))
    except StoreFailure as failure:
        if failure.meaning == "missing":
            return None
        raise storage_error(name, failure) from failure
    if state.lease not in ("leased", "breaking"):
        return None
    epoch = recorded_epoch(state)
    return Holder(
        lock=name,
        owner=metadata_value(state, OWNER_KEY),
        host=metadata_value(state, HOST_KEY),
        since=datetime.fromtimestamp(state.modified, UTC) if epoch is not None else None,
        token=epoch * SECTIONS + 1 if epoch is not None else None,
    )


async def break_lease(store: LeaseStore, name: str) -> bool:
    """Take the lock away from whoever has it; return whether anybody had.

    Raises:
        StorageError: the storage refuses, or does not answer.
    """
    try:
        before = await _answered(lambda: store.read(name))
        if before.lease not in ("leased", "breaking"):
            return False
        await _answered(lambda: store.break_(name))
    except StoreFailure as failure:
        if failure.meaning in ("missing", "lost"):
            return False
        raise storage_error(name, failure) from failure
    return True


async def _answered(request: Callable[[], Awaitable[_T]]) -> _T:
    """Ask until there is an answer, for a few seconds; the request is one that may be repeated."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + _ANSWER
    pause = _PAUSE
    while True:
        try:
            async with asyncio.timeout_at(min(ends, loop.time() + _CALL)):
                return await request()
        except Exception as error:  # noqa: BLE001 - whatever a store raises, it is a failure to answer
            failure = as_failure(error)
        if failure.meaning != "transient" or loop.time() + pause >= ends:
            raise failure
        await asyncio.sleep(max(pause, min(failure.retry_after or 0.0, ends - loop.time())))
        pause *= 2
