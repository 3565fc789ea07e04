"""Schedules of timers: cron or time span (H-49, H-55), changes of the clock (H-57), monitoring (H-59), and our pace."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from simulator.host.app.app_model import IndexedFunction, Parameter
from simulator.host.function_plan import make_plans
from simulator.host.triggers.schedule import NEVER, Schedule, ScheduleError

PACIFIC = ZoneInfo("America/Los_Angeles")


def instant(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def local_times(expression: str, start: datetime, count: int) -> list[str]:
    schedule = Schedule.parse(expression, zone=PACIFIC)
    moment = start.timestamp()
    found = []
    for _ in range(count):
        moment = schedule.next(moment)
        found.append(schedule.local(moment).strftime("%d %H:%M%z").removesuffix("00"))
    return found


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("00:00:15", 15.0),
        ("01:00:00", 3600.0),
        ("1.00:00:00", 86_400.0),
        ("24:00:00", 24 * 86_400.0),
        ("00:05", 300.0),
        ("2", 172_800.0),
        ("00:00:00", 0.0),  # always due, as in the extension
        ("-00:00:05", -5.0),
        ("-1", -86_400.0),
    ],
)
def test_a_time_span_is_counted_from_the_run_before(text: str, seconds: float) -> None:
    assert Schedule.parse(text).next(1_000.5) == 1_000.5 + seconds


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("every day", "2 fields"),
        ("", "0 fields"),
        ("five", "neither an NCRONTAB expression nor a time span"),
        ("10675199.00:00:00", "leads out of the years 1 to 9999"),
        ("-10675199", "leads out of the years 1 to 9999"),
        ("00:75:00", "neither an NCRONTAB expression nor a time span"),
        ("0 0 0 * * 7", "Sunday is 0"),
    ],
)
def test_what_is_neither_is_refused_and_quoted(text: str, named: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        Schedule.parse(text)
    assert named in str(caught.value)
    assert text in str(caught.value)


def test_an_hourly_interval_runs_in_both_hours_when_the_clock_goes_back() -> None:
    start = datetime(2018, 11, 4, 0, 0, tzinfo=PACIFIC)
    assert local_times("0 30 * * * *", start, 4) == ["04 00:30-07", "04 01:30-07", "04 01:30-08", "04 02:30-08"]


def test_a_finer_interval_passes_through_the_repeated_hour_twice() -> None:
    start = datetime(2018, 11, 4, 0, 30, tzinfo=PACIFIC)
    expected = ["04 00:40-07", "04 01:00-07", "04 01:20-07", "04 01:40-07"]
    expected += ["04 01:00-08", "04 01:20-08", "04 01:40-08", "04 02:00-08"]
    assert local_times("0 */20 * * * *", start, 8) == expected


def test_a_point_in_time_runs_once_in_the_repeated_hour() -> None:
    start = datetime(2018, 11, 3, 3, 0, tzinfo=PACIFIC)
    assert local_times("0 30 1 * * *", start, 3) == ["04 01:30-07", "05 01:30-08", "06 01:30-08"]


def test_a_host_that_starts_in_the_second_of_the_two_hours_does_not_run_the_point_in_time_again() -> None:
    start = datetime(2018, 11, 4, 1, 15, tzinfo=PACIFIC, fold=1)
    assert local_times("0 30 1 * * *", start, 2) == ["05 01:30-08", "06 01:30-08"]


def test_a_time_that_the_spring_skips_runs_an_hour_later_by_the_clock() -> None:
    start = datetime(2018, 3, 10, 0, 0, tzinfo=PACIFIC)
    assert local_times("0 30 2 * * *", start, 3) == ["10 02:30-08", "11 03:30-07", "12 02:30-07"]


def test_an_interval_jumps_over_the_skipped_hour() -> None:
    start = datetime(2018, 3, 11, 0, 0, tzinfo=PACIFIC)
    assert local_times("0 30 * * * *", start, 4) == ["11 00:30-08", "11 01:30-08", "11 03:30-07", "11 04:30-07"]


def test_a_time_span_counts_real_hours_through_the_change() -> None:
    start = datetime(2018, 11, 3, 23, 30, tzinfo=PACIFIC)
    assert local_times("01:00:00", start, 3) == ["04 00:30-07", "04 01:30-07", "04 01:30-08"]


@pytest.mark.parametrize(
    ("text", "wanted", "expected"),
    [
        ("00:00:59", True, False),
        ("-00:01:00", True, False),
        ("00:01:00", True, True),
        ("00:01:00", False, False),
        ("*/15 * * * * *", True, False),
        ("0 */5 * * * *", True, True),
        ("0 */5 * * * *", False, False),
    ],
)
def test_the_status_is_kept_unless_the_app_or_the_frequency_says_otherwise(
    text: str, wanted: bool, expected: bool
) -> None:
    settings = {"schedule": text, "useMonitor": wanted}
    trigger = Parameter(name="timer", binding="timerTrigger", converter="timerTrigger", settings=settings)
    function = IndexedFunction(
        name="tick", call=print, place="", directory="", is_async=False, wants_context=False, trigger=trigger
    )
    assert make_plans([function], {}, 0.0)[0].monitored is expected


def test_the_pace_replaces_what_is_further_away_by_instants_that_all_hosts_share() -> None:
    schedule = Schedule.parse("0 0 3 * * *", pace=5.0)
    assert schedule.next(instant("2026-11-21T10:00:01.2")) == instant("2026-11-21T10:00:05")
    assert schedule.next(instant("2026-11-21T10:00:05")) == instant("2026-11-21T10:00:10")
    assert schedule.longest_gap(instant("2026-11-21T10:00:01")) == 5.0


def test_the_pace_leaves_faster_schedules_alone() -> None:
    schedule = Schedule.parse("*/2 * * * * *", pace=5.0)
    assert schedule.next(instant("2026-11-21T10:00:01.2")) == instant("2026-11-21T10:00:02")
    assert schedule.longest_gap(instant("2026-11-21T10:00:01")) == 2.0


@pytest.mark.parametrize("pace", [0.1, 0.3, 0.7, 5.0, 12.5])
def test_paced_ticks_always_move_on(pace: float) -> None:
    schedule = Schedule.parse("0 0 0 1 1 *", pace=pace)
    moment = instant("2026-11-21T10:00:00")
    for _ in range(200):
        following = schedule.next(moment)
        assert moment < following <= moment + pace * 1.001
        moment = following


def test_a_date_that_never_comes_is_never_due() -> None:
    schedule = Schedule.parse("0 0 0 30 2 *")
    assert schedule.next(0.0) == NEVER
    assert schedule.longest_gap(0.0) == NEVER
