"""Who calls the functions of docs/how-to/state.md."""

from __future__ import annotations

import asyncio
from typing import Any

from singleton import AsyncLockClient, LockClient


def afterwards(shown: Any) -> None:
    numbers = [shown.next_number(LockClient()), asyncio.run(shown.next_number_async(AsyncLockClient()))]
    assert numbers == [1, 2]
