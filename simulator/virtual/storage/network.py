"""The network between machines and the service: delay, loss of requests or replies, duplicates, partitions, throttling.

A request on the wire belongs to the network, not to the machine that sent it: a paused or dead machine's request still
arrives. So there are orphaned acquires and late renewals.
"""

from __future__ import annotations

import contextvars
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, ParamSpec

from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    import asyncio
    import random
    from collections.abc import Callable

    from simulator.virtual.time.loop import VirtualLoop
    from simulator.virtual.time.machine import Machine
    from singleton.settings.accounts import LockContainer

_P = ParamSpec("_P")

SOON: Final = 0.4
"""Seconds within which a request is answered without faults."""
SPOILINGS: Final = {
    "page": "are answered by a proxy, with a page and without an error code",
    "cut": "are carried out, and their answers break off",
    "another": "are carried out, and get answers to other requests",
    "doubtful": "are carried out, and get answers that can be read in two ways",
}
"""What may come in place of the service's answer."""


class Spoilt(StoreFailure):
    """Something else comes in place of the service's answer; the store owes its caller a failure without a code."""

    def __init__(self, how: str) -> None:
        super().__init__(detail=SPOILINGS[how])
        self.how = how


class Passage:
    """What the network does to one request. Rules change it; by default all goes well.

    Attributes:
        out, back: seconds that request and reply take.
        unsent: raised on the machine instead of sending it.
        unread: raised on the machine instead of reading the reply.
    """

    lost = reply_lost = reset = False
    copies = 1
    copy_delay = 0.0
    answer: StoreFailure | None = None
    unsent: Exception | None = None
    unread: Exception | None = None

    def __init__(self, out: float, back: float) -> None:
        self.out = out
        self.back = back

    @property
    def good(self) -> bool:
        """Tell whether the sender gets the service's own answer, soon."""
        spoiled = self.answer or self.unsent or self.unread
        return not (self.lost or self.reply_lost or spoiled) and self.out + self.back < SOON

    @property
    def strange(self) -> bool:
        """Tell whether the sender gets an error that no store should raise, or an answer that makes asking useless.

        What a caller is told then may be any error of the product.
        """
        given = (self.answer, self.unsent, self.unread)
        return any(
            error is not None and not (isinstance(error, StoreFailure) and error.meaning in ("transient", "denied"))
            for error in given
        )

    @property
    def denied(self) -> bool:
        """Tell whether the sender is denied access."""
        return any(
            isinstance(error, StoreFailure) and error.meaning == "denied" for error in (self.answer, self.unsent)
        )


@dataclass(slots=True, eq=False)
class NetworkRequest:
    """A request: the machine, the name, the call at the service, the lease, and the receiver of the reply.

    Not changed after its sending, but not frozen: a frozen object would take twice as long to make.
    """

    machine: Machine
    call: str
    name: str
    execute: Callable[[], Any]
    lease_id: str | None = None
    place: LockContainer | None = None
    closed: bool = False
    """Whether its store was closed before."""
    args: tuple[Any, ...] = field(default=(), compare=False)
    """Its arguments beside the name."""
    sent: float = field(default=0.0, compare=False)
    """When its store was asked for it, by the clock of its machine."""


class Network:
    """Carries requests. ``rules`` are asked in order about each; a fault adds and removes them."""

    def __init__(self, loop: VirtualLoop, rng: random.Random, latency: tuple[float, float]) -> None:
        self.rules: list[Callable[[NetworkRequest, Passage], None]] = []
        self.reached: Counter[str] = Counter()
        self.on_send: Callable[[NetworkRequest, Passage], None] = lambda *_: None
        self.on_loss: Callable[[NetworkRequest], None] = lambda *_: None
        self.on_answer: Callable[[NetworkRequest, Exception | None, Passage], None] = lambda *_: None
        self.on_reply: Callable[[NetworkRequest, Exception | None, Any], None] = lambda *_: None
        self._loop = loop
        self._rng = rng
        self._low, self._spread = latency[0], latency[1] - latency[0]
        self._wire = contextvars.Context()

    def now(self) -> float:
        """Return the true time."""
        return self._loop.now

    def send(self, request: NetworkRequest) -> asyncio.Future[Any]:
        """Send a request; the future gets the reply, an error, or nothing ever."""
        future: asyncio.Future[Any] = self._loop.create_future()
        low, spread, draw = self._low, self._spread, self._rng.random
        passage = Passage(low + spread * draw(), low + spread * draw())
        request.sent = request.sent or request.machine.reads(self._loop.now)
        for rule in self.rules:
            rule(request, passage)
        self.on_send(request, passage)
        if passage.unsent is None and not passage.lost:
            due = self._loop.now + passage.out
            self._loop.set_timer(due, (self._arrive, future, request, passage), self._loop.nobody, None)
            for copy in range(1, passage.copies):
                self._loop.later(passage.out + copy * passage.copy_delay, self._arrive, future, request, passage)
        else:
            self._lose(future, request, passage)
        return future

    def _lose(self, future: asyncio.Future[Any], request: NetworkRequest, passage: Passage) -> None:
        self._wire.run(self.on_loss, request)
        if passage.unsent is not None:
            self._loop.later(passage.out, self._deliver, future, request, None, passage.unsent)
        elif passage.reset:
            self._loop.later(passage.out, self._deliver, future, request, None, _reset())

    def _arrive(self, future: asyncio.Future[Any], request: NetworkRequest, passage: Passage) -> None:
        answer: Any = None
        failure: Exception | None = passage.answer
        if failure is None:
            try:
                answer = request.execute()
            except Exception as error:  # noqa: BLE001 - the service's answer, whatever kind its protocol has
                failure = error
        self.on_answer(request, failure, passage)
        if failure is None and (passage.reply_lost or future.cancelled()):
            self.reached[f"{request.call} applied, reply lost"] += 1
        if not passage.reply_lost:
            self._loop.set_timer(
                self._loop.now + passage.back,
                (self._deliver, future, request, answer, passage.unread or failure),
                self._loop.nobody,
                None,
            )
        elif passage.reset:
            self._loop.later(passage.back, self._deliver, future, request, None, _reset())
        del failure, future  # its traceback has this frame: a cycle that reference counts never free

    def _deliver(
        self, future: asyncio.Future[Any], request: NetworkRequest, answer: Any, failure: Exception | None
    ) -> None:
        if future.done():
            return
        self.on_reply(request, failure, answer)
        if failure is None:
            future.set_result(answer)
        else:
            future.set_exception(failure)


def both(first: Callable[_P, object], second: Callable[_P, object]) -> Callable[_P, None]:
    """Return a function that tells two listeners: for an event of the network, or of the service."""

    def tell(*args: _P.args, **kwargs: _P.kwargs) -> None:
        first(*args, **kwargs)
        second(*args, **kwargs)

    return tell


def _reset() -> StoreFailure:
    return StoreFailure(detail="connection reset")
