"""What a lock relies on in its store: one scenario for each thing, named after what it shows."""

from __future__ import annotations

import asyncio
import functools
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from singleton.locking.lock import Lock, release
from singleton.locking.timing import Timing
from singleton.testing.states import A, B, bring_about, loss, outcome, state_of, written

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from singleton.stores.protocol import LeaseStore
    from singleton.testing.states import Start


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A store, a second client of the same blobs, the name of a blob that nobody else uses, and a way to wait."""

    store: LeaseStore
    other: LeaseStore
    name: str
    wait: Callable[[float], Coroutine[Any, Any, None]]

    def beside(self, name: str) -> Place:
        """Return the same for another blob."""
        return replace(self, name=f"locks/{name}")


Scenario: TypeAlias = "Callable[[Place], Coroutine[Any, Any, None]]"

QUICK: list[Scenario] = []
SLOW: list[Scenario] = []
"""Scenarios that wait for leases to end. On a real service all of them run at once."""


def begins(start: Start | None, scenarios: list[Scenario]) -> Callable[[Scenario], Scenario]:
    """List a scenario that begins with a blob in this state, leased under ``A``; None: with an empty container."""

    def enlist(scenario: Scenario) -> Scenario:
        @functools.wraps(scenario)
        async def begun(place: Place) -> None:
            if start is not None:
                await bring_about(place.store, place.name, start)
            await scenario(place)

        scenarios.append(begun)
        return begun

    return enlist


@begins("available", QUICK)
async def acquiring_returns_the_etag_that_readers_see(place: Place) -> None:
    etag = await place.store.acquire(place.name, A, 15)
    assert etag == (await place.other.read(place.name)).etag


@begins("available", QUICK)
async def lease_requests_leave_the_etag_alone(place: Place) -> None:
    store, name = place.store, place.name
    etag = (await store.read(name)).etag
    assert await store.acquire(name, A, 15) == etag
    await store.renew(name, A)
    await store.release(name, A)
    assert await store.acquire(name, B, 15) == etag
    await store.break_(name)
    assert (await store.read(name)).etag == etag


@begins("available", QUICK)
async def a_write_changes_the_etag_and_returns_the_new_one(place: Place) -> None:
    store, name = place.store, place.name
    before = await store.acquire(name, A, 15)
    etag = await store.write(name, A, {"One": "1"}, before)
    assert etag != before
    assert etag == (await store.read(name)).etag
    await store.release(name, A)
    assert await place.other.acquire(name, B, 15) == etag
    assert await place.other.write(name, B, {"One": "1"}, etag) != etag, "also when nothing is different"


@begins("available", QUICK)
async def a_write_of_a_blob_that_has_changed_since_is_refused_and_changes_nothing(place: Place) -> None:
    store, name = place.store, place.name
    first = await store.acquire(name, A, 15)
    second = await store.write(name, A, {"One": "1"}, first)
    assert await outcome(store.write(name, A, {"One": "2"}, first)) == "412 changed"
    state = await place.other.read(name)
    assert (state.etag, state.metadata) == (second, {"One": "1"})
    await store.write(name, A, {"One": "3"}, second)
    assert await outcome(store.write(name, A, {"One": "2"}, second)) == "412 changed"


@begins("available", QUICK)
async def metadata_is_replaced_as_a_whole_and_read_back_as_written(place: Place) -> None:
    store, name = place.store, place.name
    assert (await store.read(name)).metadata == {}
    await store.acquire(name, A, 15)
    await written(store, name, A, SingletonEpoch="41", Team="billing")
    assert (await place.other.read(name)).metadata == {"SingletonEpoch": "41", "Team": "billing"}
    await written(store, name, A, SingletonEpoch="42")
    assert (await place.other.read(name)).metadata == {"SingletonEpoch": "42"}
    await written(store, name, A)
    assert (await place.other.read(name)).metadata == {}


@begins("available", QUICK)
async def last_modified_is_seconds_since_1970_and_lease_requests_leave_it_alone(place: Place) -> None:
    store, name = place.store, place.name
    made = (await store.read(name)).modified
    await store.acquire(name, A, 15)
    await store.renew(name, A)
    assert (await store.read(name)).modified == made
    await written(store, name, A, One="1")
    assert made <= (await store.read(name)).modified <= made + 5


@begins("leased", QUICK)
async def making_a_blob_again_keeps_its_lease_and_metadata(place: Place) -> None:
    store, name = place.store, place.name
    etag = await written(store, name, A, One="1")
    await place.other.create(name)
    await store.create(name)
    state = await store.read(name)
    assert (state.etag, state.lease, state.metadata) == (etag, "leased", {"One": "1"})


@begins(None, QUICK)
async def leases_of_different_blobs_are_independent(place: Place) -> None:
    store, name = place.store, place.name
    for suffix in ("", "/below", ".beside"):
        await store.create(name + suffix)
        await store.acquire(name + suffix, A, 15)
    await store.release(name, A)
    assert await state_of(store, f"{name}/below") == "leased"
    assert await state_of(store, f"{name}.beside") == "leased"


@begins("available", QUICK)
async def asking_again_with_the_same_id_succeeds(place: Place) -> None:
    store, name = place.store, place.name
    for client in (store, place.other, store):
        assert await outcome(client.acquire(name, A, 15)) == "ok"
    assert await outcome(place.other.acquire(name, B, 15)) == "409 held"


@begins("leased", QUICK)
async def a_broken_lease_can_be_taken_by_anybody_and_its_owner_hears_of_it(place: Place) -> None:
    store, name = place.store, place.name
    await place.other.break_(name)
    assert await loss(store.renew(name, A)) == "broken"
    await place.other.acquire(name, B, 15)
    assert await loss(store.renew(name, A)) == "stolen"
    assert await loss(written(store, name, A)) == "stolen"


@begins("leased", QUICK)
async def a_break_on_condition_of_an_etag_ends_no_lease_of_a_blob_that_has_changed_since(place: Place) -> None:
    store, name = place.store, place.name
    before = (await store.read(name)).etag
    etag = await written(store, name, A, One="1")
    assert await outcome(place.other.break_(name, before)) == "412 changed"
    assert await state_of(store, name) == "leased"
    await place.other.break_(name, etag)
    assert await state_of(store, name) == "broken"
    await store.acquire(name, B, 15)
    assert await loss(store.write(name, A, {"One": "2"}, etag)) == "stolen"


@begins("leased", QUICK)
async def a_released_lease_is_not_the_owners_any_more(place: Place) -> None:
    store, name = place.store, place.name
    await store.release(name, A)
    for request in (store.renew(name, A), store.release(name, A), written(store, name, A)):
        assert (await outcome(request)).endswith("lost")


@begins("available", QUICK)
async def durations_out_of_range_are_refused(place: Place) -> None:
    store, name = place.store, place.name
    for duration in (0, 14, 61, 3600):
        assert await outcome(store.acquire(name, A, duration)) == "400 refused", duration
    for duration in (15, 60):
        assert await outcome(store.acquire(name, A, duration)) == "ok", duration


@begins(None, QUICK)
async def of_many_who_race_to_make_and_take_a_blob_one_wins(place: Place) -> None:
    async def one(number: int) -> str:
        client = (place.store, place.other)[number % 2]
        lease_id = f"00000000-0000-4000-8000-{number:012x}"
        if await outcome(client.acquire(place.name, lease_id, 15)) == "404 missing":
            await client.create(place.name)
        return await outcome(client.acquire(place.name, lease_id, 15))

    results = await asyncio.gather(*(one(number) for number in range(20)))
    assert sorted(results) == ["409 held"] * 19 + ["ok"]


@begins(None, QUICK)
async def names_of_all_kinds_make_blobs_of_their_own(place: Place) -> None:
    names = [
        f"{place.name}/{tail}" for tail in ("a b", "a%20b", "a+b", "ä", "A", "a", "~x", "x'y", "q?z", "h#z", "a&b=c")
    ]
    for number, name in enumerate(names):
        await place.store.create(name)
        lease_id = f"00000000-0000-4000-8000-{number:012x}"
        assert await outcome(place.store.acquire(name, lease_id, 15)) == "ok", name
    for name in names:
        assert await state_of(place.other, name) == "leased", name


@begins(None, QUICK)
async def locks_of_two_hosts_exclude_each_other_and_count_tokens_up(place: Place) -> None:
    timing = Timing(poll_min=0.01, poll_max=0.05, handoff_window=0.1)
    locks = [
        Lock(store, place.name, timing=timing, rng=random.Random(seed))
        for seed, store in enumerate([place.store, place.other, place.store])
    ]
    inside: list[int] = []
    tokens: list[int] = []

    async def one(lock: Lock) -> None:
        for _ in range(4):
            hold = await lock.acquire(timeout=30.0)
            assert not inside
            inside.append(1)
            tokens.append(hold.token or 0)
            await asyncio.sleep(0.005)
            inside.clear()
            await release(hold)

    await asyncio.gather(*(one(lock) for lock in locks for _ in range(2)))
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 24
    assert await state_of(place.store, place.name) == "available"


@begins("leased", SLOW)
async def a_lease_lasts_as_long_as_it_was_asked_for(place: Place) -> None:
    store, name = place.store, place.name
    await place.wait(14.5)
    assert await outcome(place.other.acquire(name, B, 15)) == "409 held"
    await place.wait(0.7)
    assert await state_of(place.other, name) == "expired"
    assert await outcome(place.other.acquire(name, B, 15)) == "ok"
    assert (await outcome(store.renew(name, A))).endswith("lost")


@begins("available", SLOW)
async def a_longer_lease_lasts_longer(place: Place) -> None:
    await place.store.acquire(place.name, A, 20)
    await place.wait(16.0)
    assert await outcome(place.other.acquire(place.name, B, 15)) == "409 held"


@begins("leased", SLOW)
async def a_renewal_restarts_the_clock(place: Place) -> None:
    await place.wait(5.0)
    assert await place.store.renew(place.name, A) == A
    await place.wait(11.0)
    assert await state_of(place.other, place.name) == "leased"


@begins("leased", SLOW)
async def asking_again_with_the_same_id_restarts_the_clock(place: Place) -> None:
    await place.wait(5.0)
    await place.store.acquire(place.name, A, 15)
    await place.wait(11.0)
    assert await state_of(place.other, place.name) == "leased"


@begins("leased", SLOW)
async def a_write_does_not_restart_the_clock(place: Place) -> None:
    await place.wait(5.0)
    await written(place.store, place.name, A, One="1")
    await place.wait(10.5)
    assert await state_of(place.other, place.name) == "expired"


@begins("leased", SLOW)
async def an_expired_lease_can_be_renewed_by_its_owner_only_while_nobody_had_it(place: Place) -> None:
    store, name = place.store, place.name
    await place.wait(15.5)
    await place.other.acquire(name, B, 15)
    await place.other.release(name, B)
    assert (await outcome(store.renew(name, A))).endswith("lost")
