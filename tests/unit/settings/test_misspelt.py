"""Sections with misspelt names are told at the first invocation, with the nearest name; no other section is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from singleton import once
from singleton.base.invocation import warn_once
from singleton.settings.misspelt import misspelt_sections
from tests.support.lock_thread import LockThread, a_job, an_app, call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RIGHT = "AzureFunctionsJobHost__singleton__lockPeriod"
HOSTS_OWN = (
    *("aggregator", "applicationInsights", "blobs", "concurrency", "console", "cosmosDB", "customHandler", "dapr"),
    *("durableTask", "eventGrid", "eventHubs", "extensionBundle", "extensions", "functions", "functionTimeout"),
    *("healthMonitor", "http", "id", "isDefaultHostConfig", "kafka", "languageWorkers", "logging", "mcp"),
    *("managedDependency", "mysql", "queues", "retry", "sendGrid", "serviceBus", "signalR", "sql", "streamingLogs"),
    *("swagger", "tables", "telemetryMode", "tracing", "version", "watchDirectories", "watchFiles", "webPubSub"),
)
"""Sections and options of the Functions host and of its extensions."""


@pytest.fixture(autouse=True)
def _once_again() -> Iterator[None]:
    warn_once.cache_clear()
    yield
    warn_once.cache_clear()


def host_json(folder: Path, **sections: object) -> Path:
    """Write a host.json beside what an app needs."""
    (folder / "host.json").write_text(json.dumps({"version": "2.0", **sections}))
    return folder


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "singleton" and each.levelname == "WARNING"]


@pytest.mark.parametrize("name", ["singelton", "Singelton", "singlton", "signleton", "singletons", "sengleton"])
def test_a_section_of_host_json_with_nearly_the_name_is_told(tmp_path: Path, name: str) -> None:
    (said,) = misspelt_sections(host_json(tmp_path, **{name: {"lockPeriod": "00:00:30"}}), {})
    assert said == f"{tmp_path}/host.json has the section \"{name}\", which nothing reads; did you mean 'singleton'?"
    (inside,) = misspelt_sections(host_json(tmp_path, extensions={"queues": {}, name: {}}), {})
    assert inside == said


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("AzureFunctionsJobHost__singelton__lockPeriod", RIGHT),
        ("azurefunctionsjobhost:SINGELTON:lockperiod", RIGHT),
        ("AzureFunctionsJobHost__extensions__singelton__lockPerod", RIGHT),
        ("AzureFunctionJobHost__singleton__lockPeriod", RIGHT),
        ("AzureFunctionsWebHost__singleton__hostId", "AzureFunctionsJobHost__singleton__hostId"),
        ("AzureFunctionsJobHost_singleton_lockPeriod", RIGHT),
        ("AzureFunctionsJobHost:Extensions:singletons:lockPeriod", RIGHT),
        ("Dequeueable__Singelton__Scope", "Dequeueable__Singleton__Scope"),
    ],
)
def test_an_app_setting_of_nearly_the_section_is_told_with_the_option(name: str, meant: str) -> None:
    assert list(misspelt_sections(None, {name: "x"})) == [f"app setting {name} has no effect; did you mean '{meant}'?"]


def test_nothing_else_is_told(tmp_path: Path) -> None:
    off = {"_singleton": {}, "//singleton": {}, "single": {}, "skeleton": {}, "Singleton": {"lockPeriod": "00:00:30"}}
    everything = {**{name: {} for name in HOSTS_OWN}, "extensions": {name: {} for name in HOSTS_OWN}, **off}
    settings = {
        *(f"AzureFunctionsJobHost__{name}__lockPeriod" for name in HOSTS_OWN),
        *(f"AzureFunctionsJobHost__extensions__{name}__x" for name in HOSTS_OWN),
        *(RIGHT, RIGHT.replace("__", ":").upper(), "Dequeueable:Singleton:Scope", "AzureFunctionsWebHost__hostid"),
        *("AzureFunctionsJobHost__logging__logLevel__singleton.http", "AzureFunctionsJobHost__logging__singletons__x"),
        "AzureFunctionsJobHost__logging__logLevel__Microsoft.Azure.WebJobs.Host.Singleton.SingletonManager",
        *("AzureWebJobs.singelton.Disabled", "singelton", "Singelton__accountName", "Jobs__singelton__x"),
    }
    assert list(misspelt_sections(host_json(tmp_path, **everything), dict.fromkeys(settings, "x"))) == []


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_first_invocation_warns_once_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    an_app(tmp_path, monkeypatch)
    monkeypatch.setenv("AzureFunctionsJobHost__singelton__enabled", "false")
    host_json(tmp_path, singelton={"lockPeriod": "00:00:30"})
    ran: list[int] = []
    with LockThread():
        jobs = [a_job(kind, lambda: ran.append(1)), a_job(kind, lambda: ran.append(2), mode="listener")]
        assert warnings(caplog) == []  # at import, the host would drop it
        for job in (*jobs, *jobs):
            call(job)
        call(keyed, msg='{"Id": 7}')
    assert ran == [1, 2, 1, 2]
    assert [said.rpartition("; ")[2] for said in warnings(caplog)] == [
        "did you mean 'singleton'?",
        "did you mean 'AzureFunctionsJobHost__singleton__enabled'?",
    ]


@once(key="{Id}")
def keyed(msg: str) -> None: ...
