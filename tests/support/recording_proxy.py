"""The proxy of ``simulator.proxy``, which also writes each request down, and whose rules may be used up.

    async with RecordingProxy(azurite.blob_port) as proxy:
        client = BlobServiceClient.from_connection_string(proxy.connection_string(azurite.connection_string))
        proxy.add(on("renew"), Answer(503, "ServerBusy", {"Retry-After": "1"}), uses=2)
        ...
        assert proxy.operations() == ["acquire", "renew", "renew", "renew", "release"]

If the event loop may be blocked, or there is none, use ``ProxyThread``: it has the same methods, a thread and a loop of
its own, and ``with`` instead of ``async with``.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from simulator.proxy.actions import Action, Match, ProxyRule, everything
from simulator.proxy.exchange import Exchange, ProxyRequest
from simulator.proxy.proxy import HOST, FaultProxy

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from simulator.proxy import wire

_T = TypeVar("_T")


def on(*operations: str, path: str = "", lease_id: str | None = None) -> Match:
    """Match requests of one of these operations (all, if none is named) whose path contains `path`."""

    def matches(request: ProxyRequest) -> bool:
        ids = {request.headers.get("x-ms-lease-id"), request.headers.get("x-ms-proposed-lease-id")}
        named = not operations or request.operation in operations
        return named and path in request.path and (lease_id is None or lease_id in ids)

    return matches


def name_of(action: Action) -> str:
    """Return the name of an action: of its function or its class."""
    return getattr(action, "__name__", type(action).__name__)


@dataclass(frozen=True, slots=True)
class Truncate:
    """Send the first `length` bytes of the server's reply, then reset the connection."""

    length: int = 20

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.send((await exchange.forward()).raw[: self.length])
        exchange.reset()


@dataclass(frozen=True, slots=True)
class Drip:
    """Send the server's reply `length` bytes at a time, `interval` seconds apart: no read time-out notices."""

    interval: float
    length: int = 1

    async def __call__(self, exchange: Exchange) -> None:
        reply = await exchange.forward()
        raw = reply.raw
        while len(raw) > self.length:
            await exchange.send(raw[: self.length])
            raw = raw[self.length :]
            await asyncio.sleep(self.interval)
        await exchange.reply(replace(reply, raw=raw))


@dataclass(slots=True, kw_only=True)
class LimitedRule(ProxyRule):
    """A rule that applies `uses` times at most, after the first `skip` requests went through."""

    uses: int | None = None
    skip: int = 0

    def applies(self, request: ProxyRequest) -> bool:
        """Tell whether the rule applies to this request, and count it."""
        if self.uses is not None and self.matched >= self.skip + self.uses:
            return False
        return ProxyRule.applies(self, request) and self.matched > self.skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded(ProxyRequest):
    """A request and its fate. A new record replaces the old record when more is known."""

    started: float
    """Monotonic seconds at which it had arrived completely."""
    ended: float | None = None
    """Monotonic seconds at which it was answered or given up; None before that."""
    fault: str | None = None
    """The name of the action that a rule applied."""
    server_status: int | None = None
    """The status from the server, also if the client got no answer; None: the server did not get the request."""
    status: int | None = None
    """The status that the client got; None without a complete reply."""
    error_code: str | None = None
    """The storage error code in the answer, the server's if the client got none."""

    @property
    def proposed_lease_id(self) -> str | None:
        """The requested lease id."""
        return self.headers.get("x-ms-proposed-lease-id")


class RecordingProxy(FaultProxy):
    """The proxy, in the running event loop, while its `async with` block lasts. Any thread may read its records."""

    def __init__(self, target_port: int) -> None:
        """Prepare a proxy before this port."""
        super().__init__(target_port)
        self._requests: dict[int, Recorded] = {}
        self.news = asyncio.Event()  # that of the next news, in the proxy's loop

    def connection_string(self, original: str) -> str:
        """Return the connection string with the endpoint behind this proxy replaced by the proxy.

        Raises:
            ValueError: no endpoint of the connection string has the proxy's target port.
        """
        changed, count = re.subn(rf"//[^/:;]+:{self.target[1]}\b", f"//{HOST}:{self.port}", original)
        if not count:
            raise ValueError(f"No endpoint of the connection string has port {self.target[1]}, the proxy's target.")
        return changed

    def add(self, match: Match, action: Action, *, uses: int | None = None, skip: int = 0) -> ProxyRule:
        """Add a rule; of several that match a request, the one added first applies until it is used up."""
        return self.added(LimitedRule(match=match, action=action, uses=uses, skip=skip))

    def clear(self) -> None:
        """Remove all rules."""
        with self._lock:
            self._rules = []

    @contextlib.contextmanager
    def fault(self, match: Match, action: Action, *, uses: int | None = None) -> Iterator[ProxyRule]:
        """Add the rule inside a `with` block."""
        rule = self.add(match, action, uses=uses)
        try:
            yield rule
        finally:
            self.remove(rule)

    @property
    def requests(self) -> tuple[Recorded, ...]:
        """All requests so far, in the order of their arrival; `ended` is None for those under way."""
        with self._lock:
            return tuple(self._requests.values())

    def operations(self, match: Match = everything) -> list[str]:
        """Name the requested operations, in order: `["acquire", "metadata", "release"]`."""
        return [request.operation for request in self.requests if match(request)]

    def count(self, match: Match = everything) -> int:
        """Count the requests so far."""
        return sum(1 for request in self.requests if match(request))

    def forget(self) -> None:
        """Start to count anew; requests that are under way don't appear any more."""
        with self._lock:
            self._requests = {}

    async def seen(self, match: Match = everything, *, count: int = 1, timeout: float = 30.0) -> None:
        """Wait until so many matching requests have arrived since the start or the last `forget`.

        Raises:
            TimeoutError: they did not, within `timeout` seconds.
        """
        async with asyncio.timeout(timeout):
            while self.count(match) < count:
                await self.news.wait()

    # --- writing down -------------------------------------------------------------------------------------------------

    def note(self, request: ProxyRequest, **changes: object) -> None:
        """Write down what is now known of a request."""
        with self._lock:
            if (known := self._requests.get(request.number)) is not None:
                self._requests[request.number] = replace(known, **changes)  # type: ignore[arg-type]
        self._spread()

    def end(self, request: ProxyRequest) -> None:
        """Write down that a request was answered or given up, if it is not written yet."""
        known = self._requests.get(request.number)
        if known is not None and known.ended is None:
            self.note(request, ended=time.monotonic())

    def rule_for(self, request: ProxyRequest) -> ProxyRule | None:
        """Find the rule that applies, and write its action down."""
        rule = super().rule_for(request)
        if rule is not None:
            self.note(request, fault=name_of(rule.action))
        return rule

    async def carry_out(self, exchange: Exchange) -> None:
        """Do to a request what the rule says that applies, and write the end down."""
        try:
            await super().carry_out(exchange)
        finally:
            self.end(exchange.request)

    def _arrived(self, message: wire.HttpMessage) -> ProxyRequest:
        request = super()._arrived(message)
        known = {each.name: getattr(request, each.name) for each in fields(request)}
        with self._lock:
            self._requests[request.number] = Recorded(**known, started=time.monotonic())
        self._spread()
        return request

    def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange:
        return _RecordingExchange(self, reader, writer)

    def _spread(self) -> None:
        news, self.news = self.news, asyncio.Event()
        news.set()


class _RecordingExchange(Exchange):
    def __init__(self, proxy: RecordingProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(proxy.target, reader, writer, proxy._later)
        self._proxy = proxy

    async def forward(self) -> wire.HttpMessage:
        reply = await super().forward()
        error = reply.headers.get("x-ms-error-code")
        self._proxy.note(self.request, server_status=reply.status, error_code=error)
        return reply

    async def reply(self, message: wire.HttpMessage) -> None:
        """Write it down before the client gets it."""
        self._proxy.note(self.request, status=message.status, error_code=message.headers.get("x-ms-error-code"))
        self._proxy.end(self.request)
        await super().reply(message)

    def reset(self) -> None:
        self._proxy.end(self.request)
        super().reset()


class ProxyThread(RecordingProxy):
    """The proxy with a thread and an event loop of its own, while its `with` block lasts."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._thread.start()
        return self._run(self.__aenter__())

    def __exit__(self, *_: object) -> None:
        self._run(self.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def wait(self, match: Match = everything, *, count: int = 1, timeout: float = 30.0) -> None:
        """Wait, blocking, until so many matching requests have arrived since the start or the last `forget`.

        Raises:
            TimeoutError: they did not, within `timeout` seconds.
        """
        self._run(self.seen(match, count=count, timeout=timeout))

    def reset_connections(self) -> None:
        """Reset all connections of clients, idle ones too, as a network that comes and goes would."""
        self._loop.call_soon_threadsafe(super().reset_connections)

    def _run(self, what: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result()
