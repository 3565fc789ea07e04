"""Machines on the virtual loop: what stops one, at a time or at a step, and that nothing else does."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from simulator.virtual.time.machine import Machine
from tests.support.world import until, virtual, virtual_loop

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def a_busy_machine() -> Iterator[tuple[Machine, list[float]]]:
    """Make a machine that notes the time each second; bury it at the end."""
    machine = Machine(0, virtual_loop())
    seen: list[float] = []

    async def work() -> None:
        while True:
            await asyncio.sleep(1.0)
            seen.append(virtual_loop().now)

    task = virtual_loop().create_task(work(), context=machine.context())
    yield machine, seen
    machine.revive()
    task.cancel()


@virtual
async def test_a_stop_at_a_step_comes_at_that_step_of_a_machine_that_nothing_had_stopped() -> None:
    with a_busy_machine() as (machine, seen):
        await until(2.5)
        machine.stop_at_step(3, 10.0)
        await until(20.5)
        stood = [later - earlier for earlier, later in itertools.pairwise(seen) if later - earlier > 1.5]
        assert len(stood) == 1


@virtual
async def test_of_two_steps_that_are_planned_both_come() -> None:
    with a_busy_machine() as (machine, _):
        came: list[int] = []
        machine.at_step(2, lambda: came.append(2))
        machine.at_step(5, lambda: came.append(5))
        await until(10.0)
        assert came == [2, 5]


@pytest.mark.parametrize("stopped", [False, True])
@virtual
async def test_a_machine_that_crashes_runs_nothing_any_more_also_when_its_stop_would_be_over(stopped: bool) -> None:
    with a_busy_machine() as (machine, seen):
        machine.context().run(virtual_loop().call_later, 10.0, seen.append, 10.0)
        await until(2.5)
        if stopped:
            machine.stop(3.0)
        await until(3.5)
        machine.crash()
        await until(20.0)
        assert seen == ([1.0, 2.0] if stopped else [1.0, 2.0, 3.0])
