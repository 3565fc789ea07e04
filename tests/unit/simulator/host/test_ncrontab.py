"""NCRONTAB as the timer trigger's library reads it (H-50 to H-54, H-58, H-59); croniter checks what both know."""

# ruff: noqa: DTZ001 - wall-clock time has no zone

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from croniter import croniter
from hypothesis import assume, given
from hypothesis import strategies as st

from simulator.host.triggers.schedule import CronError, CronExpression


def after(expression: str, start: str, count: int = 1) -> list[str]:
    cron = CronExpression.parse(expression)
    moment: datetime | None = datetime.fromisoformat(start)
    found = []
    for _ in range(count):
        assert moment is not None
        moment = cron.next(moment)
        found.append("never" if moment is None else moment.isoformat(sep=" "))
    return found


@pytest.mark.parametrize(
    ("expression", "start", "following"),
    [
        # H-50: five fields have no seconds, six begin with them; extra blanks count for nothing.
        ("*/5 * * * *", "2026-11-21 10:00:01", ["2026-11-21 10:05:00"]),
        ("0 */5 * * * *", "2026-11-21 10:00:01", ["2026-11-21 10:05:00"]),
        ("  0   */5 *    * * *  ", "2026-11-21 10:00:01", ["2026-11-21 10:05:00"]),
        ("30 15 8 * * *", "2026-11-21 10:00:00", ["2026-11-22 08:15:30"]),
        # H-51: a single value with a step runs to the end of its field.
        (
            "0 5/15 * * * *",
            "2026-11-21 10:06:00",
            ["2026-11-21 10:20:00", "2026-11-21 10:35:00", "2026-11-21 10:50:00"],
        ),
        ("0 0 9-17/4 * * *", "2026-11-21 10:00:00", ["2026-11-21 13:00:00", "2026-11-21 17:00:00"]),
        ("10,20-22 * * * * *", "2026-11-21 10:00:19", ["2026-11-21 10:00:20", "2026-11-21 10:00:21"]),
        ("0 0,30 1-2,5 * * *", "2026-11-21 02:00:00", ["2026-11-21 02:30:00", "2026-11-21 05:00:00"]),
        # A reversed range is turned round, a step of nothing is a step of one.
        ("0 0 5-3 * * *", "2026-11-21 00:00:00", ["2026-11-21 03:00:00", "2026-11-21 04:00:00", "2026-11-21 05:00:00"]),
        ("0 */0 * * * *", "2026-11-21 10:00:00", ["2026-11-21 10:01:00"]),
        # H-52: names by any prefix, in any case, the first that fits.
        ("0 0 0 1 J *", "2026-11-21 00:00:00", ["2027-01-01 00:00:00"]),
        ("0 0 0 1 jul *", "2026-11-21 00:00:00", ["2027-07-01 00:00:00"]),
        ("0 0 0 * * T", "2026-11-21 00:00:00", ["2026-11-24 00:00:00"]),
        ("0 0 0 * * Mon-WED", "2026-11-21 00:00:00", ["2026-11-23 00:00:00", "2026-11-24 00:00:00"]),
        ("0 0 0 * * saturday", "2026-11-20 00:00:00", ["2026-11-21 00:00:00"]),
        ("0 0 0 * * 0", "2026-11-20 00:00:00", ["2026-11-22 00:00:00"]),
        # H-53: the day of the month and the weekday must both match; days that a month lacks are passed over.
        ("0 0 0 13 * Fri", "2026-11-21 00:00:00", ["2027-08-13 00:00:00"]),
        ("0 0 0 31 * *", "2026-01-31 00:00:00", ["2026-03-31 00:00:00", "2026-05-31 00:00:00"]),
        ("0 0 0 29 2 *", "2026-01-01 00:00:00", ["2028-02-29 00:00:00"]),
        ("0 0 0 29 2 Mon", "2026-01-01 00:00:00", ["2044-02-29 00:00:00"]),
        ("0 0 0 30 2 *", "2026-01-01 00:00:00", ["never"]),
        # H-92: on the same day the seconds before the current one are passed over where there are several.
        ("* 30 * * * *", "2026-11-21 10:10:19", ["2026-11-21 10:30:20", "2026-11-21 10:30:21"]),
        ("0,30 0 * * * *", "2026-11-21 10:10:19", ["2026-11-21 11:00:30", "2026-11-21 12:00:00"]),
        ("0,30 0 10,14 * * *", "2026-11-21 12:10:19", ["2026-11-21 14:00:30", "2026-11-22 10:00:00"]),
        ("0 30 * * * *", "2026-11-21 10:10:19", ["2026-11-21 10:30:00"]),
        # H-54: strictly after, at whole seconds.
        ("0 * * * * *", "2026-11-21 10:00:00", ["2026-11-21 10:01:00"]),
        ("* * * * * *", "2026-11-21 10:00:00.999999", ["2026-11-21 10:00:01"]),
        ("59 59 23 31 12 *", "2026-12-31 23:59:59", ["2027-12-31 23:59:59"]),
        ("* * * * * *", "9999-12-31 23:59:59", ["never"]),
    ],
)
def test_the_next_occurrences_are_those_of_ncrontab(expression: str, start: str, following: list[str]) -> None:
    assert after(expression, start, len(following)) == following


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("", "0 fields"),
        ("* * * *", "4 fields"),
        ("* * * * * * *", "7 fields"),
        ("60 * * * * *", "'60' is not valid in the second field: 60 is not between 0 and 59"),
        ("* 60 * * * *", "minute"),
        ("* * 24 * * *", "hour"),
        ("* * * 0 * *", "day of month"),
        ("* * * 32 * *", "day of month"),
        ("* * * * 13 *", "month"),
        ("* * * * 0 *", "month"),
        ("* * * * * 7", "Sunday is 0"),
        ("* * * * * 5-7", "Sunday is 0"),
        ("* * * * * 8", "day of week"),
        ("0 0 0 L * *", "'L' is not"),
        ("0 0 0 15W * *", "'15W' is not"),
        ("0 0 0 * * 5#2", "'5#2' is not"),
        ("0 0 0 ? * *", "'?' is not"),
        ("@daily", "1 field;"),
        ("0 0 0 * Foo *", "a name (January, Feb"),
        ("0 0 x * * *", "a number between 0 and 23"),
        ("0 0 1, * * *", "hour"),
        ("0 0 ,1 * * *", "hour"),
        ("0 0 -1 * * *", "hour"),
        ("0 0 1- * * *", "hour"),
        ("0 0 1-2-3 * * *", "hour"),
        ("0 0 */x * * *", "the step 'x' is no number"),
        ("0 0 */ * * *", "the step '' is no number"),
        ("0 0 */2/3 * * *", "the step '2/3' is no number"),
        ("0 0 ** * * *", "hour"),
        ("0 0 /2 * * *", "hour"),
        ("0 0 *-5 * * *", "hour"),
        ("0 ٣ * * * *", "minute"),
    ],
)
def test_what_ncrontab_does_not_know_is_refused_with_its_field(expression: str, named: str) -> None:
    with pytest.raises(CronError) as caught:
        CronExpression.parse(expression)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "plain"),
    [
        ("0 */30 1 * * *", "0 0,30 1 * * *"),
        ("0 1,2,3,7 * * * Mon-fri", "0 1-3,7 * * * 1-5"),
        ("*/1 0-59 0-23 1-31 Jan-Dec Sun-Sat", "* * * * * *"),
        ("5/20 * * * *", "5,25,45 * * * *"),
    ],
)
def test_steps_names_and_full_ranges_are_only_other_spellings(expression: str, plain: str) -> None:
    assert CronExpression.parse(expression) == CronExpression.parse(plain)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("* * * * * *", True),
        ("0 0 * * * *", True),
        ("0 0-15 3 * * *", True),
        ("0 0 1-3 * * 0", True),
        ("0 0 0 * * *", False),
        ("0 0 0 1-5 1 *", False),
        ("0 */30 1 * * *", False),
        ("0 */1 1 * * *", True),
        ("0 0,1 1 * * *", True),
        ("* * * * *", True),
        ("0 * * * 0", True),
        ("0 1-3 * * 0", True),
        ("0 0 * * *", False),
        ("0 0 * * 1-5", False),
    ],
)
def test_an_interval_has_a_star_or_a_range_in_its_time_of_day(expression: str, expected: bool) -> None:
    assert CronExpression.parse(expression).is_interval is expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("* * * * * *", True),
        ("*/5 * * * * *", True),
        ("10,20,45 * * * * *", True),
        ("0 */5 * * * *", False),
        ("0 * * * * *", False),
        ("30 * * * * *", False),
        ("* 30 * * * *", False),
        ("* 1-5 * * * *", False),
        ("* * 12 * * Mon", False),
        ("* * * * *", False),
    ],
)
def test_only_schedules_of_several_ticks_a_minute_go_unmonitored(expression: str, expected: bool) -> None:
    assert CronExpression.parse(expression).is_sub_minute is expected


_FIELDS = [(0, 59), (0, 59), (0, 23), (1, 28), (1, 12), (0, 6)]


@st.composite
def shared_field(draw: st.DrawFn, low: int, high: int) -> str:
    """A field that croniter and NCrontab read alike."""
    number = st.integers(low, high)
    kind = draw(st.sampled_from(["star", "star", "number", "range", "list", "step", "range step"]))
    first, last = sorted((draw(number), draw(number)))
    assume(kind not in {"range", "range step"} or first < last)
    step = draw(st.integers(1, high - low))
    match kind:
        case "star":
            return "*"
        case "number":
            return str(first)
        case "range":
            return f"{first}-{last}"
        case "list":
            return ",".join(str(value) for value in sorted(draw(st.sets(number, min_size=1, max_size=4))))
        case "step":
            return f"*/{step}"
        case _:
            return f"{first}-{last}/{step}"


@given(
    fields=st.tuples(*(shared_field(low, high) for low, high in _FIELDS)),
    start=st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)),
)
def test_it_agrees_with_croniter_on_what_both_know(fields: tuple[str, ...], start: datetime) -> None:
    cron = CronExpression.parse(" ".join(fields))
    moment = start
    for _ in range(3):
        found = cron.next(moment)
        expected = croniter(" ".join(fields), moment, day_or=False, second_at_beginning=True).get_next(datetime)
        assert found is not None
        if len(cron.seconds) > 1 and found.date() == moment.date():
            # Seconds may be passed over (H-92), minutes never.
            assert expected <= found < expected.replace(second=0) + timedelta(minutes=1)
            assert found.second in cron.seconds
        else:
            assert found == expected
        moment = found


@given(start=st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)), step=st.integers(1, 59))
def test_occurrences_only_ever_move_forward(start: datetime, step: int) -> None:
    cron = CronExpression.parse(f"*/{step} * * * * *")
    found = [start]
    for _ in range(9):
        following = cron.next(found[-1])
        assert following is not None
        found.append(following)
    assert all(earlier < later for earlier, later in pairwise(found))
