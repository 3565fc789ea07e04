"""Requests of HTTP functions, made for the function's scope: in the route, the query, a header or the body.

route="orders/{id}/ship", scope_id="{id}"   →  POST /api/orders/alpha/ship
route="ship", methods=["GET"], scope_id="{tenant}"  →  GET /api/ship?tenant=alpha
route="ship", scope="Order:Id"              →  POST /api/ship  {"Order": {"Id": "alpha"}, "Number": 3}

Bodies carry one of a few keys, so that invocations contend for locks.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from simulator.host.web.routes import Route, RouteParameter
from simulator.host.web.site import REQUEST_ID
from simulator.work.scenario import ScenarioError
from singleton.base.words import as_json, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simulator.work.apps import AppFunction


# One lock for two of them is a finding: they differ by the case of a letter, or by what comes after the same letters.
KEYS: Final = ("alpha", "bravo", "Bravo", "bravo-2")

# Names in a scope id that the host knows of every message (H-47); "Id" is not among them, as a body's own Id wins.
_KNOWN: Final = frozenset(
    {"queuetrigger", "dequeuecount", "expirationtime", "insertiontime", "nextvisibletime", "popreceipt"}
)


_REPEATS: Final = 12
"""Messages of one source after which the operations of `@once` are others: each is repeated a few times."""


def operation_of(key: str, number: int) -> str:
    """Return the idempotency key of a made message."""
    return f"{key}-{number // _REPEATS}"


def body_with(
    scopes: Iterable[tuple[str | None, Sequence[str]]], key: str, number: int, once: Iterable[str] = ()
) -> str:
    """Make a body with the value ``key`` at these paths: ``scope``, and the dotted paths of a ``scope_id``.

    ``once``: the dotted paths of the keys of `@once`, with a value that changes now and then.
    """
    body: dict[str, Any] = {}
    for scope, paths in scopes:
        if scope:
            _put(body, scope.split(":"), key)
        for path in paths:
            first, *rest = path.split(".")
            if first.lower() == "queuetrigger":
                return key  # the lock's name is the body itself
            if first.lower() not in _KNOWN:
                _put(body, [first, *rest], key)
    for path in once:
        _put(body, path.split("."), operation_of(key, number))
    if not body:
        body["Id"] = key
    if "number" not in {name.lower() for name in body}:
        body["Number"] = number
    return json.dumps(body)


def _put(body: dict[str, Any], path: Sequence[str], value: str) -> None:
    *parents, last = path
    for name in parents:
        inner = body.setdefault(name, {})
        if not isinstance(inner, dict):
            return  # one path runs through the value of another: no body can serve both
        body = inner
    body.setdefault(last, value)


_WITH_BODY: Final = ("POST", "PUT", "PATCH")
_METHODS: Final = (*_WITH_BODY, "GET", "DELETE", "HEAD", "OPTIONS", "TRACE")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*")
_HALF: Final = re.compile(r"[\ud800-\udfff]")
_OF_THE_CALLER: Final = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "expect", REQUEST_ID.casefold()}
)
"""Headers by which a request is sent and known again."""
_NAMESPACE: Final = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSpec:
    """One request, without the host that it is sent to. The path is escaped, and begins with the app's prefix."""

    function: str
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


def make_request(function: AppFunction, key: str, number: int) -> RequestSpec | None:
    """Make a request from which a function can take its scope, with the value ``key``, or another value per key.

    None: no made value fits the constraints of its route.
    """
    method = next(
        (each for each in (*_WITH_BODY, "GET", "DELETE") if not function.methods or each in function.methods), ""
    )
    route = Route.parse(function.route or "")
    values = {parameter.name: _value(parameter, key) for parameter in route.parameters}
    if not method or None in values.values():
        return None
    known = {name.casefold() for name in values}
    query: dict[str, str] = {}
    headers = {"Content-Type": "application/json"}
    in_body: list[str] = []
    once_in_body: list[str] = []
    operation = operation_of(key, number)
    for path, value, inside in (
        *((path, key, in_body) for path in function.paths),
        *((path, operation, once_in_body) for path in function.once),
    ):
        first, _, rest = path.partition(".")
        if first.casefold() == "query" and rest:
            query.setdefault(rest, value)
        elif first.casefold() == "headers" and rest:
            headers.setdefault(rest, value)
        elif first.casefold() not in known:
            if method in _WITH_BODY or rest:
                inside.append(path)
            else:
                query.setdefault(first, value)
    body = body_with([(function.scope, tuple(in_body))], key, number, once_in_body)
    return RequestSpec(
        function=function.name,
        method=method,
        path=_path(function, route, {name: value for name, value in values.items() if value is not None}),
        query=query,
        headers=headers,
        body=body if method in _WITH_BODY or function.scope or in_body or once_in_body else "",
    )


def own_request(function: AppFunction, body: str, metadata: Mapping[str, Any], where: str) -> RequestSpec:
    """Return the request that a user's message describes: ``method``, ``route``, ``query`` and ``headers``.

    Raises:
        ScenarioError: the request does not reach the function.
    """
    if unknown := sorted(set(metadata) - {"method", "route", "query", "headers"}):
        raise ScenarioError(
            f"{where}: the metadata of a request has {unknown[0]!r}; there are method, route, query and headers"
        )
    default = next(iter(function.methods), "POST" if body else "GET")
    method = metadata.get("method", default)
    if not isinstance(method, str) or method.upper() not in _METHODS:
        raise ScenarioError(
            f'{where}: "method" of its metadata is {as_json(method)}: it must be one of {", ".join(_METHODS)}'
        )
    method = method.upper()
    if function.methods and method not in function.methods:
        raise ScenarioError(f"{where}: {function.name!r} allows {', '.join(function.methods)}, not {method}")
    parts = {name: _texts(metadata, name, where) for name in ("route", "query", "headers")}
    _check_headers(parts["headers"], where)
    route = Route.parse(function.route or "")
    given = {name.casefold(): value for name, value in parts["route"].items()}
    values = {each.name: given[each.name.casefold()] for each in route.parameters if each.name.casefold() in given}
    for parameter in route.parameters:
        lacks = parameter.name not in values and not (parameter.optional or parameter.rest or parameter.default)
        if lacks:
            raise ScenarioError(
                f"{where}: the route {function.route!r} of {function.name!r} needs {{{parameter.name}}}: give "
                f'"metadata": {{"route": {{"{parameter.name}": …}}}}'
            )
    path = _path(function, route, values)
    below = path.removeprefix(f"/{function.prefix}") if function.prefix else path
    if route.match(below) is None:
        raise ScenarioError(f"{where}: {path} does not fit the route {function.route!r} of {function.name!r}")
    return RequestSpec(
        function=function.name, method=method, path=path, query=parts["query"], headers=parts["headers"], body=body
    )


def _texts(metadata: Mapping[str, Any], name: str, where: str) -> dict[str, str]:
    found = metadata.get(name, {})
    if not isinstance(found, Mapping):
        raise ScenarioError(f"{where}: {name} of its metadata must be an object of texts, not {as_json(found)}")
    for key, value in found.items():
        if not isinstance(value, str | int | float) or isinstance(value, bool) or _HALF.search(f"{key}{value}"):
            raise ScenarioError(f'{where}: "{name}.{key}" of its metadata is {as_json(value)}: it must be a text')
    return {str(key): value if isinstance(value, str) else str(value) for key, value in found.items()}


def _check_headers(headers: Mapping[str, str], where: str) -> None:
    """See whether headers can be sent: with a wrong one there is no request at all."""
    for name, value in headers.items():
        if _TOKEN.fullmatch(name) is None:
            raise ScenarioError(f'{where}: "headers" of its metadata has {quoted(name)}, which is no name of a header')
        if name.casefold() in _OF_THE_CALLER:
            raise ScenarioError(f'{where}: "headers.{name}" of its metadata: the caller sets it itself: leave it out')
        if _VALUE.fullmatch(value) is None:
            raise ScenarioError(f'{where}: "headers.{name}" of its metadata has characters that no header can have')


def _path(function: AppFunction, route: Route, values: Mapping[str, str]) -> str:
    segments = [function.prefix] if function.prefix else []
    for segment in route.segments:
        lacking = [part for part in segment if isinstance(part, RouteParameter) and part.name not in values]
        if lacking:
            break
        texts = [
            part if isinstance(part, str) else quote(values[part.name], safe="/" if part.rest else "")
            for part in segment
        ]
        segments.append("".join(texts))
    return "/" + "/".join(segments)


def _value(parameter: RouteParameter, key: str) -> str | None:
    """Return a value for a key that the parameter's constraints allow; None: no known value fits."""
    at = KEYS.index(key) + 1 if key in KEYS else 1
    letters = "".join(char for char in key if char.isalpha())
    tried = (
        *(key, letters, f"{key}{'x' * 20}"[: len(key) + 12], str(at), str(at + 10), str(at * 1000)),
        *(str(uuid.uuid5(_NAMESPACE, key)), ("true", "false")[at % 2], f"2026-11-{at:02}", key[:2], f"{letters:x<8}"),
    )
    return next((value for value in tried if value and parameter.fits(value)), None)
