"""NCRONTAB expressions, read exactly as the timer trigger's own library reads them.

No cron package on PyPI does: here day-of-month and weekday must *both* match (H-53), Sunday is 0 and 7 is an error
(H-51), names are matched by any prefix (H-52), ``N/s`` runs from N to the end of the field, a reversed range is turned
round and a step below 1 counts as 1.

All times here are wall-clock times without a zone; `schedule` handles daylight saving.
"""

from __future__ import annotations

import calendar
import re
from bisect import bisect_left
from dataclasses import dataclass
from datetime import MAXYEAR, date, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_MONTH_NAMES: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAY_NAMES: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NUMBER: Final = re.compile(r"[0-9]+\Z")
_STEP: Final = re.compile(r"[+-]?[0-9]+\Z")
# The calendar repeats after 400 years: a time that has not come by then never comes.
_CYCLE: Final = 400


class CronError(ValueError):
    """The text is no NCRONTAB expression; the message says which part, and what is allowed there."""


class _Kind(NamedTuple):
    name: str
    first: int
    last: int
    names: tuple[str, ...] = ()


_KINDS: Final = (
    _Kind("second", 0, 59),
    _Kind("minute", 0, 59),
    _Kind("hour", 0, 23),
    _Kind("day of month", 1, 31),
    _Kind("month", 1, 12, _MONTH_NAMES),
    _Kind("day of week", 0, 6, _DAY_NAMES),
)

Values = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CronExpression:
    """A parsed expression: the sorted values that each field allows.

    Example:
        >>> CronExpression.parse("0 */5 * * * *").next(datetime(2026, 11, 21, 12, 0, 0))
        datetime.datetime(2026, 11, 21, 12, 5)
    """

    seconds: Values
    minutes: Values
    hours: Values
    days: Values
    months: Values
    weekdays: Values

    @classmethod
    def parse(cls, text: str) -> CronExpression:
        """Read an expression of five fields (seconds are 0 then) or six (H-50).

        Raises:
            CronError: it is none.
        """
        tokens = [token for token in text.split(" ") if token]
        if len(tokens) not in (5, 6):
            raise CronError(
                f"{text!r} has {len(tokens)} field{'' if len(tokens) == 1 else 's'}; an NCRONTAB expression has six "
                "(second minute hour day month weekday), or five without the seconds"
            )
        kinds = _KINDS[-len(tokens) :]
        try:
            fields = [_parse_field(kind, token) for kind, token in zip(kinds, tokens, strict=True)]
        except CronError as error:
            raise CronError(f"{text!r}: {error}") from None
        return cls(*(fields if len(fields) == 6 else [(0,), *fields]))

    def next(self, after: datetime) -> datetime | None:
        """Return the first occurrence strictly after ``after``, at a whole second (H-54); None if there is none.

        On the day of ``after`` the library has a rule of its own for seconds (H-92, NCrontab before 3.3.3): it searches
        the next second first and keeps it even if a later minute comes, so some occurrences are skipped.
        """
        for day in self._days_from(after.date()):
            today = day == after.date()
            time = self._later_today(after) if today else (self.hours[0], self.minutes[0], self.seconds[0])
            if time is not None:
                return datetime(day.year, day.month, day.day, *time, tzinfo=after.tzinfo)
        return None

    @property
    def is_interval(self) -> bool:
        """Whether the host reads it as "every so often" and not as "at this time of day" (H-58).

        The host sees a star or a range where the library prints the time of day; the library joins neighbours into
        ranges.
        """
        time_of_day = (self.seconds, self.minutes, self.hours)
        return any(later - earlier == 1 for values in time_of_day for earlier, later in pairwise(values))

    @property
    def is_sub_minute(self) -> bool:
        """Whether the host switches schedule monitoring off because it is due more than once in a minute (H-59)."""
        rest = (self.minutes, self.hours, self.days, self.months, self.weekdays)
        full = (len(values) == kind.last - kind.first + 1 for kind, values in zip(_KINDS[1:], rest, strict=True))
        return len(self.seconds) > 1 and all(full)

    def _days_from(self, first: date) -> Iterator[date]:
        for year in range(first.year, min(first.year + _CYCLE, MAXYEAR) + 1):
            for month in self.months:
                if (year, month) < (first.year, first.month):
                    continue
                length = calendar.monthrange(year, month)[1]
                for number in self.days:
                    if number > length:
                        break
                    day = date(year, month, number)
                    # isoweekday counts Sunday as 7, cron as 0.
                    if day >= first and day.isoweekday() % 7 in self.weekdays:
                        yield day

    def _later_today(self, after: datetime) -> tuple[int, int, int] | None:
        """Return the next time of day on the same day, as the library finds it: second, minute, hour, each once."""
        second, next_minute = _following(self.seconds, after.second + 1)
        minute, next_hour = _following(self.minutes, after.minute + next_minute)
        hour, next_day = _following(self.hours, after.hour + next_hour)
        if next_day:
            return None
        return hour, self.minutes[0] if hour > after.hour else minute, second


def _following(values: Values, least: int) -> tuple[int, bool]:
    """Return the first value that is not below ``least``, or the very first and True: the next field moves on."""
    index = bisect_left(values, least)
    return (values[index], False) if index < len(values) else (values[0], True)


def _parse_field(kind: _Kind, token: str) -> Values:
    try:
        values: set[int] = set()
        for item in token.split(","):
            values.update(_parse_item(kind, item))
    except CronError as error:
        raise CronError(f"{token!r} is not valid in the {kind.name} field: {error}") from None
    return tuple(sorted(values))


def _parse_item(kind: _Kind, item: str) -> range:
    span, slash, step_text = item.partition("/")
    if slash and not _STEP.match(step_text):
        raise CronError(f"the step {step_text!r} is no number")
    step = max(int(step_text), 1) if slash else 1
    low, dash, high = span.partition("-")
    if span == "*":
        first, last = kind.first, kind.last
    elif low and dash:
        first, last = sorted((_parse_value(kind, low), _parse_value(kind, high)))
    else:
        first = _parse_value(kind, span)
        last = kind.last if slash else first
    return range(first, last + 1, step)


def _parse_value(kind: _Kind, text: str) -> int:
    if _NUMBER.match(text):
        value = int(text)
        if kind.first <= value <= kind.last:
            return value
        raise CronError(f"{value} is not between {kind.first} and {kind.last}{_hint(kind, value)}")
    if text:
        for number, name in enumerate(kind.names, kind.first):
            if name.lower().startswith(text.lower()):
                return number
    allowed = f"a number between {kind.first} and {kind.last}"
    if kind.names:
        allowed += f" or a name ({kind.names[0]}, {kind.names[1][:3]}, …)"
    raise CronError(f"{text!r} is not {allowed}")


def _hint(kind: _Kind, value: int) -> str:
    return " (Sunday is 0)" if kind.names is _DAY_NAMES and value == 7 else ""
