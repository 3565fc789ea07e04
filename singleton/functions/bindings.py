"""The payload of every kind of trigger: the body, and the Functions host's names for the data beside the body.

``azure.functions`` has two major versions in use and need not be installed at all, and the worker hands over objects of
the Azure SDKs too: methods tell what an object is, never the class.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from singleton.base.errors import ScopeError
from singleton.base.json_values import read_json
from singleton.functions.message_properties import ATTRIBUTES, ON_EVENTS, held, is_binary, own_id
from singleton.functions.triggers import NAMED, ToolCall, is_streamed_request
from singleton.scopes.template import placeholders_split

if TYPE_CHECKING:
    from singleton.functions.triggers import Trigger

Layer: TypeAlias = Callable[[], Mapping[str, object]]
"""A source of names, read only if the sources before lack the name."""


class FromJson(dict[str, object]):
    """Names from JSON of a sender, without types. Names in a plain dictionary come from the host."""


class OneObject(FromJson):
    """The properties of one JSON object, with nothing merged into them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The trigger's payload.

    Attributes:
        read: returns the body, bytes or text, or an object that a binding has parsed already; the same each time. A
            blob's is read then, and left to be read again.
        layers: the sources of ``{name}``, in this order.
        find_id: returns the message's own id, for errors; None: no id, or the body has a property of that name (H-80).
        hint: why it lacks names, for errors.
    """

    read: Callable[[], object]
    layers: tuple[Layer, ...] = ()
    find_id: Callable[[], str | None] = lambda: None
    hint: str = ""


def is_message(value: object) -> bool:
    """Tell whether it is a message, event or request: something that has a body, beside plain values."""
    if _can(value, "get_body") or _can(value, "get_json") or _is_sdk_message(value) or is_streamed_request(value):
        return True
    return isinstance(value, ToolCall) or _is_prompt(value)


def _is_blob(value: object) -> bool:
    return _can(value, "read", "readable") or _can(value, "download_blob") or _can(value, "readall", "chunks")


def payload_of(parameter: str, value: Any, trigger: Trigger | None) -> Payload | None:
    """Return the payload that the worker passed as this parameter; None: no payload (a timer)."""
    if _can(value, "get_body"):
        return _request(value) if hasattr(value, "route_params") else _message(value, trigger)
    if _can(value, "get_json"):
        return Payload(read=value.get_json, layers=(partial(_envelope, value),), find_id=partial(_text, value, "id"))
    if _is_sdk_message(value):
        return _sdk_message(value)
    if is_streamed_request(value):
        return _streamed_request(parameter, value)
    if _is_blob(value):
        return _blob(parameter, value, trigger)
    if isinstance(value, ToolCall):
        return _called(value, {})
    if _is_prompt(value):
        return _called({"name": value.name, "sessionid": value.sessionid, "arguments": value.arguments}, {})
    return None if value is None else _plain(parameter, value, trigger)


def tool_payload(arguments: Mapping[str, Any], trigger: Trigger) -> Payload:
    """Return the payload of an MCP tool: the arguments in the call, the whole call, and the defaults of arguments."""
    call = arguments.get(trigger.parameter)
    if trigger.is_spread and not isinstance(call, ToolCall):
        call = {"arguments": arguments}
    elif isinstance(call, str | bytes):
        call = _json_properties(lambda: arguments[trigger.parameter])
    return _called(call or {}, trigger.defaults)


def _called(call: Mapping[str, Any], defaults: Mapping[str, Any]) -> Payload:
    """Of a tool or a prompt of MCP: arguments win over the other names of the call, such as ``sessionid``."""
    given = call.get("arguments")
    names = FromJson({**call, **defaults, **(given if isinstance(given, Mapping) else {})})
    return Payload(read=lambda: names, layers=(lambda: names,))


def _is_prompt(value: object) -> bool:
    return isinstance(getattr(value, "arguments", None), Mapping) and hasattr(value, "sessionid")


def _can(value: object, *methods: str) -> bool:
    for method in methods:  # noqa: SIM110 - no generator: this runs for each invocation
        if not callable(getattr(value, method, None)):
            return False
    return True


def _message(message: Any, trigger: Trigger | None) -> Payload:
    """Of queues, Service Bus, Event Hubs and Kafka: the body wins (H-47), unless bytes are asked for (H-80)."""
    read: Callable[[], object] = partial(_unwrapped, message) if hasattr(message, "partition") else message.get_body
    bodys, own = partial(_json_properties, read), (partial(_own, message), partial(_metadata, message))
    layers: tuple[Layer, ...] = (*own, bodys) if is_binary(trigger) else (bodys, *own)
    return Payload(read=read, layers=layers, find_id=partial(own_id, message, trigger))


def _unwrapped(event: Any) -> object:
    """Return the body of a Kafka event. A text is in an envelope, whose names win over those of the text's JSON."""
    body: object = event.get_body()
    envelope = _json_properties(lambda: body)
    if not envelope.keys() >= {"Key", "Offset", "Topic", "Value"}:
        return body
    return FromJson({**_json_properties(lambda: envelope["Value"]), **envelope})


def _own(message: Any) -> dict[str, object]:
    names = held(message, ON_EVENTS) | held(message, ATTRIBUTES)
    if hasattr(message, "pop_receipt"):
        names["QueueTrigger"] = _decoded(message.get_body())
    return names


def _metadata(message: Any) -> Mapping[str, object]:
    """Return the metadata from the host, for names without an attribute on the message's class."""
    try:
        metadata = getattr(message, "metadata", None)
    except ValueError:  # a part of the metadata is no JSON, and claims to be
        return {}
    return metadata if isinstance(metadata, Mapping) else {}


def _text(value: object, *names: str) -> str | None:
    for name in names:
        found = getattr(value, name, None)
        if isinstance(found, str) and found:
            return found
    return None


_EVENT = {"eventType": "event_type", "eventTime": "event_time", "dataVersion": "data_version"}
_SAMEON_EVENTS = ("id", "topic", "subject", "source", "type", "specversion", "time", "datacontenttype", "dataschema")


def _envelope(event: Any) -> dict[str, object]:
    """To the host the event as a whole is the JSON: its data's properties are ``{data.Name}``."""
    extensions = getattr(event, "extension_attrs", {})
    own = held(event, {name: name for name in _SAMEON_EVENTS} | _EVENT)
    return FromJson({**extensions, **own, "data": event.get_json()})


def _request(request: Any) -> Payload:
    """What the route says wins over the query, and the query over the body, as for the host."""
    read: Callable[[], object] = request.get_body
    names = _request_names(request.headers, request.params, request.route_params)
    return Payload(read=read, layers=(*names, partial(_json_properties, read)))


def _request_names(headers: object, query: Mapping[str, str], route: Mapping[str, str]) -> tuple[Layer, ...]:
    asked = {name: value for name, value in query.items() if name.casefold() != "code"}  # the function's key
    return (lambda: {"headers": headers, "query": asked}), (lambda: route), (lambda: asked)


def _streamed_request(parameter: str, request: Any) -> Payload:
    read = partial(_refuse, parameter, "a streamed request, whose body can't be read before the function reads it")
    return Payload(read=read, layers=_request_names(request.headers, request.query_params, request.path_params))


def _refuse(parameter: str, what: str) -> object:
    raise ScopeError(
        f"parameter {parameter} is {what}: name a value of the binding data in braces, such as '{{name}}', "
        "in scope_id or key",
        reason="unreadable",
    )


_BLOB = {"BlobTrigger": "name", "Uri": "uri", "Properties": "blob_properties", "Metadata": "metadata"}


def _blob(parameter: str, blob: Any, trigger: Trigger | None) -> Payload:
    """A blob's names come first: the content may be huge, and is read only for a name that is missing."""
    path = "" if trigger is None else str(trigger.settings.get("path", ""))
    if _can(blob, "read", "readable"):
        names, read = held(blob, _BLOB), partial(_content, parameter, blob)
        layers: tuple[Layer, ...] = (partial(_json_properties, read),)
    else:
        names, layers = held(blob, {"Uri": "url"}), ()
        # A client says blob_name and container_name; a downloader says name and container.
        container, name = _text(blob, "container_name", "container"), _text(blob, "blob_name", "name")
        if container and name:
            names["BlobTrigger"] = f"{container}/{name}"
        read = partial(_refuse, parameter, "a blob client, whose content isn't downloaded for a scope")
    in_path = partial(_names_in, path, str(names.get("BlobTrigger", "")))
    return Payload(
        read=read, layers=(in_path, lambda: names, *layers), find_id=partial(_text, blob, "name", "blob_name")
    )


def _content(parameter: str, stream: Any) -> object:
    """Read the rest of the stream, and go back to the position before: the function reads the stream too."""
    seekable = stream if stream.seekable() else getattr(stream, "_io", None)  # the worker has the whole blob in memory
    if not _can(seekable, "tell", "seek", "read"):
        return _refuse(parameter, "a stream that can be read only once")
    assert seekable is not None
    at = seekable.tell()
    try:
        return seekable.read()
    finally:
        seekable.seek(at)


def _names_in(pattern: str, path: str) -> dict[str, object]:
    """Match a blob's path with its trigger's, ``container/{name}.{ext}``; each name takes as much as it can."""
    if not pattern or not path:
        return {}

    literals, names = placeholders_split(pattern, os.environ)
    matcher = re.escape(literals[0])
    for literal in literals[1:]:
        in_container = "/" not in matcher
        matcher += ("([^/]*)" if in_container else "(.*)") + re.escape(literal)
    found = re.fullmatch(matcher, path, re.DOTALL)
    return {} if found is None else dict(zip(names, found.groups(), strict=True))


def _is_sdk_message(value: object) -> bool:
    return hasattr(value, "body_type") and (hasattr(value, "delivery_count") or _can(value, "body_as_str"))


def _sdk_message(message: Any) -> Payload:
    def read() -> object:
        body = message.body
        return b"".join(body) if isinstance(body, Iterable) and not isinstance(body, str | bytes) else body

    def own() -> dict[str, object]:
        found = held(message, ON_EVENTS) | held(message, ATTRIBUTES)
        return {name: _of_amqp(value) for name, value in found.items()}

    return Payload(read=read, layers=(partial(_json_properties, read), own), find_id=partial(own_id, message))


def _of_amqp(value: Any) -> Any:
    """Return what AMQP carries as bytes as text, names and values of properties too."""
    if isinstance(value, Mapping):
        return {_of_amqp(name): _of_amqp(each) for name, each in value.items()}
    return _decoded(value) if isinstance(value, bytes) else value


_PLAIN = (str, bytes, Mapping, list, bool, int, float)


def is_output(value: object) -> bool:
    """Tell whether it is an output binding: ``func.Out`` of either major version."""
    return _can(value, "get", "set")


def is_data(value: object) -> bool:
    """Tell whether it is text, bytes, JSON of a Durable activity, an object which gives its JSON, or a blob."""
    return isinstance(value, _PLAIN) or _can(value, "to_json") or _is_blob(value)


def _plain(parameter: str, value: Any, trigger: Trigger | None) -> Payload | None:
    if not is_data(value):
        return None
    if not isinstance(value, _PLAIN):
        value = type(value).to_json(value)  # as Durable calls it: a method or a static one

    def read() -> object:
        return value

    names: dict[str, object] = {parameter: value, "data": value}
    if isinstance(value, str | bytes):
        names["QueueTrigger"] = _decoded(value)
    else:
        names = FromJson(names)
    hint = ""
    if trigger is not None and isinstance(value, str | bytes) and (richer := NAMED.get(trigger.type)):
        what = "text" if isinstance(value, str) else "bytes"
        hint = f"; as {parameter} is {what}, it has only the names of its JSON: annotate it as {richer}"
    return Payload(read=read, layers=(partial(_json_properties, read), lambda: names), hint=hint)


def _decoded(body: str | bytes) -> str:
    return body if isinstance(body, str) else body.decode("utf-8", "replace")


def _json_properties(read: Callable[[], object]) -> Mapping[str, object]:
    try:
        body = read()
        if isinstance(body, str | bytes):
            body = read_json(body)
    except ScopeError:
        return {}
    if isinstance(body, FromJson):  # merged already
        return body
    return OneObject(body) if isinstance(body, Mapping) else {}
