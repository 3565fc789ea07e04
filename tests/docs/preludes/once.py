"""What comes of the operation of docs/how-to/once.md."""

from __future__ import annotations

from typing import Any


def afterwards(shown: Any) -> None:
    assert shown.receipt == "receipt"
    assert shown.operation.done
