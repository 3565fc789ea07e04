"""The payload of an invocation: the argument with the scope, and the names that ``scope_id`` may use."""

from __future__ import annotations

from collections import UserList
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from singleton.base.errors import ScopeError
from singleton.base.forks import cached_property
from singleton.base.words import quoted
from singleton.functions.bindings import (
    FromJson,
    Layer,
    OneObject,
    Payload,
    is_data,
    is_message,
    is_output,
    payload_of,
    tool_payload,
)
from singleton.functions.triggers import ACTIVITY, MCP_TOOL, Trigger
from singleton.scopes.template import BoundNames


class _Twice(NamedTuple):
    """In place of two values of JSON whose names differ in case only."""

    name: object


class BindingData(BoundNames):
    """What ``{name}`` may name: what comes with the payload, and its JSON body's properties. Case is ignored.

    The payload is looked for when a name is: a template that has none, its settings filled in, needs no payload. The
    layers are read in order, so that a blob is not read for a name in the blob's path.

    Of JSON, null and lists take the place of nothing that has the name, as for the host (H-80); with ``dotnet`` they
    do, as properties of a C# type. Of two spellings of a name the last counts there, as in .NET. Without ``dotnet``
    other values are refused: ``scope``, which minds the case, may name the first.
    """

    def __init__(self, find: Callable[[], Payload | None], *, dotnet: bool = False) -> None:
        self._find = find
        self._dotnet = dotnet
        self._read: list[dict[str, object]] = []

    @cached_property
    def _unread(self) -> list[Layer]:
        payload = self._find()
        if payload is None:
            return []
        self.hint = payload.hint
        return [*payload.layers]

    def _layers(self) -> Iterator[dict[str, object]]:
        yield from self._read
        while self._unread:
            found = self._unread.pop(0)()
            layer = FromJson() if isinstance(found, FromJson) else dict[str, object]()
            for name, value in found.items():
                folded = str(name).casefold()
                if folded in layer and self._is_weak(layer, value):
                    continue
                before = layer.get(folded, value)
                twice = isinstance(found, OneObject) and before != value and not self._is_weak(layer, before)
                layer[folded] = _Twice(name) if twice and not self._dotnet else value
            self._read.append(layer)
            yield layer

    def _is_weak(self, layer: Mapping[str, object], value: object) -> bool:
        """Tell whether what a layer has for a name takes the place of nothing."""
        return isinstance(layer, FromJson) and not self._dotnet and (value is None or isinstance(value, list))

    def _layer_of(self, name: str) -> dict[str, object] | None:
        """Return the first layer with a strong value for the name, else the first layer with a weak value."""
        weak = None
        for layer in self._layers():
            if name.casefold() in layer:
                if not self._is_weak(layer, layer[name.casefold()]):
                    return layer
                weak = weak or layer
        return weak

    def __getitem__(self, name: str) -> object:
        layer = self._layer_of(name)
        if layer is None:
            raise KeyError(name)
        value = layer[name.casefold()]
        if isinstance(value, _Twice):
            raise ScopeError(
                f"the payload has a property {quoted(value.name)} and one that differs in case, with another value: "
                "send one of them, or take scope=, for which case counts",
                reason="ambiguous",
            )
        return value

    def is_the_hosts(self, name: str) -> bool:
        """See ``BoundNames.is_the_hosts``."""
        return not isinstance(self._layer_of(name), FromJson)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and any(name.casefold() in layer for layer in self._layers())

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for layer in self._layers() for name in layer))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def find_payload(arguments: Mapping[str, Any], trigger: Trigger | None) -> Payload | None:
    """Return the payload among an invocation's arguments; None: there is none, as with a timer, whatever is beside it.

    ``ScopeError``: the payload is a batch, or several parameters may be meant.
    """
    if trigger is not None and trigger.type == MCP_TOOL:
        return tool_payload(arguments, trigger)
    name = triggers_parameter(arguments, trigger)
    if name is None or _is_timer(arguments[name]):
        return None
    value = arguments[name]
    if _is_batch(value) and (trigger is None or trigger.type != ACTIVITY):
        value = _the_only_one(name, value)
    return payload_of(name, value, trigger)


def has_tick(arguments: Mapping[str, Any]) -> bool:
    """Tell whether the tick of a timer is among the arguments."""
    return any(map(_is_timer, arguments.values()))


def triggers_parameter(
    arguments: Mapping[str, Any], trigger: Trigger | None, *, of_any_kind: bool = False
) -> str | None:
    """Return the trigger's parameter among an invocation's arguments; None: no argument may be the trigger's.

    If the trigger is unknown, its parameter is that of the timer or of the only message, as only triggers deliver
    these; else that of the only blob, text, bytes or parsed JSON; else, ``of_any_kind``, the only one. ``ScopeError``:
    several parameters may be meant.
    """
    if trigger is not None and trigger.parameter in arguments:
        return trigger.parameter
    for may_be in (_is_timer, _has_message, _may_be_payload, lambda value: of_any_kind and not is_output(value)):
        candidates = [name for name, value in arguments.items() if may_be(value)]
        if len(candidates) > 1:
            raise ScopeError(
                f"the payload may be any of the parameters {', '.join(candidates)}: put @singleton (or @once) above "
                "the trigger's decorator, so that it knows which parameter is the trigger's",
                reason="ambiguous",
            )
        if candidates:
            return candidates[0]
    return None


def _is_timer(value: object) -> bool:
    return isinstance(getattr(value, "past_due", None), bool)


def _has_message(value: object) -> bool:
    return is_message(value) or _is_batch(value, of=is_message)


def _may_be_payload(value: object) -> bool:
    return is_data(value) or _is_batch(value)


def _is_batch(value: object, of: Callable[[object], bool] = lambda _: True) -> bool:
    """Tell whether it is a list, or one of the bindings' list-like classes (documents, rows)."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and all(map(of, value[:1] or [None]))


def _the_only_one(name: str, batch: Sequence[Any]) -> Any:
    """Return what is alone in a list of documents or rows, which come in lists even one by one.

    A trigger for messages can deliver a message without a list: so a list of one message is refused as well, rather
    than only under load.
    """
    documents = isinstance(batch, UserList)
    if documents and len(batch) == 1:
        return batch[0]
    what, remedy = (
        ("documents", "let the trigger deliver one document at a time (Cosmos DB: max_items_per_invocation=1)")
        if documents
        else ("messages", 'set the trigger\'s cardinality to "one"')
    )
    raise ScopeError(
        f"parameter {name} is a batch ({what}: {len(batch)}), which has no single scope: {remedy}", reason="batch"
    )
