"""Reads the holder of a lock from its blob."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from singleton.base.holder_record import Holder
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
"""Seconds in which failing storage must give an answer, over repeated requests."""
_CALL = 5.0
_PAUSE = 0.1


async def holder(store: LeaseStore, name: str) -> Holder | None:
    """Read the holder of the lock; None for a free lock. ``StorageError``: the storage refuses, or does not answer."""
    state = await if_present(lambda: store.read(name), name)
    return None if state is None else holder_in(name, state)


def holder_in(name: str, state: BlobState) -> Holder | None:
    """Return the holder in the state of a lock's blob; None for a free lock."""
    return recorded(name, state) if state.held else None


def recorded(name: str, state: BlobState) -> Holder:
    """Return the record on a lock's blob: the present holder, or the last holder of a free lock."""
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
        endless=state.endless,
    )


def _seconds(text: str) -> float | None:
    """Return the seconds of the hold at the time of the record; None if not recorded."""
    return float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9])?", text, re.ASCII) else None


async def answered(request: Callable[[], Awaitable[_T]], *, call: float = _CALL, answer: float = _ANSWER) -> _T:
    """Repeat a request, which must be idempotent, until there is an answer, for a few seconds.

    ``call``: seconds for a request; ``answer``: seconds for the requests together.
    """
    loop = asyncio.get_running_loop()
    ends = loop.time() + answer
    pause = _PAUSE
    while True:
        try:
            async with asyncio.timeout_at(min(ends, loop.time() + call)):
                return await request()
        except Exception as error:  # noqa: BLE001 - an error of a store is a failure to answer
            failure = as_failure(error)
        if failure.meaning != "transient" or loop.time() + pause >= ends:
            raise failure
        await asyncio.sleep(max(pause, min(failure.retry_after or 0.0, ends - loop.time())))
        pause *= 2


async def if_present(request: Callable[[], Awaitable[_T]], name: str, *, what: str = "lock") -> _T | None:
    """Return what a request for the blob ``name`` answers, as ``answered``; None: there is no blob.

    ``StorageError``, about ``what``: the storage refuses, or does not answer.
    """
    try:
        return await answered(request)
    except StoreFailure as failure:
        if failure.meaning == "missing":
            return None
        raise storage_error(name, failure, what=what) from failure
