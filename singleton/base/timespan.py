"""Time spans in .NET's form: in host.json, app settings and messages."""

from __future__ import annotations

import re
from typing import Final

from singleton.base.errors import ConfigurationError
from singleton.base.forks import importing
from singleton.base.words import quoted

_TICKS: Final = 10_000_000  # in a second: .NET counts in 100 ns
_MOST_TICKS: Final = 2**63 - 1

FOREVER: Final = _MOST_TICKS / _TICKS
"""The longest .NET time span in seconds (``10675199.02:48:05.4775807``), host.json's way to say "no limit"."""

_TAIL: Final = r"(?::(?P<s>[0-9]{1,2})(?:\.(?P<f>[0-9]{1,7}))?)?"
_FORMS: Final = (
    r"(?:(?P<d>[0-9]{1,8})\.)?(?P<h>[0-9]{1,2}):(?P<m>[0-9]{1,2})" + _TAIL,
    r"(?P<d>[0-9]{1,8}):(?P<h>[0-9]{1,2}):(?P<m>[0-9]{1,2})" + _TAIL,
)


def parse_timespan(text: str, *, days: bool = False) -> float:
    """Return the seconds of a .NET time span: ``hh:mm[:ss[.fffffff]]``, with ``d.`` or ``d:`` before it for days.

    As in .NET, three numbers are days, hours and minutes if the first is above 23 (H-55):

    >>> parse_timespan("00:00:15"), parse_timespan("24:00:00") / 86400
    (15.0, 24.0)

    ``days``: read a bare number as days, as .NET does.

    Raises:
        ConfigurationError: the text is no time span, or a bare number while ``days`` is False.
    """
    body = text.strip()
    unsigned = body.removeprefix("-")
    if days and re.fullmatch(r"[0-9]{1,8}", unsigned):
        unsigned += ".00:00"
    ticks = next((ticks for form in _FORMS if (ticks := _ticks(form, unsigned)) is not None), None)
    if ticks is None or ticks > _MOST_TICKS:
        if body.isascii() and body.isdigit() and len(body) < 9 and not days:
            raise ConfigurationError(bare_number_refused(int(body)))
        raise ConfigurationError(
            f"{quoted(body)} is not a time span: write hh:mm:ss, for example 00:00:15 for 15 seconds "
            "(hours from 0 to 23, minutes and seconds from 0 to 59; d.hh:mm:ss for days)"
        )
    return (-ticks if body.startswith("-") else ticks) / _TICKS


def _ticks(form: str, text: str) -> int | None:
    match = re.fullmatch(form, text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(match[name] or 0) for name in "dhms")
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    fraction = int((match["f"] or "").ljust(7, "0"))
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * _TICKS + fraction


def bare_number_refused(number: float) -> str:
    """Return the message which refuses a bare number, with the spelling for seconds."""
    meant = f'; if seconds are meant, write "{host_json_timespan(number)}"' if 0 <= number < FOREVER else ""
    return f'a bare number ({quoted(number)}) would be read as days by the Functions host: write "hh:mm:ss"{meant}'


def format_timespan(seconds: float) -> str:
    """Return the short .NET form, ``[d:]h:mm:ss[.fffffff]`` (W-65), for messages.

    >>> format_timespan(0.2), format_timespan(1), format_timespan(90_061.5)
    ('0:00:00.2', '0:00:01', '1:1:01:01.5')
    """
    sign, days, hours, minutes, whole, fraction = _parts(seconds)
    tail = f".{fraction:07}".rstrip("0") if fraction else ""
    return f"{sign}{f'{days}:' if days else ''}{hours}:{minutes:02}:{whole:02}{tail}"


def host_json_timespan(seconds: float) -> str:
    """Return the form of host.json, ``[d.]hh:mm:ss[.fffffff]``.

    >>> host_json_timespan(15), host_json_timespan(FOREVER)
    ('00:00:15', '10675199.02:48:05.4775807')
    """
    sign, days, hours, minutes, whole, fraction = _parts(seconds)
    tail = f".{fraction:07}" if fraction else ""
    return f"{sign}{f'{days}.' if days else ''}{hours:02}:{minutes:02}:{whole:02}{tail}"


def _parts(seconds: float) -> tuple[str, int, int, int, int, int]:
    with importing:
        from fractions import Fraction

    span = abs(seconds)
    # A product of floats may fall between two ticks.
    ticks = _MOST_TICKS if span >= FOREVER else round(Fraction(span) * _TICKS)
    rest, fraction = divmod(ticks, _TICKS)
    rest, whole = divmod(rest, 60)
    rest, minutes = divmod(rest, 60)
    days, hours = divmod(rest, 24)
    return ("-" if seconds < 0 and ticks else ""), days, hours, minutes, whole, fraction
