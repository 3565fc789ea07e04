"""What the product tells in a world, and by which clock: heard and timed as long as the world runs."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self
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

OF_THE_APP: Final = "_is_of_the_app"
"""Marks a ``LockLost`` that tells of the app's own database, and not of a lock."""


@contextmanager
def listening(loop: VirtualLoop, oracle: Oracle) -> Iterator[None]:
    """Tell the oracle of each ``LockLost`` of a host; the clocks of waits and holds are those of the hosts.

    In a world that is not sealed, an outbox or the app itself may refuse a token because of another world's token.
    """

    class HostsTime(datetime):
        """The time by the running host's wall clock."""

        @classmethod
        def now(cls, tz: tzinfo | None = UTC) -> Self:
            machine = HOST.get()
            return cls.fromtimestamp(EPOCH + loop.now if machine is None else machine.wall(), tz)

    def made(error: LockLost, *args: Any, **more: Any) -> None:
        SingletonError.__init__(error, *args, **more)
        raising = str(sys._getframe(1).f_globals.get("__name__"))  # noqa: SLF001 - only the frame tells
        by_the_lock = raising.startswith("singleton.") and not raising.startswith("singleton.patterns.")
        if not oracle.sealed and not by_the_lock:
            error.__dict__[OF_THE_APP] = True
        elif (machine := HOST.get()) is not None:
            oracle.book.told_lost(machine, error)

    with (
        clock.timed_by(loop.time),
        patch.object(holds, "datetime", HostsTime),
        patch.object(record, "datetime", HostsTime),
        patch.object(LockLost, "__init__", made),
    ):
        yield
