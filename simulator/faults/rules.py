"""What may go wrong with a request: which ones (`on`), what (an action) and how often (`Rule`).

An action is an async function that is given one `Exchange` and does with it what a bad network or server would:
forward it, reply to it, reset the connection, or neither. The ones here cover the usual cases and compose
(`Delay(2, then=DropReply())`); others are a few lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol
from xml.sax.saxutils import escape

from simulator.faults import wire

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as the proxy saw it, and what became of it; a new record replaces it as that becomes known."""

    number: int
    """0 for the proxy's first."""
    method: str
    path: str
    """Decoded, with the account and without the query: `/devstoreaccount1/webjobshost/locks/...`."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By lower-case name."""
    started: float
    """Monotonic seconds at which it had arrived whole."""
    ended: float | None = None
    """Monotonic seconds at which it was answered or given up; None while it is neither."""
    fault: str | None = None
    """The name of the action that a rule applied."""
    forwarded: bool = False
    """Whether the server got it."""
    server_status: int | None = None
    """What the server answered, whether or not the client was told."""
    status: int | None = None
    """What the client was answered; None when it got no whole reply."""
    error_code: str | None = None
    """The storage error code in the answer, the server's if the client got none."""

    @property
    def comp(self) -> str | None:
        """The component that is asked for: `lease`, `metadata`, `properties`, `list`..."""
        return self.query.get("comp")

    @property
    def lease_action(self) -> str | None:
        """`acquire`, `renew`, `change`, `release` or `break`."""
        return self.headers.get("x-ms-lease-action")

    @property
    def lease_id(self) -> str | None:
        """The lease id that it claims to hold."""
        return self.headers.get("x-ms-lease-id")

    @property
    def proposed_lease_id(self) -> str | None:
        """The lease id that it asks for."""
        return self.headers.get("x-ms-proposed-lease-id")

    @property
    def operation(self) -> str:
        """One word: the lease action, else `comp` (`metadata`...), else the method (`put`, `get`, `delete`...).

        Operations on a container or queue service resource have its type before them: `container put`.
        """
        word = self.lease_action or self.comp or self.method.lower()
        kind = self.query.get("restype")
        return f"{kind} {word}" if kind else word


class Exchange(Protocol):
    """One request and the two connections, as an action sees them."""

    @property
    def request(self) -> Request:
        """The request."""

    async def forward(self) -> wire.Message:
        """Send the request to the server and return its reply; the client knows nothing of it yet."""

    async def reply(self, message: wire.Message) -> None:
        """Send a whole reply to the client."""

    async def send(self, raw: bytes) -> None:
        """Send part of a reply to the client."""

    def reset(self) -> None:
        """Reset the client's connection (RST)."""

    async def hung_up(self) -> None:
        """Wait until the client closes its connection, or the proxy is closed."""


Match = Callable[[Request], bool]
Action = Callable[[Exchange], Awaitable[None]]


def everything(_: Request) -> bool:
    """Match every request."""
    return True


def on(*operations: str, path: str = "", lease_id: str | None = None) -> Match:
    """Match requests of one of these operations (all, if none is named), with `path` in their path."""

    def matches(request: Request) -> bool:
        return (
            (not operations or request.operation in operations)
            and path in request.path
            and (lease_id is None or lease_id in {request.lease_id, request.proposed_lease_id})
        )

    return matches


@dataclass(slots=True, kw_only=True)
class Rule:
    """Do `action` to the requests that match, `uses` times at most, after the first `skip` of them went through."""

    match: Match
    action: Action
    uses: int | None = None
    skip: int = 0
    name: str = ""
    matched: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.name = self.name or getattr(self.action, "__name__", type(self.action).__name__)

    def applies(self, request: Request) -> bool:
        """Tell whether this request's turn has come, and count it."""
        if (self.uses is not None and self.matched >= self.skip + self.uses) or not self.match(request):
            return False
        self.matched += 1
        return self.matched > self.skip


@dataclass(frozen=True, slots=True)
class PassOn:
    """Do no harm: what happens to a request that no rule applies to."""

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.reply(await exchange.forward())


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer in the server's place, in the form of a storage error; the server never gets the request."""

    status: int
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = "The fault proxy says so."

    async def __call__(self, exchange: Exchange) -> None:
        headers = {"x-ms-request-id": f"fault-{exchange.request.number}", "x-ms-version": "2021-12-02"}
        body = ""
        if self.code:
            headers |= {"x-ms-error-code": self.code, "content-type": "application/xml"}
            detail = f"<Code>{escape(self.code)}</Code><Message>{escape(self.message)}</Message>"
            body = f'<?xml version="1.0" encoding="utf-8"?><Error>{detail}</Error>'
        headers |= self.headers
        await exchange.reply(wire.response(self.status, headers, body.encode(), method=exchange.request.method))


@dataclass(frozen=True, slots=True)
class DropRequest:
    """Reset the connection before the server gets the request."""

    async def __call__(self, exchange: Exchange) -> None:
        exchange.reset()


@dataclass(frozen=True, slots=True)
class DropReply:
    """Let the server carry the request out, then reset the connection instead of replying."""

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.forward()
        exchange.reset()


@dataclass(frozen=True, slots=True)
class Delay:
    """Hold the request back, then do `then` with it, even if the client has hung up meanwhile, as a network does."""

    seconds: float
    then: Action = field(default_factory=PassOn)

    async def __call__(self, exchange: Exchange) -> None:
        await asyncio.sleep(self.seconds)
        await self.then(exchange)


@dataclass(frozen=True, slots=True)
class DelayReply:
    """Let the server carry the request out at once, and hold its reply back."""

    seconds: float

    async def __call__(self, exchange: Exchange) -> None:
        reply = await exchange.forward()
        await asyncio.sleep(self.seconds)
        await exchange.reply(reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """Never reply and keep the connection; with `forward`, the server carries the request out."""

    forward: bool = False

    async def __call__(self, exchange: Exchange) -> None:
        if self.forward:
            await exchange.forward()
        await exchange.hung_up()


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
