"""The invocation context that the worker hands to a function which has a ``context`` parameter."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class RetryContext:
    """How often this invocation was tried before; the same three names as the worker's, ``exception`` is not one."""

    retry_count: int = 0
    max_retry_count: int = 0
    rpc_exception: Any = None


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The W3C trace context, under both the current and the older names."""

    trace_parent: str
    trace_state: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def fresh(cls) -> TraceContext:
        """Return the context of a new trace."""
        return cls(f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01")

    @property
    def Traceparent(self) -> str:  # noqa: N802 - the worker's older name
        """Return the trace parent."""
        return self.trace_parent

    @property
    def Tracestate(self) -> str:  # noqa: N802 - the worker's older name
        """Return the trace state."""
        return self.trace_state

    @property
    def Attributes(self) -> Mapping[str, str]:  # noqa: N802 - the worker's older name
        """Return the attributes."""
        return self.attributes


@dataclass(frozen=True, slots=True)
class Context:
    """What a function can learn of its invocation. As in the worker, it is no instance of ``func.Context``."""

    function_name: str
    function_directory: str
    invocation_id: str
    thread_local_storage: threading.local
    trace_context: TraceContext
    retry_context: RetryContext
