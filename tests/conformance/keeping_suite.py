"""What an operator relies on in the container of a store, one scenario each, whose name is what it shows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from simulator.pilot.assumed.lease_table import A, B, outcome, state_of
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from singleton.stores.lock_keeping import BlobStore, Listed


@dataclass(frozen=True, slots=True)
class Container:
    """An empty container: what locks ask of it, and what an operator does."""

    store: BlobStore

    async def listed(self, name: str) -> Listed:
        (found,) = (await self.store.page(name)).entries
        return found


Scenario: TypeAlias = "Callable[[Container], Coroutine[None, None, None]]"


async def told(pending: Awaitable[object]) -> str:
    """Return the code of a failure, or what was answered."""
    try:
        return str(await pending)
    except StoreFailure as failure:
        return str(failure.code)


async def a_listing_is_in_order_and_goes_on_behind_its_marker(box: Container) -> None:
    names = [f"locks/app/job.{number}" for number in (3, 1, 5, 2, 4)]
    for name in (*names, "locks/other/job", "x"):
        await box.store.create(name)
    seen: list[str] = []
    marker: str | None = None
    sizes: list[int] = []
    while True:
        page = await box.store.page("locks/app/", marker, 2)
        seen += [blob.name for blob in page.entries]
        sizes.append(len(page.entries))
        if (marker := page.marker) is None:
            break
    assert seen == sorted(names)
    assert sizes == [2, 2, 1]
    assert len((await box.store.page("")).entries) == 7
    assert (await box.store.page("nothing")).entries == ()


async def a_listing_shows_what_reading_the_blob_would(box: Container) -> None:
    await box.store.create("job")
    etag = await box.store.acquire("job", A, 15)
    await box.store.write("job", A, {"One": "1", "Two": "2"}, etag)
    state, shown = await box.store.read("job"), await box.listed("job")
    assert (shown.name, shown.size, shown.endless) == ("job", 0, False)
    assert (shown.etag, shown.lease, shown.modified) == (state.etag, "leased", state.modified)
    assert shown.metadata == state.metadata
    await box.store.release("job", A)
    assert (await box.listed("job")).lease == "available"


async def a_page_tells_the_services_clock(box: Container) -> None:
    await box.store.create("job")
    page = await box.store.page("job")
    assert -2 <= page.at - page.entries[0].modified <= 10


async def a_lease_without_end_is_told(box: Container) -> None:
    await box.store.create("job")
    await box.store.acquire("job", A, -1)
    assert (await box.listed("job")).endless
    assert await told(box.store.break_("job", None, None)) == "0"
    assert await outcome(box.store.acquire("job", B, 15)) == "ok"


async def a_break_without_a_period_leaves_the_rest_of_the_lease_and_ends_its_renewals(box: Container) -> None:
    await box.store.create("job")
    await box.store.acquire("job", A, 15)
    assert 14 <= int(await told(box.store.break_("job", None, None))) <= 15
    assert await told(box.store.renew("job", A)) == "LeaseIsBrokenAndCannotBeRenewed"
    assert await outcome(box.store.acquire("job", B, 15)) == "409 held"
    assert await state_of(box.store, "job") == "breaking"
    await box.store.release("job", A)
    assert await outcome(box.store.acquire("job", B, 15)) == "ok", "its owner can give it back before"


async def a_break_can_only_bring_the_end_nearer(box: Container) -> None:
    await box.store.create("job")
    await box.store.acquire("job", A, 60)
    assert 59 <= int(await told(box.store.break_("job", None, None))) <= 60
    for asked, left in ((10, 10), (30, 10), (5, 5), (None, 5), (0, 0)):
        assert left - 1 <= int(await told(box.store.break_("job", None, asked))) <= left, asked
    assert await outcome(box.store.acquire("job", B, 15)) == "ok"


async def a_break_is_refused_where_somebody_wrote_meanwhile(box: Container) -> None:
    await box.store.create("job")
    etag = await box.store.acquire("job", A, 15)
    await box.store.write("job", A, {"One": "1"}, etag)
    assert await told(box.store.break_("job", etag, 0)) == "ConditionNotMet"
    assert await state_of(box.store, "job") == "leased"
    assert await told(box.store.break_("job", (await box.listed("job")).etag, 0)) == "0"


async def a_blob_that_nobody_uses_is_deleted_on_the_etag_that_was_listed(box: Container) -> None:
    await box.store.create("job")
    await box.store.drop("job", (await box.listed("job")).etag)
    assert await state_of(box.store, "job") is None
    assert await told(box.store.drop("job", '"0x1"')) in ("BlobNotFound", "ConditionNotMet")


async def a_blob_that_was_written_since_is_not_deleted(box: Container) -> None:
    await box.store.create("job")
    before = (await box.listed("job")).etag
    etag = await box.store.acquire("job", A, 15)
    await box.store.write("job", A, {"One": "1"}, etag)
    assert await told(box.store.drop("job", before)) == "ConditionNotMet", "judged before the lease"
    await box.store.release("job", A)
    assert await told(box.store.drop("job", before)) == "ConditionNotMet"
    assert await state_of(box.store, "job") == "available"


async def a_blob_on_which_somebody_has_the_lease_is_not_deleted(box: Container) -> None:
    await box.store.create("job")
    await box.store.acquire("job", A, 15)
    etag = (await box.listed("job")).etag
    assert await told(box.store.drop("job", etag)) == "LeaseIdMissing"
    await box.store.break_("job", None, None)
    assert await told(box.store.drop("job", etag)) == "LeaseIdMissing", "nor while it is being broken"
    assert await outcome(box.store.release("job", A)) == "ok"


async def a_blob_whose_lease_was_broken_can_be_deleted(box: Container) -> None:
    await box.store.create("job")
    await box.store.acquire("job", A, 15)
    await box.store.break_("job")
    await box.store.drop("job", (await box.listed("job")).etag)
    assert await told(box.store.renew("job", A)) == "BlobNotFound"


async def of_many_who_lock_while_a_blob_is_deleted_nobody_is_lost(box: Container) -> None:
    """One asks for the delete again and again; the others make and take the lock: no lease goes with its blob."""
    taken = 0

    async def take(number: int) -> None:
        nonlocal taken
        lease_id = f"00000000-0000-4000-8000-{number:012x}"
        for _ in range(15):
            if await outcome(box.store.acquire("job", lease_id, 15)) == "404 missing":
                await box.store.create("job")
                continue
            if await outcome(box.store.renew("job", lease_id)) == "ok":
                taken += 1
                await asyncio.sleep(0)
                assert await outcome(box.store.release("job", lease_id)) == "ok"

    async def delete() -> None:
        while True:
            for blob in (await box.store.page("job")).entries:
                await told(box.store.drop("job", blob.etag))
            await asyncio.sleep(0.001)

    await box.store.create("job")
    deleting = asyncio.create_task(delete())
    await asyncio.gather(*(take(number) for number in range(4)))
    deleting.cancel()
    await asyncio.wait({deleting})
    assert taken > 0


SCENARIOS: list[Scenario] = [
    a_listing_is_in_order_and_goes_on_behind_its_marker,
    a_listing_shows_what_reading_the_blob_would,
    a_page_tells_the_services_clock,
    a_lease_without_end_is_told,
    a_break_without_a_period_leaves_the_rest_of_the_lease_and_ends_its_renewals,
    a_break_can_only_bring_the_end_nearer,
    a_break_is_refused_where_somebody_wrote_meanwhile,
    a_blob_that_nobody_uses_is_deleted_on_the_etag_that_was_listed,
    a_blob_that_was_written_since_is_not_deleted,
    a_blob_on_which_somebody_has_the_lease_is_not_deleted,
    a_blob_whose_lease_was_broken_can_be_deleted,
    of_many_who_lock_while_a_blob_is_deleted_nobody_is_lost,
]
