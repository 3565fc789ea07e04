"""What the product tells in a world, and by which clock: heard and timed as long as the world runs."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self
from unittest.mock import patch

from simulator.virtual.time.machine import EPOCH, HOST
from singleton.base import clock, holds
from singleton.base.errors import LockLost, SingletonError
from singleton.locking import record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from simulator.virtual.oracle.oracle import Oracle
    from simulator.virtual.time.loop import VirtualLoop


@contextmanager
def listening(loop: VirtualLoop, oracle: Oracle) -> Iterator[None]:
    """Tell the oracle of each ``LockLost`` of a host; the clocks of waits and holds are those of the hosts."""

    class HostsTime(datetime):
        """The time by the running host's wall clock."""

        @classmethod
        def now(cls, tz: tzinfo | None = UTC) -> Self:
            machine = HOST.get()
            return cls.fromtimestamp(EPOCH + loop.now if machine is None else machine.wall(), tz)

    def made(error: LockLost, *args: Any, **more: Any) -> None:
        SingletonError.__init__(error, *args, **more)
        if (machine := HOST.get()) is not None:
            oracle.book.told_lost(machine, error)

    with (
        clock.timed_by(loop.time),
        patch.object(holds, "datetime", HostsTime),
        patch.object(record, "datetime", HostsTime),
        patch.object(LockLost, "__init__", made),
    ):
        yield
