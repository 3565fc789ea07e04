"""The port of a host: requests are routed to functions, and the answers of functions go back to the port."""

from __future__ import annotations

import importlib
import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from simulator.host.app.function_index import binding_class
from simulator.host.web.routes import first_match

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from aiohttp import web

    from simulator.history.journal import Write
    from simulator.host.app.app_model import Parameter
    from simulator.host.web.routes import Route


HOST: Final = "127.0.0.1"
REQUEST_ID: Final = "X-ARR-LOG-ID"
"""The header in which Azure's load balancers number requests; the simulator's own callers do the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request, with the id that a load balancer gave it, and with the values of the route's parameters."""

    id: str
    method: str
    url: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    route: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """What is answered."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


FAILED = HttpResponse(status=500)
NOTHING = HttpResponse(status=204)
"""Answered for a function that gives nothing back to HTTP."""


def http_input(parameter: Parameter, request: HttpRequest) -> Any:
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


def answered(kind: str, value: Any) -> HttpResponse:
    """Return the response for what the worker sends as the value of an HTTP output."""
    if kind == "http":
        headers = [(name, str(header.value)) for name, header in value["headers"].items()]
        for cookie in value["cookies"] or ():
            headers += [("Set-Cookie", morsel.OutputString()) for morsel in cookie.values()]
        return HttpResponse(
            status=int(value["status_code"].value), headers=tuple(headers), body=bytes(value["body"].value)
        )
    body = value if isinstance(value, bytes) else str(value).encode()
    form = "application/json" if kind == "json" else "text/plain"
    return HttpResponse(headers=(("Content-Type", f"{form}; charset=utf-8"),), body=body)


def request_names(request: HttpRequest) -> dict[str, object]:
    """Return the request's names for outputs: the route's win over the query's, and these over the body's."""
    try:
        body = json.loads(request.body)
    except ValueError:
        body = {}
    properties = body if isinstance(body, dict) else {}
    asked = {"headers": dict(request.headers), "query": dict(request.query)}
    return {**properties, **request.query, **request.route, **asked}


LARGEST: Final = 100 * 1024 * 1024
"""Bytes of a request's body, as the Functions host allows them."""

Served: TypeAlias = "tuple[Route, frozenset[str], str]"
"""A route, the methods that it allows (none: all), and its function."""


class Site:
    """Serves the HTTP functions of one host on a free port of this machine."""

    def __init__(
        self,
        served: list[Served],
        prefix: str,
        run: Callable[[str, HttpRequest], Awaitable[HttpResponse]],
        write: Write,
    ) -> None:
        """Prepare the port; ``prefix``, from host.json, comes before the routes in each path."""
        self._served = served
        self._prefix = prefix.strip("/")
        self._run = run
        self._write = write
        self._closing = False
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None

    async def open(self) -> None:
        """Begin to listen, and journal where."""
        from aiohttp import web  # only an app with HTTP triggers needs aiohttp

        app = web.Application(client_max_size=LARGEST)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, HOST, 0)
        await self._site.start()
        port = self._runner.addresses[0][1]
        functions = [function for _, _, function in self._served]
        self._write("http_port", port=port, url=f"http://{HOST}:{port}/{self._prefix}", functions=functions)

    async def close(self) -> None:
        """Accept no more connections. What is under way goes on, and is answered."""
        self._closing = True
        if self._site is not None:
            await self._site.stop()

    async def _handle(self, request: web.Request) -> web.Response:
        from aiohttp import web

        if self._closing:
            return web.Response(status=503, headers={"Connection": "close"})
        found = first_match(self._served, request.method, path) if (path := self._below(request)) is not None else None
        if found is None:
            return web.Response(status=404)
        function, values = found
        asked = HttpRequest(
            id=request.headers.get(REQUEST_ID) or str(uuid.uuid4()),
            method=request.method,
            url=str(request.url),
            headers={name.lower(): ", ".join(request.headers.getall(name)) for name in request.headers},
            query={name: text for name in request.query if (text := ",".join(request.query.getall(name)))},
            route=values,
            body=await request.read(),
        )
        response = await self._run(function, asked)
        self._write("request_served", request=asked.id, function=function, status=response.status)
        return _sent(response, closing=self._closing)

    def _below(self, request: web.Request) -> str | None:
        """Return the path below the prefix, still escaped; None: the request has another prefix."""
        path = request.rel_url.raw_path.strip("/")
        inside = not self._prefix or f"{path}/".lower().startswith(f"{self._prefix}/".lower())
        return path[len(self._prefix) :] if inside else None


def _sent(response: HttpResponse, *, closing: bool) -> web.Response:
    from aiohttp import web

    sent = web.Response(status=response.status, body=response.body)
    for name, value in response.headers:
        if name.lower() == "set-cookie":
            sent.headers.add(name, value)
        elif name.lower() not in {"content-length", "transfer-encoding"}:
            sent.headers[name] = value
    if closing:
        sent.force_close()
    return sent
