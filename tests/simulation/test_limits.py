"""What a lease does not give, each shown in a world where it goes wrong: the limits that docs/guarantees.md names.

A limit that stops being one fails here, so that the document can be corrected.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from simulator.virtual.faults.host_faults import Crash, Operator, Pause, PauseBetweenSteps
from simulator.virtual.faults.network_faults import Partition
from simulator.virtual.hosts.jobs import InvocationContext, message
from simulator.virtual.time.machine import Baton
from simulator.virtual.worlds.outcome import Refused
from simulator.virtual.worlds.world import World
from singleton import LockLost, current_hold, singleton
from tests.support.network import LOST_REQUEST, Fate, Network, answered
from tests.support.world import foreign_id, held, lock_on, settled, virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from simulator.virtual.faults import WorldFault

PERIOD = 15.0
POLL = 5.0
CALL = 0.1
"""Seconds for a request, on the good days of these worlds."""


@dataclass
class Story:
    """What happened in a world, told by the bodies themselves."""

    world: World
    entered: list[tuple[str, float]] = field(default_factory=list)
    left: list[tuple[str, float]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def overlap(self) -> float:
        """Return the longest time that two bodies were inside, in seconds."""
        spans = sorted((start, dict(self.left).get(who, self.world.loop.now), who) for who, start in self.entered)
        return max(
            (min(first[1], second[1]) - second[0] for first, second in itertools.pairwise(spans)),
            default=0.0,
        )

    def body(
        self, who: str, work: Callable[[Story], Coroutine[None, None, None]]
    ) -> Callable[[], Coroutine[None, None, None]]:
        """Return a guarded job that writes down when it was inside, by true time."""

        @singleton(scope="Order:Id", level="host")
        async def ship(msg: str) -> None:
            self.entered.append((who, self.world.loop.now))
            self.tokens.append(current_hold().token or 0)
            try:
                await work(self)
            finally:
                self.left.append((who, self.world.loop.now))

        async def run() -> None:
            with contextlib.suppress(LockLost):
                await ship(msg=message("key"), context=InvocationContext("ship", who))  # type: ignore[call-arg]

        return run


def write(story: Story, who: str) -> None:
    """Write to the fenced resource; note it if that refuses."""
    try:
        story.world.resource.write(current_hold())
    except Refused:
        story.refused.append(who)


def play(
    *jobs: tuple[int, float, str, Callable[[Story], Coroutine[None, None, None]]], faults: Sequence[WorldFault] = ()
) -> Story:
    """Run jobs: on which host, after how many seconds, whose, and what it does inside."""
    world = World(1, 1 + max(host for host, *_ in jobs), faults, shuffle=False)
    story = Story(world)
    for host, delay, who, work in jobs:
        world.start(world.machines[host], _later(delay, story.body(who, work)), seconds=120.0)
    world.run()
    return story


async def _later(delay: float, run: Callable[[], Coroutine[None, None, None]]) -> None:
    await asyncio.sleep(delay)
    await run()


def lasting(seconds: float) -> Callable[[Story], Coroutine[None, None, None]]:
    async def work(_: Story) -> None:
        await asyncio.sleep(seconds)

    return work


@pytest.mark.parametrize("action", ["break_", "steal", "delete"])
def test_after_an_operator_took_the_lease_two_may_be_inside_for_half_a_period_and_a_request_at_most(
    action: str,
) -> None:
    """Nobody asks the holder: it hears of it with its next renewal."""
    worst = 0.0
    for moment in range(3, 78, 5):
        story = play(
            (0, 0.0, "old", lasting(60.0)),
            (1, moment / 10 + 0.05, "new", lasting(20.0)),
            faults=[Operator(at=moment / 10, action=action), Operator(at=40.0, action="break_")],
        )
        worst = max(worst, story.overlap())
    assert worst <= PERIOD / 2 + CALL
    if action != "steal":  # then nobody of ours gets in for a period
        assert worst > PERIOD / 2 - 2.0, "the limit is none any more"


def test_an_operator_who_breaks_a_lease_with_ten_seconds_notice_lets_nobody_in_beside_its_holder() -> None:
    """A renewal is refused while the lease still keeps others out: the holder hears of it in time."""
    for moment in range(3, 78, 5):
        story = play(
            (0, 0.0, "old", lasting(60.0)),
            (1, moment / 10 + 0.05, "new", lasting(20.0)),
            faults=[Operator(at=moment / 10, action="break slowly")],
        )
        assert story.overlap() <= 0.0
        assert dict(story.left)["old"] < dict(story.entered)["new"]


def test_a_host_that_stands_still_between_a_check_and_a_write_writes_too_late_and_only_the_token_stops_it() -> None:
    """No check of the clock can be near enough to the write."""

    async def old(story: Story) -> None:
        for _ in range(40):
            await asyncio.sleep(0.1)
            current_hold().raise_if_lost()
            await asyncio.sleep(0)  # here
            write(story, "old")

    async def new(story: Story) -> None:
        write(story, "new")

    late = []
    for steps in range(1, 30):
        story = play(
            (0, 0.0, "old", old), (1, 1.0, "new", new), faults=[PauseBetweenSteps(at=2.0, steps=steps, seconds=30.0)]
        )
        late += story.refused
    assert set(late) == {"old"}, "the limit is none any more"


def test_a_sync_body_goes_on_after_the_loss_beside_the_next_holder_until_it_asks() -> None:
    """A thread can't be ended from outside."""
    story: Story | None = None
    asked: list[float] = []

    @singleton(scope="Order:Id", level="host")
    def grind(msg: str) -> None:
        assert story is not None
        story.entered.append(("old", story.world.loop.now))
        Baton.wait(asyncio.sleep(40.0))
        write(story, "old")
        if current_hold().lost.is_set():
            asked.append(story.world.loop.now)
        story.left.append(("old", story.world.loop.now))

    async def run() -> None:
        with pytest.raises(LockLost):
            await Baton.run(lambda: grind(msg=message("key"), context=InvocationContext("grind", "old")))  # type: ignore[call-arg]

    async def new(story: Story) -> None:
        write(story, "new")
        await asyncio.sleep(10.0)

    world = World(1, 2, [Partition(at=1.0, host=0, seconds=50.0)], shuffle=False)
    story = Story(world)
    world.start(world.machines[0], run(), seconds=60.0)
    world.start(world.machines[1], _later(2.0, story.body("new", new)), seconds=60.0)
    world.run()
    assert story.overlap() > 5.0, "the limit is none any more"
    assert story.refused == ["old"], "the token is what stops it"
    assert asked


def test_skip_means_one_at_a_time_and_not_once() -> None:
    """Two hosts tick a second apart, the job takes half of one: both run it, one after the other."""
    ran: list[float] = []

    @singleton(on_contention="skip")
    async def tick() -> None:
        ran.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.5)

    async def call(delay: float, who: str) -> None:
        await asyncio.sleep(delay)
        await tick(context=InvocationContext("tick", who))  # type: ignore[call-arg]

    for apart, times in ((1.0, 2), (0.2, 1)):
        ran.clear()
        world = World(1, 2, [], shuffle=False)
        world.start(world.machines[0], call(0.0, "a"), seconds=10.0)
        world.start(world.machines[1], call(apart, "b"), seconds=10.0)
        assert not world.run().violations
        assert len(ran) == times


def test_tokens_of_two_processes_may_repeat_when_the_blob_is_deleted_in_the_second_in_which_it_was_made() -> None:
    """Epochs begin with the second in which the service made the blob."""
    tokens = {}
    for deleted in (0.5, 1.5):
        world = World(1, 2, [], shuffle=False)
        story = Story(world)
        world.later(deleted, world.service.delete, "locks/explored/~key")
        world.start(world.machines[0], story.body("old", lasting(0.1))(), seconds=60.0)
        world.start(world.machines[1], _later(deleted + 0.1, story.body("new", lasting(0.1))), seconds=60.0)
        world.run()
        tokens[deleted] = story.tokens
    assert tokens[0.5][1] <= tokens[0.5][0], "the limit is none any more"
    assert tokens[1.5][1] > tokens[1.5][0]


def test_a_crash_is_made_good_within_a_period_a_polling_interval_and_a_request() -> None:
    """Whenever it comes."""
    waits = []
    for moment in range(20, 100, 4):
        story = play(
            (0, 0.0, "old", lasting(300.0)),
            (1, 1.0, "new", lasting(0.1)),
            faults=[Crash(at=moment / 10, host=0)],
        )
        waits.append(dict(story.entered)["new"] - moment / 10)
    assert PERIOD / 2 < max(waits) <= PERIOD + POLL + CALL


def test_a_pause_shorter_than_what_is_left_of_the_lease_costs_nothing_and_a_longer_one_the_hold() -> None:
    """Right before a renewal 6.5 s of 15 are left; 13.9 right after one."""
    for seconds, entered in ((6.0, ["old"]), (25.0, ["old", "new"])):
        story = play(
            (0, 0.0, "old", lasting(35.0)),
            (1, 1.0, "new", lasting(0.1)),
            faults=[Pause(at=7.4, host=0, seconds=seconds)],
        )
        during = [who for who, at in story.entered if at < 34.0]
        assert during == entered


def test_a_lock_that_somebody_else_has_for_ever_is_waited_for_until_the_time_out_and_not_broken() -> None:
    """A lease without end, taken by hand: ours is to wait, an operator's to break."""
    world = World(1, 1, [], shuffle=False)
    story = Story(world)
    world.later(0.0, _take_for_ever, world)
    world.later(100.0, world.operate, "break_", 0)
    world.start(world.machines[0], _later(1.0, story.body("ours", lasting(0.1))), seconds=200.0)
    world.run()
    assert 100.0 < dict(story.entered)["ours"] <= 100.0 + POLL + CALL


def _take_for_ever(world: World) -> None:
    world.service.execute(None, "create", "locks/explored/~key", ())
    world.service.execute(None, "acquire", "locks/explored/~key", (foreign_id(), -1))


@pytest.mark.parametrize("period", [15.0, 60.0])
@pytest.mark.parametrize("fate", [LOST_REQUEST, answered(503), answered()], ids=["silence", "503", "reset"])
@virtual
async def test_an_outage_of_a_third_of_a_period_costs_nothing_whenever_it_begins(fate: Fate, period: float) -> None:
    for moment in range(16):
        network = Network()
        lock = lock_on(network, period=period)
        async with held(lock) as hold:
            await asyncio.sleep(period + moment * period / 32)
            network.fail_all(fate)
            await asyncio.sleep(period / 3)
            network.heal()
            await asyncio.sleep(period)
            assert not hold.lost.is_set(), moment
        await settled(network.service, lock)
