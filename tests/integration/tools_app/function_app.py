"""MCP tools of each style and triggers that deliver batches, with each policy, and with a free and a taken lock."""

from __future__ import annotations

import json
import os
from itertools import product
from typing import TYPE_CHECKING, Any, List  # noqa: UP035

import azure.functions as func

from singleton import current_hold, singleton

if TYPE_CHECKING:
    from collections.abc import Callable

app: Any = func.FunctionApp()
JOURNAL = os.open(os.environ["JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
STYLES = ("below", "above", "trigger", "generic")
BATCHES = {
    "hub": ("eventHubTrigger", List[func.EventHubEvent]),  # noqa: UP006 - as the worker's documentation has it
    "bus": ("serviceBusTrigger", List[func.ServiceBusMessage]),  # noqa: UP006
    "kafka": ("kafkaTrigger", List[func.KafkaEvent]),  # noqa: UP006
    "documents": ("cosmosDBTrigger", func.DocumentList),
}
POLICIES: dict[str, dict[str, Any]] = {
    "raise": {"on_contention": "raise"},
    "skip": {"on_contention": "skip"},
    "chosen": {"on_contention": lambda _: "raise"},
    "listener": {"mode": "listener"},
}
LOCKS = ("free", "taken")


def wrote(function: str, **more: object) -> None:
    os.write(JOURNAL, (json.dumps({"function": function, "lock": current_hold().lock, **more}) + "\n").encode())


def guard(policy: str, lock: str, **scope: Any) -> Callable[[Any], Any]:
    """Return a guard whose lock is free, or the lock that another process has, as its listener too."""
    declared = POLICIES[policy] if policy == "listener" else {**scope, **POLICIES[policy]}
    return singleton(**declared, name="busy" if lock == "taken" else None)


def add_tool(name: str, style: str, kind: str, guarded: Callable[[Any], Any]) -> None:
    async def ship(order: str, region: str = "eu") -> str:
        """Ship an order."""
        wrote(name, order=order)
        return f"{order} {region}"

    def call(context: str) -> str:
        order = json.loads(context)["arguments"]["order"]
        wrote(name, order=order)
        return f"{order} eu"

    async def call_async(context: str) -> str:
        return call(context)

    function: Any = ship if style in ("below", "above") else call if kind == "sync" else call_async
    function.__name__ = name
    if style == "below":
        app.mcp_tool()(guarded(function))
    elif style == "above":
        guarded(app.mcp_tool()(function))
    elif style == "trigger":
        app.mcp_tool_trigger(arg_name="context", tool_name=name)(guarded(function))
    else:
        app.generic_trigger(arg_name="context", type="mcpToolTrigger", toolName=name)(guarded(function))


def add_batch(name: str, trigger: str, annotation: object, kind: str, guarded: Callable[[Any], Any]) -> None:
    def read(given: Any) -> None:
        wrote(name, messages=len(given))

    async def read_async(given: Any) -> None:
        wrote(name, messages=len(given))

    function: Any = read if kind == "sync" else read_async
    function.__name__ = name
    function.__annotations__["given"] = annotation
    app.generic_trigger(arg_name="given", type=trigger, cardinality="many")(guarded(function))


for style, kind, policy, lock in product(STYLES, ("sync", "async"), POLICIES, LOCKS):
    if kind == "async" or style in ("trigger", "generic"):
        add_tool(f"{style}_{kind}_{policy}_{lock}", style, kind, guard(policy, lock, scope="order"))
for (batch, (trigger, annotation)), kind, policy, lock in product(BATCHES.items(), ("sync", "async"), POLICIES, LOCKS):
    add_batch(f"{batch}_{kind}_{policy}_{lock}", trigger, annotation, kind, guard(policy, lock))
for batch, (trigger, annotation) in BATCHES.items():
    add_batch(f"{batch}_scoped", trigger, annotation, "sync", singleton(scope="Id"))
