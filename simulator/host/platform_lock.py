"""The platform's own lock on a timer's listener: among the instances of one app only one host's timer fires (W-111).

Hosts of different apps, slots or regions do not share the lock: only `singleton` keeps them apart. The fleet asks for
the platform's lock with ``--same-app``.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.host.triggers.timer import CONTAINER
from singleton.base.errors import LockNotAcquired, StorageError
from singleton.client import AsyncLockClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.history.journal import Write
    from simulator.host.app.app_model import HostConfig
    from simulator.host.triggers.timer import TimerListener
    from singleton.base.hold import Hold
    from singleton.settings.options import SingletonOptions

_log = logging.getLogger(__name__)


@dataclass(kw_only=True, eq=False)
class LockedListener:
    """Runs a listener only while this host has the lock ``{function}.Listener`` (W-99 to W-106)."""

    function: str
    make: Callable[[], TimerListener]
    config: HostConfig
    options: SingletonOptions
    write: Write

    def __post_init__(self) -> None:
        period = self.options.listener_lock_period
        options = self.options.replace(container=CONTAINER, lock_period=period, fencing_tokens=False, enabled=True)
        self._name = f"locks/{self.config.host_id}/Host.Functions.{self.function}.Listener"
        self._locks = AsyncLockClient(self.config.storage, options=options, on_loss="tell")

    async def run(self) -> None:
        """Ask for the lock once, then at each recovery interval, and listen while it is held.

        It lasts as long as the host. Cancel it for a graceful stop: then the lock is free at once (H-89).
        """
        waited = 0.0
        while True:
            try:
                async with self._locks.lock(self._name, timeout=0, owner=self.config.name) as hold:
                    await self._listen(hold)
                waited = 0.0
            except LockNotAcquired:
                _log.debug("another host listens for %s", self.function)
            except StorageError as error:
                _log.warning("the lock of the listener of %s: %s", self.function, error)
            interval = self._interval(waited)
            if interval is None:
                await asyncio.Event().wait()
                return
            waited += interval
            await asyncio.sleep(interval)

    def _interval(self, waited: float) -> float | None:
        """Return the seconds to the next attempt, or None if there is none."""
        recovery = self.options.listener_lock_recovery_polling_interval
        if recovery is not None:
            return recovery
        # Recovery is off: the lock is polled like a function's lock, up to its timeout, and then never again (W-99,
        # W-102).
        limit = self.options.lock_acquisition_timeout
        return None if limit is not None and waited >= limit else self.options.lock_acquisition_polling_interval

    async def _listen(self, hold: Hold) -> None:
        listener = self.make()
        self.write("listener_started", function=self.function)
        running = asyncio.create_task(listener.run())
        lost = asyncio.ensure_future(_loss(hold))
        await asyncio.wait({running, lost}, return_when=asyncio.FIRST_COMPLETED)
        # What runs may end before the lock is released, also when the lock is lost.
        listener.stop()
        await asyncio.wait({running})
        lost.cancel()
        await asyncio.wait({lost})
        self.write("listener_stopped", function=self.function, lost=hold.lost.is_set())
        running.result()


async def _loss(hold: Hold) -> None:
    await hold.lost
