"""A proxy between hosts and their storage (Azurite, for example): passes requests on, and breaks requests by rules.

    async with FaultProxy(azurite.blob_port) as proxy:
        rule = proxy.add(everything, Answer(503, "ServerBusy", {"Retry-After": "1"}))
        ...
        proxy.remove(rule)

SharedKey still verifies, because the signature covers the path and not the port. A proxy is in front of one port; for
queues use a second proxy. Requests of a connection are served in order, connections are kept alive on both sides, and
bytes are passed on unchanged.

`FaultProxy` lives in the event loop that enters it. Any thread may add and remove rules.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from simulator.proxy import wire
from simulator.proxy.actions import Action, Match, PassOn, ProxyRule
from simulator.proxy.exchange import Exchange, ProxyRequest, reset

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


HOST = "127.0.0.1"

_TO_COME_IN = 4
"""The greatest number of turns of the loop between an accepted connection and the task that serves it."""


class FaultProxy:
    """The proxy, in the running event loop, while its `async with` block lasts."""

    def __init__(self, target_port: int) -> None:
        """Prepare a proxy before a server on `target_port`; the entered proxy listens on `port`."""
        self.target = (HOST, target_port)
        self.port = 0
        self.when_granted: Callable[[ProxyRequest], None] = lambda _: None
        """Is called with each request by which the server granted a lease."""
        self._rules: list[ProxyRule] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._late: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._idle: set[Exchange] = set()

    def add(self, match: Match, action: Action) -> ProxyRule:
        """Add a rule; of several that match a request, the one added first applies."""
        return self.added(ProxyRule(match=match, action=action))

    def added(self, rule: ProxyRule) -> ProxyRule:
        """Put a rule behind the others."""
        with self._lock:
            self._rules.append(rule)
        return rule

    def remove(self, rule: ProxyRule) -> None:
        """Remove a rule, if present. Requests that the rule delays or hangs already stay delayed or hanging."""
        with self._lock:
            self._rules = [other for other in self._rules if other is not rule]

    def rule_for(self, request: ProxyRequest) -> ProxyRule | None:
        """Find the rule for this request, and count the rule's use."""
        with self._lock:
            return next((rule for rule in self._rules if rule.applies(request)), None)

    async def carry_out(self, exchange: Exchange) -> None:
        """Apply the request's rule; pass a request without a rule on."""
        rule = self.rule_for(exchange.request)
        await (PassOn() if rule is None else rule.action)(exchange)

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

    def reset_connections(self) -> None:
        """Reset all connections of clients, the idle too, as a network with interruptions would."""
        for writer in self._connections.values():
            reset(writer)

    def forget_connections(self) -> None:
        """Forget all idle connections of clients, as firewalls do: later requests on them are lost without a word."""
        for exchange in self._idle:
            exchange.forgotten = True

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections[task] = writer
        task.add_done_callback(self._connections.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchange = self._exchange(reader, writer)
        self._idle.add(exchange)
        abort = True
        try:
            # If a client or the server goes away, only the connection ends.
            with contextlib.suppress(OSError, EOFError):
                while not writer.is_closing() and (message := await wire.read_request(reader)):
                    if exchange.forgotten:
                        continue
                    self._idle.discard(exchange)
                    exchange.message, exchange.request = message, self._arrived(message)
                    await self.carry_out(exchange)
                    self._idle.add(exchange)
            abort = False
        finally:
            self._idle.discard(exchange)
            await exchange.close(abort=abort)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work that may last longer than the connection of its request."""
        task = asyncio.get_running_loop().create_task(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange:
        exchange = Exchange(self.target, reader, writer, self._later)
        exchange.when_granted = self.when_granted
        return exchange

    def _arrived(self, message: wire.HttpMessage) -> ProxyRequest:
        method, target, _ = message.first
        url = urlsplit(target)
        return ProxyRequest(
            number=next(self._numbers),
            method=method,
            path=unquote(url.path),
            query=dict(parse_qsl(url.query, keep_blank_values=True)),
            headers=message.headers,
        )
