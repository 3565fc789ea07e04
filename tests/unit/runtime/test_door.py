"""A door: once it is closed nobody waits behind it, and it keeps nobody alive."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from singleton import LockClosed
from singleton.runtime.closing import Closing


async def test_who_comes_to_a_door_that_has_just_been_closed_does_not_wait_behind_it() -> None:
    """A request is checked where it is made, and reaches the lock thread later."""
    door = Closing()
    door.close()
    with pytest.raises(LockClosed, match="'reports'"):
        await door.through("reports", lambda: asyncio.sleep(3600))


async def test_those_behind_a_door_that_is_closed_are_shown_out_in_the_order_in_which_they_came() -> None:
    """Virtual time must be the same each time, and the order of a set is that of its members' addresses."""
    door, out = Closing(), list[int]()

    async def wait(number: int) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            out.append(number)

    tasks = [asyncio.create_task(door.through("reports", partial(wait, number))) for number in range(32)]
    await asyncio.sleep(0)
    door.close()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, LockClosed) for each in ended)
    assert out == [*range(32)]
