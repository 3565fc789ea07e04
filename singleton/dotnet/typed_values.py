"""How the WebJobs SDK prints a value into a scope id (W-38): by the type that the value has in C#.

Text and whole numbers are printed as they are, a ``Guid`` and a ``DateTime`` in a form of their own, and any other type
as nothing at all: its lock is that of the whole function. JSON does not tell the type: a date may be a ``DateTime`` in
C# or a ``string``. Where these differ the value is refused, and its placeholder has to say what it is: by a format, or
by ``{When:text}``. What comes from the host has a known type, and is printed by that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Final
from uuid import UUID

from singleton.base.errors import ScopeError
from singleton.base.json_values import NumberText, kind_of
from singleton.dotnet.dates import read_date
from singleton.dotnet.formats import TEXT, formatted

_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]*")
_GUID: Final = re.compile(
    r"\s*(?:[0-9a-f]{32}|[{(]?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[)}]?|\{0x[0-9a-fx,{}\s]+\})\s*",
    re.IGNORECASE,
)
_AS_DOTNET_PRINTS_GUIDS: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME_SPAN: Final = re.compile(r"\s*-?(?:[0-9]+\.)?[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,7})?\s*")


def dotnet_text(value: object, pattern: str, subject: str, name: str) -> str:
    """Return the text that .NET prints for a value of the message's JSON; empty where .NET prints nothing.

    Args:
        value: the value in the JSON.
        pattern: format of the placeholder, or the empty text.
        subject: description of the value, for errors.
        name: name of the placeholder; a name with dots is a part of an object.

    Raises:
        ScopeError: the text depends on the value's type in C#, or the format doesn't fit.
    """
    if value is None or isinstance(value, Mapping | list | tuple):
        return ""
    if _is_whole(value):
        return str(value)
    if isinstance(value, bool | float | NumberText):
        return _not_whole(value, pattern, subject, name)
    if pattern == TEXT:
        return str(value)
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


def _is_whole(value: object) -> bool:
    if isinstance(value, NumberText):
        return _WHOLE.fullmatch(value) is not None
    return isinstance(value, int) and not isinstance(value, bool)


def _not_whole(value: object, pattern: str, subject: str, name: str) -> str:
    """Return nothing, as for a C# bool or double; but a part of an object may be a JObject's, which is printed."""
    what = kind_of(value) if isinstance(value, bool) else "a number that is not whole"
    if pattern == TEXT and isinstance(value, NumberText):
        return str(value)
    if pattern == TEXT or "." in name:
        raise ScopeError(
            f"{subject} is {what}: .NET prints that by its type in C#, which is not known here. Scope by a text or a "
            "whole number",
            reason="kind",
        )
    return ""


def _refuse_what_may_be_typed(text: str, subject: str, name: str) -> None:
    if _GUID.fullmatch(text) and not _AS_DOTNET_PRINTS_GUIDS.fullmatch(text):
        raise ScopeError(
            f"{subject} may be a Guid in C#, which .NET prints in another way. In scope_id write {{{name}:D}} if it is "
            f"a Guid there, {{{name}:{TEXT}}} if it is a string",
            reason="kind",
        )
    if read_date(text):
        raise ScopeError(
            f"{subject} may be a date in C#, which .NET prints in another way. In scope_id write "
            f"{{{name}:yyyy-MM-ddTHH-mm-ssK}} if it is a DateTime there, {{{name}:{TEXT}}} if it is a string; leave it "
            "out if it is a DateTimeOffset, for which .NET prints nothing",
            reason="kind",
        )
    if _TIME_SPAN.fullmatch(text):
        raise ScopeError(
            f"{subject} may be a TimeSpan in C#, for which .NET prints nothing. Leave it out if it is one there; in "
            f"scope_id write {{{name}:{TEXT}}} if it is a string",
            reason="kind",
        )
