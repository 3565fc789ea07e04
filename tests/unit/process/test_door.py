"""A door: once it is closed nobody waits behind it, and it keeps nobody alive."""

from __future__ import annotations

import asyncio
import gc

import pytest

from singleton import LockClosed
from singleton.process.door import Door


async def test_who_comes_to_a_door_that_has_just_been_closed_does_not_wait_behind_it() -> None:
    """A request is checked where it is made, and reaches the lock thread later."""
    door = Door()
    door.close()
    with pytest.raises(LockClosed, match="'reports'"):
        await door.through("reports", lambda: asyncio.sleep(3600))


def test_a_door_forgets_who_died_behind_it() -> None:
    class Waiting:
        def show_out(self) -> None: ...

    door, waiting = Door(), Waiting()
    door.enter(waiting)
    assert len(door._running) == 1
    del waiting
    gc.collect()
    assert not door._running
