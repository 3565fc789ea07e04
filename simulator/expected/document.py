"""A message's JSON: its numbers as they are written, and the value at a path (D-10 to D-16)."""

from __future__ import annotations

import json
from typing import Final

from simulator.expected.answers import Refused, Unclear

_BOM: Final = "\ufeff"


class Number(str):
    """A JSON number as the body writes it: ``1``, ``1.0`` and ``1e0`` are three scopes."""

    __slots__ = ()


def document(body: bytes | str) -> object:
    """Parse a body. If a name occurs twice, the last one counts, as in ``msg.get_json()``.

    Raises:
        Refused: it is no JSON in UTF-8 (D-15).
        Unclear: it is nested so deeply that only some processes can read it.
    """
    try:
        text = body if isinstance(body, str) else body.decode()
        return json.loads(
            text.removeprefix(_BOM), parse_int=Number, parse_float=Number, parse_constant=_refuse_constant
        )
    except ValueError as error:
        raise Refused("the body is no JSON") from error
    except RecursionError as error:
        raise Unclear("the body is nested too deeply") from error


def value_at(path: str, body: bytes | str) -> object:
    """Return the value at ``My:Nested:Property``: objects only, case-sensitive (D-10, D-13, D-16)."""
    names = path.split(":")
    if not all(name.strip() for name in names):
        raise Refused(f"scope {path!r} has a blank segment")
    value = document(body)
    for name in names:
        if not isinstance(value, dict) or name not in value:
            raise Refused(f"scope {path!r}: the body has no such property")
        value = value[name]
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")
