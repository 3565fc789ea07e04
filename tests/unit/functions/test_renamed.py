"""A lock under two names, held as one: all or none, one token, one loss."""

from __future__ import annotations

import asyncio
import gc
import itertools
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from singleton.base.errors import ConfigurationError, LockLost, LockNotAcquired, StorageUnavailable
from singleton.base.hold import single_holds
from singleton.functions.acquirers import DoubleHold
from singleton.locking.fencing import SECTIONS
from tests.support.network import FINE, LOST_REPLY, LOST_REQUEST, Fate, Network, answered
from tests.support.renaming import NEW, OLD, Kind, World
from tests.support.world import eventually, foreign_id, now, occupy, until, virtual

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.hold import Hold

LATE = Fate(up=2.0, down=math.inf)


def a_world(hosts: int = 1) -> World:
    world = World()
    for _ in range(hosts):
        world.add_host()
    return world


def calls(network: Network) -> list[str]:
    """Return the requests since the last time, each with which lock it was for."""
    seen = [f"{request.call} {request.name.rpartition('/')[2]}" for request in network.requests]
    network.requests.clear()
    return seen


async def ended(world: World) -> None:
    await asyncio.gather(*(registry.aclose() for registry in world.registries))
    assert world.service.leased() == {}


# --- both or none -----------------------------------------------------------------------------------------------------


@virtual
async def test_both_are_held_and_shown_as_one_hold_of_the_new_name() -> None:
    world = a_world()
    hold = await world.acquire(world.registries[0], "both")
    assert set(world.service.leased()) == {OLD, NEW}
    assert (hold.lock, hold.owner, hold.lease_id) == (NEW, "both", world.service.leased()[NEW])
    for name in (OLD, NEW):
        assert (await world.service.read(name)).metadata["FunctionInstance"] == "both"
    hold.raise_if_lost()
    with pytest.raises(ConfigurationError, match="also="):
        _ = hold.state
    await world.registries[0].release(hold)
    assert world.service.leased() == {}
    assert not hold.lost.is_set()
    with pytest.raises(LockLost, match="released"):
        hold.raise_if_lost()
    await ended(world)


@pytest.mark.parametrize("taken", [OLD, NEW])
@pytest.mark.parametrize("timeout", [0, 3.0])
def test_if_either_is_taken_neither_is_kept(taken: str, timeout: float) -> None:
    @virtual
    async def run() -> None:
        world = a_world()
        await occupy(world.service, taken)
        with pytest.raises(LockNotAcquired) as caught:
            await world.acquire(world.registries[0], "both", timeout)
        assert now() == pytest.approx(timeout, abs=0.2)
        assert caught.value.lock == taken
        assert world.service.leased() == {taken: foreign_id()}
        await ended_but(world, taken)

    async def ended_but(world: World, name: str) -> None:
        await world.service.release(name, foreign_id())
        await ended(world)

    run()


@pytest.mark.parametrize(
    ("silent", "named"),
    [
        ({"acquire new": Fate(up=3.7), "acquire old": LATE}, OLD),
        ({"acquire old": LATE, "release new": LATE}, OLD),
        ({"acquire new": Fate(up=1.9), "acquire old": Fate(up=1.9), "write new": LATE, "write old": LATE}, NEW),
    ],
    ids=["second lock, asked for late", "release of the first", "epoch that is raised"],
)
@virtual
async def test_whoever_is_silent_a_wait_for_both_ends_when_its_time_is_over_and_leaves_nothing(
    silent: dict[str, Fate], named: str
) -> None:
    world = a_world()
    for behind in ("new", "old"):
        await world.section(behind)
        await asyncio.sleep(5.0)
    network, began = world.networks[0], now()
    network.decide = lambda request: silent.get(f"{request.call} {request.name.rpartition('/')[2]}", FINE)
    with pytest.raises(StorageUnavailable) as caught:
        await world.acquire(world.registries[0], "both", 4)
    assert caught.value.lock == named
    assert 4.0 <= now() - began <= 4.5 + 0.01
    network.heal()
    await asyncio.sleep(15.0)
    await ended(world)


@pytest.mark.parametrize("excluded", ["old", "new", "swapped", "both"])
def test_nobody_gets_in_under_either_name_meanwhile(excluded: Kind) -> None:
    @virtual
    async def run() -> None:
        world = a_world(2)
        hold = await world.acquire(world.registries[0], "both")
        with pytest.raises(LockNotAcquired):
            await world.acquire(world.registries[1], excluded, 0)
        await world.registries[0].release(hold)
        await world.section(excluded, host=1, timeout=0)
        await ended(world)

    run()


@virtual
async def test_two_functions_that_swap_their_names_never_wait_for_each_other_for_ever() -> None:
    world = a_world(2)
    kinds: list[Kind] = ["both", "swapped"]
    async with asyncio.timeout(300):
        await asyncio.gather(
            *(world.section(kind, 0.1, host=host) for kind in kinds for host in (0, 1) for _ in range(10))
        )
    await ended(world)


@pytest.mark.parametrize("after", [0.0, 0.005, 0.015, 0.025, 0.035, 0.05, 0.5])
def test_a_cancelled_wait_leaves_nothing_taken(after: float) -> None:
    @virtual
    async def run() -> None:
        world = a_world()
        await occupy(world.service, NEW, 15)
        wait = asyncio.create_task(world.acquire(world.registries[0], "swapped"))
        await asyncio.sleep(after)
        wait.cancel()
        await asyncio.wait({wait})
        await eventually(lambda: OLD not in world.service.leased(), within=6)
        await world.service.release(NEW, foreign_id())
        await ended(world)

    run()


@virtual
async def test_a_hold_that_is_dropped_gives_both_back(caplog: pytest.LogCaptureFixture) -> None:
    world = a_world()
    hold = await world.acquire(world.registries[0], "both")
    del hold
    gc.collect()
    await eventually(lambda: not world.service.leased(), within=3)
    assert caplog.text.count("garbage-collected without a release") == 2
    await ended(world)


@virtual
async def test_it_is_kept_at_least_so_long_under_both_names() -> None:
    world = a_world(2)
    hold = await world.acquire(world.registries[0], "both", at_least=10.0)
    began = now()
    await world.registries[0].release(hold)
    assert now() < began + 0.1
    for kind in ("old", "new"):
        with pytest.raises(LockNotAcquired):
            await world.acquire(world.registries[1], kind, 0)
    await until(began + 10.1)
    assert world.service.leased() == {}
    await ended(world)


@virtual
async def test_after_max_hold_both_lapse() -> None:
    world = a_world()
    hold = await world.acquire(world.registries[0], "both", max_hold=4.0)
    await asyncio.sleep(4.1)
    assert hold.lost.reason == "too long"
    await asyncio.sleep(15.0)
    assert world.service.leased() == {}
    await world.registries[0].release(hold)
    await ended(world)


# --- loss -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [OLD, NEW])
@pytest.mark.parametrize("reason", ["broken", "stolen", "blob gone"])
def test_a_loss_of_either_is_the_loss_of_the_hold(name: str, reason: str) -> None:
    @virtual
    async def run() -> None:
        world = a_world()
        hold = await world.acquire(world.registries[0], "both")
        told: list[str] = []
        hold.lost.add_callback(told.append)
        await asyncio.sleep(2.0)
        if reason == "blob gone":
            world.service.delete(name)
        else:
            await world.service.break_(name)
        if reason == "stolen":
            await world.service.acquire(name, foreign_id(), 15)
        async with asyncio.timeout(60):
            assert await hold.lost == reason
        assert told == [reason]
        with pytest.raises(LockLost, match=reason):
            hold.raise_if_lost()
        await world.registries[0].release(hold)
        assert set(world.service.leased()) <= {name}, "the other one is given back"
        await asyncio.sleep(15.0)
        await ended(world)

    run()


@pytest.mark.parametrize("name", [OLD, NEW])
def test_a_process_that_slept_knows_at_once(name: str) -> None:
    @virtual
    async def run() -> None:
        world = a_world()
        hold = await world.acquire(world.registries[0], "both")
        assert isinstance(hold, DoubleHold)
        part = next(each for each in single_holds(hold) if each.lock == name)
        assert hold.lost.deadline == min(each.lost.deadline for each in single_holds(hold)) > now()
        part.lost._lease = _Overdue()
        assert hold.lost.is_set()
        await world.registries[0].release(hold)
        await ended(world)

    class _Overdue:
        id, deadline = "", 0.0
        loop: Any = SimpleNamespace(time=lambda: 0.0)

    run()


@virtual
async def test_the_first_that_is_lost_ends_the_wait_for_the_second() -> None:
    world = a_world()
    await occupy(world.service, OLD)
    wait = asyncio.create_task(world.acquire(world.registries[0], "both"))
    await asyncio.sleep(1.0)
    await world.service.break_(NEW)
    with pytest.raises(LockLost):
        await asyncio.wait_for(wait, 60)
    assert now() < 9.0
    await world.service.release(OLD, foreign_id())
    await ended(world)


# --- one token --------------------------------------------------------------------------------------------------------


async def tokens_of(world: World, kinds: list[Kind], *, fresh: bool) -> list[int]:
    """Return the tokens of sections one after the other, each in a process of its own, or all in one."""
    tokens = []
    for _, kind in enumerate(kinds):
        if fresh:
            world.add_host()
        hold = await world.section(kind, 0.1, host=len(world.registries) - 1)
        assert hold.token is not None
        tokens.append(hold.token)
    return tokens


def check(kinds: list[Kind], tokens: list[int]) -> None:
    """Check that tokens increase over all sections under each name."""
    for apart in ("old", "new"):
        under = [token for kind, token in zip(kinds, tokens, strict=True) if kind != apart]
        assert all(later > earlier for earlier, later in itertools.pairwise(under)), (kinds, tokens)


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("first", [OLD, NEW])
def test_tokens_increase_over_all_who_exclude_one_another(first: str, fresh: bool) -> None:
    @virtual
    async def run() -> None:
        world = a_world()
        apart: Kind = "old" if first == OLD else "new"
        await tokens_of(world, [apart, apart, apart], fresh=fresh)
        await asyncio.sleep(3.0)  # the other blob is made in a later second, and so begins with a greater epoch
        every: list[Kind] = ["old", "both", "swapped", "new"]
        for kinds in itertools.product(every, repeat=3):
            check([*kinds], await tokens_of(world, [*kinds], fresh=fresh))
        await ended(world)

    run()


@pytest.mark.parametrize("crowd", [1, 3])
def test_tokens_increase_where_processes_take_turns(crowd: int) -> None:
    @virtual
    async def run() -> None:
        world = a_world(3)
        kinds: list[Kind] = ["old", "both", "new", "swapped"]
        await asyncio.gather(
            *(
                world.section(kind, 0.05, host=host)
                for kind in kinds
                for host in range(3)
                for _ in range(5)
                for _ in range(crowd)
            )
        )
        await ended(world)

    run()


@pytest.mark.parametrize("kind", ["old", "new"])
def test_who_comes_next_under_one_name_alone_gets_a_greater_one_also_after_a_crash(kind: Kind) -> None:
    @virtual
    async def run() -> None:
        world = a_world(2)
        for behind in ("old", "new"):
            await world.section(behind)
            await asyncio.sleep(5.0)
        hold = await world.acquire(world.registries[0], "both")
        world.networks[0].fail_all(LOST_REQUEST)
        await world.registries[0].aclose()  # its leases lapse
        following = await world.section(kind, host=1)
        assert following.token is not None
        assert hold.token is not None
        assert following.token > hold.token
        await asyncio.sleep(15)
        await ended(world)

    run()


@virtual
async def test_who_was_broken_while_it_waited_gives_nobody_a_token_that_a_later_one_is_below() -> None:
    """The operator broke the first lock, somebody took it: the write that would raise its epoch is refused."""
    world = a_world(2)
    await world.section("new")  # the lock that is asked for first, and whose epoch is behind
    await asyncio.sleep(5.0)
    await occupy(world.service, OLD, 60)
    wait = asyncio.create_task(world.acquire(world.registries[0], "both"))
    await asyncio.sleep(1.0)
    await world.service.break_(NEW)
    other = await world.acquire(world.registries[1], "new")
    await world.service.release(OLD, foreign_id())
    with pytest.raises(LockLost):
        await asyncio.wait_for(wait, 60)
    await world.registries[1].release(other)
    await ended(world)


@virtual
async def test_what_it_costs() -> None:
    world = a_world()
    network = world.networks[0]
    await world.section("both")
    calls(network)
    await world.section("both")
    assert calls(network) == ["acquire new", "acquire old", "release new", "release old"]
    world.add_host()
    other = world.networks[1]
    await world.section("both", host=1)
    stamped = ["acquire new", "read new", "write new", "acquire old", "read old", "write old"]
    back = ["release new", "release old"]
    assert calls(other) == [*stamped, *back]
    await world.section("old", host=1)
    calls(network)
    calls(other)
    await world.section("both", host=0)
    assert calls(network) == [*stamped, *back], "one was ahead by what the other process wrote for both: no more"
    await world.section("old", host=1)
    await world.section("old", host=0)
    await world.section("old", host=1)
    calls(network)
    await world.section("both", host=0)
    assert calls(network) == ["acquire new", *stamped[3:], "write new", *back]
    await ended(world)


LATE = Fate(up=2.0, down=math.inf)


@pytest.mark.parametrize(
    "fate", [LOST_REPLY, LOST_REQUEST, LATE, answered(), answered(executed=True), answered(503, "ServerBusy")], ids=str
)
@pytest.mark.parametrize("kind", ["old", "new"])
def test_the_write_that_raises_an_epoch_may_be_lost_late_or_answered_wrongly(fate: Fate, kind: Kind) -> None:
    @virtual
    async def run() -> None:
        world = a_world(2)
        for behind in ("new", "old"):
            await world.section(behind, host=0)
            await asyncio.sleep(5.0)
        calls(world.networks[0])
        world.networks[0].plan("write", fate)  # both stamps are spared: it is the one that raises
        both = await world.section("both", 0.1, host=0)
        assert "write new" in calls(world.networks[0])
        following = await world.section(kind, host=1)
        assert both.token is not None
        assert following.token is not None
        assert following.token > both.token
        await asyncio.sleep(10.0)
        for each in ("old", "both", "new"):
            await world.section(each, host=1)
            await world.section(each, host=0)
        await ended(world)

    run()


@virtual
async def test_an_epoch_that_was_raised_never_goes_back() -> None:
    """Its reply is lost, it is read, and whoever writes the stamp again after a renewal writes no earlier epoch."""
    world = a_world()
    for behind in ("new", "old"):
        await world.section(behind)
        await asyncio.sleep(5.0)
    world.networks[0].plan("write", LOST_REPLY, FINE, LOST_REQUEST)
    await world.section("both", 30.0)
    for kind in ("new", "both", "old"):
        await world.section(kind)
    await ended(world)


@virtual
async def test_an_epoch_that_can_not_be_raised_gives_nobody_a_token() -> None:
    world = a_world()
    for behind in ("new", "old"):
        await world.section(behind)
        await asyncio.sleep(5.0)
    world.networks[0].always("write", answered(503, "ServerBusy"))
    with pytest.raises(StorageUnavailable):
        await world.acquire(world.registries[0], "both", 20)
    assert world.service.leased() == {}
    world.networks[0].heal()
    await world.section("both", timeout=0)
    await ended(world)


@virtual
async def test_tokens_that_are_used_up_go_on_with_the_next_epoch() -> None:
    world = a_world()
    await world.section("new")
    await world.section("both")
    lock = next(lock for address, lock in world.registries[0]._locks.items() if address.name == OLD)
    assert lock._fencing is not None
    lock._fencing._section = SECTIONS - 2
    for kind in ("both", "both", "new", "old", "both"):
        await world.section(kind)
    await ended(world)


def test_their_tokens_do_not_depend_on_which_lock_is_ahead() -> None:
    makers: list[Callable[[], object]] = []
    for kinds in (["old"] * 5, ["new"] * 5, ["old", "new", "new"]):

        @virtual
        async def run(kinds: list[Kind] = kinds) -> None:  # type: ignore[assignment] # a list of literals
            world = a_world(2)
            for number, kind in enumerate(kinds):
                await world.section(kind, host=number % 2)
            holds: list[Hold] = [await world.section("both", host=number % 2) for number in range(4)]
            assert len({hold.token for hold in holds}) == 4
            await ended(world)

        makers.append(run)
    for make in makers:
        make()
