"""How the WebJobs SDK prints a value into a scope id (W-38): by the type that the value has in C#.

Text and whole numbers are printed unchanged, a ``Guid`` and a ``DateTime`` in a .NET form, and any other type as
nothing at all: the lock is the whole function's. JSON does not tell the type: a date may be a ``DateTime`` in C# or a
``string``. If the two print differently, the value is refused, and the placeholder has to name the type: by a format,
or by ``{When:text}``. Whole numbers in plain digits and all other text are taken unchanged, though a
few types print them otherwise (docs/layouts.md). A value from the host has a known type, and is printed by this type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Final
from uuid import UUID

from singleton.base.errors import ScopeError
from singleton.base.json_values import NumberText, kind_of
from singleton.dotnet.formats import MACHINE, MONTHS, TEXT, Moment, formatted

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
        _YEAR + r"(?P<gap>[-/.]| +)" + _MONTH + "(?:(?P=gap)" + _DAY + ")?",
        _MONTH + r"(?P<gap>[-/.]| +)" + _DAY + "(?P=gap)" + _YEAR,
        _DAY + "(?:" + _GAP + ")?" + _NAME + "(?:" + _GAP + ")?" + _YEAR,
        _NAME + _GAP + _DAY + _GAP + _YEAR,
        _YEAR + _GAP + _NAME + _GAP + _DAY,
    )
)
_TOKEN: Final = re.compile(
    rf"(?P<time>[0-9]{{1,2}}:[0-9]{{1,2}}(?::[0-9]{{1,2}}(?:\.[0-9]+)?)?(?![0-9:]))|(?P<number>0*[0-9]{{1,4}})(?![0-9])"
    rf"|(?P<month>{'|'.join(f'{month}|{month[:3]}' for month in MONTHS)})|(?P<half>[AP]M)"
    r"|(?:Sun|Mon|Tues|Wednes|Thurs|Fri|Satur)day|Sun|Mon|Tue|Wed|Thu|Fri|Sat|GMT|Z|(?<=[0-9])T(?=[0-9]+:)|[-+/.,:\s]+",
    re.IGNORECASE,
)
_OFFSET: Final = re.compile(r"([-+])[0-9]{1,4}\s*\Z")
_WITH_SUFFIXES: Final = re.compile(r"(?:[0-9]{1,4}\s*[年月日時时分秒년월일시분초]\s*)+")
"""The suffixes of East Asian dates, which .NET reads in every culture."""
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


def _may_be_date(text: str) -> bool:
    """Tell whether .NET may read a date, or a part of one that it completes from its clock: ``1/2``, ``10時20分``."""
    if _WITH_SUFFIXES.fullmatch(text):
        return True
    tokens: list[re.Match[str]] = []
    while (at := tokens[-1].end() if tokens else 0) < len(text):
        if (token := _TOKEN.match(text, at)) is None:
            return False
        tokens.append(token)
    found = {kind: [token[0] for token in tokens if token[kind]] for kind in ("time", "number", "month", "half")}
    numbers = found["number"]
    if found["month"] or found["half"]:
        return bool(numbers or found["time"])
    if (offset := _OFFSET.search(text)) and (offset[1] == "+" or len(numbers) > (1 if found["time"] else 3)):
        numbers.pop()
    month, *days = [int(number) for number in numbers if len(number) <= 2] or [0]
    if len(numbers) < 2:
        return bool(found["time"])
    return len(numbers) - 1 <= len(days) + 1 <= 3 and 1 <= month <= 12 and (not days or 1 <= days[0] <= 31)


def _date(found: dict[str, str | None]) -> Moment:
    month = _month(found["name"] or "") if "name" in found else int(found["month"] or 0)
    hour = int(found["hour"] or 0)
    at_midnight = not int(f"0{found['minute'] or ''}{found['second'] or ''}{found['part'] or ''}")
    if hour == 24 and at_midnight and isinstance(before := _date({**found, "hour": "0"}), datetime):
        return before + timedelta(days=1)  # the day's end, which Json.NET reads
    if half := found["half"]:
        hour = hour % 12 + (12 if half in "Pp" else 0)
    when = Moment(  # without a zone, unless the text has one
        *(int(found["year"] or 0), month, int(found["day"] or 1)),
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


_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]*")
_NUMBER: Final = re.compile(
    r"\s*(?:[-+]?(?:[0-9][0-9,]*\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?\s*[-+]?|[-+]?(?:NaN|Infinity))\s*", re.IGNORECASE
)
_BOOLEAN: Final = re.compile(r"\s*(?:true|false)\s*", re.IGNORECASE)
_GUID: Final = re.compile(
    r"\s*(?:[0-9a-f]{32}|[{(]?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[)}]?|\{0x[0-9a-fx,{}\s]+\})\s*",
    re.IGNORECASE,
)
_AS_DOTNET_PRINTS_GUIDS: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME_SPAN: Final = re.compile(r"\s*-?(?:[0-9]+[.:])?[0-9]+:[0-9]{1,2}(?::[0-9]{1,2}(?:\.[0-9]{1,7})?)?\s*")


def dotnet_text(value: object, pattern: str, subject: str, name: str) -> str:
    """Return the text that .NET prints for a value of the message's JSON; empty where .NET prints nothing.

    Args:
        pattern: format of the placeholder, or the empty text.
        subject: description of the value, for errors.
        name: name of the placeholder; a name with dots is a part of an object.

    Raises:
        ScopeError: the text depends on the value's type in C#, or the format doesn't fit.
    """
    if value is None or isinstance(value, Mapping | list | tuple):
        return ""
    if pattern == TEXT:
        return str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, bool | int | float | NumberText):
        return _whole(value, subject, name)
    if isinstance(value, str) and not pattern:
        _refuse_what_may_be_typed(value, subject, name)
        return value
    return formatted(_typed(value) if isinstance(value, str) else value, pattern, subject)


def dotnet_text_of_host(value: object, pattern: str, subject: str, name: str) -> str:
    """Return the text that .NET prints for a value of the host: a header, an id, a time. See ``dotnet_text``."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    is_date_time = isinstance(value, date | datetime) and name.casefold().endswith("utc")  # others: DateTimeOffset
    return formatted(value, pattern, subject) if is_date_time or isinstance(value, UUID) else ""


def _typed(text: str) -> object:
    """Return the date or Guid that .NET reads in the text, else the text."""
    if not _GUID.fullmatch(text):
        return read_date(text) or text
    parts = re.findall(r"0x([0-9a-f]+)", text, re.IGNORECASE)  # the widths of the eleven: 8, 4, 4, and 2 eight times
    digits = "".join(part.zfill(width) for part, width in zip(parts, (8, 4, 4, *[2] * 8), strict=False))
    try:
        return UUID(digits or text.strip().strip("()"))
    except ValueError:
        return text


def _whole(value: object, subject: str, name: str) -> str:
    """Return a whole number's digits, whatever format is asked for; refuse other numbers, and booleans."""
    text = str(value)
    if not isinstance(value, bool | float) and _WHOLE.fullmatch(text):
        return text
    what = kind_of(value) if isinstance(value, bool) else "a number that is not plainly whole"
    raise ScopeError(
        f"{subject} is {what}: .NET prints that by its type in C#, which is not known here. In scope_id write "
        f"{{{name}:{TEXT}}} if it is a string there; leave it out if it is a bool, double or decimal, for "
        "which .NET prints nothing; send a whole number if it is an int or long",
        reason="kind",
    )


def _refuse_what_may_be_typed(text: str, subject: str, name: str) -> None:
    as_text = f"{{{name}:{TEXT}}} if it is a string"
    nothing = f"for which .NET prints nothing. Leave it out if it is one there; in scope_id write {as_text}"
    if _GUID.fullmatch(text) and not _AS_DOTNET_PRINTS_GUIDS.fullmatch(text):
        said = f"a Guid in C#, which .NET prints in another way. In scope_id write {{{name}:D}} if it is a Guid there, "
        said += as_text
    elif read_date(text):
        said = (
            "a date in C#, which .NET prints in another way. In scope_id write "
            f"{{{name}:yyyy-MM-ddTHH-mm-ssK}} if it is a DateTime there, {as_text}; leave it out if it is a "
            "DateTimeOffset, for which .NET prints nothing"
        )
    elif _TIME_SPAN.fullmatch(text):
        said = f"a TimeSpan in C#, {nothing}"
    elif _BOOLEAN.fullmatch(text):
        said = f"a bool in C#, {nothing}"
    elif _NUMBER.fullmatch(text) and not _WHOLE.fullmatch(text):
        said = (
            "a number in C#, which .NET prints in another way. Send plain digits if it is an int or long there; leave "
        )
        said += f"it out if it is a decimal or double, for which .NET prints nothing; in scope_id write {as_text}"
    elif _may_be_date(text):
        said = "a date in C#, which .NET completes from its clock. Send year, month and day if it is a DateTime there; "
        said += f"in scope_id write {as_text}"
    else:
        return
    raise ScopeError(f"{subject} may be {said}", reason="kind")
