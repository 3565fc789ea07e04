"""Does this account do what locks rely on? Each check sends the requests that locks send, and looks at the answers.

The blobs are scratch ones, beneath one prefix; no lock of the app is touched. A check that lacks a right is left out.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered
from singleton.operating.checks import CHECKS, MAY_BE_HIDDEN, SLOW
from singleton.operating.container import keeping_of
from singleton.operating.scratch import MAKE, CheckFailed, CheckNote, CheckUnknown, Finding, Forbidden, ScratchBlobs
from singleton.stores.azure_blob import AzureBlobLeaseStore
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from singleton.operating.checks import Check
    from singleton.stores.protocol import LeaseStore

_UNKNOWN: Final = (
    "AuthenticationFailed",
    "InvalidAuthenticationInfo",
    "NoAuthenticationInformation",
    "AuthorizationFailure",
)
"""Codes of an answer to somebody whom the service does not know, or who comes from a network that is shut out: it is no
single right that is missing then."""


async def examine(store: LeaseStore, prefix: str, *, quick: bool = False) -> AsyncIterator[Finding]:
    """Go through the checks on scratch blobs beneath the prefix; those that wait for a lease's end come last, at once.

    ``quick`` leaves these out.

    Raises:
        StorageError: the storage does not answer, or does not know who asks.
    """
    scratch = ScratchBlobs(store, prefix)
    for name, check in CHECKS.items():
        yield await _run(name, check, scratch)
    if not quick:
        slow = [asyncio.ensure_future(_run(name, check, scratch)) for name, check in SLOW.items()]
        try:
            for found in await asyncio.gather(*slow):
                yield found
        finally:
            for each in slow:
                each.cancel()


async def _run(name: str, check: Check, scratch: ScratchBlobs) -> Finding:
    try:
        return Finding(check=name, outcome="ok", said=await check(scratch))
    except CheckFailed as failed:
        return Finding(check=name, outcome="failed", said=str(failed))
    except CheckNote as note:
        return Finding(check=name, outcome="note", said=str(note))
    except CheckUnknown as unknown:
        return Finding(check=name, outcome="unknown", said=f"can't be seen from here: {unknown}")
    except StoreFailure as failure:
        if name in MAY_BE_HIDDEN:
            return Finding(check=name, outcome="unknown", said=f"can't be seen from here ({failure})")
        if is_no_answer(failure):
            raise storage_error(scratch.prefix, failure, what="scratch blobs") from failure
        if isinstance(failure, Forbidden):
            return Finding(check=name, outcome="unknown", said=f"can't be tried: {failure.request.name} is denied")
        return Finding(check=name, outcome="failed", said=f"the storage refuses a request: {failure}")


def is_no_answer(failure: StoreFailure) -> bool:
    """Tell whether this says nothing of the account: nobody answers there, or we are not known."""
    stranger = failure.status == 401 or failure.code in _UNKNOWN
    return stranger or failure.meaning in ("transient", "deleting")


async def prepare(store: LeaseStore, seconds: float) -> None:
    """Make the container.

    Args:
        store: of the container.
        seconds: for which an answer is asked for, all tries together.

    Raises:
        Forbidden: that is not allowed.
        StorageError: the storage does not answer, or does not know who asks.
    """
    if not isinstance(store, AzureBlobLeaseStore):
        return
    from singleton.operating.azure_container import make

    container = store.container
    try:
        await answered(lambda: make(container), call=seconds, answer=seconds)
    except StoreFailure as failure:
        if failure.meaning != "denied" or is_no_answer(failure):
            raise storage_error(container.container_name, failure, what="container") from failure
        raise Forbidden(MAKE, failure) from failure


async def clean_up(store: LeaseStore, prefix: str, *, container: bool) -> None:
    """Delete the scratch blobs, or their whole container. What is still leased ends its lease first.

    Raises:
        StoreFailure: something was left behind, and why.
    """
    if container and isinstance(store, AzureBlobLeaseStore):
        from singleton.operating.azure_container import drop

        await drop(store.container)
        return
    keeping = keeping_of(store)
    for blob in (await keeping.page(prefix)).entries:
        if blob.held:
            await keeping.shorten(blob.name, 0)
        await keeping.erase(blob.name, blob.etag)
