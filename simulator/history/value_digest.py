"""Digests of values: equal for what was kept and what is read back, whatever a value is."""

from __future__ import annotations

import hashlib
import json
from typing import Final

NOTHING: Final = ""
"""The digest that stands for no value."""
UNREADABLE: Final = "?"
"""The digest of a value that has no form by which two values can be compared."""
NOT_UNDERSTOOD: Final = "state not understood"
"""The reason of an error about what is kept; stands for the digest of such content."""


def digest(value: object) -> str:
    """Return what two values have in common if one was kept and the other was read back.

    >>> digest((1, 2)) == digest([1, 2]), digest(b"7") == digest("7"), digest(None) == NOTHING, digest(object())
    (True, False, False, '?')
    """
    if isinstance(value, bytes | bytearray):
        kind, text = "bytes", bytes(value)
    elif callable(body := getattr(value, "get_body", None)):
        about = [str(getattr(value, name, "")) for name in ("status_code", "mimetype", "charset")]
        headers = sorted((name.lower(), text) for name, text in getattr(value, "headers", {}).items())
        kind, text = f"answer {about} {headers}", body() or b""
    else:
        try:
            kind, text = "json", json.dumps(value, sort_keys=True).encode()
        except (TypeError, ValueError, RecursionError):
            return UNREADABLE
    return hashlib.sha256(kind.encode() + b"\0" + text).hexdigest()[:16]
