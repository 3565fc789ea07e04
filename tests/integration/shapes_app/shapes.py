"""The shapes of functions: which trigger, which output, which policy, sync or async; and what their bodies return."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import azure.functions as func

from singleton import current_hold
from tests.support.responses import BackgroundTask, JSONResponse, StreamingResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

TRIGGERS = ("queue", "text", "timer", "binary", "tick")
"""A queue's message as ``func.QueueMessage``, and as ``str``; a timer; the message in bytes; the timer as ``str``."""
KINDS = ("sync", "async")
OUTPUTS = ("none", "error", "return", "hub", "out")
"""Nothing; an error; ``$return`` to a queue, and to an event hub; ``func.Out`` to a queue."""
POLICIES = ("wait", "skip", "raise", "defer", "chosen", "told")
"""``chosen``: by a function, which chooses to skip. ``told``: by a function, which fails with what it was told."""
LOCKS = ("free", "taken")


class Shape(NamedTuple):
    """What a function is like."""

    trigger: str
    kind: str
    output: str
    policy: str
    lock: str

    @property
    def name(self) -> str:
        return "_".join(self)

    @property
    def ticks(self) -> bool:
        return self.trigger in ("timer", "tick")

    @property
    def defers(self) -> bool:
        """Tell whether its messages can be put back: with ``str`` there is no receipt, and the timer has no message."""
        return self.trigger in ("queue", "binary") and self.policy == "defer"

    @property
    def waits(self) -> bool:
        """Tell whether its invocations wait, in vain."""
        return (self.policy, self.lock) == ("wait", "taken")


SHAPES = {
    shape.name: shape
    for shape in map(Shape._make, product(TRIGGERS, KINDS, OUTPUTS, POLICIES, LOCKS))
    if not (shape.ticks and shape.policy == "defer")  # refused where it is declared
    if shape.trigger in ("queue", "text", "timer") or shape.output == "error"
}


def under_lock(item: str) -> str:
    current_hold()
    return item


async def rows() -> AsyncIterator[str]:
    yield under_lock("a")


LATE: dict[str, Callable[[], Any]] = {
    "map": lambda: map(under_lock, ["a", "b"]),
    "generator": lambda: (under_lock(item) for item in ["a", "b"]),
    "async generator": rows,
    "stream": lambda: StreamingResponse(map(under_lock, ["a", "b"])),
    "background task": lambda: JSONResponse({}, background=BackgroundTask(rows)),
}
"""What would run after the lock is released: made for each answer."""
ANSWERS: dict[str, Any] = {
    "none": None,
    "text": "done",
    "json text": '{"price": 1.10, "of": [1]}',
    "no json": "{price}",
    "array": '["a", {"b": 1}]',
    "bytes": b"\x00\xff",
    "object": {"a": 1},
    "list": ["a"],
    "messages": [func.QueueMessage(id="m", body="b"), "a"],
    "message": func.QueueMessage(body="b"),
    "number": 7,
    "truth": True,
    **LATE,
}
ANSWERS_OF = (
    *("sync_none", "async_none", "sync_out", "async_out", "sync_queue", "async_queue"),
    *("sync_blob", "async_serviceBus", "sync_eventGrid", "async_cosmosDB", "sync_sql", "async_mysql", "sync_kafka"),
    *("async_eventHub", "sync_table"),
)
"""Functions that answer as their messages say: sync or async, and where it goes, to a ``$return`` as a rule."""
