"""The worker's half of an output: the value that a function returns becomes typed data, or fails the invocation.

``azure.functions`` brings a converter for most kinds of bindings; the others, and text and bytes, go through the
worker's "generic" binding, whose rules are repeated here, as are those of the protocol that carries the data.
"""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from simulator.host.app.indexing import binding_class
from simulator.host.app.model import Parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.host.app.model import IndexedFunction
    from simulator.host.triggers.bindings import Out

Kind = Literal["string", "bytes", "json", "http", "int", "double"]
_KINDS: Final = frozenset({"string", "bytes", "json", "http", "double"})
_INTEGERS: Final = range(-(2**63), 2**63)
_IMPLICIT: Final = Parameter(name="$return", binding="generic", converter="generic")


class OutputError(Exception):
    """A function's result can't be sent, so its invocation fails. The message says which output, and why."""


class Typed(NamedTuple):
    """Data on its way from the worker to the host."""

    kind: Kind
    value: Any


def given_back(
    function: IndexedFunction, outputs: Mapping[str, Out], result: Any
) -> tuple[tuple[Parameter, Typed], ...]:
    """Return what the worker sends after a body has ended: its outputs in order, then its return value.

    Raises:
        OutputError: a value can't be sent; the worker then fails the invocation and sends nothing.
        RuntimeError: there is no binding for what the function returned.
    """
    if result is not None and not function.may_return:
        raise RuntimeError(f"function {function.name!r} without a $return binding returned a non-None value")
    # An output that was not set, or set to None, is left out; a return value is not.
    given = [(function.outputs[name], out.get()) for name, out in outputs.items()]
    given = [(parameter, value) for parameter, value in given if value is not None]
    if function.returns is not None:
        given.append((function.returns, result))
    elif function.may_return:
        _sent(_IMPLICIT, result)  # no binding takes it, but it must be of a kind that can be sent
    sent = [(parameter, _sent(parameter, value)) for parameter, value in given]
    return tuple((parameter, data) for parameter, data in sent if data is not None)


def _sent(parameter: Parameter, value: Any) -> Typed | None:
    try:
        return typed(parameter, value)
    except Exception as error:
        raise OutputError(f"output {parameter.name!r}: {error}") from error


def typed(parameter: Parameter, value: Any) -> Typed | None:
    """Return what the worker sends for the value of an output or return value; None: nothing.

    Raises:
        TypeError: its binding does not take such a value; the worker then fails the invocation.
        ValueError: the protocol does not carry it.
    """
    converter = binding_class(parameter.converter) or _Generic
    try:
        datum = converter.encode(value, expected_type=parameter.annotation)
    except NotImplementedError:  # so the converters refuse a type that they do not know
        raise TypeError(_unsupported(parameter, value)) from None
    return _carried(datum.type, datum.value)


def _unsupported(parameter: Parameter, value: Any) -> str:
    remedy = (
        ": return a value each time, or give it to a func.Out parameter, which may stay unset" if value is None else ""
    )
    return (
        f'unable to encode outgoing TypedData: unsupported type "{parameter.converter}" for Python type '
        f'"{type(value).__name__}"{remedy}'
    )


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
    """The worker's binding for what has no converter of its own."""

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
        return importlib.import_module("azure.functions.meta").Datum(value, kind)
