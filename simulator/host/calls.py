"""The records that a host and its workers exchange, as separate processes, and the context of an invocation.

The worker hands the context to a function that has a ``context`` parameter. As in the worker, the context is no
instance of ``func.Context``. Other attributes may be set; its own attributes are read-only.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import threading

    from simulator.host.triggers.delivery import Delivery
    from simulator.host.triggers.queues import QueueMessage
    from simulator.host.triggers.timer import Tick
    from simulator.host.web.site import HttpRequest, HttpResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCall:
    """The host asks for an invocation."""

    function: str
    invocation: str
    cause: QueueMessage | Tick | Delivery | HttpRequest
    retry: RetryContext


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAnswer:
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
    response: HttpResponse | None = None


@dataclass(frozen=True, slots=True)
class AppRefusal:
    """The worker can't use the app."""

    message: str


@dataclass
class RetryContext:
    """How often this invocation was tried before, with the worker's three names; ``exception`` is not one of them."""

    retry_count: int = 0
    max_retry_count: int = 0
    rpc_exception: Any = None


class TraceContext:
    """The W3C trace context of a new trace, under both the current and the older names."""

    def __init__(self) -> None:
        self._parent = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
        self._attributes: dict[str, str] = {}

    @property
    def trace_parent(self) -> str:
        """Return the trace parent."""
        return self._parent

    @property
    def trace_state(self) -> str:
        """Return the trace state."""
        return ""

    @property
    def attributes(self) -> dict[str, str]:
        """Return the attributes."""
        return self._attributes

    Traceparent = trace_parent
    Tracestate = trace_state
    Attributes = attributes


class Context:
    """What a function can learn of its invocation."""

    def __init__(
        self, name: str, directory: str, invocation: str, storage: threading.local, retry: RetryContext
    ) -> None:
        self._name = name
        self._directory = directory
        self._invocation = invocation
        self._storage = storage
        self._trace = TraceContext()
        self._retry = retry

    @property
    def function_name(self) -> str:
        """Return the function's name."""
        return self._name

    @property
    def function_directory(self) -> str:
        """Return the folder of the function's file."""
        return self._directory

    @property
    def invocation_id(self) -> str:
        """Return the id of this invocation, the same over all its tries."""
        return self._invocation

    @property
    def thread_local_storage(self) -> threading.local:
        """Return where a thread of the app puts ``invocation_id``, so that its logs can be told apart."""
        return self._storage

    @property
    def trace_context(self) -> TraceContext:
        """Return the trace context."""
        return self._trace

    @property
    def retry_context(self) -> RetryContext:
        """Return how often this invocation was tried before."""
        return self._retry
