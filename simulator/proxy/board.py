"""Rules and records: what a proxy must do, and what it saw. Usable from any thread."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from simulator.proxy.exchange import Request
from simulator.proxy.rules import Action, Match, Rule, everything

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.proxy import wire

HOST = "127.0.0.1"


class Board:
    """A test writes rules here, and reads requests, while the proxy runs."""

    def __init__(self, target_port: int, *, keep: bool = True) -> None:
        """Prepare for a server on this port; without `keep` no request is remembered, for runs of many."""
        self._keeps = keep
        self.target = (HOST, target_port)
        self.port = 0
        self._rules: list[Rule] = []
        self._requests: dict[int, Request] = {}
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

    def add(self, match: Match, action: Action, *, uses: int | None = None, skip: int = 0) -> Rule:
        """Add a rule; of several that match a request, the one added first applies until it is used up."""
        rule = Rule(match=match, action=action, uses=uses, skip=skip)
        with self._lock:
            self._rules.append(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Remove a rule if it is still there. Requests that it has delayed or hung stay so."""
        with self._lock:
            self._rules = [other for other in self._rules if other is not rule]

    def clear(self) -> None:
        """Remove all rules."""
        with self._lock:
            self._rules = []

    @contextlib.contextmanager
    def fault(self, match: Match, action: Action, *, uses: int | None = None, skip: int = 0) -> Iterator[Rule]:
        """Add the rule inside a `with` block."""
        rule = self.add(match, action, uses=uses, skip=skip)
        try:
            yield rule
        finally:
            self.remove(rule)

    @property
    def requests(self) -> tuple[Request, ...]:
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

    def arrived(self, message: wire.Message) -> Request:
        """Write a request down (the proxy does)."""
        method, target, _ = message.first
        url = urlsplit(target)
        request = Request(
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

    def changed(self, request: Request) -> None:
        """Replace the record of a request (the proxy does)."""
        if not self._keeps:
            return
        with self._lock:
            if request.number in self._requests:
                self._requests[request.number] = request
        self._spread()

    def rule_for(self, request: Request) -> Rule | None:
        """Find the rule that applies, and count its use (the proxy does)."""
        with self._lock:
            return next((rule for rule in self._rules if rule.applies(request)), None)

    def _spread(self) -> None:
        news, self.news = self.news, asyncio.Event()
        news.set()
