"""The expected key: equal keys must exclude one another, whatever name the product gives to the lock.

Read from the specification (W-28 to W-45, D-10 to D-18, H-47, H-80, M-9) and the documentation, without any code of the
product. `docs/triggers.md` says which names a payload has, `docs/layouts.md` what the layouts do with values.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from simulator.expected.values import (
    CantTell,
    KeyRefused,
    NoKey,
    Unclear,
    document,
    folded,
    printed,
    setting,
    value_at,
    with_names,
    with_settings,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


__all__ = ["CantTell", "Declared", "Delivered", "NoKey", "expected_key"]

_SECTION_SCOPE: Final = "Dequeueable:Singleton:Scope"
_WHOLE_NUMBER: Final = re.compile(r"0|-?[1-9][0-9]*")
_OFFSET: Final = re.compile(r"[+-]\d\d:\d\d$", re.ASCII)
_NO_NAME: Final = re.compile(r"[\\\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]|\A/|\Alocks/|/\Z|\.(?:/|\Z)")
_MOST_CHARACTERS: Final = 1024
_READ: Final = frozenset(
    {"queueTrigger", "httpTrigger", "serviceBusTrigger", "eventHubTrigger", "eventGridTrigger", "blobTrigger"}
)
_MOST_SEGMENTS: Final = 254


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A ``@singleton`` declaration, and its function and host."""

    function: str  # the function's name in the declaration; by default its name to the Functions host
    host_id: str  # the host id of the host's locks
    mode: Literal["function", "listener"] = "function"
    level: Literal["function", "host"] = "function"
    scope: str | None = None
    scope_id: str = ""
    layout: Literal["default", "webjobs", "dequeueable"] = "default"
    several: bool = False  # whether the declaration has a limit: then the lock has slots


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What a function was triggered with.

    Attributes:
        trigger: the binding's type, such as ``queueTrigger``.
        parameter: the trigger's parameter.
        body: the message's, decoded.
        own: the message's own names as the host has them (``Id``, ``DequeueCount``, ``InsertionTime``…), before the
            body replaces any. None if the function takes only the text or bytes and gets none of them.
        binary: whether the trigger has ``data_type`` BINARY.
        over: names that win over the body's: the route and the query of a request, the path of a blob.
        closed: whether the properties of the body are no names (Event Grid).
        several: whether it is a list of more than one message.
        unclear: names with a text that this module does not read.
    """

    trigger: str
    parameter: str = ""
    body: bytes | str = b""
    own: Mapping[str, object] | None = field(default_factory=dict)
    binary: bool = False
    over: Mapping[str, object] = field(default_factory=dict)
    closed: bool = False
    unclear: frozenset[str] = frozenset()
    several: bool = False


def expected_key(declared: Declared, delivered: Delivered, settings: Mapping[str, str]) -> str | NoKey | CantTell:
    """Return the key of an invocation's lock, a JSON list: layout, host id, whose lock, and the scope's values.

    >>> ship = Declared(function="ship", host_id="app", scope="Id")
    >>> expected_key(ship, Delivered(trigger="queueTrigger", body=b'{"Id": 42}'), {})
    '["default", "app", "function", "ship", "42"]'

    The answer is `NoKey` if the invocation must fail before it asks for a lock, and `CantTell` if this reading does not
    cover the case. A message that the worker itself can't pass to the function (H-80, H-81) never reaches a lock, and
    is not covered here.

    Args:
        declared: the declaration.
        delivered: the message, or the tick of a timer.
        settings: the app settings.
    """
    try:
        # Half a surrogate pair is written as JSON escapes it, which no other text is.
        return (
            json.dumps(_key(declared, delivered, settings), ensure_ascii=False)
            .encode(errors="backslashreplace")
            .decode()
        )
    except KeyRefused as refused:
        return NoKey(str(refused))
    except Unclear as unclear:
        return CantTell(str(unclear))


def _key(declared: Declared, delivered: Delivered, settings: Mapping[str, str]) -> list[str]:
    if not declared.host_id.strip():
        raise KeyRefused("there is no host id")  # W-31
    if declared.layout == "dequeueable":
        return [declared.layout, _dequeueable_value(declared, delivered, settings)]
    place = [declared.layout, declared.host_id, *(["semaphore"] if declared.several else [])]
    if declared.mode == "listener":
        return [*place, "listener", declared.function, *_listeners_values(declared, settings)]
    values = _values(declared, delivered, settings)
    if declared.level == "function":
        return [*place, "function", declared.function, *values]
    if not values:
        raise KeyRefused("level 'host' needs a scope")  # W-10
    return [*place, "host", *values]


def _values(declared: Declared, delivered: Delivered, settings: Mapping[str, str]) -> list[str]:
    """Return the values that name the lock: the template's, then the path's."""
    texts, text_of = [], _printed_alike if declared.layout == "webjobs" else printed
    if declared.scope_id:
        texts.append(
            with_names(with_settings(declared.scope_id, settings), _Names(delivered, declared.layout), text_of)
        )
    if declared.scope is not None:
        _look_into(delivered)
        texts.append(text_of(value_at(declared.scope, delivered.body, last=declared.layout == "webjobs")))
    return [_not_blank(text, declared.layout) for text in texts]


def _printed_alike(value: object, pattern: str = "") -> str:
    if not pattern and type(value) is not str and not _WHOLE_NUMBER.fullmatch(printed(value)):
        raise Unclear("a value that .NET prints otherwise, in the layout webjobs")
    if pattern and type(value) is str and _OFFSET.search(value):
        raise Unclear("a time with an offset, which .NET puts into the zone of its machine, in the layout webjobs")
    return printed(value, pattern)


def _listeners_values(declared: Declared, settings: Mapping[str, str]) -> list[str]:
    """A listener is chosen before there is a message: its scope has values of settings only (W-44)."""

    def no_value(name: str) -> object:
        raise KeyRefused(f"{{{name}}} means nothing to a listener")

    if declared.scope is not None or declared.level == "host":
        raise KeyRefused("a listener has neither a scope in messages nor level 'host'")  # W-11
    if not declared.scope_id:
        return []
    text = with_names(with_settings(declared.scope_id, settings), no_value, printed)
    return [_not_blank(text, declared.layout)]


def _dequeueable_value(declared: Declared, delivered: Delivered, settings: Mapping[str, str]) -> str:
    """Return the only value: it is the blob's name, without host id, function and level (D-1, D-18)."""
    scope = declared.scope
    if scope is None and not declared.scope_id:
        scope = setting(settings, _SECTION_SCOPE)
    if declared.mode == "listener" or (scope is None) == (not declared.scope_id):
        raise KeyRefused("the layout dequeueable locks one value around each invocation")
    (value,) = _values(replace(declared, scope=scope), delivered, settings)
    if len(value) > _MOST_CHARACTERS or value.count("/") >= _MOST_SEGMENTS or _NO_NAME.search(value):
        raise KeyRefused("the value is no name of a blob that storage keeps as it is")
    return value


def _not_blank(value: str, layout: str) -> str:
    if value.strip():
        return value
    if layout == "webjobs":
        raise Unclear("an empty value in the layout webjobs")
    raise KeyRefused("the scope comes to nothing")  # D-14


def _look_into(delivered: Delivered) -> None:
    """Refuse a timer, which has no payload, and several messages; leave payloads alone that are not known here."""
    if delivered.trigger == "timerTrigger":
        raise KeyRefused("a timer has no payload")
    if delivered.several:
        raise KeyRefused("one lock can't stand for many messages")
    if delivered.trigger not in _READ:
        raise Unclear(f"payloads of a {delivered.trigger} are not read here")


class _Names:
    """What ``{name}`` means, looked for when the first one is asked for: of a template without any, nothing is read."""

    def __init__(self, delivered: Delivered, layout: str) -> None:
        self._delivered = delivered
        self._dotnet = layout == "webjobs"
        self._names: dict[str, object] | None = None

    def __call__(self, name: str) -> object:
        if self._names is None:
            _look_into(self._delivered)
            self._names = _names(self._delivered, last=self._dotnet)
        if folded(name) in {folded(each) for each in self._delivered.unclear}:
            raise Unclear(f"the text of {{{name}}} is not read here")
        if folded(name) not in self._names:
            raise KeyRefused(f"there is no value for {{{name}}}")  # W-39
        if self._names[folded(name)] is _TWICE:
            raise KeyRefused(f"{{{name}}} is there twice, in two spellings")
        return self._names[folded(name)]


_TWICE = object()


def _names(delivered: Delivered, *, last: bool) -> dict[str, object]:
    """Return the names of what was delivered: its own, and over them the properties of a JSON body (H-47).

    Null and lists replace nothing that is there, and no property replaces the message's own with BINARY (H-80). Of two
    properties that differ in case only the last counts, with ``last``, or none.
    """
    body = delivered.body
    text = body if isinstance(body, str) else body.decode(errors="replace")
    names = {folded(name): value for name, value in (delivered.own or {}).items() if value is not None}
    if delivered.trigger == "queueTrigger" or delivered.own is None:
        names[folded("QueueTrigger")] = text
    if delivered.own is None and not delivered.binary:
        names |= {folded(delivered.parameter): text, folded("data"): text}
    over = {folded(name): value for name, value in delivered.over.items()}
    if delivered.closed:
        return names | over
    try:
        properties = document(body)
    except KeyRefused:
        return names | over
    kept = frozenset(names) if delivered.binary and delivered.own is not None else frozenset()
    bodys: dict[str, object] = {}
    for spelt, value in properties.items() if isinstance(properties, dict) else ():
        name = folded(spelt)
        if name not in kept and not (name in names | bodys and not last and (value is None or isinstance(value, list))):
            before = bodys.get(name, value)
            bodys[name] = value if last or before in (value, None) or isinstance(before, list) else _TWICE
    return names | bodys | over
