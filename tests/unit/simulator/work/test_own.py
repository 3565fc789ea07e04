"""The user's own deliveries and requests, and those that are made: what reaches which function, what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from simulator.host.web.routes import Route
from simulator.work.apps import App, AppFunction
from simulator.work.feed import Feeder
from simulator.work.own import read_own
from simulator.work.request_specs import KEYS, make_request
from simulator.work.scenario import ScenarioError

if TYPE_CHECKING:
    from pathlib import Path


def http(name: str = "ship", route: str = "ship", **values: Any) -> AppFunction:
    told = {"trigger": "http", "source": f"http/{name}", "route": route, "prefix": "api", "guarded": True}
    return AppFunction(name=name, **{**told, **values})


HUB = AppFunction(name="hub", trigger="eventHub", source="eventHub/hub", how="delivered", guarded=True)
BUS = AppFunction(name="bus", trigger="serviceBus", source="servicebus/orders", guarded=True, scope="Id")
BLOB = AppFunction(name="blob", trigger="blob", source="blob/blob", how="delivered", path="in/{year}/{name}.json")
DOCUMENTS = AppFunction(name="docs", trigger="cosmosDB", source="cosmosDB/docs", how="delivered", many=True)
QUEUE = AppFunction(name="mail", trigger="queue", queue="letters", guarded=True)
TIMER = AppFunction(name="tick", trigger="timer")
APP = App(functions=(http(route="orders/{id:int}", methods=("GET",)), HUB, BUS, BLOB, DOCUMENTS, QUEUE, TIMER))


def read(tmp_path: Path, *lines: Any, app: App = APP) -> dict[str, list[Any]]:
    path = tmp_path / "messages"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return dict(read_own(path, app))


def test_each_line_reaches_its_function(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        {"function": "hub", "body": {"Id": 1}, "metadata": {"PartitionKey": "p"}},
        {"function": "bus", "body": "text"},
        {"queue": "orders", "body": 1},
        {"function": "mail", "body": 2},
        {"queue": "letters", "body": 3},
        {"function": "ship", "metadata": {"route": {"ID": 7}, "query": {"a": "b"}, "headers": {"X-A": "c"}}},
    )
    assert [(each.body, each.metadata) for each in found["eventHub/hub"]] == [('{"Id": 1}', {"PartitionKey": "p"})]
    assert [each.body for each in found["servicebus/orders"]] == ["text", "1"]
    assert [each.body for each in found["letters"]] == ["2", "3"]
    (request,) = [each.request for each in found["http/ship"]]
    assert (request.method, request.path) == ("GET", "/api/orders/7")
    assert (request.query, request.headers) == ({"a": "b"}, {"X-A": "c"})


@pytest.mark.parametrize(("wanted", "queue"), [("Ship-Orders", "ship-orders"), ("topic/all", "servicebus/topic/all")])
def test_a_queue_whose_function_is_not_run_is_refused_with_the_cause(tmp_path: Path, wanted: str, queue: str) -> None:
    off = AppFunction(
        name="ship", trigger="serviceBus", idle="there is no setting for its connection 'Bus'", wanted=wanted
    )
    with pytest.raises(ScenarioError) as refused:
        read(tmp_path, {"queue": queue, "body": 1}, app=App(functions=(off, QUEUE)))
    words = f"'ship', which listens to {queue!r}, is not run: there is no setting for its connection 'Bus'"
    assert words in str(refused.value)
    with pytest.raises(ScenarioError, match="listens to no queue 'other'"):
        read(tmp_path, {"queue": "other", "body": 1}, app=App(functions=(off, QUEUE)))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"function": "shp"}, "no function 'shp'"),
        ({"function": "shp"}, "did you mean 'ship'?"),
        ({"function": "tick"}, "'tick' is given nothing: a timer gets no messages"),
        ({"function": "mail", "body": 1, "metadata": {"Id": 1}}, "has no metadata"),
        ({"function": "hub", "body": 1, "metadata": [1]}, "metadata must be an object, not [1]"),
        ({"function": "hub", "queue": "x", "body": 1}, "a queue or a function, not both"),
        ({"function": "hub", "boby": 1}, "there is no 'boby' in a message"),
        ({"function": "ship"}, "needs {id}"),
        ({"function": "ship", "metadata": {"method": "post"}}, "'ship' allows GET, not POST"),
        ({"function": "ship", "metadata": {"route": {"id": "x"}}}, "/api/orders/x does not fit the route"),
        ({"function": "ship", "metadata": {"rout": {}}}, "has 'rout'; there are method, route, query and headers"),
        ({"function": "ship", "metadata": {"route": 1}}, "route of its metadata must be an object"),
        (
            {"function": "ship", "metadata": {"query": None}},
            "query of its metadata must be an object of texts, not null",
        ),
        (
            {"function": "ship", "metadata": {"query": {"a": [1]}}},
            '"query.a" of its metadata is [1]: it must be a text',
        ),
        ({"function": "ship", "metadata": {"query": {"a": "\ud800"}}}, '"query.a" of its metadata'),
        ({"function": "ship", "metadata": {"method": 7}}, '"method" of its metadata is 7: it must be one of POST, PUT'),
        ({"function": "ship", "metadata": {"headers": {"a b": "c"}}}, "'a b', which is no name of a header"),
        (
            {"function": "ship", "metadata": {"headers": {"X-A": "b\nc"}}},
            '"headers.X-A" of its metadata has characters',
        ),
        ({"function": "ship", "metadata": {"headers": {"Host": "c"}}}, "the caller sets it itself: leave it out"),
        ({"function": "hub", "body": "x" * 300_000}, "300,000 bytes"),
        ({"function": "blob", "metadata": {"path": "in/2026/a.csv"}}, "its path is 'in/{year}/{name}.json'"),
        ({"function": "blob", "metadata": {"path": 7}}, '"path" of its metadata is 7: it must be a text'),
        ({"function": "docs", "body": "text"}, "'docs' is given documents"),
        ({"function": "docs", "body": [1]}, "'docs' is given documents"),
        ({"function": "docs", "body": [], "metadata": {"a": 1}}, "cosmosDB has no metadata"),
        ({"queue": "ordres", "body": 1}, "but to 'letters', 'orders'; did you mean 'orders'?"),
    ],
)
def test_what_cannot_be_delivered_is_refused_with_its_line(tmp_path: Path, line: Any, words: str) -> None:
    with pytest.raises(ScenarioError, match="line 2") as caught:
        read(tmp_path, {"queue": "letters", "body": 1}, line)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_blob_and_documents_that_fit_are_taken(tmp_path: Path) -> None:
    path = {"path": "in/2026/a.json"}
    found = read(tmp_path, {"function": "blob", "metadata": path}, {"function": "docs", "body": [{"id": "1"}]})
    assert [(each.body, each.metadata) for each in found["blob/blob"]] == [("", path)]
    assert [each.body for each in found["cosmosDB/docs"]] == ['[{"id": "1"}]']
    whole = App(functions=(AppFunction(name="b", trigger="blob", source="blob/b", path="in"),))
    assert read(tmp_path, {"function": "b", "metadata": {"path": "in/any/thing"}}, app=whole)["blob/b"]


def test_a_queue_for_an_app_without_queues_is_told_of_functions(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r'to no queue; for other triggers write {"function": "hub"'):
        read(tmp_path, {"queue": "hub", "body": 1}, app=App(functions=(HUB,)))


def test_a_queue_of_sessions_takes_messages_of_sessions_only(tmp_path: Path) -> None:
    app = App(functions=(AppFunction(name="bus", trigger="serviceBus", source="servicebus/s", sessions=True),))
    with pytest.raises(ScenarioError, match=r'give "metadata": {"SessionId"'):
        read(tmp_path, {"function": "bus", "body": 1}, app=app)
    assert read(tmp_path, {"function": "bus", "metadata": {"SessionId": "a"}}, app=app)["servicebus/s"][0].body == ""


def test_what_is_of_the_users_is_marked_as_such(tmp_path: Path) -> None:
    own = read(
        tmp_path, {"function": "ship", "metadata": {"route": {"id": 7}}}, {"queue": "letters", "body": {"Id": 1}}
    )
    sent = [each for tick in range(300) for each in Feeder(APP, seed=1, duration=10, own=own).due(tick / 20, {})]
    assert {each.queue: each.own for each in sent} == {"http/ship": True, "letters": True, "servicebus/orders": False}


def test_what_the_file_says_nothing_of_is_made_unless_it_says_something_of_its_kind(tmp_path: Path) -> None:
    def sent(own: Any) -> set[str]:
        feeder = Feeder(APP, seed=1, duration=10, own=own)
        return {message.queue for tick in range(300) for message in feeder.due(tick / 20, {})}

    assert sent(None) == {"letters", "servicebus/orders", "http/ship"}  # nothing is made for what is only delivered
    assert sent(read(tmp_path, {"function": "hub"})) == {"eventHub/hub", "letters", "servicebus/orders", "http/ship"}
    other = App(functions=(*APP.functions, AppFunction(name="mail2", trigger="queue", queue="cards")))
    own = read(tmp_path, {"queue": "letters", "body": 1}, app=other)
    feeder = Feeder(other, seed=1, duration=10, own=own)
    assert "cards" not in {message.queue for tick in range(300) for message in feeder.due(tick / 20, {})}


@pytest.mark.parametrize(
    ("function", "method", "path", "query", "body"),
    [
        (http(route="orders/{id}", paths=("id",)), "POST", "/api/orders/bravo", {}, {"Id": "bravo"}),
        (http(paths=("tenant",), methods=("GET",)), "GET", "/api/ship", {"tenant": "bravo"}, None),
        (http(paths=("tenant",)), "POST", "/api/ship", {}, {"tenant": "bravo"}),
        (http(paths=("query.Zone",)), "POST", "/api/ship", {"Zone": "bravo"}, {"Id": "bravo"}),
        (http(scope="Order:Id", methods=("GET",)), "GET", "/api/ship", {}, {"Order": {"Id": "bravo"}}),
        (http(route="a/{id:int}/{rest?}", prefix="", paths=("id",)), "POST", "/a/2/bravo", {}, {"Id": "bravo"}),
        (http(route="{*rest}", methods=("PUT",)), "PUT", "/api/bravo", {}, {"Id": "bravo"}),
    ],
)
def test_a_request_that_is_made_carries_the_scope(
    function: AppFunction, method: str, path: str, query: dict[str, str], body: Any
) -> None:
    request = make_request(function, "bravo", 5)
    assert request is not None
    assert (request.method, request.path, dict(request.query)) == (method, path, query)
    assert (json.loads(request.body) if request.body else None) == (body and {**body, "Number": 5})


def test_a_header_of_the_scope_is_sent() -> None:
    request = make_request(http(paths=("headers.x-tenant",)), "alpha", 1)
    assert request is not None
    assert request.headers["x-tenant"] == "alpha"


@pytest.mark.parametrize("rule", ["int", "guid", "alpha", "bool", "datetime", "min(1000)", "range(10,20)", "length(2)"])
def test_a_made_value_fits_the_constraints_of_its_route_and_differs_by_key(rule: str) -> None:
    function = http(route=f"a/{{id:{rule}}}", prefix="")
    paths = {request.path for key in KEYS if (request := make_request(function, key, 1)) is not None}
    assert len(paths) >= 2
    assert all(Route.parse(function.route or "").match(path) is not None for path in paths)


def test_no_request_is_made_where_no_known_value_fits() -> None:
    function = http(route="a/{id:regex(^never$)}")
    assert make_request(function, "alpha", 1) is None
    assert Feeder(App(functions=(function,)), seed=1, duration=9).due(5, {}) == []
