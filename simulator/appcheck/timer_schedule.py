"""How often a timer ticks at most: the shortest time between two ticks of an NCRONTAB expression or time span.

Days and months are left out: they make pauses longer, and the shortest one never shorter.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from singleton.base.timespan import parse_timespan

_DAY: Final = 86_400
_FIELDS: Final = (60, 60, 24)


def shortest_pause(schedule: str) -> float | None:
    """Return the shortest time in seconds between two ticks; None where the schedule can't be read.

    >>> shortest_pause("0 */5 * * * *"), shortest_pause("00:30:00"), shortest_pause("never")
    (300.0, 1800.0, None)
    """
    if len(schedule.split()) == 1:
        return _span(schedule.strip())
    found = _times(schedule)
    if found is None:
        return None
    seconds, minutes, hours = found
    ticks = [hour * 3600 + minute * 60 + second for hour in hours for minute in minutes for second in seconds]
    return float(min(later - earlier for earlier, later in pairwise([*ticks, ticks[0] + _DAY])))


def unmeant_star(schedule: str) -> str | None:
    """Return ``second`` or ``minute`` where a ``*`` makes a timer tick in each, though a later field says how often.

    Each second is never meant beside a field for minutes or hours; each minute may be meant beside an hour, and not
    beside a step of hours.

    >>> unmeant_star("* */15 * * * *"), unmeant_star("* */2 * * *"), unmeant_star("0 */15 * * * *")
    ('second', 'minute', None)
    """
    found = _times(schedule)
    if found is None:
        return None
    seconds, minutes, hours = map(len, found)
    if seconds == 60 and (minutes, hours) != (60, 24):
        return "second"
    return "minute" if minutes == 60 and "/" in schedule.split()[-4] and hours != 24 else None


def skips_seconds(schedule: str) -> bool:
    """Tell whether the host leaves out the first of several seconds where a tick is not in the current minute (H-92).

    >>> skips_seconds("*/20 30 * * * *"), skips_seconds("*/20 * * * * *"), skips_seconds("5 30 * * * *")
    (True, False, False)
    """
    seconds, minutes, hours = map(len, _times(schedule) or ((0,), (), ()))
    return seconds > 1 and (minutes, hours) != (60, 24)


def _times(schedule: str) -> tuple[list[int], ...] | None:
    """Return the seconds, minutes and hours of an NCRONTAB expression; None where it can't be read."""
    fields = schedule.split()
    fields = ["0", *fields] if len(fields) == 5 else fields
    if len(fields) != 6:
        return None
    try:
        return tuple(_values(field, most) for field, most in zip(fields, _FIELDS, strict=False))
    except ValueError:
        return None


def _span(text: str) -> float | None:
    try:
        return max(parse_timespan(text), 0.0) or None
    except ValueError:
        return None


def _values(field: str, most: int) -> list[int]:
    """Return the values of a field in order: ``*``, ``5``, ``1-5``, ``*/10``, ``5/10`` and lists of these.

    Raises:
        ValueError: it has none, or is none of these.
    """
    found: set[int] = set()
    for part in field.split(","):
        spread, _, step = part.partition("/")
        first, dash, last = ("0", "-", str(most - 1)) if spread in ("*", "?") else spread.partition("-")
        end = int(last) if dash else most - 1 if step else int(first)
        found.update(range(int(first), end + 1, int(step or 1)))
    if not found or min(found) < 0 or max(found) >= most:
        raise ValueError(field)
    return sorted(found)
