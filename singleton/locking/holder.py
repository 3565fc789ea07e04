"""Reads who has a lock, without taking it."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from singleton.base.holder import Holder
from singleton.locking.acquisition import storage_error
from singleton.locking.fencing import SECTIONS
from singleton.locking.lease import as_failure
from singleton.stores.protocol import BlobState, LeaseStore, StoreFailure
from singleton.stores.stamps import (
    FUNCTION_KEY,
    HELD_KEY,
    HOST_KEY,
    OWNER_KEY,
    PID_KEY,
    SCOPE_KEY,
    metadata_value,
    recorded_epoch,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_T = TypeVar("_T")

_ANSWER = 10.0
"""Seconds for storage that fails to give an answer, all tries together."""
_CALL = 5.0
_PAUSE = 0.1


async def holder(store: LeaseStore, name: str) -> Holder | None:
    """Read who has the lock; None when nobody has.

    Raises:
        StorageError: the storage refuses, or does not answer.
    """
    try:
        state = await answered(lambda: store.read(name))
    except StoreFailure as failure:
        if failure.meaning == "missing":
            return None
        raise storage_error(name, failure) from failure
    return holder_in(name, state)


def holder_in(name: str, state: BlobState) -> Holder | None:
    """Return who has the lock whose blob was read; None when nobody has."""
    return recorded(name, state) if state.held else None


def recorded(name: str, state: BlobState) -> Holder:
    """Return what stands on a lock's blob: who has it, or had it last where nobody has."""
    epoch = recorded_epoch(state)
    pid = metadata_value(state, PID_KEY) or ""
    written = datetime.fromtimestamp(state.modified, UTC) if epoch is not None else None
    held = _seconds(metadata_value(state, HELD_KEY) or "")
    return Holder(
        lock=name,
        owner=metadata_value(state, OWNER_KEY),
        host=metadata_value(state, HOST_KEY),
        pid=int(pid) if pid.isascii() and pid.isdigit() and len(pid) < 20 else None,
        function=metadata_value(state, FUNCTION_KEY),
        scope=metadata_value(state, SCOPE_KEY),
        since=None if written is None or held == 0 else written - timedelta(seconds=int(held or 0.0)),
        recorded=written,
        renewed=None if held is None else held > 0,
        token=epoch * SECTIONS + 1 if epoch is not None else None,
    )


def _seconds(text: str) -> float | None:
    """Return for how long a hold had lasted when it was recorded; None where that is not told."""
    return float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9])?", text, re.ASCII) else None


async def answered(request: Callable[[], Awaitable[_T]], *, call: float = _CALL, answer: float = _ANSWER) -> _T:
    """Ask until there is an answer, for a few seconds; the request is one that may be repeated.

    Args:
        request: makes the request.
        call: seconds for each try.
        answer: seconds for all of them.

    Raises:
        StoreFailure: what was answered, or that nothing was.
    """
    loop = asyncio.get_running_loop()
    ends = loop.time() + answer
    pause = _PAUSE
    while True:
        try:
            async with asyncio.timeout_at(min(ends, loop.time() + call)):
                return await request()
        except Exception as error:  # noqa: BLE001 - whatever a store raises, it is a failure to answer
            failure = as_failure(error)
        if failure.meaning != "transient" or loop.time() + pause >= ends:
            raise failure
        await asyncio.sleep(max(pause, min(failure.retry_after or 0.0, ends - loop.time())))
        pause *= 2
