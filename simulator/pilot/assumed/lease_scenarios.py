"""What a store promises to locks."""
# ruff: noqa: D103 - the name of a scenario is its promise

from __future__ import annotations

import asyncio
import random

from simulator.pilot.assumed.lease_table import (
    A,
    B,
    loss,
    outcome,
    state_of,
    written,
)
from simulator.pilot.assumed.store_scenario import QUICK, SLOW, Fixture, begins
from singleton.locking.lock import Lock, release
from singleton.locking.phase import Timing


@begins("available", QUICK)
async def acquiring_returns_the_etag_that_readers_see(fixture: Fixture) -> None:
    etag = await fixture.store.acquire(fixture.name, A, 15)
    assert etag == (await fixture.other.read(fixture.name)).etag


@begins("available", QUICK)
async def lease_requests_leave_the_etag_alone(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    etag = (await store.read(name)).etag
    assert await store.acquire(name, A, 15) == etag
    await store.renew(name, A)
    await store.release(name, A)
    assert await store.acquire(name, B, 15) == etag
    await store.break_(name)
    assert (await store.read(name)).etag == etag


@begins("available", QUICK)
async def a_write_changes_the_etag_and_returns_the_new_one(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    before = await store.acquire(name, A, 15)
    etag = await store.write(name, A, {"One": "1"}, before)
    assert etag != before
    assert etag == (await store.read(name)).etag
    await store.release(name, A)
    assert await fixture.other.acquire(name, B, 15) == etag
    assert await fixture.other.write(name, B, {"One": "1"}, etag) != etag, "also when nothing is different"


@begins("available", QUICK)
async def a_write_of_a_blob_that_has_changed_since_is_refused_and_changes_nothing(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    first = await store.acquire(name, A, 15)
    second = await store.write(name, A, {"One": "1"}, first)
    assert await outcome(store.write(name, A, {"One": "2"}, first)) == "412 changed"
    state = await fixture.other.read(name)
    assert (state.etag, state.metadata) == (second, {"One": "1"})
    await store.write(name, A, {"One": "3"}, second)
    assert await outcome(store.write(name, A, {"One": "2"}, second)) == "412 changed"


@begins("available", QUICK)
async def metadata_is_replaced_as_a_whole_and_read_back_as_written(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    assert (await store.read(name)).metadata == {}
    await store.acquire(name, A, 15)
    await written(store, name, A, SingletonEpoch="41", Team="billing")
    assert (await fixture.other.read(name)).metadata == {"SingletonEpoch": "41", "Team": "billing"}
    await written(store, name, A, SingletonEpoch="42")
    assert (await fixture.other.read(name)).metadata == {"SingletonEpoch": "42"}
    await written(store, name, A)
    assert (await fixture.other.read(name)).metadata == {}


@begins("available", QUICK)
async def last_modified_is_seconds_since_1970_and_lease_requests_leave_it_alone(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    made = (await store.read(name)).modified
    await store.acquire(name, A, 15)
    await store.renew(name, A)
    assert (await store.read(name)).modified == made
    await written(store, name, A, One="1")
    assert made <= (await store.read(name)).modified <= made + 5


@begins("leased", QUICK)
async def making_a_blob_again_keeps_its_lease_and_metadata(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    etag = await written(store, name, A, One="1")
    await fixture.other.create(name)
    await store.create(name)
    state = await store.read(name)
    assert (state.etag, state.lease, state.metadata) == (etag, "leased", {"One": "1"})


@begins(None, QUICK)
async def leases_of_different_blobs_are_independent(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    for suffix in ("", "/below", ".beside"):
        await store.create(name + suffix)
        await store.acquire(name + suffix, A, 15)
    await store.release(name, A)
    assert await state_of(store, f"{name}/below") == "leased"
    assert await state_of(store, f"{name}.beside") == "leased"


@begins("available", QUICK)
async def asking_again_with_the_same_id_succeeds(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    for client in (store, fixture.other, store):
        assert await outcome(client.acquire(name, A, 15)) == "ok"
    assert await outcome(fixture.other.acquire(name, B, 15)) == "409 held"


@begins("leased", QUICK)
async def a_broken_lease_can_be_taken_by_anybody_and_its_owner_hears_of_it(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    await fixture.other.break_(name)
    assert await loss(store.renew(name, A)) == "broken"
    await fixture.other.acquire(name, B, 15)
    assert await loss(store.renew(name, A)) == "stolen"
    assert await loss(written(store, name, A)) == "stolen"


@begins("leased", QUICK)
async def a_break_on_condition_of_an_etag_ends_no_lease_of_a_blob_that_has_changed_since(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    before = (await store.read(name)).etag
    etag = await written(store, name, A, One="1")
    assert await outcome(fixture.other.break_(name, before)) == "412 changed"
    assert await state_of(store, name) == "leased"
    await fixture.other.break_(name, etag)
    assert await state_of(store, name) == "broken"
    await store.acquire(name, B, 15)
    assert await loss(store.write(name, A, {"One": "2"}, etag)) == "stolen"


@begins("leased", QUICK)
async def a_released_lease_is_not_the_owners_any_more(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    await store.release(name, A)
    for request in (store.renew(name, A), store.release(name, A), written(store, name, A)):
        assert (await outcome(request)).endswith("lost")


@begins("available", QUICK)
async def durations_out_of_range_are_refused(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    for duration in (0, 14, 61, 3600):
        assert await outcome(store.acquire(name, A, duration)) == "400 refused", duration
    for duration in (15, 60):
        assert await outcome(store.acquire(name, A, duration)) == "ok", duration


@begins(None, QUICK)
async def of_many_who_race_to_make_and_take_a_blob_one_wins(fixture: Fixture) -> None:
    async def one(number: int) -> str:
        client = (fixture.store, fixture.other)[number % 2]
        lease_id = f"00000000-0000-4000-8000-{number:012x}"
        if await outcome(client.acquire(fixture.name, lease_id, 15)) == "404 missing":
            await client.create(fixture.name)
        return await outcome(client.acquire(fixture.name, lease_id, 15))

    results = await asyncio.gather(*(one(number) for number in range(20)))
    assert sorted(results) == ["409 held"] * 19 + ["ok"]


@begins(None, QUICK)
async def names_of_all_kinds_make_blobs_of_their_own(fixture: Fixture) -> None:
    names = [
        f"{fixture.name}/{tail}" for tail in ("a b", "a%20b", "a+b", "ä", "A", "a", "~x", "x'y", "q?z", "h#z", "a&b=c")
    ]
    for number, name in enumerate(names):
        await fixture.store.create(name)
        lease_id = f"00000000-0000-4000-8000-{number:012x}"
        assert await outcome(fixture.store.acquire(name, lease_id, 15)) == "ok", name
    for name in names:
        assert await state_of(fixture.other, name) == "leased", name


@begins(None, QUICK)
async def locks_of_two_hosts_exclude_each_other_and_count_tokens_up(fixture: Fixture) -> None:
    timing = Timing(poll_min=0.01, poll_max=0.05, handoff_window=0.1)
    locks = [
        Lock(store, fixture.name, timing=timing, rng=random.Random(seed))
        for seed, store in enumerate([fixture.store, fixture.other, fixture.store])
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
    assert await state_of(fixture.store, fixture.name) == "available"


@begins("leased", SLOW)
async def a_lease_lasts_as_long_as_it_was_asked_for(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    await fixture.wait(14.5)
    assert await outcome(fixture.other.acquire(name, B, 15)) == "409 held"
    await fixture.wait(0.7)
    assert await state_of(fixture.other, name) == "expired"
    assert await outcome(fixture.other.acquire(name, B, 15)) == "ok"
    assert (await outcome(store.renew(name, A))).endswith("lost")


@begins("available", SLOW)
async def a_longer_lease_lasts_longer(fixture: Fixture) -> None:
    await fixture.store.acquire(fixture.name, A, 20)
    await fixture.wait(16.0)
    assert await outcome(fixture.other.acquire(fixture.name, B, 15)) == "409 held"


@begins("leased", SLOW)
async def a_renewal_restarts_the_clock(fixture: Fixture) -> None:
    await fixture.wait(5.0)
    assert await fixture.store.renew(fixture.name, A) == A
    await fixture.wait(11.0)
    assert await state_of(fixture.other, fixture.name) == "leased"


@begins("leased", SLOW)
async def asking_again_with_the_same_id_restarts_the_clock(fixture: Fixture) -> None:
    await fixture.wait(5.0)
    await fixture.store.acquire(fixture.name, A, 15)
    await fixture.wait(11.0)
    assert await state_of(fixture.other, fixture.name) == "leased"


@begins("leased", SLOW)
async def a_write_does_not_restart_the_clock(fixture: Fixture) -> None:
    await fixture.wait(5.0)
    await written(fixture.store, fixture.name, A, One="1")
    await fixture.wait(10.5)
    assert await state_of(fixture.other, fixture.name) == "expired"


@begins("leased", SLOW)
async def an_expired_lease_can_be_renewed_by_its_owner_only_while_nobody_had_it(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    await fixture.wait(15.5)
    await fixture.other.acquire(name, B, 15)
    await fixture.other.release(name, B)
    assert (await outcome(store.renew(name, A))).endswith("lost")


@begins("leased", QUICK)
async def an_operators_break_without_a_period_leaves_the_rest_and_a_later_one_only_shortens(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    old = (await store.read(name)).etag
    changed = await store.write(name, A, {"One": "1"}, old)
    assert await outcome(store.break_(name, old, 0)) == "412 changed"
    assert 0 < await store.break_(name, changed, None) <= 15
    assert await outcome(store.renew(name, A)) == "409 lost"
    assert await outcome(fixture.other.acquire(name, B, 15)) == "409 held"
    assert await store.break_(name, None, 5) <= 5
    assert await store.break_(name, None, 30) <= 5
    await store.break_(name)
    await fixture.other.acquire(name, B, 15)


@begins("leased", QUICK)
async def a_blob_is_deleted_only_as_it_was_seen_and_while_nobody_has_the_lease(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    old = (await store.read(name)).etag
    changed = await store.write(name, A, {"One": "1"}, old)
    assert await outcome(store.drop(name, changed)) == "412 refused"
    await store.release(name, A)
    assert await outcome(store.drop(name, old)) == "412 changed"
    await store.drop(name, changed)
    assert await state_of(fixture.other, name) is None
