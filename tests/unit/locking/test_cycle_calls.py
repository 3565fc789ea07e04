"""How many calls a cycle takes, and that each call that is spared leaves tokens increasing and owners told."""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from singleton.base.errors import StorageError
from singleton.locking.acquisition import Guess
from singleton.locking.fencing import SECTIONS
from singleton.locking.holder import holder, recorded
from singleton.locking.lock import Lock, release
from singleton.locking.phase import Timing
from singleton.stores.stamps import EPOCH_KEY, OWNER_KEY
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.network import LOST_REPLY, LOST_REQUEST, Network, answered
from tests.support.world import NAME, foreign_id, held, lock_on, now, occupy, section, settled, virtual

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.network import Fate

WARM = ["acquire", "release"]
STAMPED = ["acquire", "read", "write", "release"]


@contextmanager
def calls_of(network: Network) -> Iterator[list[str]]:
    """Fill a list with the calls of the block."""
    network.requests.clear()
    calls: list[str] = []
    yield calls
    calls += network.calls()


def new_lock(network: Network, name: str, guess: Guess) -> Lock:
    return Lock(network, name, timing=Timing(), rng=random.Random(1), guess=guess, wall=lambda: 1e9 + now())


# --- warm -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fencing", [False, True])
@virtual
async def test_a_warm_cycle_is_two_calls_with_a_token_or_without(fencing: bool) -> None:
    network = Network()
    lock = lock_on(network, fencing=fencing)
    await section(lock, owner="me")
    for _ in range(3):
        with calls_of(network) as calls:
            await section(lock, owner="me")
        assert calls == WARM


@virtual
async def test_the_first_cycle_after_another_process_reads_and_stamps() -> None:
    network = Network()
    lock, other = lock_on(network, 1), lock_on(Network(network.service), 2)
    tokens = []
    for _ in range(3):
        tokens.append((await section(lock)).token)
        tokens.append((await section(lock)).token)
        tokens.append((await section(other)).token)
        with calls_of(network) as calls:
            tokens.append((await section(lock)).token)
        assert calls == STAMPED
    assert all(later > earlier for earlier, later in itertools.pairwise([token or 0 for token in tokens]))


@virtual
async def test_an_epoch_has_so_many_tokens_over_all_its_leases_and_then_there_is_a_stamp() -> None:
    network = Network()
    lock = lock_on(network)
    tokens = [(await section(lock)).token or 0 for _ in range(SECTIONS + 5)]
    assert all(later > earlier for earlier, later in itertools.pairwise(tokens))
    assert len(network.sent("write")) == 1
    assert network.sent("read") == []


@virtual
async def test_an_epoch_that_was_only_read_gives_no_token() -> None:
    """Another process may be using it: the stamp that was to follow got lost."""
    service = MemoryLeaseStore()
    theirs = await section(lock_on(Network(service), 2))
    network = Network(service)
    lock = lock_on(network)
    network.plan("write", LOST_REQUEST)
    ours = await section(lock)
    assert ours.token is not None
    assert theirs.token is not None
    assert ours.token // SECTIONS > theirs.token // SECTIONS


@pytest.mark.parametrize("fate", [LOST_REPLY, LOST_REQUEST, answered(executed=True)])
@virtual
async def test_after_a_stamp_whose_outcome_is_unknown_no_stamp_is_spared(fate: Fate) -> None:
    service = MemoryLeaseStore()
    network, other = Network(service), lock_on(Network(service), 2)
    lock = lock_on(network)
    tokens = [(await section(lock)).token, (await section(other)).token]
    network.plan("write", fate)
    tokens.append((await section(lock, timeout=30.0)).token)
    tokens.append((await section(other)).token)
    tokens.append((await section(lock)).token)
    assert all(later > earlier for earlier, later in itertools.pairwise([token or 0 for token in tokens]))


@virtual
async def test_a_copy_of_the_process_stamps_as_its_clocks_have_moved_against_each_other() -> None:
    """A restored image: its wall clock was set, its monotonic clock goes on."""
    network = Network()
    jumped = 0.0
    lock = Lock(network, NAME, timing=Timing(), rng=random.Random(1), wall=lambda: 1e9 + now() + jumped)
    before = [(await section(lock)).token, (await section(lock)).token]
    stamped = ["acquire", "write", "release"]
    slowly = ((0.4, WARM), (0.8, WARM), (1.2, WARM))
    at_once = ((1.8, stamped), (1.8, WARM), (3600.0, stamped), (3600.0, WARM), (-3600.0, stamped), (-3600.0, WARM))
    for jump, calls_then in (*slowly, *at_once):
        jumped = jump
        with calls_of(network) as calls:
            before.append((await section(lock)).token)
        assert calls == calls_then
    assert all(later > earlier for earlier, later in itertools.pairwise([token or 0 for token in before]))


@virtual
async def test_a_copy_whose_stamp_got_lost_does_not_go_by_what_it_remembers() -> None:
    network = Network()
    jumped = 0.0
    lock = Lock(network, NAME, timing=Timing(), rng=random.Random(1), wall=lambda: now() + jumped)
    before = await section(lock)
    jumped = 3600.0
    network.plan("write", LOST_REQUEST)
    with calls_of(network) as calls:
        after = await section(lock)
    assert calls.count("write") == 2
    assert after.token is not None
    assert before.token is not None
    assert after.token // SECTIONS > before.token // SECTIONS


# --- cold -------------------------------------------------------------------------------------------------------------


@virtual
async def test_a_new_name_is_asked_for_first_and_after_one_that_was_missing_made_first() -> None:
    network = Network()
    guess = Guess()
    expected = [["acquire", "create", "acquire", "release"], ["create", "acquire", "release"]]
    for number in range(4):
        with calls_of(network) as calls:
            hold = await section(new_lock(network, f"locks/{number}", guess), owner="me")
        assert calls == expected[min(number, 1)]
        assert hold.token is not None
        assert (await network.service.read(f"locks/{number}")).metadata[OWNER_KEY] == "me"


@virtual
async def test_where_names_turn_out_to_be_there_they_are_asked_for_again() -> None:
    network = Network()
    for number in range(3):
        await network.service.create(f"there/{number}")
    guess = Guess(missing=True)
    costs = []
    for number in range(3):
        lock = new_lock(network, f"there/{number}", guess)
        with calls_of(network) as calls:
            await section(lock)
        costs.append(calls)
        with calls_of(network) as calls:
            await section(lock)
        assert calls == WARM
    assert costs == [["create", *STAMPED], STAMPED, STAMPED]


@virtual
async def test_a_name_that_is_held_by_another_is_refused_whatever_was_guessed() -> None:
    for missing in (False, True):
        network = Network()
        await occupy(network.service)
        lock = new_lock(network, NAME, Guess(missing=missing))
        waiting = asyncio.create_task(lock.acquire(timeout=0))
        await asyncio.wait({waiting})
        assert waiting.exception() is not None
        assert network.service.leased() == {NAME: foreign_id()}


@virtual
async def test_a_blob_that_another_process_used_since_we_made_it_is_stamped() -> None:
    network = Network()
    lock, other = new_lock(network, NAME, Guess(missing=True)), lock_on(Network(network.service), 2)
    network.watchers.append(hurry := Hurry(network, other))
    hold = await section(lock)
    assert hurry.token is not None
    assert hold.token is not None
    assert hold.token > hurry.token


class Hurry:
    """Another process that has the lock between our two requests."""

    def __init__(self, network: Network, lock: Lock) -> None:
        self.token: int | None = None
        self._network = network
        self._lock = lock
        self._begun: asyncio.Task[None] | None = None

    def __call__(self) -> None:
        if self._begun is None and self._network.calls() == ["create"]:
            self._begun = asyncio.get_running_loop().create_task(self._go())
            self._network.plan("acquire", answered(500), answered(500))

    async def _go(self) -> None:
        hold = await self._lock.acquire()
        self.token = hold.token
        await release(hold)


@pytest.mark.parametrize("fate", [LOST_REPLY, answered(500), answered(executed=True), answered(500, executed=True)])
@virtual
async def test_a_blob_of_which_we_do_not_know_that_we_made_it_is_stamped(fate: Fate) -> None:
    network = Network()
    network.plan("create", fate)
    lock = new_lock(network, NAME, Guess(missing=True))
    await section(lock)
    assert bool(network.sent("write")) == fate.executed
    await settled(network.service, lock)


# --- who has it -------------------------------------------------------------------------------------------------------


@virtual
async def test_the_first_renewal_writes_who_has_the_lock_now_and_since_when_and_the_next_cycle_stamps() -> None:
    """Else what was written of the long hold would stand there while short ones follow."""
    network = Network()
    lock = lock_on(network)
    await section(lock, owner="first")
    with calls_of(network) as calls:
        since = datetime.fromtimestamp(int(now()), UTC)
        async with held(lock, owner="second") as hold:
            await asyncio.sleep(7.0)
            young = await holder(network.service, NAME)
            assert young is not None
            assert (young.owner, young.since, young.renewed) == ("first", None, False)
            await asyncio.sleep(24.0)
            found = await holder(network, NAME)
            assert found is not None
            assert (found.owner, found.since, found.renewed) == ("second", since, True)
            assert found.token is not None
            assert hold.token is not None
            assert found.token <= hold.token
    assert calls == ["acquire", "renew", "write", "renew", "renew", "renew", "read", "release"]
    with calls_of(network) as calls:
        after = await section(lock, owner="third")
    assert calls == ["acquire", "write", "release"]
    assert (after.token or 0) > hold.token
    last = recorded(NAME, await network.service.read(NAME))
    assert (last.owner, last.since, last.renewed) == ("third", None, False)
    with calls_of(network) as calls:
        await section(lock)
    assert calls == WARM


@virtual
async def test_the_owner_of_a_later_section_under_the_lease_is_written() -> None:
    network = Network()
    lock = lock_on(network)
    await section(lock, owner="first")
    async with held(lock, owner="second"):
        third = asyncio.create_task(lock.acquire(owner="third"))
        await asyncio.sleep(5.0)
    hold = await third
    await asyncio.sleep(5.0)
    assert (await network.service.read(NAME)).metadata[OWNER_KEY] == "third"
    await release(hold)


@pytest.mark.parametrize("fate", [LOST_REPLY, LOST_REQUEST, answered(500), answered(412, "LeaseLost"), answered(403)])
@virtual
async def test_an_owner_that_can_not_be_written_costs_the_hold_nothing(fate: Fate) -> None:
    service = MemoryLeaseStore()
    network = Network(service)
    lock = lock_on(network)
    first = await section(lock)
    network.plan("write", fate)
    async with held(lock, owner="me") as hold:
        await asyncio.sleep(60.0)
        hold.raise_if_lost()
    after = [(await section(lock)).token, (await section(lock_on(Network(service), 2))).token]
    tokens = [token or 0 for token in (first.token, hold.token, *after)]
    assert all(later > earlier for earlier, later in itertools.pairwise(tokens))
    assert EPOCH_KEY in (await service.read(NAME)).metadata
    await settled(service, lock)


@pytest.mark.parametrize("fate", [LOST_REPLY, LOST_REQUEST, answered(500)])
@virtual
async def test_an_owner_whose_writing_got_no_answer_is_written_after_the_next_renewal(fate: Fate) -> None:
    network = Network()
    lock = lock_on(network)
    await section(lock, owner="before")
    network.plan("write", fate)
    async with held(lock, owner="me"):
        await asyncio.sleep(31.0)
        last = recorded(NAME, await network.service.read(NAME))
        assert (last.owner, last.renewed) == ("me", True)


@virtual
async def test_a_later_section_without_an_owner_does_not_stand_as_its_predecessor_s() -> None:
    network = Network()
    lock = lock_on(network)
    await section(lock, owner="first")
    async with held(lock, owner="second"):
        nobody = asyncio.create_task(lock.acquire())
        await asyncio.sleep(5.0)
    hold = await nobody
    await asyncio.sleep(31.0)
    assert recorded(NAME, await network.service.read(NAME)).owner is None
    await release(hold)


@virtual
async def test_a_stamp_names_the_owner_and_only_the_first_renewal_writes_it_again() -> None:
    network = Network()
    await network.service.create(NAME)
    async with held(lock_on(network), owner="me"):
        await asyncio.sleep(31.0)
    assert len(network.sent("write")) == 2


@pytest.mark.parametrize("options", [{}, {"failover": 2.0}])
@virtual
async def test_a_blob_whose_epoch_can_not_be_read_is_refused_at_every_attempt(options: dict[str, Any]) -> None:
    network = Network()
    known, another = lock_on(network, 1, **options), lock_on(Network(network.service), 2, **options)
    await section(known)
    await section(another)
    state = await network.service.read(NAME)
    network.service.edit(NAME, {**state.metadata, EPOCH_KEY: "12x"})
    for lock in (known, another, lock_on(Network(network.service), 3, **options)):
        for _ in range(3):
            with pytest.raises(StorageError, match="not a number for tokens"):
                await section(lock, timeout=0)
    assert (await network.service.read(NAME)).metadata[EPOCH_KEY] == "12x"
