"""The ledger blames a message that lies twice as poison, unless guard and host could not know of each other."""

from __future__ import annotations

import asyncio

import pytest

from simulator.virtual.faults import KINDS
from simulator.virtual.search.world_scenario import WorldScenario
from tests.simulation.misdeliveries import QUEUE, Desk
from tests.simulation.scenes import Scene

POISON = f"{QUEUE}-poison"


def blamed(*, cancelled: bool, hidden: bool = False, refused: bool = False) -> set[str]:
    """Fail a message five times, put it into the poison queue twice, and return the checks that fire.

    Args:
        cancelled: whether its first invocation was cancelled.
        hidden: whether the body hides the host's dequeue count.
        refused: whether the queue has refused a copy before the last failure.
    """
    scene = Scene()

    async def play() -> None:
        desk = Desk(scene)
        entry = desk.ledger.entries["text"]
        desk.receives()
        if cancelled:
            desk.ledger.cancelled(desk.stored.id, last=False, hidden=hidden)
        entry.receives, entry.refused = 5, refused
        desk.ledger.failed(desk.stored.id, own=True, last=True)
        for _ in ("by the guard", "by the host"):
            desk.puts_back(queue=POISON, delay=0.0)
        desk.deletes()
        await asyncio.sleep(30.0)

    scene.world.start(scene.a.machine, play(), seconds=60.0)
    return {violation.check for violation in scene.world.run().violations}


def test_a_message_that_lies_twice_in_the_poison_queue_is_blamed() -> None:
    assert blamed(cancelled=False) == {"two of one"}
    assert blamed(cancelled=True) == {"two of one"}


def test_where_the_body_hides_the_dequeue_count_the_host_alone_counts_a_cancelled_invocation() -> None:
    assert blamed(cancelled=True, hidden=True) == set()


def test_where_the_queue_refuses_a_copy_at_the_last_try_the_host_can_not_delete_the_message() -> None:
    assert blamed(cancelled=False, refused=True) == set()


@pytest.mark.parametrize(("seconds", "blamed"), [(28.9, {"tried too often"}), (29.3, set())])
def test_a_body_that_outlasts_its_receipt_may_fail_once_more(seconds: float, blamed: set[str]) -> None:
    scene = Scene()

    async def play() -> None:
        desk = Desk(scene)
        desk.ledger.entries["text"].own = 5
        desk.receives()
        await asyncio.sleep(seconds)
        desk.ledger.failed(desk.stored.id, own=True, last=False)

    scene.world.start(scene.a.machine, play(), seconds=60.0)
    assert {violation.check for violation in scene.world.run().violations} == blamed


@pytest.mark.parametrize("seed", [770_000_303, 771_001_056])
def test_worlds_that_showed_both_are_not_blamed(seed: int) -> None:
    scenario = WorldScenario.draw(seed, hosts=5, kinds=tuple(KINDS), workloads=("defer",))
    assert not scenario.run().violations
