"""What a host and its workers tell each other: plain records, for they are processes apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.host.context import RetryContext
    from simulator.host.triggers.messages import Message
    from simulator.host.triggers.timer import Tick


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The host asks for an invocation."""

    function: str
    invocation: str
    cause: Message | Tick
    retry: RetryContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The worker's answer: an error as ``Type: text``, or None and the queue messages that are to be sent.

    Attributes:
        invocation: of the call.
        error: why it failed, or None.
        blames: the error's class, where it is one of the lock's own.
        messages: each as its queue's name and its text.
    """

    invocation: str
    error: str | None = None
    blames: str = ""
    messages: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The worker can't use the app."""

    message: str
