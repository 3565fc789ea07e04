"""JSON as messages carry it: parsed without losing a digit, shown in errors without giving anything away.

Bodies hold personal data: messages name the properties that a body has, never what is in them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Final

from singleton.base.errors import ConfigurationError, ScopeError
from singleton.base.words import listed, quoted


class NumberText(str):
    """A JSON number as the body spells it: nothing is rounded, and no number is too long (D-11)."""

    __slots__ = ()


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_JSON: Final = json.JSONDecoder(parse_int=NumberText, parse_float=NumberText, parse_constant=_no_constant)


def read_json(body: str | bytes | bytearray | memoryview, whose: str = "the body") -> object:
    """Parse JSON, keeping the spelling of numbers (`NumberText`). ``ScopeError``: no JSON in UTF-8 (D-15), chained."""
    try:
        text = body if isinstance(body, str) else bytes(body).decode("utf-8")
        return _JSON.decode(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise ScopeError(f"{whose} can't be parsed as JSON: {_what_failed(error)}", reason="not JSON") from error


def _what_failed(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    return str(error) if len(str(error)) < 200 else type(error).__name__


def plain_text(value: object) -> str | None:
    """Return the text of a JSON value, booleans as .NET prints them (D-11); None for null, objects and lists."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "True" if value else "False"
    try:
        return str(value) if isinstance(value, int) or (isinstance(value, float) and isfinite(value)) else None
    except ValueError:  # an int of more digits than Python prints
        return None


def kind_of(value: object) -> str:
    """Return what a JSON value is, in words and without what is in it."""
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str):
        return "a number" if isinstance(value, NumberText) else "text"
    return "a boolean" if isinstance(value, bool) else f"a value of type {type(value).__name__}"


def lacks(name: str, found: object) -> str:
    """Say in what way ``found`` has no property ``name``."""
    if not isinstance(found, Mapping):
        return f"is {kind_of(found)}, which has no property {quoted(name)}"
    if not found:
        return f"has no property {quoted(name)}; it is an empty object"
    same = [other for other in found if isinstance(other, str) and other.casefold() == name.casefold()]
    hint = f"{listed(same)} (names are case-sensitive)" if same else listed(found)
    return f"has no property {quoted(name)}; it has {hint}"


def check_path(path: str, named: str = "scope") -> tuple[str, ...]:
    """Return the segments of a path like ``My:Nested:Id``. ``ConfigurationError``: a blank path or segment (D-16)."""
    if not isinstance(path, str):
        raise ConfigurationError(f"{named} is {quoted(path)}: give a property path such as 'Id' or 'My:Nested:Id'")
    if not path.strip():
        raise ConfigurationError(f"{named} is blank: give a property path such as 'Id' or 'My:Nested:Id'")
    segments = tuple(path.split(":"))
    if not all(map(str.strip, segments)):
        raise ConfigurationError(f"{named} {quoted(path)} has an empty segment: write 'Id' or 'My:Nested:Id'")
    return segments
