"""JSON as Json.NET reads and writes it: so the host reads what functions return (H-87).

It reads more than JSON: single quotes, bare names, comments, extra commas, `NaN`, hexadecimal numbers. Text that looks
like a date becomes a date. If a name occurs twice, the last value counts. What it writes is indented by two spaces.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

_DEEPEST: Final = 64
_SPACE: Final = re.compile(r"(?:\s|/\*.*?\*/|//[^\r\n]*)*", re.DOTALL)
_NAME: Final = re.compile(r"[\w$]+")
_WORD: Final = re.compile(r"(?:true|false|null|undefined|NaN|-?Infinity)(?![^\s,\]}/])")
_NUMBER: Final = re.compile(r"[-.0-9][-+.0-9a-fA-FxX]*(?![^\s,\]}/])")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|\Z)", re.DOTALL)
_ESCAPED: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "\\": "\\", '"': '"', "'": "'", "/": "/"}
_WRITTEN: Final = {text: f"\\{mark}" for mark, text in _ESCAPED.items() if mark not in "'/"}
_SPECIAL: Final = re.compile(r'[\x00-\x1f"\\\x85\u2028\u2029]')
_DATE: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d{1,7}))?(?:([Zz])|([+-]\d\d)(?::?(\d\d))?)?\Z", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Date:
    """A text that Json.NET took for a date: as it stands in JSON, and as text by itself."""

    written: str
    plain: str


class _Undefined:
    """JavaScript's undefined, which Json.NET knows."""


UNDEFINED: Final = _Undefined()
_WORDS: Final[dict[str, Any]] = {
    "true": True,
    "false": False,
    "null": None,
    "undefined": UNDEFINED,
    "NaN": math.nan,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
}


def read(text: str, *, dates: bool) -> Any:
    """Return the value of a text: of objects a dict, of lists a list, of what looks like a date a ``Date``.

    >>> read("{'a': [1.10, 0x10,], 'a': null}", dates=True)
    {'a': None}

    Raises:
        ValueError: Json.NET refuses it.
    """
    reader = _Reader(text, dates=dates)
    value = reader.value(0)
    reader.end()
    return value


def write(value: Any, indent: str = "") -> str:
    r"""Return a value as indented JSON.

    >>> write({"a": 1.10, "b": []})
    '{\n  "a": 1.1,\n  "b": []\n}'
    """
    inner = f"{indent}  "
    match value:
        case dict():
            items = [f"{inner}{_quoted(name)}: {write(item, inner)}" for name, item in value.items()]
            return _block("{", items, "}", indent)
        case list():
            return _block("[", [inner + write(item, inner) for item in value], "]", indent)
        case str():
            return _quoted(value)
        case Date():
            return _quoted(value.written)
        case float():
            text = _double(value)
            if not math.isfinite(value):
                return _quoted(text)
            return text if "." in text or "E" in text else f"{text}.0"
        case None:
            return "null"
        case _Undefined():
            return "undefined"
    return str(value).lower()  # true, false, or a whole number


def plain(value: Any) -> str:
    """Return a value as .NET's ``ToString`` of its token shows it: texts bare, objects and lists as JSON.

    >>> [plain(value) for value in ("a", True, None, 1.0, [])]
    ['a', 'True', '', '1', '[]']
    """
    match value:
        case str():
            return value
        case Date():
            return value.plain
        case float():
            return _double(value)
        case None | _Undefined():
            return ""
        case dict() | list():
            return write(value)
    return str(value)


class _Reader:
    def __init__(self, text: str, *, dates: bool) -> None:
        self._text = text
        self._dates = dates
        self._at = 0

    def end(self) -> None:
        """Check that nothing follows."""
        if self._next():
            raise self._wrong()

    def value(self, depth: int) -> Any:
        """Read the next value."""
        mark = self._next()
        if mark in {"{", "["}:
            if depth == _DEEPEST:
                raise ValueError(f"it is nested deeper than {_DEEPEST}")
            self._at += 1
            return self._object(depth + 1) if mark == "{" else self._list(depth + 1)
        if mark in {'"', "'"}:
            text = self._string(mark)
            return (_date(text) or text) if self._dates else text
        if mark == ",":
            return UNDEFINED
        if word := _WORD.match(self._text, self._at):
            self._at = word.end()
            return _WORDS[word[0]]
        if number := _NUMBER.match(self._text, self._at):
            self._at = number.end()
            return _number(number[0])
        raise self._wrong()

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._next() != "}":
            name = self._property_name()
            self._expect(":")
            found[name] = self.value(depth)
            if self._next() != "}":
                self._expect(",")
        self._at += 1
        return found

    def _list(self, depth: int) -> list[Any]:
        found = []
        while self._next() != "]":
            found.append(self.value(depth))
            if self._next() != "]":
                self._expect(",")
        self._at += 1
        return found

    def _property_name(self) -> str:
        mark = self._next()
        if mark in {'"', "'"}:
            return self._string(mark)
        if name := _NAME.match(self._text, self._at):
            self._at = name.end()
            return name[0]
        raise self._wrong()

    def _string(self, mark: str) -> str:
        start = at = self._at + 1
        while at < len(self._text) and self._text[at] != mark:
            at += 2 if self._text[at] == "\\" else 1
        if at >= len(self._text):
            raise ValueError(f"the text that begins at character {start} has no end")
        self._at = at + 1
        text = _ESCAPE.sub(self._unescaped, self._text[start:at])
        # Halves of a pair that stand alone are replaced, as .NET does.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    @staticmethod
    def _unescaped(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] not in _ESCAPED:
            raise ValueError(f"there is no escape {match[0]}")
        return _ESCAPED[match[2]]

    def _next(self) -> str:
        """Skip blanks and comments; return the next character, or nothing at the end."""
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at
        return self._text[self._at : self._at + 1]

    def _expect(self, mark: str) -> None:
        if self._next() != mark:
            raise self._wrong()
        self._at += 1

    def _wrong(self) -> ValueError:
        found = self._text[self._at : self._at + 1]
        return ValueError(f"unexpected {found!r} at character {self._at + 1}" if found else "it ends too early")


def _number(text: str) -> int | float:
    try:
        if text[:1] == "0" and text[1:2] not in {"", ".", "e", "E"}:
            return int(text, 16) if text[1] in "xX" else int(text, 8)
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError as error:
        raise ValueError(f"{text} is no number") from error


def _date(text: str) -> Date | None:
    """Read a text as a date if Json.NET does. A date with an offset becomes local time."""
    match = _DATE.match(text)
    if match is None:
        return None
    day, time, fraction, utc, hours, minutes = match.groups()
    zone = f"{hours}:{minutes or '00'}" if hours else ""
    try:
        moment = datetime.fromisoformat(f"{day}T{time}{zone}")
        moment = moment.astimezone() if hours else moment
    except (ValueError, OverflowError):
        return None
    shown = moment.isoformat()
    digits = (fraction or "").rstrip("0")
    written = f"{shown[:19]}{'.' if digits else ''}{digits}{shown[19:25]}{'Z' if utc else ''}"
    return Date(written, f"{shown[5:7]}/{shown[8:10]}/{shown[:4]} {shown[11:19]}")


def _double(number: float) -> str:
    """Write a double as .NET does: the shortest digits that give it back, with an exponent where it is far from 1."""
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    scale = len(digits) + int(exponent)
    if number == 0 or -4 < scale <= max(len(digits), 15):
        return f"{'-' * sign}{Decimal(repr(abs(number))).normalize():f}"
    text = "".join(str(digit) for digit in digits)
    point = f".{text[1:]}" if text[1:] else ""
    return f"{'-' * sign}{text[0]}{point}E{scale - 1:+03d}"


def _quoted(text: str) -> str:
    escaped = _SPECIAL.sub(lambda found: _WRITTEN.get(found[0]) or f"\\u{ord(found[0]):04x}", text)
    return f'"{escaped}"'


def _block(start: str, items: list[str], end: str, indent: str) -> str:
    return f"{start}\n" + ",\n".join(items) + f"\n{indent}{end}" if items else start + end
