"""Where work comes from: the names of entities, routes and batches; and what host.json says of HTTP and Service Bus."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from simulator.host.app.app_model import IndexedFunction, Parameter, SettingsError
from simulator.host.app.hostjson import BusOptions, bus_options, route_prefix
from simulator.host.function_plan import make_plans
from simulator.host.triggers.delivery import Source, source_of
from singleton.base.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


def source(binding: str, settings: dict[str, str] | None = None, **trigger: Any) -> Source:
    parameter = Parameter(name="it", binding=binding, converter=binding, settings=trigger)
    function = IndexedFunction(
        name="Ship", call=print, place="", directory="", is_async=False, wants_context=False, trigger=parameter
    )
    return source_of(function, settings or {})


def test_entities_of_service_bus_have_one_name_for_all_functions() -> None:
    assert source("serviceBusTrigger", {"Q": "ORDERS"}, queueName="%Q%").name == "servicebus/orders"
    topic = source("serviceBusTrigger", topicName="T", subscriptionName="S", isSessionsEnabled=True)
    assert (topic.name, topic.how, topic.sessions, topic.many) == ("servicebus/t/s", "simulated", True, False)


def test_a_batch_of_service_bus_and_all_other_triggers_are_only_delivered() -> None:
    assert source("serviceBusTrigger", queueName="q", cardinality="many").how == "delivered"
    for binding, many in (("eventHubTrigger", False), ("cosmosDBTrigger", True), ("redisListTrigger", False)):
        found = source(binding)
        assert (found.name, found.how, found.many) == (f"{binding.removesuffix('Trigger')}/Ship", "delivered", many)


def test_settings_in_the_path_of_a_blob_are_filled_in_before_its_names_are_read() -> None:
    trigger = Parameter(
        name="it", binding="blobTrigger", converter="blobTrigger", settings={"path": "%BOX%/{year}/{name}"}
    )
    function = IndexedFunction(
        name="Ship", call=print, place="", directory="", is_async=False, wants_context=False, trigger=trigger
    )
    (plan,) = make_plans([function], {"BOX": "orders"}, pace=0)
    assert plan.function.trigger.settings["path"] == "orders/{year}/{name}"
    assert plan.described()["path"] == "orders/{year}/{name}"
    (plan,) = make_plans([function], {}, pace=0)
    assert plan.idle is not None
    assert "its path: %BOX% does not resolve" in plan.idle


def test_a_route_is_the_functions_name_unless_it_has_one() -> None:
    assert source("httpTrigger").route == "Ship"
    found = source("httpTrigger", {"V": "2"}, route="v%V%/ship", methods=["get", "Post"])
    assert (found.route, found.methods, found.is_http) == ("v2/ship", ("GET", "POST"), True)


@pytest.mark.parametrize("key", ["connection", "connectionStringSetting"])
def test_what_azure_would_not_run_for_want_of_a_connection_is_not_run(key: str) -> None:
    for binding in ("eventHubTrigger", "serviceBusTrigger", "sqlTrigger", "blobTrigger"):
        settings: dict[str, Any] = {"path": "a/{b}", "queueName": "q", key: "Bus"}
        with pytest.raises(SettingsError, match=r"no setting for its connection 'Bus'.* any value does here"):
            source(binding, **settings)
        with pytest.raises(SettingsError, match="did you mean 'Buss'"):
            source(binding, {"Buss": "x"}, **settings)
        for name in ("Bus", "AzureWebJobsBus", "Bus__fullyQualifiedNamespace"):
            assert source(binding, {name: "x"}, **settings).name


def test_a_batch_of_service_bus_has_sessions_too() -> None:
    assert source("serviceBusTrigger", queueName="q", cardinality="many", isSessionsEnabled=True).sessions
    assert not source("serviceBusTrigger", queueName="q", cardinality="many").sessions


def test_what_azure_would_not_run_is_refused() -> None:
    with pytest.raises(SettingsError, match="%NONE% does not resolve"):
        source("serviceBusTrigger", queueName="%NONE%")
    with pytest.raises(SettingsError, match="queueName is empty"):
        source("serviceBusTrigger", queueName=" ")


def write(folder: Path, **extensions: Any) -> Path:
    (folder / "host.json").write_text(json.dumps({"version": "2.0", "extensions": extensions}))
    return folder


def test_host_json_says_how_http_and_service_bus_are(tmp_path: Path) -> None:
    assert (route_prefix(tmp_path, {}), bus_options(tmp_path, {})) == ("api", BusOptions())
    bus = {"maxConcurrentCalls": "0x4", "maxAutoLockRenewalDuration": "00:01:30"}
    app = write(tmp_path, http={"RoutePrefix": "/shop/v1/"}, serviceBus=bus)
    assert route_prefix(app, {}) == "shop/v1"
    assert bus_options(app, {}) == BusOptions(max_concurrent_calls=4, max_renewal=90.0)
    assert route_prefix(app, {"AzureFunctionsJobHost__extensions__http__routePrefix": ""}) == ""


@pytest.mark.parametrize(
    ("bus", "words"),
    [
        ({"maxConcurrentCalls": 0}, "extensions.serviceBus.maxConcurrentCalls is 0: give a whole number, 1 or more"),
        ({"maxConcurrentCalls": None}, "extensions.serviceBus.maxConcurrentCalls is null: give a whole number"),
        ({"maxAutoLockRenewalDuration": "soon"}, "maxAutoLockRenewalDuration is 'soon': 'soon' is not a time span"),
        ({"maxAutoLockRenewalDuration": None}, "maxAutoLockRenewalDuration is null: '' is not a time span"),
        ({"maxAutoLockRenewalDuration": "-00:00:01"}, 'give a time span "hh:mm:ss", 0 seconds or more'),
    ],
)
def test_what_host_json_may_not_say_is_refused(tmp_path: Path, bus: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        bus_options(write(tmp_path, serviceBus=bus), {})
    assert words in str(caught.value)
