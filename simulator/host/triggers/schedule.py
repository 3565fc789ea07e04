"""When a timer is due: NCRONTAB or a time span, in a time zone, and the simulator's faster pace.

Instants are seconds since the epoch. A cron expression is in local time, so the two hours of the year in which the
clocks change need rules (H-57). A time in the spring gap runs later by the gap. In the repeated hour of autumn an
"interval" schedule runs both times, a "point in time" only the first time.

NCRONTAB is read exactly as by the timer trigger's own library. No cron package on PyPI reads NCRONTAB: day-of-month
and weekday must *both* match (H-53), Sunday is 0 and 7 is an error (H-51), names are matched by any prefix (H-52),
``N/s`` runs from N to the end of the field, a reversed range is turned round and a step below 1 counts as 1. A
`CronExpression` knows wall-clock times without a zone; a `Schedule` handles daylight saving.
"""

from __future__ import annotations

import calendar
import math
import re
import time
from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import MAXYEAR, UTC, date, datetime, tzinfo
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from singleton.base.timespan import parse_timespan

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
    """The text is no NCRONTAB expression; the message has the wrong part, and the allowed values."""


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
            CronError: the text is no expression.
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

        On the day of ``after`` the library has a rule of its own for seconds (H-92, NCrontab before 3.4.0; the host
        4.1037 has 3.3.3): it searches the next second first and keeps it even if a later minute comes, so some
        occurrences are skipped.
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
        hint = " (Sunday is 0)" if kind.names is _DAY_NAMES and value == 7 else ""
        raise CronError(f"{value} is not between {kind.first} and {kind.last}{hint}")
    if text:
        for number, name in enumerate(kind.names, kind.first):
            if name.lower().startswith(text.lower()):
                return number
    allowed = f"a number between {kind.first} and {kind.last}"
    if kind.names:
        allowed += f" or a name ({kind.names[0]}, {kind.names[1][:3]}, …)"
    raise CronError(f"{text!r} is not {allowed}")


NEVER: Final = math.inf
# The number of occurrences among which the longest gap between two ticks is searched.
_LOOK_AHEAD: Final = 20
# The host looks so many occurrences ahead to log them (H-73).
_SHOWN: Final = 5
_EARLIEST: Final = datetime(1, 1, 2, tzinfo=UTC).timestamp()
_LATEST: Final = datetime(MAXYEAR, 12, 30, tzinfo=UTC).timestamp()


class ScheduleError(ValueError):
    """The schedule is neither an NCRONTAB expression nor a time span (H-49)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When one timer is due.

    Attributes:
        text: the expression as it was written, settings resolved.
        cron: the parsed NCRONTAB expression, or None for a time span.
        span: the time span in seconds, without a cron expression.
        zone: the local time zone; None: the process's zone (H-56).
        pace: if above 0, the longest time that a run of the simulator waits for this timer. A later occurrence is
            replaced by the next multiple of the pace: one instant for every host.
    """

    text: str
    cron: CronExpression | None = None
    span: float = 0.0
    zone: tzinfo | None = field(default=None, compare=False)
    pace: float = 0.0

    @classmethod
    def parse(cls, text: str, *, zone: tzinfo | None = None, pace: float = 0.0) -> Schedule:
        """Read a schedule as the timer trigger does: first as a cron expression, then as a time span (H-49).

        Raises:
            ScheduleError: the text is neither.
        """
        try:
            return cls(text=text, cron=CronExpression.parse(text), zone=zone, pace=pace)
        except CronError as error:
            cron_error = error
        if " " in text.strip() or not text.strip():
            raise ScheduleError(str(cron_error))
        try:
            span = parse_timespan(text, days=True)  # a single number is one, too (H-92)
        except ValueError as error:
            raise ScheduleError(f"{text!r} is neither an NCRONTAB expression nor a time span (hh:mm:ss)") from error
        if not _EARLIEST < time.time() + span * _SHOWN < _LATEST:
            raise ScheduleError(
                f"the time span {text!r} leads out of the years 1 to {MAXYEAR}, which .NET's dates have"
            )
        return cls(text=text, span=span, zone=zone, pace=pace)

    def next(self, after: float) -> float:
        """Return the next time after ``after`` at which the timer is due; `NEVER` if there is none.

        With a time span of nothing, or below, the timer is always due, as in the extension.
        """
        natural = self._natural(after)
        if self.pace <= 0 or natural - after <= self.pace:
            return natural
        paced = (math.floor(after / self.pace) + 1) * self.pace
        return paced if paced > after else paced + self.pace

    def longest_gap(self, now: float) -> float:
        """Return the longest time between two ticks, as far as the next occurrences show it."""
        gaps = []
        previous = self.next(now)
        for _ in range(_LOOK_AHEAD):
            if previous == NEVER:
                return NEVER
            following = self.next(previous)
            gaps.append(following - previous)
            previous = following
        return max(gaps)

    @property
    def adjusts(self) -> bool:
        """Whether it follows daylight saving, as the function is told (H-92)."""
        return self.cron is not None

    @property
    def is_sub_minute(self) -> bool:
        """Whether it is due more than once a minute: the host keeps no status of such a timer (H-59)."""
        return self.span < 60 if self.cron is None else self.cron.is_sub_minute

    def local(self, instant: float) -> datetime:
        """Return the instant as local time with its offset, for people to read."""
        local = self._local(instant)
        return local if local.tzinfo is not None else local.astimezone()

    def _natural(self, after: float) -> float:
        if self.cron is None:
            return after + self.span
        wall = self._local(after).replace(tzinfo=None, fold=0)
        following = self.cron.next(wall)
        if following is None:
            return NEVER
        instant = self._instant(following)
        now_ambiguous, next_ambiguous = self._is_ambiguous(after), self._is_ambiguous(instant)
        if not (now_ambiguous or next_ambiguous):
            return instant
        shift = self._offset(instant) - self._offset(after)
        if self.cron.is_interval:
            # Across the change: what reads as standard time is first due in the daylight hour.
            return instant + shift
        if not next_ambiguous:
            return instant
        if shift:
            return instant + shift
        return self._after_ambiguous(self.cron, following)

    def _after_ambiguous(self, cron: CronExpression, wall: datetime) -> float:
        """Return the first occurrence past the repeated hour: within it a point in time has already run."""
        found: datetime | None = wall
        while found is not None and self._is_ambiguous(self._instant(found)):
            found = cron.next(found)
        return NEVER if found is None else self._instant(found)

    def _local(self, instant: float) -> datetime:
        return datetime.fromtimestamp(instant, self.zone)

    def _instant(self, wall: datetime) -> float:
        """Return the instant of a wall-clock time: a repeated one is standard time, a skipped one moves on."""
        early, late = (wall.replace(tzinfo=self.zone, fold=fold).timestamp() for fold in (0, 1))
        # fold=0 is the earlier reading of a repeated hour, and the later one of a skipped hour.
        return max(early, late)

    def _is_ambiguous(self, instant: float) -> bool:
        wall = self._local(instant)
        early, late = (wall.replace(fold=fold).timestamp() for fold in (0, 1))
        return late > early

    def _offset(self, instant: float) -> float:
        offset = self._local(instant).astimezone(self.zone).utcoffset()
        return 0.0 if offset is None else offset.total_seconds()
