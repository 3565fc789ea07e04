"""A proxy between storage clients and Azurite: it counts every request, and breaks requests by rules.

    async with FaultProxy(azurite.blob_port) as proxy:
        client = BlobServiceClient.from_connection_string(proxy.connection_string(azurite.connection_string))
        proxy.add(on("renew"), Answer(503, "ServerBusy", {"Retry-After": "1"}), uses=2)
        ...
        assert proxy.operations() == ["acquire", "renew", "renew", "renew", "release"]

SharedKey still verifies, because the signature covers the path and not the port. One proxy is in front of one port; for
queues use a second one. Requests of one connection go one after another, connections are kept alive on both sides, and
bytes are passed on as they came.

`FaultProxy` lives in the event loop that enters it. If that loop may be blocked, or there is none, use `ProxyThread`:
it has the same methods, a thread and a loop of its own, and `with` instead of `async with`.

Rules and records are on a `RuleBoard`, which any thread may use.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import threading
import time
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from simulator.proxy import wire
from simulator.proxy.actions import Action, Match, PassOn, ProxyRule, everything
from simulator.proxy.exchange import Exchange, ProxyRequest, reset

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator


HOST = "127.0.0.1"


class RuleBoard:
    """A test writes rules here, and reads requests, while the proxy runs."""

    def __init__(self, target_port: int, *, keep: bool = True) -> None:
        """Prepare for a server on this port; without `keep` no request is remembered, for runs of many."""
        self._keeps = keep
        self.target = (HOST, target_port)
        self.port = 0
        self._rules: list[ProxyRule] = []
        self._requests: dict[int, ProxyRequest] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()
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
        rule = ProxyRule(match=match, action=action, uses=uses, skip=skip)
        with self._lock:
            self._rules.append(rule)
        return rule

    def remove(self, rule: ProxyRule) -> None:
        """Remove a rule if it is still there. Requests that are delayed or hang already stay so."""
        with self._lock:
            self._rules = [other for other in self._rules if other is not rule]

    def clear(self) -> None:
        """Remove all rules."""
        with self._lock:
            self._rules = []

    @contextlib.contextmanager
    def fault(self, match: Match, action: Action, *, uses: int | None = None, skip: int = 0) -> Iterator[ProxyRule]:
        """Add the rule inside a `with` block."""
        rule = self.add(match, action, uses=uses, skip=skip)
        try:
            yield rule
        finally:
            self.remove(rule)

    @property
    def requests(self) -> tuple[ProxyRequest, ...]:
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

    def arrived(self, message: wire.HttpMessage) -> ProxyRequest:
        """Write a request down (the proxy does)."""
        method, target, _ = message.first
        url = urlsplit(target)
        request = ProxyRequest(
            number=next(self._numbers),
            method=method,
            path=unquote(url.path),
            query=dict(parse_qsl(url.query, keep_blank_values=True)),
            headers=message.headers,
            started=time.monotonic(),
        )
        if self._keeps:
            with self._lock:
                self._requests[request.number] = request
            self._spread()
        return request

    def changed(self, request: ProxyRequest) -> None:
        """Replace the record of a request (the proxy does)."""
        if not self._keeps:
            return
        with self._lock:
            if request.number in self._requests:
                self._requests[request.number] = request
        self._spread()

    def rule_for(self, request: ProxyRequest) -> ProxyRule | None:
        """Find the rule that applies, and count its use (the proxy does)."""
        with self._lock:
            return next((rule for rule in self._rules if rule.applies(request)), None)

    def _spread(self) -> None:
        news, self.news = self.news, asyncio.Event()
        news.set()


T = TypeVar("T")

_TO_COME_IN = 4
"""The greatest number of turns of the loop between an accepted connection and the task that serves it."""


class FaultProxy(RuleBoard):
    """The proxy, in the running event loop, while its `async with` block lasts."""

    def __init__(self, target_port: int, *, keep: bool = True) -> None:
        """Prepare a proxy before this port; `port` is its own, once it is entered. For `keep` see `RuleBoard`."""
        super().__init__(target_port, keep=keep)
        self._late: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, HOST, self.port, limit=wire.LIMIT)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        # An accepted connection without a transport would stay open for ever when the server is closed.
        for listening in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listening)
        for _turn in range(_TO_COME_IN):
            await asyncio.sleep(0)
        self._server.close()
        tasks = [*self._connections, *self._late]
        for late in self._late:
            late.cancel()
        for task, writer in self._connections.items():
            # A task that had no turn yet can't close its connection itself.
            writer.transport.abort()
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._server.wait_closed()

    async def seen(self, match: Match = everything, *, count: int = 1, timeout: float = 30.0) -> None:
        """Wait until so many matching requests have arrived since the start or the last `forget`.

        Raises:
            TimeoutError: they did not, within `timeout` seconds.
        """
        async with asyncio.timeout(timeout):
            while self.count(match) < count:
                await self.news.wait()

    def reset_connections(self) -> None:
        """Reset all connections of clients, idle ones too, as a network that comes and goes would."""
        for writer in self._connections.values():
            reset(writer)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections[task] = writer
        task.add_done_callback(self._connections.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchange = Exchange(self.target, reader, writer, self.changed, self._later)
        abort = True
        try:
            # If a client or the server goes away, only the connection ends.
            with contextlib.suppress(OSError, EOFError):
                while not writer.is_closing() and (message := await wire.read_request(reader)):
                    await self._handle(exchange, message)
            abort = False
        finally:
            await exchange.close(abort=abort)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that may last longer than its connection."""
        task = asyncio.get_running_loop().create_task(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _handle(self, exchange: Exchange, message: wire.HttpMessage) -> None:
        exchange.message = message
        exchange.request = self.arrived(message)
        rule = self.rule_for(exchange.request)
        try:
            if rule is None:
                await PassOn()(exchange)
            else:
                exchange.note(fault=rule.name)
                await rule.action(exchange)
        finally:
            exchange.end()


class ProxyThread(FaultProxy):
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

    def _run(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result()
