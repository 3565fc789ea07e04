"""Code that goes round in circles is stopped by the processor's time, and said to be a deadlock."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

import pytest

from simulator.virtual.time.loop import Stuck, watched
from simulator.virtual.worlds import world as worlds
from simulator.virtual.worlds.world import World

if TYPE_CHECKING:
    from collections.abc import Coroutine

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no such timer here")


def spin() -> None:
    while True:
        pass


def test_a_block_that_takes_too_long_is_stopped_and_says_where_it_was() -> None:
    with pytest.raises(Stuck, match=r"after 0\.05 s of computing: busy outside the locks"), watched(0.05):
        spin()


def test_a_block_that_is_soon_over_is_left_alone_afterwards() -> None:
    with watched(0.1):
        pass
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass


def test_a_finally_that_goes_on_is_stopped_as_well() -> None:
    def stubborn() -> None:
        try:
            spin()
        finally:
            spin()

    with pytest.raises(Stuck), watched(0.05):
        stubborn()


def test_a_world_that_goes_round_in_circles_is_a_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worlds, "watched", lambda _=0.0: watched(0.2))
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")

    def spins() -> Coroutine[None, None, None]:
        async def spin() -> None:
            await asyncio.sleep(3.0)
            while True:
                pass

        return spin()

    world = World(1, 2, ())
    world.start(world.machines[0], spins())
    (violation,) = world.run().violations
    assert violation.check == "deadlock"
    assert violation.at == 3.0
    assert violation.text.startswith("time stands still after 0.2 s of computing")
