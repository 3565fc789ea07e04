"""A host's port: requests reach their functions as the worker makes them, and callers get what these answer."""

from __future__ import annotations

from typing import Any

import aiohttp
import azure.functions as func
import pytest

from simulator.host.app.app_model import Parameter
from simulator.host.triggers.outputs import typed
from simulator.host.web.routes import Route
from simulator.host.web.site import REQUEST_ID, HttpRequest, HttpResponse, Site, answered, http_input

TRIGGER = Parameter(name="req", binding="httpTrigger", converter="httpTrigger")
OUTPUT = Parameter(name="$return", binding="http", converter="http", annotation=func.HttpResponse)


class Served:
    """A site with one function, which keeps what it was asked."""

    def __init__(self, prefix: str = "api", response: HttpResponse | None = None) -> None:
        self.asked: list[HttpRequest] = []
        self.told: list[tuple[str, dict[str, object]]] = []
        self.response = response or HttpResponse(body=b"done")
        routes = [(Route.parse("orders/{id:int}"), frozenset({"POST", "GET"}), "ship")]
        self.site = Site(routes, prefix, self.run, self.write)

    async def run(self, function: str, request: HttpRequest) -> HttpResponse:
        assert function == "ship"
        self.asked.append(request)
        return self.response

    def write(self, event: str, /, **fields: object) -> None:
        self.told.append((event, fields))

    @property
    def url(self) -> str:
        return str(self.told[0][1]["url"])

    async def ask(self, method: str, url: str, **more: Any) -> tuple[int, bytes, Any]:
        async with aiohttp.ClientSession() as session, session.request(method, url, **more) as answer:
            return answer.status, await answer.read(), answer.headers


async def test_a_request_reaches_its_function_with_all_that_it_says() -> None:
    served = Served(response=HttpResponse(status=201, headers=(("X-A", "b"), ("Set-Cookie", "c=1")), body=b"made"))
    await served.site.open()
    try:
        headers = {REQUEST_ID: "r-1", "X-Tenant": "north", "Content-Type": "application/json"}
        status, body, answer = await served.ask(
            "POST", f"{served.url}/orders/7?a=1&a=2&left=", json={"Id": 3}, headers=headers
        )
        assert (status, body, answer["X-A"], answer["Set-Cookie"]) == (201, b"made", "b", "c=1")
        assert (await served.ask("GET", f"{served.url}/orders/x"))[0] == 404
        assert (await served.ask("PUT", f"{served.url}/orders/7"))[0] == 404
        assert (await served.ask("GET", served.url.replace("/api", "/other") + "/orders/7"))[0] == 404
    finally:
        await served.site.close()
    (asked,) = served.asked
    assert (asked.id, asked.method, asked.route, asked.query) == ("r-1", "POST", {"id": "7"}, {"a": "1,2"})
    request = http_input(TRIGGER, asked)
    assert isinstance(request, func.HttpRequest)
    assert request.url.endswith("/api/orders/7?a=1&a=2&left=")  # the host leaves out what is empty
    assert (request.get_json(), request.get_body()) == ({"Id": 3}, b'{"Id": 3}')
    assert (request.headers["x-tenant"], request.params["a"], request.route_params["id"]) == ("north", "1,2", "7")
    assert ("request_served", {"request": "r-1", "function": "ship", "status": 201}) in served.told


async def test_an_app_without_a_prefix_serves_from_the_root_and_one_with_two_parts_below_both() -> None:
    for prefix, below in (("", ""), ("/shop/v1", "/shop/v1")):
        served = Served(prefix)
        await served.site.open()
        try:
            base = served.url.rstrip("/")
            assert base.endswith(below)
            assert (await served.ask("GET", f"{base}/orders/7"))[0] == 200
        finally:
            await served.site.close()


async def test_a_site_that_closes_accepts_nobody_and_finishes_what_it_has() -> None:
    served = Served()
    await served.site.open()
    url = f"{served.url}/orders/7"
    async with aiohttp.ClientSession() as session:
        async with session.get(url) as answer:
            assert answer.status == 200
        await served.site.close()
        with pytest.raises(aiohttp.ClientError):
            async with aiohttp.ClientSession() as other, other.get(url):
                pass
        async with session.get(url) as answer:  # by the connection that it has kept
            assert answer.status == 503
    assert len(served.asked) == 1


def test_what_a_function_gives_back_is_what_the_caller_gets() -> None:
    made = func.HttpResponse(b"\x00", status_code=409, headers={"X-A": "b"}, mimetype="application/octet-stream")
    value = typed(OUTPUT, made)
    assert value is not None
    response = answered(*value)
    assert (response.status, response.body, dict(response.headers)["X-A"]) == (409, b"\x00", "b")
    text = typed(OUTPUT, "plain")
    assert text is not None
    assert answered(*text) == HttpResponse(headers=(("Content-Type", "text/plain; charset=utf-8"),), body=b"plain")
    with pytest.raises(TypeError, match="unable to encode"):
        typed(OUTPUT, None)
