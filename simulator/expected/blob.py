"""The expected blob: where the lease of a key's lock must be asked for, by docs/layouts.md.

Only the default layout is read here: its names keep all keys apart.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Final

_KEPT: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_LONGEST: Final = 250
_LONGEST_SEMAPHORE: Final = _LONGEST - len("/slot-") - 10
_LONGEST_HOST: Final = 100
_DIGITS: Final = 40


def expected_blob(key: str, *, hashed: bool = False) -> str | None:
    """Return the name of the blob of a key's lock, a semaphore's without its slot; None: another layout has the name.

    >>> expected_blob('["default", "app", "function", "ship", "a/b"]')
    'locks/app/ship.a%2Fb'

    Args:
        key: as `expected_key` returns it.
        hashed: whether the scope's values are hashed (``scope_hash``).
    """
    layout, *place = json.loads(key)
    if layout != "default":
        return None
    host, kind, *parts = place
    several = kind == "semaphore"
    if several:
        kind, *parts = parts
    values = parts if kind == "host" else parts[1:]
    if hashed:
        values = [_digest(value) for value in values]
    named = [*map(_escaped, values)] if kind == "host" else [*map(_escaped, (parts[0], *values))]
    name = f"locks/{_cut(_escaped(host), _LONGEST_HOST)}/{'~' if kind == 'host' else ''}{'.'.join(named)}"
    name = _cut(f"{name}~listener" if kind == "listener" else name, _LONGEST)
    return _cut(name, _LONGEST_SEMAPHORE) if several else name


def _escaped(part: str) -> str:
    return "".join(chr(byte) if byte in _KEPT else f"%{byte:02X}" for byte in part.encode("utf-8", "surrogatepass"))


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def _cut(name: str, longest: int) -> str:
    """Return a name that is short enough: a long name is cut between two letters, and ends in its hash."""
    if len(name) <= longest:
        return name
    cut = name[: longest - _DIGITS - 1]
    half = cut.rfind("%", len(cut) - 2)
    return f"{cut if half < 0 else cut[:half]}~{_digest(name)}"
