"""A line of waiters by itself."""

from __future__ import annotations

import asyncio

from singleton.locking.line import Line
from singleton.locking.phase import Timing
from tests.support.world import NAME, now, virtual


def a_line() -> Line:
    return Line("lock", NAME, taken="somebody else has it", timing=Timing())


@virtual
async def test_a_line_in_which_nobody_has_ever_stood_waits_for_nobody() -> None:
    line, done = a_line(), asyncio.get_running_loop().create_future()
    await line.sleep_until(now() + 30.0)
    await line.wait_for(done)
    assert now() == 0.0
    done.set_result(None)


@virtual
async def test_a_waiter_shows_himself_and_not_who_stands_in_line_with_him() -> None:
    line = a_line()
    waiting = [asyncio.create_task(line.wait(None, f"owner {number}", lambda: None)) for number in range(3)]
    await asyncio.sleep(0)
    assert [repr(each).count("owner") for each in line] == [2, 2, 2], "the field's name, and its value"
    for each in waiting:
        each.cancel()
    await asyncio.wait(waiting)
    assert not line
