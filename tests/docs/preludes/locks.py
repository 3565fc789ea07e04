"""Who calls the functions of docs/locks.md, and an end to what would go on for ever."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from tests.docs.running import EndOfBlock, end_of_block


def afterwards(shown: Any) -> None:
    async def close() -> None:
        await shown.make_client("webjobshost").close()

    asyncio.run(close())
    shown.set("poll", end_of_block)
    with contextlib.suppress(EndOfBlock):
        shown.poll_forever()
