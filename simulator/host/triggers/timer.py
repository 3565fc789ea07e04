"""A timer trigger's listener, by the extension's rules (H-61 to H-73): one run at a time, one for missed ticks.

The host keeps a timer's status in a small JSON blob beside its locks (H-60).
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from simulator.host.triggers.bindings import ScheduleStatus
from simulator.host.triggers.schedule import NEVER, Schedule

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_log = logging.getLogger(__name__)
# A long wait is split, so that a changed clock or a machine that slept is noticed (H-70).
_LONGEST_WAIT: Final = 60.0
_NEXT_SHOWN: Final = 5


class WallClock:
    """The machine's clock, and waits by it."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    async def wait(self, stop: asyncio.Event, until: float) -> None:
        """Return at ``until``, or as soon as ``stop`` is set."""
        while not stop.is_set() and (left := until - self.now()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, _LONGEST_WAIT)):
                    await stop.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One firing of a timer: its due time, and the data for the function; ``adjusts`` is `Schedule.adjusts`."""

    due: float
    past_due: bool = False
    status: ScheduleStatus | None = None
    reason: str = "schedule"
    adjusts: bool = True


@dataclass(kw_only=True, eq=False)
class TimerListener:
    """Fires a function by its schedule.

    `run` ends after `stop` was called and the running invocation has ended (H-71).
    """

    function: str
    schedule: Schedule
    body: Callable[[Tick], Awaitable[None]]
    run_on_startup: bool = False
    store: BlobStatusStore | None = None
    clock: WallClock = field(default_factory=WallClock)
    _stop: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def stop(self) -> None:
        """Fire no more."""
        self._stop.set()

    async def run(self) -> None:
        """Fire until `stop`; never two invocations at a time (H-67)."""
        now = self.clock.now()
        self._show(now)
        status, past_due = await self._start(now)
        if past_due:
            tick = Tick(due=status.next, past_due=True, status=status, reason="past due")
            status = await self._fire(tick, status)
        elif self.run_on_startup and not self._stop.is_set():
            status = await self._fire(Tick(due=now, status=self._told(status), reason="startup"), status)
        while True:
            await self.clock.wait(self._stop, status.next)
            if self._stop.is_set():
                return
            status = await self._fire(Tick(due=status.next, status=self._told(status)), status)

    async def _start(self, now: float) -> tuple[ScheduleStatus, bool]:
        """Return the status to go on from, and whether an occurrence was missed while no host ran (H-61 to H-64)."""
        fresh = ScheduleStatus(next=self.schedule.next(now))
        if self.store is None:
            return fresh, False
        stored = await self.store.load()
        if stored is None:
            await self._save(fresh)
            return fresh, False
        base = stored.last or stored.last_updated
        expected = self.schedule.next(base or now)
        # Stored to the microsecond.
        if abs(expected - stored.next) > 1e-3:
            # The schedule was changed: never past due for that reason (H-63).
            following = expected if expected > now else fresh.next
            changed = ScheduleStatus(last=stored.last, next=following, last_updated=now)
            await self._save(changed)
            return changed, False
        return stored, bool(base) and now > stored.next

    async def _fire(self, tick: Tick, status: ScheduleStatus) -> ScheduleStatus:
        started = self.clock.now()
        try:
            await self.body(replace(tick, adjusts=self.schedule.adjusts))
        except Exception:  # noqa: BLE001 - whatever happens to one run, the schedule goes on (H-68)
            _log.exception("timer %s", self.function)
        if tick.reason == "schedule":
            # Fired early by a little? Counted from the due time, or the timer would fire twice (H-68).
            started = max(started, status.next)
        # From the start of the run: if a run lasts past its next ticks, one run follows at once (H-69).
        ended = ScheduleStatus(last=started, next=self.schedule.next(started), last_updated=started)
        await self._save(ended)
        return ended

    def _told(self, status: ScheduleStatus) -> ScheduleStatus | None:
        return status if self.store is not None else None

    async def _save(self, status: ScheduleStatus) -> None:
        if self.store is not None and status.next != NEVER:
            await self.store.save(status)

    def _show(self, now: float) -> None:
        """Log the next occurrences (H-73)."""
        occurrences: list[str] = []
        following = self.schedule.next(now)
        while following != NEVER and len(occurrences) < _NEXT_SHOWN:
            occurrences.append(self.schedule.local(following).isoformat(sep=" "))
            following = self.schedule.next(following)
        shown = ", ".join(occurrences) or "never"
        _log.info("timer %s, schedule %r, is due: %s", self.function, self.schedule.text, shown)


CONTAINER: Final = "azure-webjobs-hosts"
_TIMEOUT: Final = 15.0


class BlobStatusStore:
    """The status of a timer of a Functions host id (H-60). Use a store on one event loop, and close the store."""

    def __init__(self, connection_string: str, host_id: str, function: str) -> None:
        from azure.storage.blob.aio import ContainerClient  # for hosts with monitored timers only

        self._container = ContainerClient.from_connection_string(connection_string, CONTAINER, retry_total=0)
        self._blob = self._container.get_blob_client(f"timers/{host_id}/Host.Functions.{function}/status")

    async def close(self) -> None:
        """Close all connections."""
        await self._container.close()

    async def load(self) -> ScheduleStatus | None:
        """Return the stored status; None: missing, or not readable."""
        from azure.core.exceptions import AzureError, HttpResponseError

        try:
            async with asyncio.timeout(_TIMEOUT):
                downloaded = await self._blob.download_blob()
                text = await downloaded.readall()
            return ScheduleStatus.from_json(json.loads(text))
        except HttpResponseError as error:
            if error.status_code != 404:
                _log.warning("the status of a timer can't be read: %s", error.message)
        except (AzureError, TimeoutError, ValueError, KeyError, TypeError) as error:
            _log.warning("the status of a timer can't be read: %s", error)
        return None

    async def save(self, status: ScheduleStatus) -> None:
        """Store the status; a failure is only logged."""
        from azure.core.exceptions import AzureError, ResourceExistsError, ResourceNotFoundError

        text = json.dumps(status.to_json(), separators=(",", ":"))
        try:
            async with asyncio.timeout(_TIMEOUT):
                try:
                    await self._blob.upload_blob(text, overwrite=True)
                except ResourceNotFoundError:  # the container is missing
                    with suppress(ResourceExistsError):
                        await self._container.create_container()
                    await self._blob.upload_blob(text, overwrite=True)
        except (AzureError, TimeoutError) as error:
            _log.warning("the status of a timer can't be saved: %s", error)
