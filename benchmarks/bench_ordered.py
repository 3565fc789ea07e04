"""Messages a second through an inbox on the emulator, handled in order, and what each asks of the storage."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from benchmarks.measuring import heading, machine, say, table
from simulator.azurite.server import Azurite
from singleton import Inbox
from singleton.runtime.lock_thread import shutdown
from singleton.stores.request_count import count_requests

if TYPE_CHECKING:
    from benchmarks.measuring import Rows, Tables
    from singleton import InboxMessage

_ROUNDS: Final = ((1, 500), (20, 50))
"""Keys, and messages of each."""


def main() -> Tables:
    """Measure what a sender and a worker get done, in one process."""
    heading("Messages in order (on the emulator)")
    say(machine())
    rows: Rows = [("messages", "a second", "requests each", "of these")]
    asked: Counter[str] = Counter()
    end = count_requests(lambda operation, _: asked.update([operation]))
    try:
        with Azurite() as azurite:
            for keys, messages in _ROUNDS:
                inbox = Inbox(f"bench-{keys}", azurite.connection_string)
                rows += asyncio.run(_measured(inbox, keys, messages, asked))
    finally:
        end()
        shutdown()
    table(rows)
    return {"ordered": rows}


async def _measured(inbox: Inbox, keys: int, messages: int, asked: Counter[str]) -> Rows:
    whole, done, left = keys * messages, asyncio.Event(), keys * messages

    async def handle(_: InboxMessage) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    async def send(key: str) -> None:
        for number in range(messages):
            await inbox.asend(key, number)

    asked.clear()
    began = time.perf_counter()
    await asyncio.gather(*(send(f"key-{number}") for number in range(keys)))
    sent = _row(f"sent, keys: {keys}", whole, time.perf_counter() - began, asked)
    asked.clear()
    began = time.perf_counter()
    async with inbox.worker(handle, keys=20):
        await done.wait()
        took = time.perf_counter() - began
    return [sent, _row(f"handled, keys: {keys}", whole, took, asked)]


def _row(what: str, messages: int, took: float, asked: Counter[str]) -> tuple[str, ...]:
    each = ", ".join(
        f"{name} {count / messages:.2f}" for name, count in asked.most_common() if count / messages >= 0.01
    )
    return what, f"{messages / took:,.0f}", f"{asked.total() / messages:.2f}", each
