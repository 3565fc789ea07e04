"""The port of a host: it routes requests to functions, and answers what these give back."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final, TypeAlias

from aiohttp import web

from simulator.host.web.request import HOST, REQUEST_ID, Request, Response
from simulator.host.web.routes import first_match

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from simulator.history.journal import Write
    from simulator.host.web.routes import Route

LARGEST: Final = 100 * 1024 * 1024
"""Bytes of a request's body, as the Functions host allows them."""

Served: TypeAlias = "tuple[Route, frozenset[str], str]"
"""A route, the methods that it allows (none: all), and its function."""


class Site:
    """Serves the HTTP functions of one host on a free port of this machine."""

    def __init__(
        self, served: list[Served], prefix: str, run: Callable[[str, Request], Awaitable[Response]], write: Write
    ) -> None:
        """Prepare the port.

        Args:
            served: the routes.
            prefix: what comes before them in each path, from host.json.
            run: runs a function on a request.
            write: the journal.
        """
        self._served = served
        self._prefix = prefix.strip("/")
        self._run = run
        self._write = write
        self._closing = False
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None

    async def open(self) -> None:
        """Begin to listen, and journal where."""
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
        if self._closing:
            return web.Response(status=503, headers={"Connection": "close"})
        found = first_match(self._served, request.method, path) if (path := self._below(request)) is not None else None
        if found is None:
            return web.Response(status=404)
        function, values = found
        asked = Request(
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
        """Return the path below the prefix, still escaped; None: it is not below it."""
        path = request.rel_url.raw_path.strip("/")
        inside = not self._prefix or f"{path}/".lower().startswith(f"{self._prefix}/".lower())
        return path[len(self._prefix) :] if inside else None


def _sent(response: Response, *, closing: bool) -> web.Response:
    sent = web.Response(status=response.status, body=response.body)
    for name, value in response.headers:
        if name.lower() == "set-cookie":
            sent.headers.add(name, value)
        elif name.lower() not in {"content-length", "transfer-encoding"}:
            sent.headers[name] = value
    if closing:
        sent.force_close()
    return sent
