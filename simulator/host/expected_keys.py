"""Which keys an invocation should lock, as the simulator reads its declarations and its message."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from simulator.expected.blob import expected_blob
from simulator.expected.key import CantTell, Declared, Delivered, expected_key
from simulator.host.triggers.bindings import BINARY
from simulator.host.triggers.delivery import Delivery, delivery_names, is_batch
from simulator.host.triggers.queue import QueueMessage
from simulator.host.web.site import HttpRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from simulator.host.app.app_model import Parameter
    from simulator.host.function_plan import Plan


_READ_AS_TEXT: Final = frozenset({"serviceBusTrigger", "eventHubTrigger"})
_READ_WHOLE: Final = _READ_AS_TEXT | {"eventGridTrigger", "blobTrigger"}


def expected_keys(plan: Plan, cause: object, settings: Mapping[str, str], host_id: str) -> dict[str, str | None]:
    """Return the key for each mode of the function's guards: invocations with an equal key must exclude one another.

    None: no lock may be asked for, as the message has no scope. No entry: that can't be told.
    """
    delivered = _delivered(plan.function.trigger, cause)
    keys: dict[str, str | None] = {}
    for mode, declared in _declared(plan, host_id):
        key = expected_key(declared, delivered, settings)
        if not isinstance(key, CantTell):
            keys[mode] = key if isinstance(key, str) else None
    if isinstance(operation := _operation(plan, delivered, settings), str):
        keys["once"] = operation
    return keys


def _operation(plan: Plan, delivered: Delivered, settings: Mapping[str, str]) -> object:
    """Return the key of the operation that ``@once`` runs a single time; no text if that can't be told."""
    given = plan.operation_key
    if given is None:
        return None
    template = "{" in given or "%" in given
    return expected_key(
        Declared(
            function=plan.function.name,
            host_id="once",
            scope=None if template else given,
            scope_id=given if template else "",
        ),
        delivered,
        settings,
    )


def _declared(plan: Plan, host_id: str) -> Iterator[tuple[str, Declared]]:
    """Yield the modes of a function's locks, and what the declarations say; ``also``: of the lock's older name."""
    for each in plan.declared:
        declared = Declared(
            function=each["dotnet_name"] or each["name"] or plan.function.name,
            host_id=each.options["host_id"] or host_id,
            mode=each["mode"],
            level=each["level"],
            scope=each["scope"],
            scope_id=each["scope_id"],
            layout=each["layout"],
            several=each["limit"] is not None,
        )
        yield declared.mode, declared
        also = each["also"]
        if also is not None and each["layout"] == (also.layout or "default") == "default":
            function = (each["name"] if also.name is None else also.name) or plan.function.name
            yield "also", replace(declared, function=function, host_id=also.host_id or declared.host_id)


def expected_blobs(plan: Plan, keys: Mapping[str, str | None]) -> dict[str, str]:
    """Return where the locks of these keys are by docs/layouts.md, for each mode: container and blob."""
    blobs: dict[str, str] = {}
    for each in plan.declared:
        also, hashed, container = each["also"], each["scope_hash"], each.options["container"]
        places = {each["mode"]: (hashed, container)}
        if also is not None:
            places["also"] = hashed if also.scope_hash is None else also.scope_hash, also.container or container
        for mode, (hashed, container) in places.items():
            key = keys.get(mode)
            if key is not None and (name := expected_blob(key, hashed=hashed)) is not None:
                blobs[mode] = f"{container}/{name}"
    return blobs


def _delivered(trigger: Parameter, cause: object) -> Delivered:
    match cause:
        case QueueMessage():
            return _message(trigger, cause)
        case Delivery():
            return _delivery(trigger, cause)
        case HttpRequest():
            return _request(trigger, cause)
        case _:
            return Delivered(trigger=trigger.binding, parameter=trigger.name)


def _message(trigger: Parameter, message: QueueMessage) -> Delivered:
    own: dict[str, object] = {
        "Id": message.id,
        "PopReceipt": message.pop_receipt,
        "DequeueCount": message.dequeue_count,
        **message.dates,
    }
    return Delivered(
        trigger=trigger.binding,
        parameter=trigger.name,
        body=message.body,
        own=None if trigger.converter == "generic" else own,
        binary=trigger.data_type in BINARY,
    )


def _request(trigger: Parameter, request: HttpRequest) -> Delivered:
    query = {name: value for name, value in request.query.items() if name.casefold() != "code"}
    over = {**query, **request.route, "headers": dict(request.headers), "query": query}
    return Delivered(trigger=trigger.binding, parameter=trigger.name, body=request.body, over=over)


def _delivery(trigger: Parameter, delivery: Delivery) -> Delivered:
    """Return a message, an event or a blob as it is read here; one in a list, and text of other triggers, are not."""
    binding, plain = trigger.binding, trigger.converter == "generic"
    read = _READ_AS_TEXT if plain else _READ_WHOLE
    if is_batch(trigger) and not plain:
        with suppress(ValueError):
            listed = json.loads(delivery.body)
            return Delivered(trigger="", several=isinstance(listed, list) and len(listed) > 1)
    if is_batch(trigger) or binding not in read:
        return Delivered(trigger="")
    names = delivery_names(trigger, delivery)
    dates = frozenset(name for name, value in names.items() if isinstance(value, datetime))
    told = Delivered(trigger=binding, parameter=trigger.name, body=delivery.body, unclear=dates)
    match binding:
        case "eventGridTrigger":
            # The worker has parsed it already: numbers are as Python prints them.
            return replace(told, body=json.dumps(names["data"]), over=names, closed=True)
        case "blobTrigger":
            return replace(told, over=names)
        case _:
            return replace(told, own=None if plain else names, binary=trigger.data_type in BINARY)
