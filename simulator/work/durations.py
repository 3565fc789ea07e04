"""Durations on the command line: ``30``, ``30s``, ``2m``, ``500ms``."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

_SPAN: Final = re.compile(r"\s*(-?[0-9]*\.?[0-9]+)\s*(ms|s|sec|seconds?|m|min|minutes?|h)\s*", re.IGNORECASE)
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def in_seconds(text: str) -> float:
    """Return a duration in seconds; a number without a unit has seconds.

    >>> in_seconds("5"), in_seconds("5s"), in_seconds("2m"), in_seconds("500ms")
    (5.0, 5.0, 120.0, 0.5)

    Raises:
        ValueError: it is no duration; the message says what one looks like.
    """
    with suppress(ValueError):
        return float(text)  # what is out of range is refused by the option, in its own words
    found = _SPAN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no duration: write seconds, as in 30 or 30s, or 2m, or 500ms")
    number, unit = float(found[1]), found[2].lower()
    return number * _UNITS["ms" if unit == "ms" else unit[0]]
