"""Messages a second through an inbox on the emulator, handled in order, and what each asks of the storage."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from simulator.azurite.server import Azurite
from singleton import Inbox
from singleton.process.current import shutdown
from singleton.stores.counting import count_requests

if TYPE_CHECKING:
    from singleton import InboxMessage

_ROUNDS: Final = ((1, 500), (20, 50))
"""Keys, and messages of each."""


def main() -> None:
    """Print what a sender and a worker get done, in one process."""
    asked: Counter[str] = Counter()
    end = count_requests(lambda operation, _: asked.update([operation]))
    try:
        with Azurite() as azurite:
            for keys, messages in _ROUNDS:
                asyncio.run(_measure(Inbox(f"bench-{keys}", azurite.connection_string), keys, messages, asked))
    finally:
        end()
        shutdown()


async def _measure(inbox: Inbox, keys: int, messages: int, asked: Counter[str]) -> None:
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
    _say(f"{keys} keys, sent", whole, time.perf_counter() - began, asked)
    asked.clear()
    began = time.perf_counter()
    async with inbox.worker(handle, keys=20):
        await done.wait()
        took = time.perf_counter() - began
    _say(f"{keys} keys, handled", whole, took, asked)


def _say(what: str, messages: int, took: float, asked: Counter[str]) -> None:
    each = ", ".join(f"{name} {count / messages:.2f}" for name, count in asked.most_common())
    sys.stdout.write(f"  {what:18} {messages / took:6,.0f} a second; requests a message: {each}\n")
