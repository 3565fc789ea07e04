"""Faults of requests: a rule has a condition on requests (`Match`) and a fault (an action).

An action is an async function of an `Exchange`. As a bad network or server does, an action forwards the request,
replies, resets the connection, or does nothing. The actions here cover the usual cases; another action is a few lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
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


@dataclass(slots=True, kw_only=True)
class ProxyRule:
    """Do `action` to the requests that match."""

    match: Match
    action: Action
    matched: int = field(default=0, init=False)

    def applies(self, request: ProxyRequest) -> bool:
        """Tell whether the rule applies to this request, and count it."""
        matches = self.match(request)
        self.matched += matches
        return matches


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
    """Delay the request, then pass it on, even if the client has hung up meanwhile, as a network does."""

    seconds: float

    async def __call__(self, exchange: Exchange) -> None:
        await asyncio.sleep(self.seconds)
        await PassOn()(exchange)


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
