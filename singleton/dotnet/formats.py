"""The .NET formats that a placeholder of a scope id may name, for GUIDs and dates: ``{When:yyyyMMdd}`` (W-40)."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta, timezone
from typing import TYPE_CHECKING, Final
from uuid import UUID

from singleton.base.errors import ConfigurationError, ScopeError
from singleton.base.json_values import NumberText
from singleton.base.words import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT: Final = "text"
"""A format of ours: the value is text, whatever it looks like."""
MACHINE: Final = timezone(timedelta(), "the machine's")
"""The zone into which .NET puts a time that is sent with an offset: in Azure, that of UTC, but printed as an offset."""

_DEFAULT_DATE: Final = "yyyy-MM-ddTHH-mm-ssK"  # W-38

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

_GUID_FORMATS: Final[dict[str, Callable[[UUID], str]]] = {
    "N": lambda guid: guid.hex,
    "D": str,
    "B": lambda guid: f"{{{guid}}}",
    "P": lambda guid: f"({guid})",
}

_STANDARD_DATES: Final = {
    "d": "MM/dd/yyyy",
    "D": "dddd, dd MMMM yyyy",
    "s": "yyyy-MM-ddTHH:mm:ss",
    "o": "yyyy-MM-ddTHH:mm:ss.fffffffK",
    "O": "yyyy-MM-ddTHH:mm:ss.fffffffK",
}


class Moment(datetime):
    """A date with the seventh digit of its second's fraction, which .NET counts too."""

    seventh = "0"

    @classmethod
    def fromisoformat(cls, text: str, /) -> Moment:
        """Read what Python reads, and the seventh digit."""
        when = super().fromisoformat(text)
        if more := re.search(r"[.,][0-9]{6}([0-9])", text):
            when.seventh = more[1]
        return when


def _fraction(digits: int) -> Callable[[datetime], str]:
    return lambda when: f"{when.microsecond:06}{getattr(when, 'seventh', '0')}"[:digits]


def _offset(when: datetime, *, minutes: bool, digits: int = 2) -> str:
    offset = when.utcoffset()
    total = 0 if offset is None else int(offset.total_seconds() // 60)
    hours, rest = divmod(abs(total), 60)
    return f"{'-' if total < 0 else '+'}{hours:0{digits}}{f':{rest:02}' if minutes else ''}"


def _zone(when: datetime) -> str:
    if when.tzinfo is None:
        return ""
    return _offset(when, minutes=True) if when.utcoffset() or when.tzinfo is MACHINE else "Z"


_DATE_TOKENS: Final[dict[str, Callable[[datetime], str]]] = {
    "yyyy": lambda when: f"{when.year:04}",
    "yy": lambda when: f"{when.year % 100:02}",
    "MMMM": lambda when: MONTHS[when.month - 1],
    "MMM": lambda when: MONTHS[when.month - 1][:3],
    "MM": lambda when: f"{when.month:02}",
    "M": lambda when: str(when.month),
    "dddd": lambda when: _DAYS[when.weekday()],
    "ddd": lambda when: _DAYS[when.weekday()][:3],
    "dd": lambda when: f"{when.day:02}",
    "d": lambda when: str(when.day),
    "HH": lambda when: f"{when.hour:02}",
    "H": lambda when: str(when.hour),
    "hh": lambda when: f"{when.hour % 12 or 12:02}",
    "h": lambda when: str(when.hour % 12 or 12),
    "mm": lambda when: f"{when.minute:02}",
    "m": lambda when: str(when.minute),
    "ss": lambda when: f"{when.second:02}",
    "s": lambda when: str(when.second),
    **{"f" * digits: _fraction(digits) for digits in range(1, 8)},
    "tt": lambda when: "AM" if when.hour < 12 else "PM",
    "zzz": lambda when: _offset(when, minutes=True),
    "zz": lambda when: _offset(when, minutes=False),
    "z": lambda when: _offset(when, minutes=False, digits=1),
    "K": _zone,
}


def check_format(pattern: str, subject: str) -> None:
    """Raise a ConfigurationError unless ``pattern`` is ``text``, or a GUID or date format that is offered here.

    Offered are N, D, B and P for GUIDs; d, D, s, o and patterns of ``yyyy yy MMMM MMM MM M dddd ddd dd d HH H hh h mm m
    ss s f…fffffff tt zzz zz z K`` for dates. T, Z and text in quotes stand for themselves. Other letters are refused:
    .NET would print such letters unchanged, and ``YYYYMMdd`` would give one scope in every year.
    """
    if pattern not in (*_GUID_FORMATS, TEXT):
        _date_pieces(pattern, subject)


def formatted(value: object, pattern: str, subject: str) -> str:
    """Return a GUID or date, or a text that holds one, in the given format; without a format, in .NET's default one.

    ``ScopeError``: the value is neither, or the format is of the other kind.
    """
    guid = _as_guid(value)
    if guid is not None and (pattern in _GUID_FORMATS or not pattern):
        return _GUID_FORMATS[pattern or "D"](guid)
    when = _as_date(value)
    if when is not None and pattern not in ("N", "B", "P", TEXT):
        pieces = _date_pieces(pattern or _DEFAULT_DATE, subject)
        return "".join(piece if isinstance(piece, str) else piece(when) for piece in pieces)
    if not pattern:
        raise ScopeError(
            f"{subject} is of type {type(value).__name__}: it must be text, a number, a boolean, a GUID or a date",
            reason="kind",
        )
    raise ScopeError(
        f"{subject} is not a GUID or a date that the format {quoted(pattern)} fits: leave the format out", reason="kind"
    )


def _as_guid(value: object) -> UUID | None:
    if isinstance(value, UUID):
        return value
    if not isinstance(value, str) or isinstance(value, NumberText):
        return None
    try:
        return UUID(value[1:-1] if value[:1] + value[-1:] == "()" else value)
    except ValueError:
        return None


def _as_date(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime.combine(value, time())
    if not isinstance(value, str) or isinstance(value, NumberText):
        return None
    try:
        return Moment.fromisoformat(value)
    except ValueError:
        return None


def _date_pieces(pattern: str, subject: str) -> list[str | Callable[[datetime], str]]:
    """Split a date format into texts that stand for themselves and functions of the date."""
    pieces: list[str | Callable[[datetime], str]] = []
    rest = _STANDARD_DATES.get(pattern, pattern)
    if len(rest) == 1 and rest.isalpha():
        raise _unknown(rest, pattern, subject)
    while rest:
        if rest[0] in "'\"":
            text, closing, rest = rest[1:].partition(rest[0])
            if not closing:
                raise ConfigurationError(f"{subject}: the format {quoted(pattern)} has a quote that isn't closed")
            pieces.append(text)
            continue
        run = rest[: len(rest) - len(rest.lstrip(rest[0]))]
        if run in _DATE_TOKENS:
            pieces.append(_DATE_TOKENS[run])
        elif run[0].isalpha() and run[0] not in "TZ":
            raise _unknown(run, pattern, subject)
        else:
            pieces.append(run)
        rest = rest[len(run) :]
    return pieces


def _unknown(run: str, pattern: str, subject: str) -> ConfigurationError:
    return ConfigurationError(
        f"{subject}: {quoted(run)} in the format {quoted(pattern)} is not known. The format of a GUID is N, D, B or P; "
        "the format of a date is such as yyyy-MM-dd or yyyyMMddTHHmm, with other letters in quotes. For a property of "
        "an object write a dot in place of the colon"
    )
