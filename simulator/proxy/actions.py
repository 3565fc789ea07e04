"""What may go wrong with a request: which ones (`on`), what (an action) and how often (`ProxyRule`).

An action is an async function of an `Exchange`. As a bad network or server does, an action forwards the request,
replies, resets the connection, or does nothing. The actions here cover the usual cases and can be combined (`Delay(2,
then=DropReply())`); another action is a few lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from simulator.proxy import wire
from simulator.proxy.exchange import Exchange, ProxyRequest

if TYPE_CHECKING:
    from collections.abc import Mapping


Match = Callable[[ProxyRequest], bool]
Action = Callable[[Exchange], Awaitable[None]]


def everything(_: ProxyRequest) -> bool:
    """Match every request."""
    return True


def on(*operations: str, path: str = "", lease_id: str | None = None) -> Match:
    """Match requests of one of these operations (all, if none is named) whose path contains `path`."""

    def matches(request: ProxyRequest) -> bool:
        return (
            (not operations or request.operation in operations)
            and path in request.path
            and (lease_id is None or lease_id in {request.lease_id, request.proposed_lease_id})
        )

    return matches


@dataclass(slots=True, kw_only=True)
class ProxyRule:
    """Do `action` to the requests that match, `uses` times at most, after the first `skip` of them went through."""

    match: Match
    action: Action
    uses: int | None = None
    skip: int = 0
    matched: int = field(default=0, init=False)

    @property
    def name(self) -> str:
        """The name of its action."""
        return getattr(self.action, "__name__", type(self.action).__name__)

    def applies(self, request: ProxyRequest) -> bool:
        """Tell whether the rule applies to this request, and count it."""
        if (self.uses is not None and self.matched >= self.skip + self.uses) or not self.match(request):
            return False
        self.matched += 1
        return self.matched > self.skip


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


class DropRequest:
    """Reset the connection before the server gets the request."""

    async def __call__(self, exchange: Exchange) -> None:
        exchange.reset()


class DropReply:
    """Let the server carry the request out, then reset the connection instead of replying."""

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.forward()
        exchange.reset()


@dataclass(frozen=True, slots=True)
class Delay:
    """Delay the request, then do `then` with it, even if the client has hung up meanwhile, as a network does."""

    seconds: float
    then: Action = field(default_factory=PassOn)

    async def __call__(self, exchange: Exchange) -> None:
        await asyncio.sleep(self.seconds)
        await self.then(exchange)


@dataclass(frozen=True, slots=True)
class DelayReply:
    """Let the server carry the request out at once, and delay its reply."""

    seconds: float

    async def __call__(self, exchange: Exchange) -> None:
        reply = await exchange.forward()
        await asyncio.sleep(self.seconds)
        await exchange.reply(reply)


@dataclass(frozen=True, slots=True)
class Twice:
    """Pass the request on, and send it to the server once more, `seconds` after its reply; that reply is dropped."""

    seconds: float = 0.0

    async def __call__(self, exchange: Exchange) -> None:
        reply = await exchange.forward()
        exchange.repeat(self.seconds)
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


_ANSWERS: Final = {
    "500": ("InternalError", "The fault proxy fails."),
    "503": ("ServerBusy", "The fault proxy throttles."),
    "429": ("TooManyRequests", "The fault proxy throttles."),
}


def action_of(fate: str, seconds: float) -> Action:
    """Return what is done to a request of this fate (`simulator.faults`), with the seconds that belong to the fate."""
    match fate:
        case "request lost":
            return Hang()
        case "reply lost":
            return Hang(forward=True)
        case "request reset":
            return DropRequest()
        case "reply reset":
            return DropReply()
        case "late":
            return Delay(seconds)
        case "reply late":
            return DelayReply(seconds)
        case "twice":
            return Twice(seconds)
    headers = {"retry-after": f"{seconds:g}"} if seconds else {}
    code, message = _ANSWERS[fate]
    return Answer(int(fate), code, headers, message)
