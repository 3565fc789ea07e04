"""A request of an HTTP trigger, from the port to the function; and the function's answer, back to the port."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from simulator.host.app.indexing import binding_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.host.app.model import Parameter

HOST: Final = "127.0.0.1"
REQUEST_ID: Final = "X-ARR-LOG-ID"
"""The header in which Azure's load balancers number requests; the simulator's own callers do the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked.

    Attributes:
        id: the id that a load balancer gave it.
        route: the values of the route's parameters.
    """

    id: str
    method: str
    url: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    route: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What is answered."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


FAILED = Response(status=500)
NOTHING = Response(status=204)
"""Answered for a function that gives nothing back to HTTP."""


def http_input(parameter: Parameter, request: Request) -> Any:
    """Return the trigger's value, a ``func.HttpRequest``, by the worker's own converter."""
    datum: Any = importlib.import_module("azure.functions.meta").Datum

    def texts(values: Mapping[str, str]) -> dict[str, Any]:
        return {name: datum(value, "string") for name, value in values.items()}

    asked = {
        "method": datum(request.method, "string"),
        "url": datum(request.url, "string"),
        "headers": texts(request.headers),
        "query": texts(request.query),
        "params": texts(request.route),
        "body": datum(request.body, "bytes"),
    }
    return binding_class(parameter.converter).decode(datum(asked, "http"), trigger_metadata={})


def answered(kind: str, value: Any) -> Response:
    """Return the response for what the worker sends as the value of an HTTP output."""
    if kind == "http":
        headers = [(name, str(header.value)) for name, header in value["headers"].items()]
        for cookie in value["cookies"] or ():
            headers += [("Set-Cookie", morsel.OutputString()) for morsel in cookie.values()]
        return Response(status=int(value["status_code"].value), headers=tuple(headers), body=bytes(value["body"].value))
    body = value if isinstance(value, bytes) else str(value).encode()
    form = "application/json" if kind == "json" else "text/plain"
    return Response(headers=(("Content-Type", f"{form}; charset=utf-8"),), body=body)


def request_names(request: Request) -> dict[str, object]:
    """Return the request's names for outputs: the route's win over the query's, and these over the body's."""
    try:
        body = json.loads(request.body)
    except ValueError:
        body = {}
    properties = body if isinstance(body, dict) else {}
    asked = {"headers": dict(request.headers), "query": dict(request.query)}
    return {**properties, **request.query, **request.route, **asked}
