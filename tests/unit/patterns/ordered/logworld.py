"""The logs of one key on a service that loses, delays and doubles requests: senders, and readers that die or stall."""

from __future__ import annotations

import asyncio
import functools
import itertools
from typing import TYPE_CHECKING, Any

from singleton.patterns.ordered.entries import Entry, checked_body
from singleton.patterns.ordered.log_reader import LogReader, Position
from singleton.patterns.ordered.protocol import Names
from singleton.patterns.ordered.service import Sender
from singleton.stores.protocol import StoreFailure
from singleton.testing.storage.memory_store import MemoryLeaseStore

if TYPE_CHECKING:
    import random

NAMES = Names("orders")


class Network:
    """The way to a store: each request may be lost, carried out late, twice, or answered to nobody."""

    def __init__(self, store: MemoryLeaseStore, rng: random.Random, trouble: float) -> None:
        self.store = store
        self.rng = rng
        self.trouble = trouble
        self.late: set[asyncio.Task[Any]] = set()

    def __getattr__(self, call: str) -> Any:
        return functools.partial(self._ask, getattr(self.store, call))

    async def _ask(self, request: Any, *args: Any) -> Any:
        await asyncio.sleep(self.rng.uniform(0, 0.02))
        if self.rng.random() >= self.trouble:
            answer = await request(*args)
            await asyncio.sleep(self.rng.uniform(0, 0.02))
            return answer
        fate = self.rng.choice(("lost", "late", "unanswered", "twice"))
        if fate in ("unanswered", "twice"):
            await _quietly(request(*args))
        if fate in ("late", "twice"):
            self._later(request, args)
        raise StoreFailure(detail=fate)

    def _later(self, request: Any, args: tuple[Any, ...]) -> None:
        async def arrive() -> None:
            await asyncio.sleep(self.rng.choice((0.05, 0.3, 2.0, 8.0)))
            await _quietly(request(*args))

        task = asyncio.create_task(arrive())
        self.late.add(task)
        task.add_done_callback(self.late.discard)

    async def rest(self) -> None:
        while self.late:
            await asyncio.wait({*self.late})


async def _quietly(request: Any) -> None:
    try:
        await request
    except StoreFailure:
        return


class World:
    """One key. ``sent`` has what was acknowledged, with the times of its send; ``handled`` what was read, in order."""

    def __init__(self, rng: random.Random, *, most_blocks: int, trouble: float) -> None:
        self.rng = rng
        self.store = MemoryLeaseStore()
        self.store.most_blocks = most_blocks
        self.network = Network(self.store, rng, trouble)
        self.sent: list[tuple[float, float, str]] = []
        self.unsure: list[str] = []
        self.handled: list[str] = []
        self.kept = Position().kept("log", 0.0)
        self.zombies: set[asyncio.Task[Any]] = set()
        self.sending = 0
        self.forgotten: list[str] = []

    async def send(self, label: str, count: int) -> None:
        """Send messages one after the other, as one process."""

        async def ring(_: str) -> bool:
            return True

        store: Any = self.network
        sender = Sender(store, NAMES, wall=asyncio.get_running_loop().time)
        self.sending += 1
        for number in range(count):
            text = f"{label}{number}"
            began = asyncio.get_running_loop().time()
            kind, body = checked_body("k", text)
            try:
                await sender.send("k", Entry("", 0, "k", kind, body), ring)
            except Exception:  # noqa: BLE001 - the send failed: it may be there or not
                self.unsure.append(text)
            else:
                self.sent.append((began, asyncio.get_running_loop().time(), text))
            await asyncio.sleep(self.rng.choice((0, 0, 0.01, 0.5, 3.0)))
        self.sending -= 1

    async def read(self) -> None:
        """Read and handle, in readers that die at any time, until all is sent and read."""
        store: Any = self.network
        while True:
            position = Position.read("k", self.kept)
            reader = LogReader(store, NAMES, "k", position)
            try:
                async with asyncio.timeout(self.rng.choice((0.05, 0.3, 1.0, 5.0, 60.0))):
                    if await self._visit(reader, position) and not self.sending:
                        await self.network.rest()
                        if not [name for name in self.store.names() if name == NAMES.log("k")]:
                            return
            except TimeoutError:
                pass
            await asyncio.sleep(self.rng.choice((0, 0.1, 1.0)))

    async def _visit(self, reader: LogReader, position: Position) -> bool:
        try:
            while True:
                asked = asyncio.get_running_loop().time()
                entries = await self._more(reader)
                if not entries:
                    break
                for entry in entries:
                    if not position.is_repeat(entry):
                        self.handled.append(entry.value)  # a reader that dies between these two repeats it
                        if self.rng.random() < self.network.trouble / 2:
                            self.handled.pop()
                            self.handled.append(entry.value + "?")
                            return False
                        position.passed(entry)
                        self.kept = position.kept("log", 0.0)
                        await asyncio.sleep(0.001)
                    else:
                        position.passed(entry)
            self._is_read_to_its_end(asked)
            return True
        except Exception:  # noqa: BLE001 - the storage did not answer
            return False

    def _is_read_to_its_end(self, asked: float) -> None:
        """Note what was there when a reader asked for more, and was told that there is none: its bell is dropped."""
        handled = {*self.handled}
        self.forgotten += [text for _, ended, text in self.sent if ended < asked and text not in handled]

    async def _more(self, reader: LogReader) -> list[Entry]:
        """Have the reader go on; one that is given up may stall, and go on beside the next."""
        task = asyncio.create_task(reader.more())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if self.rng.random() < 0.5:
                task.cancel()
            self.zombies.add(task)
            raise

    async def run(self, senders: int, messages: int) -> None:
        async with asyncio.timeout(3_000):
            await asyncio.gather(self.read(), *(self.send(chr(97 + n), messages) for n in range(senders)))
        if self.zombies:
            await asyncio.wait(self.zombies)
        for task in self.zombies:
            if not task.cancelled():
                task.exception()
        await self.network.rest()  # what a zombie asked for last

    def judge(self) -> None:
        """Everything that was acknowledged was handled, once, and in order."""
        firmly = [text for text in self.handled if not text.endswith("?")]
        assert len(firmly) == len({*firmly}), f"handled twice: {firmly}"
        assert {*firmly} <= {text for *_, text in self.sent} | {*self.unsure}, "handled, but not sent"
        missing = {text for *_, text in self.sent} - {*firmly}
        assert not missing, f"lost: {missing}"
        assert not self.forgotten, f"a bell was dropped before these were handled: {self.forgotten}"
        place = {text: number for number, text in enumerate(firmly)}
        for began, _, later in self.sent:
            for _, ended, earlier in self.sent:
                if ended < began:
                    assert place[earlier] < place[later], f"{later} before {earlier}: {firmly}"
        in_hand = [text.rstrip("?") for text in self.handled]
        for one, other in itertools.pairwise(in_hand):
            assert place.get(one, 0) <= place.get(other, 0), f"more than the one in hand was repeated: {self.handled}"
