"""Values of a message: its JSON with numbers as they are written (D-10 to D-16), and each value as text.

Texts are numbers as they are written, and GUIDs and dates in .NET's formats (D-11, D-12, W-38, W-40).

``scope_id``: ``%SETTING%`` first, in the whole text, then ``{name}`` (W-35 to W-42); answers other than a key.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final
from unicodedata import category

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class NoKey:
    """The invocation fails before any lock is asked for, and says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class CantTell:
    """This reading does not cover the case: nothing follows for the lock."""

    reason: str


class KeyRefused(Exception):
    """The specification lets the invocation fail."""


class Unclear(Exception):
    """This is not read here, or the specification does not say."""


_TOKEN: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+")
_BEGINS: Final = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl"})
_GOES_ON: Final = _BEGINS | {"Mn", "Mc", "Nd", "Pc", "Cf"}


def folded(name: str) -> str:
    """Return a form that is equal for names that differ only in upper and lower case, letter by letter as in .NET."""
    return "".join(char.upper() if len(char.upper()) == 1 else char for char in name)


def setting(settings: Mapping[str, str], name: str) -> str | None:
    """Return an app setting: upper and lower case are equal, and ``:`` is ``__``."""
    if name in settings:
        return settings[name]
    wanted = folded(name.replace(":", "__"))
    return next((value for spelt, value in settings.items() if folded(spelt.replace(":", "__")) == wanted), None)


def with_settings(text: str, settings: Mapping[str, str]) -> str:
    """Fill in ``%NAME%``, once: the value of a setting is not searched for another name (W-41)."""
    parts = text.split("%")
    if len(parts) % 2 == 0:
        raise KeyRefused(f"scope_id {text!r} has a % without another")
    for at in range(1, len(parts), 2):
        value = setting(settings, parts[at]) if parts[at] else None
        if value is None:
            raise KeyRefused(f"there is no app setting {parts[at]!r}")
        parts[at] = value
    return "".join(parts)


def with_names(text: str, value_of: Callable[[str], object], printed: Callable[[object, str], str]) -> str:
    """Fill in ``{name}``, ``{name.of.nested-part}`` and ``{name:format}``; ``{{`` and ``}}`` are braces (W-40).

    Args:
        text: a template without settings.
        value_of: what the first name means.
        printed: what a value is in text, in a format or, with the empty one, without.
    """
    filled = ""
    for token in _TOKEN.finditer(text):
        if token[1] is not None:
            path, _, pattern = token[1].partition(":")
            filled += printed(_value(path, value_of), pattern if pattern.strip() else "")
        elif token[0] in ("{", "}"):
            raise KeyRefused(f"scope_id {text!r} has a bracket without another")
        else:
            filled += token[0][0] if token[0] in ("{{", "}}") else token[0]
    return filled


def _value(path: str, value_of: Callable[[str], object]) -> object:
    first, *later = path.split(".")
    if not _is_identifier(first) or not all(name and _is_identifier(f"_{name.replace('-', '_')}") for name in later):
        raise KeyRefused(f"{{{path}}} names no property")
    value = value_of(first)
    for name in later:
        value = _property(value, name)
    return value


def _property(value: object, name: str) -> object:
    """Return a property of an object: the one with this exact name, else the first that differs only in case (W-40)."""
    if isinstance(value, dict):
        if name in value:
            return value[name]
        for spelt in value:
            if folded(spelt) == folded(name):
                return value[spelt]
    raise KeyRefused(f"there is no property {name!r}")


def _is_identifier(name: str) -> bool:
    """Tell whether C# takes the name as an identifier."""
    return bool(name) and all(
        char == "_" or category(char) in (_GOES_ON if at else _BEGINS) for at, char in enumerate(name)
    )


_HEX: Final = "[0-9a-fA-F]"
_HYPHENED: Final = f"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"
_GUID: Final = re.compile(rf"{_HEX}{{32}}|{_HYPHENED}|\{{{_HYPHENED}\}}|\({_HYPHENED}\)")
_DATE: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,7}))?)?(?:(Z)|([+-])(\d\d):(\d\d))?)?", re.ASCII
)
_DEFAULT: Final = "yyyy-MM-ddTHH-mm-ssK"
_STANDARD: Final = {
    "d": "MM/dd/yyyy",
    "D": "dddd, dd MMMM yyyy",
    "s": "yyyy-MM-ddTHH:mm:ss",
    "o": "yyyy-MM-ddTHH:mm:ss.fffffffK",
    "O": "yyyy-MM-ddTHH:mm:ss.fffffffK",
}
_PIECE: Final = re.compile(r"'([^']*)'|\"([^\"]*)\"|([a-zA-Z])\3*|[^a-zA-Z'\"\\]")
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def printed(value: object, pattern: str = "") -> str:
    """Return the text of a value in a format; an empty format means none.

    Raises:
        KeyRefused: it is an object or a list, or the format is not for such a value.
        Unclear: it may be a date in another notation, or the format is none that is read here.
    """
    if value is None:
        return ""
    if isinstance(value, dict | list):
        raise KeyRefused("the value is an object or a list")
    if isinstance(value, datetime):
        return _written(value, f"{value.microsecond:06}0", pattern or _DEFAULT)
    if pattern:
        return _formatted(value, pattern)
    if isinstance(value, str | int):
        return str(value)  # `true` is "True" to .NET, too
    raise Unclear(f"a value of type {type(value).__name__}")


def _formatted(value: object, pattern: str) -> str:
    """Return a text that is a GUID or a date in this format. A number that looks like one is a number."""
    text = value if type(value) is str else ""
    if _GUID.fullmatch(text):
        return _guid(text.lower(), pattern)
    date = _DATE.fullmatch(text)
    if date is None and any(char.isdigit() for char in text):
        raise Unclear("it may be a date or a GUID in another notation")
    if date is None or pattern in ("N", "B", "P"):
        raise KeyRefused(f"the value is nothing for the format {pattern!r}")
    *numbers, fraction, utc, sign, hours, minutes = date.groups()
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    year, month, day, hour, minute, second = (int(number or 0) for number in numbers)
    try:
        zone = UTC if utc else timezone(offset) if sign else None
        when = datetime(year, month, day, hour, minute, second, tzinfo=zone)
    except ValueError as error:
        raise Unclear("it is spelt like a date and is none") from error
    return _written(when, f"{fraction or '':0<7}", pattern)  # .NET counts tenths of a microsecond


def _guid(text: str, pattern: str) -> str:
    digits = re.sub("[^0-9a-f]", "", text)
    hyphened = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    written = {"N": digits, "D": hyphened, "B": f"{{{hyphened}}}", "P": f"({hyphened})"}
    if pattern not in written:
        raise KeyRefused(f"a GUID has no format {pattern!r}")
    return written[pattern]


def _written(when: datetime, fraction: str, pattern: str) -> str:
    whole = _STANDARD.get(pattern, pattern)
    parts, at = [], 0
    while at < len(whole):
        piece = _PIECE.match(whole, at)
        if piece is None or (len(whole) == 1 and piece[3]):
            raise Unclear(f"the format {pattern!r} is not read here")
        quoted = piece[1] if piece[1] is not None else piece[2]
        parts.append(_run(when, fraction, piece[0]) if piece[3] else piece[0] if quoted is None else quoted)
        at = piece.end()
    return "".join(parts)


def _run(when: datetime, fraction: str, run: str) -> str:
    """Return the text for a run of one letter in a date's format."""
    letter, length = run[0], len(run)
    numbers = {"M": when.month, "d": when.day, "H": when.hour, "m": when.minute, "s": when.second}
    numbers["h"] = (when.hour + 11) % 12 + 1
    if letter in numbers and length <= 2:
        return f"{numbers[letter]:0{length}}"
    if letter == "f" and length <= len(fraction):
        return fraction[:length]
    if letter in "TZ":
        return run
    names = {
        "yyyy": f"{when.year:04}",
        "yy": f"{when.year % 100:02}",
        "MMMM": _MONTHS[when.month - 1],
        "MMM": _MONTHS[when.month - 1][:3],
        "dddd": _DAYS[when.weekday()],
        "ddd": _DAYS[when.weekday()][:3],
        "tt": "AM" if when.hour < 12 else "PM",
        **_zone(when.utcoffset()),
    }
    if run not in names:
        raise Unclear(f"{run!r} in a format is not read here")
    return names[run]


def _zone(offset: timedelta | None) -> dict[str, str]:
    minutes = round((offset or timedelta()).total_seconds() / 60)
    sign = "-" if minutes < 0 else "+"
    hours, rest = divmod(abs(minutes), 60)
    full = f"{sign}{hours:02}:{rest:02}"
    return {
        "z": f"{sign}{hours}",
        "zz": f"{sign}{hours:02}",
        "zzz": full,
        "K": "" if offset is None else full if offset else "Z",
    }


_BOM: Final = "\ufeff"


class Number(str):
    """A JSON number as the body writes it: ``1``, ``1.0`` and ``1e0`` are three scopes."""

    __slots__ = ()


def document(body: bytes | str) -> object:
    """Parse a body. If a name occurs twice, the last one counts, as in ``msg.get_json()``.

    Raises:
        KeyRefused: the body is no JSON in UTF-8 (D-15).
        Unclear: the body is nested so deeply that only some processes can parse the JSON.
    """
    try:
        text = body if isinstance(body, str) else body.decode()
        return json.loads(
            text.removeprefix(_BOM), parse_int=Number, parse_float=Number, parse_constant=_refuse_constant
        )
    except ValueError as error:
        raise KeyRefused("the body is no JSON") from error
    except RecursionError as error:
        raise Unclear("the body is nested too deeply") from error


def value_at(path: str, body: bytes | str, *, last: bool = False) -> object:
    """Return the value at ``My:Nested:Property``: objects only, case-sensitive (D-10, D-13, D-16).

    With ``last``, the last of the first names that differ in case only (H-47).
    """
    names = path.split(":")
    if not all(name.strip() for name in names):
        raise KeyRefused(f"scope {path!r} has a blank segment")
    value = document(body)
    for name in names:
        if not isinstance(value, dict) or name not in value:
            raise KeyRefused(f"scope {path!r}: the body has no such property")
        if last:
            name, last = [each for each in value if folded(each) == folded(name)][-1], False  # noqa: PLW2901
        value = value[name]
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")
