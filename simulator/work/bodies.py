"""Bodies made for the scopes of functions: each carries one of a few keys, so that they contend for the same locks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# One lock for two of them is a finding: they differ by the case of a letter, or by what comes after the same letters.
KEYS: Final = ("alpha", "bravo", "Bravo", "bravo-2")

# Names in a scope id that the host knows of every message (H-47); "Id" is not among them, as a body's own Id wins.
_KNOWN: Final = frozenset(
    {"queuetrigger", "dequeuecount", "expirationtime", "insertiontime", "nextvisibletime", "popreceipt"}
)


def body_with(scopes: Iterable[tuple[str | None, Sequence[str]]], key: str, number: int) -> str:
    """Make a body that has the value ``key`` at all these paths: ``scope``, and the dotted ones of a ``scope_id``."""
    body: dict[str, Any] = {}
    for scope, paths in scopes:
        if scope:
            _put(body, scope.split(":"), key)
        for path in paths:
            first, *rest = path.split(".")
            if first.lower() == "queuetrigger":
                return key  # the lock's name is the body itself
            if first.lower() not in _KNOWN:
                _put(body, [first, *rest], key)
    if not body:
        body["Id"] = key
    if "number" not in {name.lower() for name in body}:
        body["Number"] = number
    return json.dumps(body)


def _put(body: dict[str, Any], path: Sequence[str], value: str) -> None:
    *parents, last = path
    for name in parents:
        inner = body.setdefault(name, {})
        if not isinstance(inner, dict):
            return  # one path runs through the value of another: no body can serve both
        body = inner
    body.setdefault(last, value)
