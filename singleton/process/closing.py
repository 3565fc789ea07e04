"""Closing stores and queues."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from singleton.base.naming import log as _log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from singleton.stores.message_store import MessageStore
    from singleton.stores.protocol import LeaseStore

_CLOSING: Final = 2.0
"""Seconds for closing the stores."""


class Keeper(Protocol):
    """Who keeps a lock for the life of the process, and knows how that is ended."""

    async def end(self) -> None:
        """Let what runs under the lock end, and give it back."""


async def closed(opened: Sequence[LeaseStore | MessageStore]) -> None:
    """Close them at the same time: one that hangs or fails keeps no other open."""
    closing = [asyncio.ensure_future(each.aclose()) for each in opened]
    done, hanging = await asyncio.wait(closing, timeout=_CLOSING) if closing else (set(), set())
    for each in hanging:
        each.cancel()
    for each in done:
        if not each.cancelled() and (error := each.exception()) is not None:
            _log.warning("a store or queue did not close: %r", error)
