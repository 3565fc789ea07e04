"""When a timer is due: NCRONTAB or a time span, in a time zone, and the simulator's faster pace.

Instants are seconds since the epoch. A cron expression is in local time, so the two hours of the year in which the
clocks change need rules (H-57). A time in the spring gap runs later by the gap. In the repeated hour of autumn an
"interval" schedule runs both times, a "point in time" only the first time.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from datetime import MAXYEAR, UTC, datetime, tzinfo
from typing import Final

from simulator.host.triggers.ncrontab import CronError, CronExpression
from singleton.base.timespan import parse_timespan

NEVER: Final = math.inf
# The number of occurrences among which the longest gap between two ticks is searched.
_LOOK_AHEAD: Final = 20
# The host looks so many occurrences ahead to log them (H-73).
_SHOWN: Final = 5
_LONGEST: Final = datetime(MAXYEAR, 12, 30, tzinfo=UTC).timestamp()


class ScheduleError(ValueError):
    """The schedule is neither an NCRONTAB expression nor a time span (H-49)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When one timer is due.

    Attributes:
        text: the expression as it was written, settings resolved.
        cron: the parsed NCRONTAB expression, or None for a time span.
        span: the time span in seconds, where there is no cron expression.
        zone: the local time zone; None is that of the process (H-56).
        pace: if above 0, the longest time that a run of the simulator waits for this timer. A later occurrence is
            replaced by the next multiple of the pace: the same instant for all hosts.
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
            ScheduleError: it is neither.
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
        if span <= 0:
            raise ScheduleError(f"the time span {text!r} must be longer than nothing")
        if span * _SHOWN > _LONGEST - time.time():
            raise ScheduleError(f"the time span {text!r} leads past the year {MAXYEAR}, where .NET's dates end")
        return cls(text=text, span=span, zone=zone, pace=pace)

    def next(self, after: float) -> float:
        """Return the next time strictly after ``after`` at which the timer is due; `NEVER` if there is none."""
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
