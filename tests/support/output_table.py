"""What functions may give back, for every kind of binding: values by name, and an app whose functions give them.

The unit tests say what becomes of each value; where the real worker is, it is asked the same (`make_app` is its app).
"""

from __future__ import annotations

import io
import typing
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import azure.functions as func

from simulator.host.app.function_index import index_function

if TYPE_CHECKING:
    from simulator.host.app.app_model import IndexedFunction

Make = Callable[[], Any]


def _event(name: str) -> func.EventGridOutputEvent:
    return func.EventGridOutputEvent(
        id=name,
        data={"n": 1},
        subject="s",
        event_type="t",
        event_time=datetime(2026, 11, 22, tzinfo=UTC),
        data_version="1",
    )


VALUES: dict[str, Make] = {
    "None": lambda: None,
    "text": lambda: "é",
    "empty text": lambda: "",
    "object text": lambda: '{"a": 1.10}',
    "array text": lambda: '["a", {"b": 1}]',
    "half a character": lambda: "\ud800",
    "bytes": lambda: b"\xff",
    "bytearray": lambda: bytearray(b"\xff"),
    "int": lambda: 7,
    "large int": lambda: 2**63,
    "float": lambda: 1.5,
    "not a number": lambda: float("nan"),
    "True": lambda: True,
    "dict": lambda: {"a": 1.10},
    "empty dict": dict,
    "dict of bytes": lambda: {"a": b"\xff"},
    "list of texts": lambda: ["a", "é"],
    "mixed list": lambda: ["a", {"b": 2}, None, True, 1.0],
    "empty list": list,
    "list of bytes": lambda: [b"a"],
    "tuple": lambda: ("a", "b"),
    "set": lambda: {"a"},
    "generator": lambda: (text for text in ("a", "b")),
    "file": lambda: io.StringIO("content"),
    "object": object,
    "class": lambda: str,
    "message": lambda: func.QueueMessage(body="b"),
    "messages": lambda: [func.QueueMessage(id="i", body="b"), "c"],
    "message of bytes": lambda: func.QueueMessage(body=b"\xff"),
    "document": lambda: func.Document.from_dict({"id": "d"}),
    "documents": lambda: func.DocumentList([func.Document.from_dict({"id": "d"})]),
    "list of documents": lambda: [func.Document.from_dict({"id": "d"})],
    "event": lambda: _event("e"),
    "events": lambda: [_event("e"), "text"],
    "SQL row": lambda: func.SqlRow.from_dict({"id": "r"}),
    "SQL rows": lambda: func.SqlRowList([func.SqlRow.from_dict({"id": "r"})]),
    "MySQL row": lambda: func.MySqlRow.from_dict({"id": "r"}),
    "response": lambda: func.HttpResponse("body", status_code=201),
}
RETURNED: tuple[str, ...] = (
    *("queue", "blob", "serviceBus", "eventGrid", "eventHub", "cosmosDB", "sql", "mysql", "kafka"),
    *("table", "signalR", "http"),
)
"""Bindings of a return value; those without a converter of their own are all alike."""
SET: dict[str, tuple[str, Any]] = {
    "queue_text": ("queue", str),
    "queue_bytes": ("queue", bytes),
    "queue_message": ("queue", func.QueueMessage),
    "queue_list": ("queue", typing.List[str]),  # noqa: UP006 - a generic to the worker, which list[str] is not
    "blob_text": ("blob", str),
    "cosmos_document": ("cosmosDB", func.Document),
    "cosmos_text": ("cosmosDB", str),
    "hub_text": ("eventHub", str),
    "table_text": ("table", str),
}
"""Outputs that are parameters: binding, and the type inside of ``func.Out``."""


def function_name(output: str) -> str:
    """Return the name of the function that gives values to this output."""
    return f"give_{output}"


def make_app() -> func.FunctionApp:
    """Return an app with a function for each output; the message names the value."""
    app = func.FunctionApp()
    for kind in RETURNED:
        _function(app, kind, "$return", kind, _returning())
    for name, (kind, annotation) in SET.items():
        _function(app, name, "out", kind, _setting(annotation))
    _function(app, "nothing", "", "", _returning())
    return app


def functions() -> dict[str, IndexedFunction]:
    """Return the app's functions by their outputs, as the fake host indexes them."""
    indexed = (index_function(function, Path(__file__).parent) for function in make_app().get_functions())
    return {function.name.removeprefix(function_name("")): function for function in indexed}


def _function(app: func.FunctionApp, name: str, binding: str, kind: str, body: Any) -> None:
    body.__name__ = function_name(name)
    builder = app.generic_output_binding(arg_name=binding, type=kind, queueName="next")(body) if kind else body
    app.queue_trigger(arg_name="msg", queue_name="orders", connection="C")(builder)


def _returning() -> Callable[[str], Any]:
    def body(msg: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
        return VALUES[msg]()

    return body


def _setting(annotation: Any) -> Callable[..., None]:
    def body(msg: str, out) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        out.set(VALUES[msg]())

    body.__annotations__["out"] = func.Out[annotation]
    return body


_TEXTS = ("text", "empty text", "object text", "array text")
_GENERIC = {
    "": ("None",),
    "string": _TEXTS,
    "bytes": ("bytes", "bytearray"),
    "json": ("dict", "empty dict", "list of texts", "mixed list", "empty list"),
    "int": ("int",),
    "double": ("float", "not a number"),
}
_NO_ITEMS = ("empty text", "empty dict", "empty list")
_ITERATED = ("dict", "empty dict", "dict of bytes", "list of texts", "empty list", "tuple", "set", "generator", "file")
_DOCUMENTS = (*_NO_ITEMS, "document", "documents", "list of documents")
_QUEUE = {
    "string": _TEXTS,
    "bytes": ("bytes",),
    # What can be iterated and gives texts is a list of messages: the keys of a dict, the lines of a file.
    "json": (*_ITERATED, "message", "messages", "document", "SQL row", "MySQL row"),
}
_UNSET: dict[str, tuple[str, ...]] = {"": ("None",)}
EXPECTED: dict[str, dict[str, tuple[str, ...]]] = {
    "queue": _QUEUE,
    "blob": {"string": (*_TEXTS, "file"), "bytes": ("bytes", "bytearray")},
    "serviceBus": {"string": _TEXTS, "bytes": ("bytes",)},
    "eventGrid": {
        "string": _TEXTS,
        "bytes": ("bytes",),
        "json": (*_ITERATED, "event", "events", "document", "SQL row", "MySQL row"),
    },
    "eventHub": {
        "": (
            *("None", "bytearray", "float", "not a number", "dict", "empty dict", "dict of bytes", "tuple", "set"),
            *("generator", "file", "object", "class", "message", "message of bytes", "document", "documents", "event"),
            *("SQL row", "SQL rows", "MySQL row", "response"),
        ),
        "string": _TEXTS,
        "bytes": ("bytes",),
        "int": ("int",),
        "json": ("list of texts", "mixed list", "empty list"),
    },
    "cosmosDB": {"json": _DOCUMENTS},
    "sql": {"json": (*_NO_ITEMS, "SQL row", "SQL rows")},
    "mysql": {"json": (*_NO_ITEMS, "MySQL row")},
    "kafka": {},
    "table": _GENERIC,
    "signalR": _GENERIC,
    "http": {"string": _TEXTS, "http": ("response",)},
    "queue_text": _GENERIC,
    "queue_bytes": _GENERIC,
    "queue_message": _UNSET | _QUEUE,
    "queue_list": _UNSET | _QUEUE,
    "blob_text": _GENERIC,
    "cosmos_document": _UNSET | {"json": _DOCUMENTS},
    "cosmos_text": _GENERIC,
    "hub_text": _GENERIC,
    "table_text": _GENERIC,
    "nothing": _UNSET,
}
"""By output: which values the worker sends, as data of which kind ("" for nothing). All others fail the invocation."""
