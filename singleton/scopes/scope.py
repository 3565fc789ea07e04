"""Where a lock's scope comes from: a property of the JSON body, or a template filled from settings and binding data."""

from __future__ import annotations

import re
from collections.abc import Mapping

from singleton.base.errors import ScopeError
from singleton.base.json_values import check_path, kind_of, lacks, plain_text, read_json
from singleton.base.words import quoted
from singleton.scopes.template import ScopeTemplate

__all__ = ["ScopeTemplate", "check_path", "filled_text", "value_at"]


def value_at(
    path: str, body: object, *, message_id: str | None = None, dotnet: bool = False, named: str = "scope"
) -> str:
    """Return the text of the property at ``path`` in a JSON body (D-10 to D-17).

    >>> value_at("Order:Id", b'{"Order": {"Id": 419}}')
    '419'

    Names are matched case-sensitively. Numbers keep the body's spelling; ``true`` is "True". Of a name given twice the
    last one counts, as for ``msg.get_json()``.

    Args:
        path: property names with ``:`` between levels.
        body: JSON as bytes (UTF-8) or text, or what a parser made of it.
        message_id: named in errors.
        named: name of the path in errors.
        dotnet: print the value as the WebJobs SDK does; a value without a text there gives the empty text.

    Raises:
        ConfigurationError: the path is blank (D-16).
        ScopeError: the body isn't JSON, or the property is missing, null, blank, an object or a list; or .NET prints
            it by its type in C#, which is not known.
    """
    segments = check_path(path, named)
    asked = f"{named} {quoted(path)}"
    whose = "the body" if message_id is None else f"the body of message {quoted(message_id)}"
    found = read_json(body, f"{asked}: {whose}") if isinstance(body, str | bytes | bytearray | memoryview) else body
    for depth, name in enumerate(segments):
        if not isinstance(found, Mapping) or name not in found:
            where = f"{whose} at {quoted(':'.join(segments[:depth]))}" if depth else whose
            meant = _colons_meant(segments, depth, found)
            raise ScopeError(f"{asked}: {where} {lacks(name, found)}{meant}", reason="missing")
        found = found[name]
    subject = f"{asked}: its value in {whose}"
    if not dotnet:
        return filled_text(found, subject)
    from singleton.dotnet.typed_values import dotnet_text

    return dotnet_text(found, "", subject, ".".join(segments))


def _colons_meant(segments: tuple[str, ...], depth: int, found: object) -> str:
    """Suggest the path with ``:`` in place of ``.`` or ``/`` where that leads to a property: ``Order.Id``."""
    parts = re.split(r"[./]", segments[depth])
    for part in parts:
        if not isinstance(found, Mapping) or part not in found:
            return ""
        found = found[part]
    return f"; did you mean {quoted(':'.join((*segments[:depth], *parts, *segments[depth + 1 :])))}?"


def filled_text(value: object, subject: str) -> str:
    """Return the text of a value that must not be empty.

    Raises:
        ScopeError: it is null, blank, or no plain value; ``subject`` says which it is.
    """
    text = plain_text(value)
    if text is None:
        if value is not None:
            raise ScopeError(f"{subject} is {kind_of(value)}: it must be text, a number or a boolean", reason="kind")
        raise ScopeError(f"{subject} is null: every message needs a value", reason="empty")
    if not text.strip():
        raise ScopeError(f"{subject} is {'blank' if text else 'empty'}: every message needs a value", reason="empty")
    return text
