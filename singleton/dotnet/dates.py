"""Which texts .NET reads as a ``DateTime`` when it reads JSON: a whole date, year, month and day, perhaps with a time.

Json.NET first tries ISO 8601, then whatever ``DateTime.Parse`` takes (``2026-1-5``, ``11/22/2026``, ``22 Nov 2026``,
``Sun, 22 Nov 2026 10:20:30 GMT``). That also takes ``1-2`` and ``10:20``, with today's year or day. Those are taken for
text here, as are years of two digits: nobody sends a date so, and many an id looks like that.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from singleton.dotnet.formats import MACHINE, MONTHS, Moment

_NAME: Final = r"(?P<name>[a-z]{3,9})\.?"
_YEAR: Final = r"(?P<year>[0-9]{4})"
_MONTH: Final = r"(?P<month>[0-9]{1,2})"
_DAY: Final = r"(?P<day>[0-9]{1,2})"
_GAP: Final = r"[-/., ]+"
_TIME: Final = (
    r"(?:(?:T|,? +)(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<part>[0-9]+))?)?"
    r"(?: *(?P<half>[AP])M)?(?: *(?P<zone>Z|GMT|(?P<sign>[-+])(?P<hours>[0-9]{2}):?(?P<minutes>[0-9]{2})?))?)?"
)
_DATES: Final = tuple(
    re.compile(rf"\s*(?:(?:Sun|Mon|Tue|Wed|Thu|Fri|Sat)[a-z]*,? +)?{day}{_TIME}\s*", re.IGNORECASE)
    for day in (
        _YEAR + r"(?P<gap>[-/.]| +)" + _MONTH + "(?P=gap)" + _DAY,
        _MONTH + r"(?P<gap>[-/.]| +)" + _DAY + "(?P=gap)" + _YEAR,
        _DAY + "(?:" + _GAP + ")?" + _NAME + "(?:" + _GAP + ")?" + _YEAR,
        _NAME + _GAP + _DAY + _GAP + _YEAR,
        _YEAR + _GAP + _NAME + _GAP + _DAY,
    )
)
_OF_MICROSOFT: Final = re.compile(r"/Date\((?P<ms>-?[0-9]{1,15})(?P<zone>[-+][0-9]{4})?\)/")


def read_date(text: str) -> datetime | None:
    """Return the date that .NET reads in the text: with `UTC`, with the zone of its machine, or without a zone.

    >>> str(read_date("2026-11-22T10:20:30Z")), read_date("2026-11-22 order 5"), read_date("2026-13-01")
    ('2026-11-22 10:20:30+00:00', None, None)
    """
    try:
        if found := _OF_MICROSOFT.fullmatch(text):
            when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(found["ms"]))
            return when.astimezone(MACHINE) if found["zone"] else when
        for pattern in _DATES:
            if found := pattern.fullmatch(text):
                dated = _date(found.groupdict())
                dated.seventh = f"{found['part'] or ''}0000000"[6]
                return dated
    except (ValueError, OverflowError):
        pass
    return None


def _date(found: dict[str, str | None]) -> Moment:
    month = _month(found["name"] or "") if "name" in found else int(found["month"] or 0)
    hour = int(found["hour"] or 0)
    at_midnight = not int(f"0{found['minute'] or ''}{found['second'] or ''}{found['part'] or ''}")
    if hour == 24 and at_midnight and isinstance(before := _date({**found, "hour": "0"}), datetime):
        return before + timedelta(days=1)  # the day's end, which Json.NET reads
    if half := found["half"]:
        hour = hour % 12 + (12 if half in "Pp" else 0)
    when = Moment(  # without a zone, unless the text has one
        *(int(found["year"] or 0), month, int(found["day"] or 0)),
        *(hour, int(found["minute"] or 0), int(found["second"] or 0), int(f"{found['part'] or ''}000000"[:6])),
    )
    if found["zone"] is None:
        return when
    if found["sign"] is None:
        return when.replace(tzinfo=UTC)
    offset = timedelta(hours=int(found["hours"] or 0), minutes=int(found["minutes"] or 0))
    return when.replace(tzinfo=timezone(-offset if found["sign"] == "-" else offset)).astimezone(MACHINE)


def _month(name: str) -> int:
    for number, month in enumerate(MONTHS, start=1):
        if name.casefold() in (month.casefold(), month[:3].casefold()):
            return number
    raise ValueError(name)
