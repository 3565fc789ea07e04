"""Messages that go back under virtual time: a machine's ``MessageStore``, and what became of each message."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from simulator.host.triggers.messages import MessageGone
from simulator.virtual.storage.network import Network, Request
from singleton.stores.messages import Hidden, Sent
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from simulator.virtual.time.machine import Machine
    from simulator.virtual.workloads.queues import Queues
    from singleton.base.events import LockEvent


class VirtualQueue:
    """A machine's ``MessageStore``: each call is a request over the network."""

    def __init__(self, network: Network, queues: Queues, machine: Machine, name: str) -> None:
        self._network = network
        self._queues = queues
        self._machine = machine
        self._name = name

    async def create(self) -> None:
        """See ``MessageStore.create``."""
        await self._send("queue create", lambda: None)

    async def hide(self, id: str, receipt: str, seconds: int) -> Hidden:  # noqa: A002
        """See ``MessageStore.hide``."""
        void = await self._send("queue update", partial(self._queues.set_visibility, self._name, id, receipt, seconds))
        return Hidden(void, self._queues.loop.now + seconds)

    async def send(self, text: str, *, delay: int, life: int | None) -> Sent:  # noqa: ARG002 - no world lives so long
        """See ``MessageStore.send``."""
        name = await self._send("queue send", partial(self._queues.send, self._name, text, delay))
        return Sent(name, "0")

    async def delete(self, id: str, receipt: str) -> None:  # noqa: A002
        """See ``MessageStore.delete``."""
        await self._send("queue delete", partial(self._queues.delete, self._name, id, receipt))

    async def aclose(self) -> None:
        """See ``MessageStore.aclose``."""

    async def _send(self, call: str, execute: Callable[[], Any]) -> Any:
        try:
            return await self._network.send(Request(self._machine, call, self._name, execute))
        except MessageGone as gone:
            raise StoreFailure(404, "MessageNotFound", str(gone)) from gone


class Account:
    """Which messages were handled, by themselves or as a copy that went back in their place."""

    def __init__(self) -> None:
        self._handled: set[str] = set()
        self._copies: dict[str, set[str]] = defaultdict(set)

    def hear(self, event: LockEvent) -> None:
        """Take an event: a message that is put back is told of before its invocation ends."""
        if event.kind == "deferred" and event.message_id and event.copy_id:
            self._copies[event.message_id].add(event.copy_id)

    def succeeded(self, message: str) -> None:
        """Take the success of an invocation: with a message that was put back, nothing was done."""
        if message not in self._copies:
            self._handled.add(message)

    def handled(self, message: str) -> bool:
        """Tell whether the message, or a copy of it, was handled."""
        return any(name in self._handled for name in self._family(message))

    def vanished(self, sent: Iterable[str], left: set[str]) -> list[str]:
        """Return those that were neither handled nor are left."""
        return sorted(name for name in sent if not self.handled(name) and left.isdisjoint(self._family(name)))

    @property
    def put_back(self) -> int:
        """How often a message was put back."""
        return sum(map(len, self._copies.values()))

    def _family(self, message: str) -> set[str]:
        family, new = set(), {message}
        while new:
            family |= new
            new = {copy for name in new for copy in self._copies.get(name, ())} - family
        return family
