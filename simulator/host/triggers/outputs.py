"""The outputs of a function: the worker makes typed data, or the invocation fails; the host writes messages from data.

``azure.functions`` has a converter for most kinds of bindings. Other kinds, and text and bytes, go through the worker's
"generic" binding. This module repeats the rules of that binding, and of the protocol that carries the data. The host
decides which queue messages to write (H-87). Outputs to anything but a queue are noted once.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from simulator.host.app.app_model import HostError, Parameter, SettingsError
from simulator.host.app.function_index import binding_class
from simulator.host.app.settings import is_set, not_set, resolve
from simulator.host.triggers.bindings import bound, datum
from simulator.host.triggers.jsonnet import plain, read
from simulator.host.triggers.queue import encode, is_queue_name
from singleton.settings.connection import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from simulator.history.journal import Write
    from simulator.host.app.app_model import IndexedFunction
    from simulator.host.triggers.bindings import Out
    from singleton.defer.trigger_queue import Encoding


def written(data: Typed) -> list[bytes]:
    """Return the bodies of the messages.

    Text that looks like a JSON object is written anew. Each element of a JSON array becomes a message. Bytes stay
    unchanged.

    Raises:
        ValueError: a text looks like JSON but is none: the invocation fails.
    """
    if data.kind == "bytes":
        return [data.value]
    found = _found(data)
    return [plain(item).encode() for item in (found if isinstance(found, list) else [found])]


def _found(data: Typed) -> Any:
    if data.kind == "json":
        return read(data.value, dates=False)
    if data.kind == "string" and (data.value.strip()[:1], data.value.strip()[-1:]) in {("{", "}"), ("[", "]")}:
        try:
            return read(data.value, dates=True)
        except ValueError as error:
            raise ValueError(f"text that begins with {data.value.strip()[0]} must be JSON: {error}") from error
    return data.value


_log = logging.getLogger(__name__)


class Outputs:
    """Makes messages of the results of a host's functions."""

    def __init__(self, *, encoding: Encoding, settings: Mapping[str, str], write: Write) -> None:
        self._encoding: Encoding = encoding
        self._settings = settings
        self._write = write
        self._noted: set[tuple[str, str]] = set()

    def messages(
        self, function: str, outputs: Iterable[tuple[Parameter, Typed]], data: Callable[[], Mapping[str, object]] = dict
    ) -> tuple[tuple[tuple[str, str], ...], str | None]:
        """Return the messages to send, as pairs of queue name and text, and an error or None.

        ``data`` has the trigger's values for ``{names}`` in queues' names. An output that can't be sent fails the
        invocation, but the rest is sent.
        """
        messages: list[tuple[str, str]] = []
        failure: str | None = None
        for parameter, value in outputs:
            if parameter.binding.lower() != "queue":
                self._note(function, parameter)
                continue
            try:
                _check_connection(parameter, self._settings)
                queue = queue_name(parameter, self._settings, "its queue", data)
                for body in written(value):
                    messages.append((queue, encode(body, self._encoding)))  # noqa: PERF401 - those before a wrong one go
            except (ValueError, HostError) as error:
                failure = failure or f"OutputError: output {parameter.name!r}: {redact(str(error))}"
        return tuple(messages), failure

    def _note(self, function: str, parameter: Parameter) -> None:
        if (function, parameter.name) not in self._noted:
            self._noted.add((function, parameter.name))
            message = f"output {parameter.name!r} ({parameter.binding}) is dropped: the simulator writes queues only"
            self._write("note", function=function, message=message)
            _log.warning("%s: %s", function, message)


def _check_connection(parameter: Parameter, settings: Mapping[str, str]) -> None:
    """Raise ``SettingsError`` where an output's connection is not set. The host fills in no ``%NAME%`` there."""
    name = str(parameter.settings.get("connection") or "")
    if not is_set(settings, name):
        raise SettingsError(not_set(name, settings))


def queue_name(
    parameter: Parameter,
    settings: Mapping[str, str],
    where: str,
    data: Callable[[], Mapping[str, object]] | None = None,
) -> str:
    """Return the queue's name of a binding, with its settings, and with the ``{names}`` of an output from ``data``.

    Raises:
        SettingsError: a setting or value is missing, or a queue may not have the name.
    """
    name = resolve(str(parameter.settings.get("queueName") or ""), settings, where)
    if data is not None and ("{" in name or "}" in name):
        name = bound(name, data(), where)
    # As the storage extension does: queue names are written in lower case.
    name = name.lower()
    if not is_queue_name(name):
        raise SettingsError(
            f"{where}: {name!r} is no queue name: 3 to 63 letters, digits and dashes, no dash double or at an edge"
        )
    return name


DataKind = Literal["string", "bytes", "json", "http", "int", "double"]
_KINDS: Final = frozenset({"string", "bytes", "json", "http", "double"})
_INTEGERS: Final = range(-(2**63), 2**63)
_IMPLICIT: Final = Parameter(name="$return", binding="generic", converter="generic")


class OutputError(Exception):
    """A function's result can't be sent, so its invocation fails. The message says which output, and why."""


class Typed(NamedTuple):
    """Data on its way from the worker to the host."""

    kind: DataKind
    value: Any


def given_back(
    function: IndexedFunction, outputs: Mapping[str, Out], result: Any
) -> tuple[tuple[Parameter, Typed], ...]:
    """Return the data that the worker sends after a body has ended: outputs in order, then the return value.

    Raises:
        OutputError: a value can't be sent; the worker then fails the invocation and sends nothing.
        RuntimeError: the function returned a value, and has no binding for the value.
    """
    if result is not None and not function.may_return:
        raise RuntimeError(f"function {function.name!r} without a $return binding returned a non-None value")
    # An output that was not set, or set to None, is left out; a return value is not.
    given = [(function.outputs[name], out.get()) for name, out in outputs.items()]
    given = [(parameter, value) for parameter, value in given if value is not None]
    if function.returns is not None:
        given.append((function.returns, result))
    elif function.may_return:
        _sent(_IMPLICIT, result)  # no binding takes the value, but its type must be sendable
    sent = [(parameter, _sent(parameter, value)) for parameter, value in given]
    return tuple((parameter, data) for parameter, data in sent if data is not None)


def _sent(parameter: Parameter, value: Any) -> Typed | None:
    try:
        return typed(parameter, value)
    except Exception as error:
        raise OutputError(f"output {parameter.name!r}: {error}") from error


def typed(parameter: Parameter, value: Any) -> Typed | None:
    """Return the data that the worker sends for the value of an output or return value; None: nothing.

    Raises:
        TypeError: the binding does not take a value of this type; the worker then fails the invocation.
        ValueError: the protocol does not carry the value.
    """
    converter = binding_class(parameter.converter) or _Generic
    try:
        encoded = converter.encode(value, expected_type=parameter.annotation)
    except NotImplementedError:  # the converters' refusal of an unknown type
        hint = ": return a value each time, or give it to a func.Out parameter, which may stay unset"
        raise TypeError(
            f'unable to encode outgoing TypedData: unsupported type "{parameter.converter}" for Python type '
            f'"{type(value).__name__}"{hint if value is None else ""}'
        ) from None
    return _carried(encoded.type, encoded.value)


def _carried(kind: str | None, value: Any) -> Typed | None:
    match kind:
        case None:
            return None
        case "dict" | "list":
            return Typed("json", json.dumps(value))
        case "int" | "bool":
            # The worker's Protocol Buffers accept no bool as an int.
            if isinstance(value, bool) and kind == "int":
                raise TypeError(f"unable to encode outgoing TypedData: expected an int, got a boolean ({value})")
            if value not in _INTEGERS:
                raise ValueError(f"unable to encode outgoing TypedData: {value} is out of range")
            return Typed("int", int(value))
        case "string":
            value.encode()  # half of a surrogate pair can't be sent
    if kind not in _KINDS:
        raise TypeError(f"unable to encode outgoing TypedData: unexpected kind {kind!r}")
    return Typed(kind, value)  # type: ignore[arg-type]


class _Generic:
    """The worker's binding for kinds without a converter."""

    @staticmethod
    def encode(value: Any, *, expected_type: object) -> Any:
        """Name the kind of a value."""
        del expected_type
        match value:
            case None:
                kind = None
            case str():
                kind = "string"
            case bytes() | bytearray():
                kind, value = "bytes", bytes(value)
            case dict():
                kind = "dict"
            case list():
                kind = "list"
            case int():
                kind = "int"
            case float():
                kind = "double"
            case _:
                raise NotImplementedError  # as the converters of azure.functions do, which this one replaces
        return datum(value, kind)
