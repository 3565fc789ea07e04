"""App settings of a fake host: where they come from, what they mean, and that no other storage account is reachable."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from simulator.host.app.app_model import HostConfig, SettingsError
from simulator.host.app.hostjson import QueueOptions, allowed_functions, check_version, queue_options
from simulator.host.app.settings import is_set, local_settings, prepare, redirect, resolve
from singleton.base.appsettings import is_disabled
from singleton.base.errors import ConfigurationError
from singleton.base.words import as_json
from singleton.settings.connection import resolve_blob_account

if TYPE_CHECKING:
    from pathlib import Path

OURS = "DefaultEndpointsProtocol=http;AccountName=ours;AccountKey=b3Vycw==;BlobEndpoint=http://127.0.0.1:1/ours;"
CLOUD = "DefaultEndpointsProtocol=https;AccountName=cloud;AccountKey=Y2xvdWQ=;EndpointSuffix=core.windows.net"


def make_config(app: Path, **changes: Any) -> HostConfig:
    values = {
        "name": "host-1",
        "app": app,
        "journal": app / "host-1.jsonl",
        "storage": OURS,
        "host_id": "host-1-id",
        "lock_host_id": "fleet",
    }
    return HostConfig(**{**values, **changes})


def write_settings(app: Path, values: dict[str, Any], name: str = "local.settings.json", **more: Any) -> None:
    (app / name).write_text(json.dumps({"IsEncrypted": False, "Values": values, **more}))


def test_the_environment_wins_over_local_settings_whatever_the_case(tmp_path: Path) -> None:
    write_settings(tmp_path, {"Region": "from the file", "Other": "kept", "Number": 7, "Flag": True})
    environment = {"REGION": "from the environment"}
    prepare(environment, make_config(tmp_path))
    assert environment["REGION"] == "from the environment"
    assert "Region" not in environment
    assert (environment["Other"], environment["Number"], environment["Flag"]) == ("kept", "7", "True")


def test_the_name_of_a_site_is_that_of_the_run(tmp_path: Path) -> None:
    write_settings(tmp_path, {"website_site_name": "shop"})
    environment: dict[str, str] = {}
    prepare(environment, make_config(tmp_path))
    assert environment["website_site_name"] == "shop"
    prepare(environment, make_config(tmp_path, site="shop-north"))
    assert environment["WEBSITE_SITE_NAME"] == "shop-north"
    assert "website_site_name" not in environment


def test_the_example_stands_in_for_missing_local_settings(tmp_path: Path) -> None:
    write_settings(tmp_path, {"A": "example"}, name="local.settings.example.json")
    assert local_settings(tmp_path) == {"A": "example"}
    write_settings(tmp_path, {"A": "own"})
    assert local_settings(tmp_path) == {"A": "own"}


def test_connection_strings_have_a_section_of_their_own_and_null_is_no_value(tmp_path: Path) -> None:
    strings = {"Orders": CLOUD, "Bills": {"ConnectionString": CLOUD, "ProviderName": "x"}, "None": None}
    write_settings(tmp_path, {"A": None}, ConnectionStrings=strings)
    assert local_settings(tmp_path) == {"ConnectionStrings:Orders": CLOUD, "ConnectionStrings:Bills": CLOUD}
    environment: dict[str, str] = {}
    prepare(environment, make_config(tmp_path))
    assert is_set(environment, "Orders")
    assert CLOUD not in environment.values()


def test_a_host_gets_its_ids_and_its_switch(tmp_path: Path) -> None:
    environment = {"AZUREFUNCTIONSWEBHOST:HOSTID": "another"}
    prepare(environment, make_config(tmp_path, singleton=False))
    assert environment["AzureFunctionsWebHost__hostid"] == "host-1-id"
    assert environment["AzureFunctionsJobHost__singleton__hostId"] == "fleet"
    assert environment["AzureFunctionsJobHost__singleton__enabled"] == "false"
    assert environment["AzureWebJobsScriptRoot"] == str(tmp_path)
    assert "AZUREFUNCTIONSWEBHOST:HOSTID" not in environment


def test_every_storage_account_is_replaced_by_the_simulators(tmp_path: Path) -> None:
    write_settings(tmp_path, {"AzureWebJobsStorage": "UseDevelopmentStorage=true", "DataStorage": CLOUD})
    environment = {
        "ConnectionStrings__Orders": CLOUD,
        "CUSTOMCONNSTR_Orders": CLOUD,
        "Archive__blobServiceUri": "https://cloud.blob.core.windows.net",
        "Archive__credential": "managedidentity",
        "Parcels:ServiceUri": "https://cloud.queue.core.windows.net",
        "Hub__serviceUri": "https://hub.service.signalr.net",
        "AzureWebJobsStorage__accountName": "cloud",
        "ServiceBus": "Endpoint=sb://bus.servicebus.windows.net/;SharedAccessKeyName=a;SharedAccessKey=b",
        "CosmosDb": "AccountEndpoint=https://c.documents.azure.com/;AccountKey=x",
    }
    prepare(environment, make_config(tmp_path))
    for name in ("AzureWebJobsStorage", "DataStorage", "Orders", "Archive", "Parcels"):
        assert resolve_blob_account(name, environment).endpoint == "http://127.0.0.1:1/ours", name
    assert "cloud" not in " ".join(environment.values())
    assert environment["Hub__serviceUri"] == "https://hub.service.signalr.net"
    assert environment["ServiceBus"].startswith("Endpoint=sb:")
    assert environment["CosmosDb"].startswith("AccountEndpoint=")


@pytest.mark.parametrize(
    "spelling",
    [
        "Orders",
        "AzureWebJobsOrders",
        "azurewebjobsorders",
        "ConnectionStrings:Orders",
        "ConnectionStrings__AzureWebJobsOrders",
        "CUSTOMCONNSTR_Orders",
        "Orders__accountName",
        "AzureWebJobsOrders__blobServiceUri",
    ],
)
def test_a_connection_leads_to_the_simulators_storage_however_it_was_spelt(spelling: str) -> None:
    environment = {spelling: "https://cloud.blob.core.windows.net" if spelling.endswith("Uri") else CLOUD}
    redirect(environment, ["Orders"], {"": OURS})
    assert resolve_blob_account("Orders", environment).endpoint == "http://127.0.0.1:1/ours"
    assert "cloud" not in " ".join(environment.values())


@pytest.mark.parametrize("spelling", ["Orders", "AzureWebJobsOrders__blobServiceUri", "ConnectionStrings:Orders"])
def test_a_connection_may_lead_to_an_identity(spelling: str) -> None:
    environment = {spelling: "https://cloud.blob.core.windows.net" if spelling.endswith("Uri") else CLOUD}
    redirect(environment, ["Orders"], {"__accountname": "ours", "__credential": "managedidentity"})
    account = resolve_blob_account("Orders", environment)
    assert account.endpoint == "https://ours.blob.core.windows.net"
    assert account.credential is not None
    assert account.credential.kind == "ManagedIdentityCredential"
    assert "cloud" not in " ".join(environment.values())


def test_a_connection_without_a_name_is_the_default_one() -> None:
    environment: dict[str, str] = {}
    redirect(environment, [""], {"": OURS})
    assert environment == {"AzureWebJobsStorage": OURS}


def test_percent_names_are_resolved_in_any_case_and_several_at_once() -> None:
    settings = {"QUEUE_NAME": "orders", "suffix": "-eu"}
    assert resolve("%queue_name%%SUFFIX%", settings, "function 'f'") == "orders-eu"
    assert resolve("plain", settings, "function 'f'") == "plain"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("%QUEUE_NAM%", "did you mean 'QUEUE_NAME'"),
        ("%%", "%% does not resolve"),
        ("%QUEUE_NAME", "not closed"),
        ("a%QUEUE_NAME%b%", "not closed"),
    ],
)
def test_a_name_that_resolves_to_nothing_is_an_error_that_says_where(text: str, named: str) -> None:
    with pytest.raises(SettingsError) as caught:
        resolve(text, {"QUEUE_NAME": "orders"}, "function 'ship'")
    assert named in str(caught.value)
    assert "function 'ship'" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("{", "local.settings.json is not valid JSON at line 1"),
        ("[]", "local.settings.json has no JSON object in it"),
        ('{"Values": []}', "'Values' must be an object"),
        ('{"ConnectionStrings": []}', "'ConnectionStrings' must be an object"),
        ('{"IsEncrypted": true, "Values": {}}', "func settings decrypt"),
        ('{"Values": {"A": {"nested": 1}}}', "'A' must be a text"),
        ('{"Values": {"A=B": "x"}}', "'A=B'"),
        ('{"Values": {"A": "x\\u0000"}}', "'A'"),
    ],
)
def test_unusable_local_settings_say_what_is_wrong(tmp_path: Path, content: str, named: str) -> None:
    (tmp_path / "local.settings.json").write_text(content)
    with pytest.raises((SettingsError, ConfigurationError)) as caught:
        local_settings(tmp_path)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("AzureWebJobs.ship.Disabled", "true", True),
        ("AzureWebJobs_ship_Disabled", "1", True),
        ("azurewebjobs.SHIP.disabled", "True", True),
        ("AzureWebJobs.ship.Disabled", "false", False),
        ("AzureWebJobs.ship.Disabled", " true ", False),
        ("AzureWebJobs_ship_Disabled", "1 ", False),
        ("AzureWebJobs.other.Disabled", "true", False),
    ],
)
def test_a_function_can_be_switched_off_by_a_setting(name: str, value: str, expected: bool) -> None:
    assert is_disabled("ship", {name: value}) is expected


def write_host_json(folder: Path, content: dict[str, object]) -> None:
    (folder / "host.json").write_text(json.dumps({"version": "2.0", **content}))


def test_queue_options_have_the_hosts_defaults(tmp_path: Path) -> None:
    options = queue_options(tmp_path, {"WEBSITE_SKU": "Dynamic"})
    assert options == QueueOptions()
    assert options.batch_size + options.new_batch_threshold == 24


def test_the_threshold_grows_with_the_processors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    write_host_json(tmp_path, {"extensions": {"queues": {"batchSize": 10}}})
    assert queue_options(tmp_path, {}).new_batch_threshold == 20


def test_host_json_and_then_the_settings_decide(tmp_path: Path) -> None:
    queues = {
        "BatchSize": 1,
        "newBatchThreshold": 0,
        "maxPollingInterval": "00:00:02",
        "visibilityTimeout": "00:00:30",
        "maxDequeueCount": 2,
        "messageEncoding": "None",
        "something of the future": 1,
    }
    write_host_json(tmp_path, {"Extensions": {"queues": queues}})
    settings = {"AzureFunctionsJobHost__extensions__queues__batchSize": "4"}
    assert queue_options(tmp_path, settings) == QueueOptions(
        batch_size=4,
        new_batch_threshold=0,
        max_polling_interval=2.0,
        visibility_timeout=30.0,
        max_dequeue_count=2,
        message_encoding="none",
    )


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("batchSize", 0, "1 to 32"),
        ("batchSize", 33, "1 to 32"),
        ("batchSize", "many", "1 to 32"),
        ("batchSize", 1.5, "1 to 32"),
        ("batchSize", True, "1 to 32"),
        ("newBatchThreshold", -1, "0 or more"),
        ("maxDequeueCount", 0, "at least 1"),
        ("maxPollingInterval", "00:00:00.05", "0.1 seconds or more"),
        ("maxPollingInterval", True, "is not a time span"),
        ("maxPollingInterval", "99999999", "is not a time span"),
        ("batchSize", "4.0", "1 to 32"),
        ("batchSize", "0x21", "1 to 32"),
        ("maxPollingInterval", "-00:00:01", "0.1 seconds or more"),
        ("messageEncoding", "base63", '"base64" or "none"'),
        ("messageEncoding", 2, '"base64" or "none"'),
        ("messageEncoding", True, '"base64" or "none"'),
        ("batchSize", None, "1 to 32"),  # null is an empty text to the host
        ("batchSize", "", "1 to 32"),
        ("newBatchThreshold", None, "0 or more"),
        ("maxDequeueCount", None, "at least 1"),
        ("maxPollingInterval", None, "is not a time span"),
        ("visibilityTimeout", None, "is not a time span"),
        ("messageEncoding", None, '"base64" or "none"'),
    ],
)
def test_an_option_out_of_range_is_refused_by_name_value_and_range(
    tmp_path: Path, key: str, value: object, named: str
) -> None:
    write_host_json(tmp_path, {"extensions": {"queues": {key: value}}})
    with pytest.raises(ConfigurationError) as caught:
        queue_options(tmp_path, {})
    assert named in str(caught.value)
    assert f"host.json: extensions.queues.{key} is {as_json(value)}" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "field", "expected"),
    [
        ("batchSize", 4.0, "batch_size", 4),
        ("batchSize", "0x4", "batch_size", 4),
        ("batchSize", " 4 ", "batch_size", 4),
        ("batchSize", [5], "batch_size", 16),
        ("maxPollingInterval", {"a": 1}, "max_polling_interval", 60.0),
        ("maxDequeueCount", 3.0, "max_dequeue_count", 3),
        ("maxDequeueCount", "#A", "max_dequeue_count", 10),
        ("maxPollingInterval", 2, "max_polling_interval", 2 * 86_400.0),
        ("maxPollingInterval", "2", "max_polling_interval", 2 * 86_400.0),
        ("maxPollingInterval", 2.0, "max_polling_interval", 2 * 86_400.0),
        ("maxPollingInterval", "10675199", "max_polling_interval", 10_675_199 * 86_400.0),
        ("visibilityTimeout", "00:00:01.9", "visibility_timeout", 1.0),
        ("visibilityTimeout", "-00:00:01.9", "visibility_timeout", -1.0),
        ("visibilityTimeout", 0, "visibility_timeout", 0.0),
        ("messageEncoding", [], "message_encoding", "base64"),
        ("messageEncoding", 0, "message_encoding", "none"),
        ("messageEncoding", " 1 ", "message_encoding", "base64"),
    ],
)
def test_values_are_read_as_dotnet_reads_them(
    tmp_path: Path, key: str, value: object, field: str, expected: object
) -> None:
    write_host_json(tmp_path, {"extensions": {"queues": {key: value}}})
    assert getattr(queue_options(tmp_path, {}), field) == expected


def test_on_a_developers_machine_queues_are_polled_at_least_every_two_seconds(tmp_path: Path) -> None:
    settings = {"AZURE_FUNCTIONS_ENVIRONMENT": "Development"}
    assert queue_options(tmp_path, settings).max_polling_interval == 2.0
    write_host_json(tmp_path, {"extensions": {"queues": {"maxPollingInterval": "00:00:30"}}})
    assert queue_options(tmp_path, settings).max_polling_interval == 30.0


@pytest.mark.parametrize("extensions", [None, [], "queues", {"queues": None}, {"queues": 5}, {"queues": []}])
def test_a_section_that_is_no_object_has_no_options(tmp_path: Path, extensions: object) -> None:
    write_host_json(tmp_path, {"extensions": extensions})
    assert queue_options(tmp_path, {"WEBSITE_SKU": "Dynamic"}) == QueueOptions()


def test_an_empty_host_json_is_none(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text("{}")
    assert queue_options(tmp_path, {"WEBSITE_SKU": "Dynamic"}) == QueueOptions()


@pytest.mark.parametrize(
    ("listed", "settings", "expected"),
    [
        (["Ship", "tick"], {}, {"ship", "tick"}),
        ([], {}, None),
        (None, {}, None),
        ("Ship", {}, None),
        ({"a": "Ship"}, {}, {"ship"}),
        ([None], {}, {""}),
        (["Ship"], {"AzureFunctionsJobHost__functions__0": "Tick"}, {"tick"}),
        (None, {"AzureFunctionsJobHost__functions__0": "Tick"}, {"tick"}),
    ],
)
def test_host_json_may_list_the_functions_that_run(
    tmp_path: Path, listed: object, settings: dict[str, str], expected: set[str] | None
) -> None:
    write_host_json(tmp_path, {} if listed is None else {"functions": listed})
    assert allowed_functions(tmp_path, settings) == expected


@pytest.mark.parametrize(
    ("settings", "connection", "expected"),
    [
        ({"Orders": OURS}, "Orders", True),
        ({"AzureWebJobsOrders": OURS}, "Orders", True),
        ({"ConnectionStrings:Orders": OURS}, "Orders", True),
        ({"Orders__accountName": "a"}, "Orders", True),
        ({"AzureWebJobsStorage": OURS}, "", True),
        ({"AzureWebJobsStorage": OURS}, "Storage", True),
        ({"Orders": " "}, "Orders", False),
        ({"OrdersToo": OURS}, "Orders", False),
        ({}, "Orders", False),
    ],
)
def test_a_connection_is_looked_for_where_the_host_does(
    settings: dict[str, str], connection: str, expected: bool
) -> None:
    assert is_set(settings, connection) is expected


def test_a_bad_setting_is_named_rather_than_host_json(tmp_path: Path) -> None:
    name = "AzureFunctionsJobHost__extensions__queues__batchSize"
    with pytest.raises(ConfigurationError, match=f"app setting {name} is '99'"):
        queue_options(tmp_path, {name: "99"})


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("{", "is not valid JSON"),
        ("[]", "JSON object"),
        ('{"functions": []}', '"version" is null'),
        ('{"version": "1.0"}', "'1.0'"),
        ('{"version": 2.0}', "2.0"),
    ],
)
def test_host_json_needs_its_version(tmp_path: Path, content: str, named: str) -> None:
    (tmp_path / "host.json").write_text(content)
    with pytest.raises(ConfigurationError) as caught:
        check_version(tmp_path)
    assert named in str(caught.value)


def test_settings_files_may_have_comments_and_trailing_commas_as_for_the_real_host(tmp_path: Path) -> None:
    queues = '{"queues": {"batchSize": 3,} // few\n}'
    (tmp_path / "host.json").write_text(f'{{"version": "2.0", /* ours */ "extensions": {queues}}}')
    (tmp_path / "local.settings.json").write_text('{"Values": {"A": "own",} // here\n}')
    assert queue_options(tmp_path, {}).batch_size == 3
    assert local_settings(tmp_path) == {"A": "own"}


@pytest.mark.parametrize(
    ("content", "named"),
    [("{", "JSONDecodeError"), ("[]", "TypeError"), ('{"speed": 1}', "'speed'"), ('{"storage": null}', "'storage'")],
)
def test_a_host_refuses_a_configuration_that_it_does_not_understand(tmp_path: Path, content: str, named: str) -> None:
    raw: dict[str, object] = {"name": "h", "app": "/a", "journal": "/j", "storage": OURS, "host_id": "h"}
    raw["lock_host_id"] = "l"
    path = tmp_path / "config.json"
    path.write_text(json.dumps(raw))
    assert HostConfig.read(path).visibility == 20.0
    if content.startswith('{"'):
        changes = json.loads(content)
        raw = {name: value for name, value in {**raw, **changes}.items() if value is not None}
        content = json.dumps(raw)
    path.write_text(content)
    with pytest.raises(SettingsError, match=r"config\.json") as caught:
        HostConfig.read(path)
    assert named in str(caught.value)
