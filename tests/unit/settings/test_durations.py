"""Durations: .NET time spans in, seconds out, and back (W-65, H-55)."""

from __future__ import annotations

import doctest
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from singleton.base import timespan
from singleton.base.errors import ConfigurationError
from singleton.base.timespan import FOREVER, format_timespan, host_json_timespan, parse_timespan
from singleton.settings import durations
from singleton.settings.durations import Limits, seconds

DAY = 86_400.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00:00:15", 15.0),
        ("0:0:5", 5.0),
        ("00:01:00", 60.0),
        ("01:02:03", 3723.0),
        ("00:00:00.5", 0.5),
        ("00:00:00.1000000", 0.1),
        ("23:59:59.9999999", 86_399.9999999),
        ("00:00", 0.0),
        ("12:30", 45_000.0),
        ("1.00:00:00", DAY),
        ("2.03:04:05.5", 2 * DAY + 11_045.5),
        ("1:2:03:04.5", DAY + 7384.5),
        ("24:00:00", 24 * DAY),  # H-55
        ("120:01:30", 120 * DAY + 5400),
        (" 00:00:15 ", 15.0),
        ("-00:00:01", -1.0),
        ("10675199.02:48:05.4775807", FOREVER),
    ],
)
def test_a_time_span_is_read_as_dotnet_reads_it(text: str, expected: float) -> None:
    assert parse_timespan(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "abc", "15s", "24:30", "00:60:00", "00:00:60", "1.24:00:00", "24:00:00.5", "00:00:15."),
        *("00:00:00.12345678", "1:2:3:4:5", "00:00:1\uff15", "--00:00:01", "+00:00:01", "PT15S", "00:00:15\n00:00:15"),
        *("10675199.02:48:05.4775808", "99999999.00:00:00"),
    ],
)
def test_what_is_no_time_span_is_refused_with_the_right_spelling(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a time span: write hh:mm:ss, for example 00:00:15"):
        parse_timespan(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("2", 2 * DAY), (" -1 ", -DAY), ("10675199", 10_675_199 * DAY), ("00:00:02", 2.0)]
)
def test_a_bare_number_is_days_where_that_is_wanted(text: str, expected: float) -> None:
    assert parse_timespan(text, days=True) == expected


def test_more_days_than_a_time_span_has_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="10675200"):
        parse_timespan("10675200", days=True)


@pytest.mark.parametrize(
    ("text", "meant"),
    [("15", "00:00:15"), ("0", "00:00:00"), ("3600", "01:00:00"), ("10675199", "123.13:19:59")],
)
def test_a_bare_number_is_refused_because_dotnet_reads_it_as_days(text: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=f'read as days.*if seconds are meant, write "{meant}"'):
        parse_timespan(text)


@pytest.mark.parametrize(
    ("number", "short", "long"),
    [
        (0, "0:00:00", "00:00:00"),
        (0.2, "0:00:00.2", "00:00:00.2000000"),  # W-65
        (1, "0:00:01", "00:00:01"),  # W-65
        (15.25, "0:00:15.25", "00:00:15.2500000"),
        (3_600, "1:00:00", "01:00:00"),
        (90_061.5, "1:1:01:01.5", "1.01:01:01.5000000"),
        (-1.5, "-0:00:01.5", "-00:00:01.5000000"),
        (-1e-9, "0:00:00", "00:00:00"),
        (FOREVER, "10675199:2:48:05.4775807", "10675199.02:48:05.4775807"),
        (float("inf"), "10675199:2:48:05.4775807", "10675199.02:48:05.4775807"),
    ],
)
def test_seconds_are_written_in_both_dotnet_forms(number: float, short: str, long: str) -> None:
    assert (format_timespan(number), host_json_timespan(number)) == (short, long)


@given(st.integers(0, 2**53 - 1))
@example(2_737_375_012_128_413)
def test_every_span_comes_back_from_either_form(ticks: int) -> None:
    span = ticks / 10_000_000
    assert parse_timespan(format_timespan(span)) == span
    assert parse_timespan(host_json_timespan(span)) == span


@given(st.text(alphabet="0123456789:.- ", max_size=20) | st.text(max_size=40))
def test_any_text_is_read_or_refused_as_configuration(text: str) -> None:
    try:
        found = parse_timespan(text)
    except ConfigurationError:
        return
    assert abs(found) <= FOREVER


@pytest.mark.parametrize("value", [15, 15.0, timedelta(seconds=15)])
def test_an_argument_may_be_a_number_or_a_timedelta(value: float | timedelta) -> None:
    checked = seconds(value, "lease")
    assert checked == 15.0
    assert type(checked) is float


@pytest.mark.parametrize(
    ("value", "limits", "message"),
    [
        (14, {"minimum": 15, "maximum": 60}, "lease is 14: it must be from 15 to 60 seconds"),
        (61, {"minimum": 15, "maximum": 60}, "lease is 61: it must be from 15 to 60 seconds"),
        (
            15.5,
            {"minimum": 15, "maximum": 60, "whole": True},
            "lease is 15.5: it must be from 15 to 60 seconds, in whole seconds",
        ),
        (
            timedelta(minutes=2),
            {"maximum": 60},
            "lease is datetime.timedelta(seconds=120): it must be from 0 to 60 seconds",
        ),
        (0, {"above": 0}, "lease is 0: it must be more than 0 seconds"),
        (-1, {}, "lease is -1: it must be at least 0 seconds"),
        (float("nan"), {}, "lease is nan: it must be at least 0 seconds"),
        (float("nan"), {"above": 0, "whole": True}, "lease is nan: it must be more than 0 seconds, in whole seconds"),
        (float("inf"), {}, "lease is inf: it must be"),
        (float("-inf"), {}, "lease is -inf: it must be"),
        (10**400, {"whole": True}, "lease is 1000"),
        (-(10**400), {}, "lease is -1000"),
        pytest.param(10**5000, {}, "lease is a number of more than 80 digits: it must be", id="huge"),
        ("15", {}, "lease is '15': it must be a number of seconds, or a timedelta, at least 0 seconds"),
        (None, {}, "lease is None: it must be a number of seconds"),
        (True, {}, "lease is True: it must be a number of seconds"),
    ],
)
def test_an_argument_out_of_range_is_refused_with_name_value_and_range(
    value: object, limits: dict[str, float], message: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Limits(**limits).check(value, "lease")  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 250


def test_the_examples_are_right() -> None:
    for module in (durations, timespan):
        result = doctest.testmod(module)
        assert result.attempted
        assert not result.failed
