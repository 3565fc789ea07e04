"""Who calls the functions of docs/how-to/observe.md."""

from __future__ import annotations

from typing import Any

from singleton import LockClient
from singleton.testing import always_busy


def afterwards(shown: Any) -> None:
    shown.import_all(LockClient())
    with always_busy():
        shown.import_all(LockClient())
