"""Values that are false, of every kind that JSON and bytes have: what is kept must tell them from nothing."""

from __future__ import annotations

from typing import Any, Final

EMPTY: Final[tuple[Any, ...]] = ("", 0, 0.0, False, None, [], {}, b"")
