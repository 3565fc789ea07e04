"""Machines on the virtual loop: what stops one, at a time or at a step, and that nothing else does."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from simulator.virtual.time import loop as loop_module
from simulator.virtual.time.loop import Deadlock, VirtualLoop
from simulator.virtual.time.machine import Machine
from tests.support.world import now, until, virtual, virtual_loop

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


@virtual
async def test_a_machine_that_crashes_while_it_is_stopped_does_not_go_on_afterwards() -> None:
    with a_busy_machine() as (machine, seen):
        await until(2.5)
        machine.stop(3.0)
        await until(3.5)
        machine.crash()
        await until(20.0)
        assert seen == [1.0, 2.0]


@virtual
async def test_a_machine_that_crashes_runs_nothing_any_more() -> None:
    with a_busy_machine() as (machine, seen):
        await until(2.5)
        machine.crash()
        await until(20.0)
        assert seen == [1.0, 2.0]


@virtual
async def test_a_timer_that_was_cancelled_late_moves_no_time() -> None:
    loop = virtual_loop()
    ends: list[int] = []
    timer = loop.call_later(0.02, ends.append, 1)
    loop.call_later(0.01, timer.cancel)
    loop.call_later(0.015, lambda: loop.call_soon(ends.append, 2))
    await asyncio.sleep(0.015)
    await asyncio.sleep(0)
    assert now() == 0.015
    assert ends == [2]


def test_a_cancelled_timer_is_not_what_the_loop_waits_for() -> None:
    loop = VirtualLoop()  # type: ignore[abstract]

    async def wait() -> None:
        timer = loop.call_later(0.05, print)
        loop.call_later(0.01, timer.cancel)
        await loop.create_future()

    with pytest.raises(Deadlock, match="nothing left to happen"):
        loop.run_until_complete(wait())
    assert loop.now == 0.01


def test_a_program_that_goes_on_for_ever_at_one_instant_is_told_and_one_that_moves_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_module, "_TURNS_A_LOOK", 100)
    monkeypatch.setattr(loop_module, "_MOST_TURNS", 1000)

    async def spins() -> None:
        while True:  # noqa: ASYNC110 - that is what it is about
            await asyncio.sleep(0)

    async def moves() -> None:
        for _ in range(5000):
            await asyncio.sleep(0.001)

    for _ in range(2):
        loop = VirtualLoop()  # type: ignore[abstract]
        loop._look_up_at = 100
        loop.run_until_complete(moves())
        with pytest.raises(Deadlock, match="time stands still"):
            loop.run_until_complete(spins())


@virtual
async def test_tasks_of_all_ages_are_left_over_in_the_order_in_which_they_began() -> None:
    async def waits() -> None:
        await asyncio.sleep(1000.0)

    async def ends() -> None: ...

    before = set(virtual_loop().leftover_tasks())
    tasks = []
    for number in range(200):
        tasks.append(asyncio.create_task(waits() if number % 3 == 0 else ends(), name=str(number)))
        await asyncio.sleep(0)
        if number in (20, 60, 199):
            await asyncio.sleep(0.001)
    left = [task.get_name() for task in virtual_loop()._tasks._young]
    assert left, "some are young"
    found = [task.get_name() for task in virtual_loop().leftover_tasks() if task not in before]
    assert found == [str(number) for number in range(200) if number % 3 == 0]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
