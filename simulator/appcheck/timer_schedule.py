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
    fields = schedule.split()
    if len(fields) == 1:
        return _span(fields[0])
    if len(fields) == 5:
        fields = ["0", *fields]
    if len(fields) != 6:
        return None
    try:
        seconds, minutes, hours = (_values(field, most) for field, most in zip(fields, _FIELDS, strict=False))
    except ValueError:
        return None
    ticks = [hour * 3600 + minute * 60 + second for hour in hours for minute in minutes for second in seconds]
    return float(min(later - earlier for earlier, later in pairwise([*ticks, ticks[0] + _DAY])))


def unmeant_star(schedule: str) -> str | None:
    """Return ``second`` or ``minute`` where a ``*`` makes a timer tick in each, though a later field says how often.

    Each second is never meant beside a field for minutes or hours; each minute may be meant beside an hour, and not
    beside a step of hours.

    >>> unmeant_star("* */15 * * * *"), unmeant_star("* */2 * * *"), unmeant_star("0 */15 * * * *")
    ('second', 'minute', None)
    """
    fields = schedule.split()
    fields = ["0", *fields] if len(fields) == 5 else fields
    if len(fields) != 6:
        return None
    try:
        seconds, minutes, hours = (len(_values(field, most)) for field, most in zip(fields, _FIELDS, strict=False))
    except ValueError:
        return None
    if seconds == 60 and (minutes, hours) != (60, 24):
        return "second"
    return "minute" if minutes == 60 and "/" in fields[2] and hours != 24 else None


def _span(text: str) -> float | None:
    try:
        return parse_timespan(text) or None
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
