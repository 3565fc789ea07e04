"""What a host and its workers tell each other: plain records, because they are separate processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.host.context import RetryContext
    from simulator.host.triggers.delivery import Delivery
    from simulator.host.triggers.messages import Message
    from simulator.host.triggers.timer import Tick
    from simulator.host.web.request import Request, Response


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The host asks for an invocation."""

    function: str
    invocation: str
    cause: Message | Tick | Delivery | Request
    retry: RetryContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The worker's answer: an error as ``Type: text``, or None and the queue messages to send.

    Attributes:
        invocation: of the call.
        error: why it failed, or None.
        blames: the error's class, if it is an error of the lock.
        messages: each as its queue's name and its text.
        response: what the caller of an HTTP function gets.
    """

    invocation: str
    error: str | None = None
    blames: str = ""
    messages: tuple[tuple[str, str], ...] = ()
    response: Response | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The worker can't use the app."""

    message: str
