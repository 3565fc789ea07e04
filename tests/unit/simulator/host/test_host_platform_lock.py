"""The platform's listener lock in virtual time: who listens, when it is asked for again, what happens at its loss."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from simulator.host.app.app_model import HostConfig
from simulator.host.platform_lock import LockedListener
from singleton.base.errors import LockNotAcquired, StorageUnavailable
from singleton.settings.options import SingletonOptions
from tests.support.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator

    from simulator.host.triggers.timer import TimerListener
    from singleton.client import AsyncLockClient

STORAGE = "UseDevelopmentStorage=true"


class Lost:
    """The loss of a hold, as far as a listener looks at it."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def is_set(self) -> bool:
        return self.event.is_set()

    def __await__(self) -> Generator[Any, None, bool]:
        return self.event.wait().__await__()


class Hold:
    def __init__(self) -> None:
        self.lost = Lost()


class Locks:
    """A lock client whose lock is taken, or out of order, for so many attempts."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.attempts: list[float] = []
        self.names: list[str] = []
        self.holds: list[Hold] = []
        self.released: list[float] = []

    @asynccontextmanager
    async def lock(self, name: str, *, timeout: float | None, owner: str) -> AsyncIterator[Hold]:
        assert (timeout, owner) == (0, "host-1")
        self.attempts.append(now())
        self.names.append(name)
        if self.errors:
            raise self.errors.pop(0)
        self.holds.append(Hold())
        try:
            yield self.holds[-1]
        finally:
            self.released.append(now())


class Inner:
    """A listener that takes so long to drain."""

    def __init__(self, drain: float) -> None:
        self._stop = asyncio.Event()
        self._drain = drain
        self.ended: float | None = None

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        await self._stop.wait()
        await asyncio.sleep(self._drain)
        self.ended = now()


def now() -> float:
    return asyncio.get_running_loop().time()


class Given:
    def __init__(
        self, locks: Locks, *, drain: float = 0.0, recovery: float | None = 60.0, limit: float | None = None
    ) -> None:
        self.locks = locks
        self.made: list[Inner] = []
        self.events: list[str] = []
        options = SingletonOptions(
            listener_lock_recovery_polling_interval=recovery, lock_acquisition_timeout=limit, listener_lock_period=30
        )
        self.listener = LockedListener(
            function="tick",
            make=lambda: cast("TimerListener", self._make(drain)),
            config=HostConfig(
                name="host-1", app=Path(), journal=Path(), storage=STORAGE, host_id="shop", lock_host_id="shop"
            ),
            options=options,
            write=lambda event, /, **_: self.events.append(event),
        )
        self.listener._locks = cast("AsyncLockClient", locks)

    def _make(self, drain: float) -> Inner:
        self.made.append(Inner(drain))
        return self.made[-1]

    async def listen(self, seconds: float) -> None:
        """Listen so long; then the host ends with all that it is at."""
        before = asyncio.all_tasks()
        running = asyncio.create_task(self.listener.run())
        await asyncio.sleep(seconds)
        running.cancel()
        for task in (left := asyncio.all_tasks() - before):
            task.cancel()
        await asyncio.wait(left)


def taken() -> LockNotAcquired:
    return LockNotAcquired("another host has it")


def test_the_first_attempt_is_made_at_once_and_the_next_at_each_recovery_interval() -> None:
    given = Given(Locks(taken(), StorageUnavailable("no answer"), taken()))
    run_virtual(given.listen(200))
    assert given.locks.attempts == [0.0, 60.0, 120.0, 180.0]
    assert given.locks.names[0] == "locks/shop/Host.Functions.tick.Listener"
    assert len(given.made) == 1
    assert given.locks.released == [200.0]


def test_without_recovery_it_polls_up_to_the_time_out_and_then_stays_idle() -> None:
    given = Given(Locks(*[taken() for _ in range(99)]), recovery=None, limit=12.0)
    run_virtual(given.listen(200))
    assert given.locks.attempts == [0.0, 5.0, 10.0, 15.0]
    assert given.made == []


def test_a_loss_drains_the_listener_and_the_lock_is_asked_for_again() -> None:
    given = Given(Locks(), drain=7.0)

    async def main() -> None:
        running = asyncio.create_task(given.listen(100))
        await asyncio.sleep(10)
        given.locks.holds[0].lost.event.set()
        await running

    run_virtual(main())
    assert given.made[0].ended == 17.0
    assert given.locks.released[0] == 17.0
    assert given.locks.attempts == [0.0, 77.0]
    assert len(given.made) == 2
