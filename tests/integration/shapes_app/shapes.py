"""The shapes of functions: which output, which policy, sync or async; and what their bodies return."""

from __future__ import annotations

from typing import Any

ANSWERS: dict[str, Any] = {"none": None, "text": "done", "object": {"a": 1}, "list": ["a"], "number": 7, "truth": True}
ANSWERS_OF = (
    *("sync_none", "async_none", "sync_out", "async_out", "sync_queue", "async_queue"),
    *("sync_blob", "async_serviceBus", "sync_eventGrid", "async_cosmosDB", "sync_sql", "async_mysql", "sync_kafka"),
    *("async_eventHub", "sync_table"),
)
"""Functions that wait for their lock: sync or async, and where their results go, to a ``$return`` as a rule."""
BUSY_OF = tuple(
    f"{kind}_{output}_{policy}"
    for kind, output in (
        ("sync", "none"),
        ("async", "out"),
        ("sync", "queue"),
        ("async", "queue"),
        ("async", "eventHub"),
    )
    for policy in ("skip", "raise", "defer", "chosen")
)
"""Functions whose lock is busy, and what they do then; ``chosen``: by a function, which chooses to skip."""
