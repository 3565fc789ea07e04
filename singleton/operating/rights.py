"""Which of the requests that locks make are allowed, and what right each of the others lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from singleton.operating.patient import DELETE, LIST, PERIOD, Forbidden, Request, Strange, Wrong
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from singleton.operating.patient import Patient

_T = TypeVar("_T")

_OPERATORS: Final = (LIST, DELETE)
"""What no lock needs: to list and sweep locks, and to note the failures of a deferred message."""


async def rights(patient: Patient) -> str:
    """Rights: create, lease, write, read, list, break and delete.

    Raises:
        Wrong: one that locks need is missing.
        Strange: one is missing that only ``list``, ``sweep`` and ``"defer"`` need.
    """
    name, mine = f"{patient.prefix}rights", patient.mine
    denied: dict[Request, Forbidden] = {}

    async def tried(pending: Awaitable[_T]) -> _T | None:
        """Return the answer, or None. What follows a request that was denied may be refused for the want of it."""
        try:
            return await pending
        except Forbidden as forbidden:
            denied.setdefault(forbidden.request, forbidden)
        except StoreFailure as failure:
            if not denied or failure.meaning == "transient":
                raise
        return None

    await tried(patient.blob("rights"))
    etag = await tried(patient.store.acquire(name, mine, PERIOD)) or '"0x0"'
    if (seen := await tried(patient.store.read(name))) is not None:
        etag = seen.etag
    etag = await tried(patient.store.write(name, mine, {"SingletonEpoch": "1"}, etag)) or etag
    await tried(patient.store.renew(name, mine))
    await tried(patient.keeping.page(patient.prefix))
    await tried(patient.keeping.shorten(name, 0))
    await tried(patient.store.release(name, mine))
    await tried(patient.keeping.erase(name, etag))
    said = "; ".join(map(str, denied.values()))
    if any(request not in _OPERATORS for request in denied):
        raise Wrong(said)
    if denied:
        raise Strange(f"locks work, but not all that an operator does: {said}")
    return "create, lease, write, read, list, break and delete are allowed"
