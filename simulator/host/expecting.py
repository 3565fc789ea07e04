"""Which keys an invocation should lock, as the simulator reads its declarations and its message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from simulator.expected.key import CantTell, Declared, Delivered, expected_key
from simulator.host.triggers.bindingdata import BINARY
from simulator.host.triggers.messages import Message
from singleton.layouts.dequeueable import DequeueableLayout
from singleton.layouts.webjobs import WebJobsLayout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.host.app.model import Parameter
    from simulator.host.plan import Plan
    from singleton.functions.guard import Guard

_LAYOUTS: Final[dict[type, Literal["webjobs", "dequeueable"]]] = {
    WebJobsLayout: "webjobs",
    DequeueableLayout: "dequeueable",
}


def expected_keys(plan: Plan, cause: object, settings: Mapping[str, str], host_id: str) -> dict[str, str | None]:
    """Return the key for each mode of the function's guards: invocations with an equal key must exclude one another.

    None: no lock may be asked for, as the message has no scope. No entry: that can't be told.
    """
    delivered = _delivered(plan.function.trigger, cause)
    keys: dict[str, str | None] = {}
    for guard in plan.guards:
        key = expected_key(_declared(guard, plan.function.name, host_id), delivered, settings)
        if not isinstance(key, CantTell):
            keys[guard.mode] = key if isinstance(key, str) else None
    return keys


def _declared(guard: Guard, function: str, host_id: str) -> Declared:
    return Declared(
        function=getattr(guard.layout, "dotnet_name", None) or guard.name or function,
        host_id=guard.options.host_id or host_id,
        mode=guard.mode,
        level=guard.level,
        scope=guard.scope,
        scope_id=guard.scope_id,
        layout=_LAYOUTS.get(type(guard.layout), "default"),
        several=guard.limit is not None,
    )


def _delivered(trigger: Parameter, cause: object) -> Delivered:
    if not isinstance(cause, Message):
        return Delivered(trigger=trigger.binding, parameter=trigger.name)
    dates = {
        "ExpirationTime": cause.expires,
        "InsertionTime": cause.inserted,
        "NextVisibleTime": cause.next_visible,
    }
    own: dict[str, object] = {
        "Id": cause.id,
        "PopReceipt": cause.pop_receipt,
        "DequeueCount": cause.dequeue_count,
        **{name: date for name, date in dates.items() if date is not None},
    }
    return Delivered(
        trigger=trigger.binding,
        parameter=trigger.name,
        body=cause.body,
        own=None if trigger.converter == "generic" else own,
        binary=trigger.data_type in BINARY,
    )
