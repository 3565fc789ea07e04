"""With azure-functions-durable itself: activities and starters are guarded, orchestrators and entities are refused."""

from __future__ import annotations

import asyncio
import inspect
import json
import warnings
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from singleton import ConfigurationError, singleton, start_singleton
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support import deliveries as given
from tests.support.inline import InlineHost, on
from tests.support.lock_thread import Context, LockThread, an_app, guard_of, outcome
from tests.support.world import virtual

if TYPE_CHECKING:
    from pathlib import Path

with warnings.catch_warnings(action="ignore"):
    import azure.durable_functions as durable

df: Any = durable

REFUSED = r"it is a Durable orchestrator or entity.*activities that it calls.*start_singleton"


@pytest.fixture(autouse=True)
def _app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


@pytest.fixture(params=["DFApp", "Blueprint"])
def app(request: pytest.FixtureRequest) -> Any:
    return getattr(df, request.param)()


def indexed(app: Any) -> dict[str, Any]:
    """Return the user functions of an app by name, a blueprint's in an app of its own."""
    if isinstance(app, df.Blueprint) and not isinstance(app, df.DFApp):
        whole = df.DFApp()
        whole.register_functions(app)
        app = whole
    return {function.get_function_name(): function.get_user_function() for function in app.get_functions()}


# --- orchestrators and entities ---------------------------------------------------------------------------------------


def generator(context: Any) -> Any:
    yield context.call_activity("ship", "x")


def plain(context: Any) -> Any:
    return context.instance_id


@pytest.mark.parametrize("job", [generator, plain])
def test_an_orchestrator_is_refused_above_its_trigger(app: Any, job: Any) -> None:
    with pytest.raises(ConfigurationError, match=REFUSED):
        singleton(app.orchestration_trigger(context_name="context")(job))


def test_an_entity_is_refused_above_its_trigger(app: Any) -> None:
    with pytest.raises(ConfigurationError, match=REFUSED):
        singleton(app.entity_trigger(context_name="context")(plain))


@pytest.mark.parametrize("trigger", ["entity_trigger", "orchestration_trigger"])
def test_either_is_refused_below_its_trigger_as_its_error_would_be_an_answer_of_the_entity(
    app: Any, trigger: str
) -> None:
    getattr(app, trigger)(context_name="context")(singleton(scope_id="counter")(plain))
    with pytest.raises(ConfigurationError, match=REFUSED):
        indexed(app)


@pytest.mark.parametrize("kind", ["Orchestrator", "Entity"])
def test_what_the_package_makes_of_either_is_refused_below_a_trigger(kind: str) -> None:
    with pytest.raises(ConfigurationError, match=REFUSED):
        singleton(getattr(df, kind).create(plain))


STARTED = {"EventType": 12, "EventId": -1, "IsPlayed": False, "Timestamp": given.WHEN}


@pytest.mark.parametrize("job", [generator, plain])
def test_an_orchestrator_that_no_app_has_listed_is_refused_when_it_runs(app: Any, job: Any) -> None:
    builder = app.orchestration_trigger(context_name="context")(singleton(job))
    body = {"history": [STARTED], "instanceId": "i-1", "isReplaying": False, "parentInstanceId": None, "input": None}
    with pytest.raises(Exception, match=REFUSED):
        builder._function.get_user_function()(json.dumps(body))


# --- activities -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("above", [False, True], ids=["below", "above"])
def test_an_activity_is_guarded_by_its_input(app: Any, *, above: bool) -> None:
    ran: list[object] = []

    def ship(order: dict[str, object]) -> str:
        ran.append(order)
        return "done"

    async def ship_async(order: dict[str, object]) -> str:
        return ship(order)

    for job in (ship, ship_async):
        trigger, guard = app.activity_trigger(input_name="order"), singleton(scope="Id")
        guard(trigger(job)) if above else trigger(guard(job))
    with LockThread() as locks:
        for name, function in indexed(app).items():
            result = function(order=given.activity_input({"Id": 7}), context=Context("inv", name))
            assert outcome(result) == "done"
        assert {event.lock for event in locks.events} == {"locks/app/ship.7", "locks/app/ship_async.7"}
    assert ran == [{"Id": 7}] * 2


# --- starters ---------------------------------------------------------------------------------------------------------


class TaskHub:
    """The Durable extension's HTTP API, as far as a starter needs it, behind the real client."""

    def __init__(self) -> None:
        self.instances: dict[str, dict[str, str]] = {}
        self.started: list[tuple[str, object]] = []

    def client(self) -> Any:
        urls = {"createNewInstancePostUri": "http://host/orchestrators/{functionName}[/{instanceId}]?code=key"}
        base = {"taskHubName": "hub", "creationUrls": urls, "managementUrls": {"id": "INSTANCEID"}}
        client = df.DurableOrchestrationClient(json.dumps({**base, "rpcBaseUrl": "http://host/durabletask/"}))
        client._get_async_request, client._post_async_request = self.get, self.post
        return client

    async def get(self, url: str, *_: object) -> list[Any]:
        await asyncio.sleep(0.05)
        told = self.instances.get(url.rpartition("/")[2].partition("?")[0])
        return [404, ""] if told is None else [202, told]

    async def post(self, url: str, data: object, *_: object) -> list[Any]:
        await asyncio.sleep(0.05)
        orchestrator, instance = url.partition("?")[0].split("/")[-2:]
        if orchestrator == "nobody":
            return [400, {"ExceptionMessage": "The function 'nobody' doesn't exist"}]
        self.started.append((instance, data))
        self.instances[instance] = {"instanceId": instance, "runtimeStatus": "Pending", "createdTime": given.WHEN}
        return [202, {"id": instance}]


@virtual
async def test_of_two_starters_with_the_real_client_one_starts() -> None:
    hub, service = TaskHub(), MemoryLeaseStore()
    with on(InlineHost(service)):
        both = await asyncio.gather(
            *(start_singleton(hub.client(), "import_order", "order-7", {"n": 1}) for _ in range(2))
        )
    assert [(each.started, each.status) for each in both] == [(True, "Pending"), (False, "Pending")]
    assert len(hub.started) == 1
    hub.instances["order-7"]["runtimeStatus"] = "Suspended"
    with on(InlineHost(service)):
        assert (await start_singleton(hub.client(), "import_order", "order-7")).status == "Suspended"


@virtual
async def test_what_the_real_client_says_of_a_refusal_is_passed_on() -> None:
    hub = TaskHub()
    with on(InlineHost(MemoryLeaseStore())), pytest.raises(Exception, match="The function 'nobody' doesn't exist"):
        await start_singleton(hub.client(), "nobody", "order-7")


@virtual
async def test_an_error_of_the_extension_is_no_missing_instance() -> None:
    hub = TaskHub()
    client = hub.client()

    async def fails(*_: object) -> list[Any]:
        return [500, {"Message": "Something went wrong", "ExceptionMessage": "no storage"}]

    client._get_async_request = fails
    with on(InlineHost(MemoryLeaseStore())), pytest.raises(RuntimeError, match="can't be read: 'no storage'"):
        await start_singleton(client, "import_order", "order-7")
    assert hub.started == []


@pytest.mark.parametrize("above", [False, True], ids=["below", "above"])
def test_a_guarded_starter_gets_the_rich_client(app: Any, *, above: bool) -> None:
    got: list[object] = []

    async def start(req: func.HttpRequest, client: Any) -> str:
        got.append(client)
        return "started"

    def bound(target: Any) -> Any:
        return app.durable_client_input(client_name="client")(target)

    route, guard = app.route(route="orders/{id}"), singleton(scope_id="{id}")
    guard(route(bound(start))) if above else route(bound(guard(start)))
    (function,) = indexed(app).values()
    assert list(inspect.signature(function).parameters) == ["req", "client", "context"]
    text = json.dumps({"taskHubName": "hub", "creationUrls": {}, "managementUrls": {}, "rpcBaseUrl": "http://host/"})
    with LockThread() as locks:
        request = given.http_request(route={"id": "7"})
        assert asyncio.run(function(req=request, client=text, context=Context("inv", "start"))) == "started"
        assert {event.lock for event in locks.events} == {"locks/app/start.7"}
    assert isinstance(got[0], df.DurableOrchestrationClient)


def test_the_guards_trigger_is_found_below_durables_own_wrapper(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(req: func.HttpRequest, client: Any) -> str:
        return "started"

    app = df.DFApp()
    monkeypatch.setitem(globals(), "somewhere", app)
    guarded: Any = singleton(start)
    app.route(route="orders")(app.durable_client_input(client_name="client")(guarded))
    assert guard_of(guarded).trigger.parameter == "req"
