"""Whole web apps behind one function: what WSGI frameworks are given, and what their callers get."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import azure.functions as func

from simulator.host.app.function_index import index_function
from simulator.host.triggers.delivery import source_of
from simulator.host.triggers.outputs import given_back
from simulator.host.web.routes import Route
from simulator.host.web.site import HttpRequest, answered, http_input
from simulator.host.worker import Context, RetryContext
from singleton import singleton

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.host.app.app_model import IndexedFunction
    from simulator.host.web.site import HttpResponse

ASKED = HttpRequest(
    id="r",
    method="POST",
    url="http://127.0.0.1:7/api/orders/7?a=b",
    headers={"Content-Type": "text/plain", "X-Tenant": "north"},
    query={"a": "b"},
    route={"route": "orders/7"},
    body=b"content",
)


def wsgi(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    start_response("201 Created", [("X-Path", environ["PATH_INFO"]), ("X-Tenant", environ["HTTP_X_TENANT"])])
    body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    return [body, b"?", environ["QUERY_STRING"].encode()]


def served(function: IndexedFunction) -> HttpResponse:
    context = Context(function.name, function.directory, "i", threading.local(), RetryContext(0, 0))
    result = function.call(req=http_input(function.trigger, ASKED), context=context)
    ((_, typed),) = given_back(function, {}, result)
    return answered(*typed)


def test_a_framework_gets_each_request_and_its_caller_what_it_answers() -> None:
    app = func.WsgiFunctionApp(wsgi)

    @app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
    @singleton(scope="Id")
    def ship(msg: func.QueueMessage) -> None: ...

    indexed = {each.name: each for each in (index_function(each, Path()) for each in app.get_functions())}
    assert set(indexed) == {"http_app_func", "ship"}
    source = source_of(indexed["http_app_func"], {})
    assert Route.parse(source.route or "").match("/orders/7") == {"route": "orders/7"}
    answer = served(indexed["http_app_func"])
    headers = {name.casefold(): value for name, value in answer.headers}
    assert (answer.status, answer.body) == (201, b"content?a=b")
    assert (headers["x-path"], headers["x-tenant"]) == ("/api/orders/7", "north")
