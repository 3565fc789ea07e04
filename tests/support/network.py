"""A network between a lock and the service's model: requests take time, get lost, get late, or are answered wrongly.

A request in flight belongs to the network, not to its sender: one whose sender gave up still arrives.
"""

from __future__ import annotations

import asyncio
import copy
import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from singleton.stores.protocol import NOTHING, BlobState, Content, StoreFailure
from singleton.testing.storage.memory_store import MemoryLeaseStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from singleton.stores.lock_keeping import Page
    from singleton.stores.log_store import Tail

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What becomes of one request."""

    up: float = 0.01
    """Seconds until the service carries it out; infinite: it is lost."""
    down: float = 0.01
    """Seconds until the reply is back; infinite: it is lost."""
    failure: BaseException | None = None
    """Answered instead."""
    executed: bool = True
    """Whether the service carries it out although it is answered with ``failure``."""


FINE = Fate()
LOST_REQUEST = Fate(up=math.inf)
LOST_REPLY = Fate(down=math.inf)


def answered(
    status: int | None = None, code: str | None = None, *, retry_after: float | None = None, executed: bool = False
) -> Fate:
    """A failure in place of an answer; as a rule, nothing was carried out."""
    return Fate(failure=StoreFailure(status, code, "", retry_after), executed=executed)


def answered_in_between(status: int) -> Fate:
    """A page of something in between, in place of the answer to a request that was carried out."""
    return Fate(failure=StoreFailure(status, source="between"), executed=True)


def raising(error: BaseException) -> Fate:
    """An exception that no store should raise."""
    return Fate(failure=error, executed=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it was sent."""

    call: str
    name: str
    lease_id: str | None
    sent: float


class Network:
    """A ``BlobStore`` in front of the service's model; each host may have one of its own."""

    def __init__(self, service: MemoryLeaseStore | None = None) -> None:
        self.service = service or MemoryLeaseStore()
        self.requests: list[Request] = []
        self.took: list[tuple[Request, float]] = []
        self.decide: Callable[[Request], Fate] | None = None
        self.watchers: list[Callable[[], None]] = []
        self._planned: dict[str, deque[Fate]] = {}
        self._always: dict[str, Fate] = {}

    # --- what is to happen ---

    def plan(self, call: str, *fates: Fate) -> None:
        """Give the next requests of this kind these fates, in this order."""
        self._planned.setdefault(call, deque()).extend(fates)

    def always(self, call: str, fate: Fate) -> None:
        """Give all requests of this kind this fate, from now on."""
        self._always[call] = fate

    def fail_all(self, fate: Fate) -> None:
        """Give all requests this fate, from now on."""
        for call in ("acquire", "renew", "release", "create", "read", "write", "put", "get"):
            self.always(call, fate)

    def heal(self) -> None:
        """Let all go well from now on."""
        self._always.clear()
        self._planned.clear()
        self.decide = None

    # --- what happened ---

    def sent(self, call: str) -> list[Request]:
        """Return the requests of this kind, in order."""
        return [request for request in self.requests if request.call == call]

    def calls(self) -> list[str]:
        """Return the kinds of all requests, in order."""
        return [request.call for request in self.requests]

    # --- the store ---

    async def acquire(self, name: str, lease_id: str, duration: int) -> str:
        return await self._send("acquire", name, lease_id, lambda: self.service.acquire(name, lease_id, duration))

    async def renew(self, name: str, lease_id: str) -> str:
        return await self._send("renew", name, lease_id, lambda: self.service.renew(name, lease_id))

    async def release(self, name: str, lease_id: str) -> None:
        await self._send("release", name, lease_id, lambda: self.service.release(name, lease_id))

    async def evict(self, name: str, whose: str, etag: str) -> None:
        await self._send("evict", name, whose, lambda: self.service.evict(name, whose, etag))

    async def break_(self, name: str, etag: str | None = None, after: int | None = 0) -> int:
        return await self._send("break", name, None, lambda: self.service.break_(name, etag, after))

    async def create(self, name: str, metadata: Mapping[str, str] = NOTHING) -> BlobState | None:
        return await self._send("create", name, None, lambda: self.service.create(name, metadata))

    async def read(self, name: str) -> BlobState:
        return await self._send("read", name, None, lambda: self.service.read(name))

    async def write(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str) -> str:
        return await self._send("write", name, lease_id, lambda: self.service.write(name, lease_id, metadata, etag))

    async def put(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str, body: bytes) -> str:
        return await self._send("put", name, lease_id, lambda: self.service.put(name, lease_id, metadata, etag, body))

    async def get(self, name: str, lease_id: str | None, most: int) -> Content:
        return await self._send("get", name, lease_id, lambda: self.service.get(name, lease_id, most))

    async def page(self, prefix: str, marker: str | None = None, most: int = 5000) -> Page:
        return await self._send("page", prefix, None, lambda: self.service.page(prefix, marker, most))

    async def note(self, name: str, metadata: Mapping[str, str]) -> None:
        await self._send("note", name, None, lambda: self.service.note(name, metadata))

    async def noted(self, name: str) -> Mapping[str, str]:
        return await self._send("noted", name, None, lambda: self.service.noted(name))

    async def remove(self, name: str) -> None:
        await self._send("remove", name, None, lambda: self.service.remove(name))

    async def start_log(self, name: str, metadata: Mapping[str, str]) -> bool:
        return await self._send("start_log", name, None, lambda: self.service.start_log(name, metadata))

    async def append(self, name: str, block: bytes) -> int:
        return await self._send("append", name, None, lambda: self.service.append(name, block))

    async def tail(self, name: str, start: int, most: int) -> Tail:
        return await self._send("tail", name, None, lambda: self.service.tail(name, start, most))

    async def label(self, name: str, metadata: Mapping[str, str], etag: str) -> str:
        return await self._send("label", name, None, lambda: self.service.label(name, metadata, etag))

    async def drop(self, name: str, etag: str) -> None:
        await self._send("drop", name, None, lambda: self.service.drop(name, etag))

    async def aclose(self) -> None:
        await self.service.aclose()

    async def _send(
        self, call: str, name: str, lease_id: str | None, execute: Callable[[], Coroutine[Any, Any, _T]]
    ) -> _T:
        loop = asyncio.get_running_loop()
        request = Request(call=call, name=name, lease_id=lease_id, sent=loop.time())
        self.requests.append(request)
        fate = self._fate(request)
        reply: asyncio.Future[_T] = loop.create_future()

        def answer(value: Any, failure: BaseException | None) -> None:
            if reply.done():
                return
            if failure is not None:
                reply.set_exception(copy.copy(failure))
            else:
                reply.set_result(value)

        def arrive() -> None:
            value, failure = _at_once(execute()) if fate.executed else (None, None)
            for watcher in self.watchers:
                watcher()
            if fate.down < math.inf:
                loop.call_later(fate.down, answer, value, fate.failure or failure)

        if fate.up < math.inf:
            loop.call_later(fate.up, arrive)
        try:
            return await reply
        finally:
            if reply.done() and not reply.cancelled():
                reply.exception()
            self.took.append((request, loop.time() - request.sent))

    def _fate(self, request: Request) -> Fate:
        if planned := self._planned.get(request.call):
            return planned.popleft()
        if request.call in self._always:
            return self._always[request.call]
        return self.decide(request) if self.decide is not None else FINE


def _at_once(coro: Coroutine[Any, Any, _T]) -> tuple[_T | None, StoreFailure | None]:
    """Carry out a request of the model, which never waits."""
    try:
        coro.send(None)
    except StopIteration as done:
        return done.value, None
    except StoreFailure as failure:
        return None, failure
    raise AssertionError("the model waited")
