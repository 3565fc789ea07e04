"""What an invocation was triggered with: the payload's body for ``scope``, its binding data for ``scope_id``.

``azure.functions`` has two major versions in use and need not be installed at all: its objects are recognised by what
they can do, never by their class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from singleton.errors import ScopeError
from singleton.json_values import read_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The trigger's payload. ``body`` is bytes or text, or an object that a binding has parsed already."""

    body: object
    message_id: str | None = None
    properties: Mapping[str, object] = field(default_factory=dict)


class BindingData(Mapping[str, object]):
    """What ``{name}`` may name: the message's properties, and its JSON body's, which win (H-47). Case is ignored.

    The payload is looked for when a name is: a template that has none, its settings filled in, needs no payload.
    """

    def __init__(self, find: Callable[[], Payload | None]) -> None:
        self._find = find

    @cached_property
    def _values(self) -> dict[str, object]:
        payload = self._find()
        if payload is None:
            return {}
        values = {**payload.properties, **_json_properties(payload.body)}
        return {key.casefold(): value for key, value in values.items()}

    def __getitem__(self, name: str) -> object:
        return self._values[name.casefold()]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.casefold() in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def find_payload(arguments: Mapping[str, Any], trigger: str | None) -> Payload | None:
    """Return the payload among an invocation's arguments, or None where there is none (a timer).

    ``trigger`` names the trigger's parameter where it is known. Otherwise it is the one that is a message, else the
    only one that is text, bytes or parsed JSON, else a batch, for which there is an error.

    Raises:
        ScopeError: it is a batch, or several parameters may be meant.
    """
    if trigger is not None and trigger in arguments:
        return _payload(trigger, arguments[trigger])
    messages = [name for name, value in arguments.items() if _is_message(value) or _is_batch(value, of=_is_message)]
    plain = [name for name, value in arguments.items() if isinstance(value, str | bytes | Mapping)]
    candidates = messages or plain or [name for name, value in arguments.items() if _is_batch(value)]
    if not candidates:
        return None
    if len(candidates) > 1:
        raise ScopeError(
            f"the payload may be any of the parameters {', '.join(candidates)}: put @singleton above the trigger's "
            "decorator, so that it knows the trigger's parameter",
            reason="ambiguous",
        )
    return _payload(candidates[0], arguments[candidates[0]])


def _is_message(value: object) -> bool:
    return callable(getattr(value, "get_body", None)) or callable(getattr(value, "get_json", None))


def _is_batch(value: object, of: Callable[[object], bool] = lambda _: True) -> bool:
    """Tell whether it is a list, or one of the bindings' list-like classes (documents, rows)."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and all(map(of, value[:1] or [None]))


def _payload(name: str, value: Any) -> Payload | None:
    if _is_batch(value):
        raise ScopeError(
            f"parameter {name} is a batch of {len(value)} messages, which has no single scope: set the trigger's "
            "cardinality to one",
            reason="batch",
        )
    if callable(getattr(value, "get_body", None)):
        return Payload(
            body=value.get_body(), message_id=_text(value, "id", "message_id"), properties=_properties(value)
        )
    if callable(getattr(value, "get_json", None)):
        return Payload(body=value.get_json(), message_id=_text(value, "id"), properties=_properties(value))
    if isinstance(value, str | bytes):
        return Payload(body=value, properties={"QueueTrigger": _decoded(value)})
    return Payload(body=value) if isinstance(value, Mapping) else None


def _decoded(body: str | bytes) -> str:
    return body if isinstance(body, str) else body.decode("utf-8", "replace")


def _text(value: object, *names: str) -> str | None:
    for name in names:
        found = getattr(value, name, None)
        if isinstance(found, str) and found:
            return found
    return None


_QUEUE_PROPERTIES = {
    "DequeueCount": "dequeue_count",
    "ExpirationTime": "expiration_time",
    "Id": "id",
    "InsertionTime": "insertion_time",
    "NextVisibleTime": "time_next_visible",
    "PopReceipt": "pop_receipt",
}


def _properties(message: Any) -> dict[str, object]:
    """Return the binding data of a queue message (H-47); other messages have what of it they have."""
    found = {name: getattr(message, attribute, None) for name, attribute in _QUEUE_PROPERTIES.items()}
    properties = {name: value for name, value in found.items() if value is not None}
    if hasattr(message, "dequeue_count"):
        properties["QueueTrigger"] = _decoded(message.get_body())
    return properties


def _json_properties(body: object) -> Mapping[str, object]:
    if isinstance(body, str | bytes):
        try:
            body = read_json(body)
        except ScopeError:
            return {}
    return body if isinstance(body, Mapping) else {}
