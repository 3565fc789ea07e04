"""A timer in virtual time: one run at a time, caught up on once, late only when it was missed (H-61 to H-71)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

import pytest

from simulator.host.triggers.bindings import ScheduleStatus
from simulator.host.triggers.schedule import Schedule
from simulator.host.triggers.timer import Tick, TimerListener, WallClock
from tests.support.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from simulator.host.triggers.timer import BlobStatusStore

START = datetime(2026, 11, 21, 10, 0, 2, tzinfo=UTC).timestamp()


class VirtualClock(WallClock):
    """The wall clock of a virtual loop."""

    def now(self) -> float:
        return START + asyncio.get_running_loop().time()


class MemoryStore:
    """A timer's status that outlives its listener."""

    def __init__(self, status: ScheduleStatus | None = None) -> None:
        self.status = status
        self.saved: list[ScheduleStatus] = []

    async def load(self) -> ScheduleStatus | None:
        return self.status

    async def save(self, status: ScheduleStatus) -> None:
        self.saved.append(status)
        self.status = status


class Timer:
    """A listener that notes when, after the start, its function ran and what it was told."""

    def __init__(
        self,
        schedule: str,
        *,
        body: Callable[[], Awaitable[None]] | None = None,
        store: MemoryStore | None = None,
        run_on_startup: bool = False,
    ) -> None:
        self.runs: list[float] = []
        self.ticks: list[Tick] = []
        self._body = body
        self.listener = TimerListener(
            function="tick",
            schedule=Schedule.parse(schedule, zone=UTC),
            body=self._run,
            run_on_startup=run_on_startup,
            store=cast("BlobStatusStore | None", store),
            clock=VirtualClock(),
        )

    async def _run(self, tick: Tick) -> None:
        self.runs.append(round(asyncio.get_running_loop().time(), 3))
        self.ticks.append(tick)
        if self._body is not None:
            await self._body()

    def listen(self, seconds: float) -> None:
        """Listen for so many virtual seconds."""

        async def main() -> None:
            running = asyncio.create_task(self.listener.run())
            await asyncio.sleep(seconds)
            self.listener.stop()
            await running

        run_virtual(main())


def status(last: float, following: float) -> ScheduleStatus:
    """A status in seconds from the start; 0 is "never"."""
    return ScheduleStatus(
        last=START + last if last else 0.0, next=START + following, last_updated=START + last if last else 0.0
    )


def test_it_fires_at_its_occurrences_and_knows_when_it_was_due() -> None:
    timer = Timer("*/5 * * * * *")
    timer.listen(20)
    assert timer.runs == [3.0, 8.0, 13.0, 18.0]
    assert [tick.due - START for tick in timer.ticks] == [3.0, 8.0, 13.0, 18.0]
    assert not any(tick.past_due for tick in timer.ticks)


def test_a_time_span_counts_from_the_start_of_the_run_before() -> None:
    async def body() -> None:
        await asyncio.sleep(4)

    timer = Timer("00:00:10", body=body)
    timer.listen(35)
    assert timer.runs == [10.0, 20.0, 30.0]


def test_a_run_longer_than_its_interval_is_followed_by_one_run_at_once_and_no_more() -> None:
    running = 0

    async def body() -> None:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(17 if timer.runs == [3.0] else 1)
        running -= 1

    timer = Timer("*/5 * * * * *", body=body)
    timer.listen(30)
    # Due at 3; ends at 20, past the ticks of 8, 13 and 18: one run at 20, the next as usual.
    assert timer.runs == [3.0, 20.0, 23.0, 28.0]
    assert not any(tick.past_due for tick in timer.ticks)


def test_a_failing_function_keeps_its_schedule() -> None:
    async def body() -> None:
        raise RuntimeError("no")

    timer = Timer("*/5 * * * * *", body=body)
    timer.listen(10)
    assert timer.runs == [3.0, 8.0]


def test_stop_awaits_the_running_invocation_and_fires_no_more() -> None:
    ended: list[float] = []

    async def body() -> None:
        await asyncio.sleep(30)
        ended.append(asyncio.get_running_loop().time())

    timer = Timer("*/5 * * * * *", body=body)
    timer.listen(4)
    assert timer.runs == [3.0]
    assert ended == [33.0]


def test_run_on_startup_fires_once_at_once() -> None:
    timer = Timer("0 * * * * *", run_on_startup=True)
    timer.listen(120)
    assert timer.runs == [0.0, 58.0, 118.0]
    assert [tick.reason for tick in timer.ticks] == ["startup", "schedule", "schedule"]


def test_a_timer_that_fires_early_does_not_fire_twice() -> None:
    class HastyClock(VirtualClock):
        async def wait(self, stop: asyncio.Event, until: float) -> None:
            await super().wait(stop, until - 0.4)

    timer = Timer("*/5 * * * * *")
    timer.listener.clock = HastyClock()
    timer.listen(15)
    assert timer.runs == [2.6, 7.6, 12.6]


def test_the_first_start_writes_a_status_and_is_not_late() -> None:
    store = MemoryStore()
    timer = Timer("0 */5 * * * *", store=store)
    timer.listen(1)
    assert store.saved == [status(0, 298)]
    assert timer.runs == []


def test_each_run_is_remembered_with_its_start_and_the_next_occurrence() -> None:
    store = MemoryStore()
    timer = Timer("0 */5 * * * *", store=store)
    timer.listen(300)
    assert store.status == status(298, 598)
    assert timer.ticks[0].status == status(0, 298)


def test_an_occurrence_that_was_missed_is_made_up_for_once_and_called_late() -> None:
    timer = Timer("0 */5 * * * *", store=MemoryStore(status(-3602, -3302)), run_on_startup=True)
    timer.listen(300)
    assert timer.runs == [0.0, 298.0]
    assert [tick.past_due for tick in timer.ticks] == [True, False]
    assert timer.ticks[0].due == START - 3302


def test_a_status_that_is_not_yet_due_is_gone_on_from() -> None:
    store = MemoryStore(status(-2, 298))
    timer = Timer("0 */5 * * * *", store=store)
    timer.listen(299)
    assert timer.runs == [298.0]
    assert not timer.ticks[0].past_due


@pytest.mark.parametrize(
    ("last", "following", "expected"),
    [
        # Was hourly, is every five minutes: the next of these has passed already, so it counts from now.
        (-1802, 1798, 298),
        # Was every minute, is every five: the next of these is still to come.
        (-2, 58, 298),
        # Never ran: counted from now, and never late.
        (0, -600, 298),
    ],
)
def test_a_changed_schedule_is_never_late(last: float, following: float, expected: float) -> None:
    store = MemoryStore(status(last, following))
    timer = Timer("0 */5 * * * *", store=store)
    timer.listen(1)
    assert timer.runs == []
    assert store.saved[0].next == START + expected


def test_a_timer_that_is_never_due_waits_and_stops() -> None:
    timer = Timer("0 0 0 30 2 *", store=MemoryStore())
    timer.listen(1_000_000)
    assert timer.runs == []


def test_weeks_are_waited_in_pieces() -> None:
    timer = Timer("40.00:00:00")
    timer.listen(40 * 86_400 + 1)
    assert timer.runs == [40 * 86_400.0]


def test_the_function_is_told_whether_its_schedule_follows_daylight_saving() -> None:
    for schedule, adjusts in (("*/5 * * * * *", True), ("00:00:05", False)):
        timer = Timer(schedule)
        timer.listen(6)
        assert [tick.adjusts for tick in timer.ticks] == [adjusts]
