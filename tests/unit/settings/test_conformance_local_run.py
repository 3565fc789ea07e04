"""A developer's machine: a shorter lease for listeners (W-24), and a warning at the locks of the cloud (B24)."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, LockClient, SingletonOptions
from singleton.settings import localrun
from singleton.settings.options import load_options
from tests.support.lock_thread import LockThread, a_job, an_app, call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = base64.b64encode(b"no key").decode()
CLOUD = f"DefaultEndpointsProtocol=https;AccountName=orders;AccountKey={KEY};EndpointSuffix=core.windows.net"
URL = "https://orders.blob.core.windows.net"


@pytest.fixture(autouse=True)
def _once_again() -> Iterator[None]:
    localrun._warn.cache_clear()
    yield
    localrun._warn.cache_clear()


@pytest.fixture
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    monkeypatch.setenv("AzureWebJobsStorage", CLOUD)
    with LockThread() as running:
        yield running


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "singleton" and each.levelname == "WARNING"]


# --- the listener's lease -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 60.0),
        ({"AZURE_FUNCTIONS_ENVIRONMENT": "Production"}, 60.0),
        ({"AZURE_FUNCTIONS_ENVIRONMENT": "Development"}, 15.0),
        ({"AZURE_FUNCTIONS_ENVIRONMENT": "development"}, 15.0),
    ],
)
def test_in_development_a_listeners_lease_is_short_unless_said_otherwise(
    tmp_path: Path, settings: dict[str, str], expected: float
) -> None:
    """W-24: the configuration is applied afterwards, and wins."""
    assert load_options(None, settings).listener_lock_period == expected
    assert load_options(None, settings).lock_period == 15.0
    told = settings | {"AzureFunctionsJobHost__singleton__listenerLockPeriod": "00:00:40"}
    assert load_options(None, told).listener_lock_period == 40.0
    (tmp_path / "host.json").write_text('{"version": "2.0", "singleton": {"listenerLockPeriod": "00:00:30"}}')
    assert load_options(tmp_path, settings).listener_lock_period == 30.0


# --- the warning ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_function_on_a_local_machine_warns_once_of_the_clouds_locks_it_shares(
    thread: LockThread, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    for job in (a_job(kind), a_job(kind)):
        call(job)
        call(job)
    (said,) = warnings(caplog)
    assert URL in said
    assert "takes the locks of host id 'app'" in said
    assert "localRunWarning" in said
    assert KEY not in said


def test_under_an_id_of_this_machines_own_it_says_that_nobody_else_is_excluded(
    thread: LockThread, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AzureFunctionsWebHost__hostid")
    call(a_job("sync"))
    (said,) = warnings(caplog)
    assert "exclude nobody elsewhere" in said


@pytest.mark.parametrize(
    "settings",
    [
        {"AzureFunctionsJobHost__singleton__localRunWarning": "false"},
        {"WEBSITE_INSTANCE_ID": "1", "WEBSITE_SITE_NAME": "site"},  # on Azure
        {"AzureWebJobsStorage": "UseDevelopmentStorage=true"},
        {
            "AzureWebJobsStorage": f"AccountName=devstoreaccount1;AccountKey={KEY};BlobEndpoint=http://azurite:1/devstoreaccount1"
        },
    ],
    ids=["switched off", "on Azure", "emulator", "emulator elsewhere"],
)
def test_else_nothing_is_said(
    thread: LockThread, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    call(a_job("sync"))
    assert warnings(caplog) == []


def used(locks: LockClient | AsyncLockClient) -> None:
    asked = locks.locked("x")
    assert (asked if isinstance(asked, bool) else asyncio.run(asked)) is False


@pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])
@pytest.mark.parametrize(
    ("connection", "credential", "options", "expected"),
    [
        (CLOUD, None, SingletonOptions(), True),
        ("AzureWebJobsStorage", None, SingletonOptions(), True),
        (URL, "key", SingletonOptions(), True),
        (CLOUD, None, SingletonOptions(local_run_warning=False), False),
        ("UseDevelopmentStorage=true", None, SingletonOptions(), False),
        (lambda _: None, None, SingletonOptions(), False),
    ],
)
def test_a_client_warns_where_the_host_says_that_this_is_development(
    thread: LockThread,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[LockClient],
    connection: Any,
    credential: Any,
    options: SingletonOptions,
    expected: bool,
) -> None:
    used(kind(connection, credential=credential, options=options))
    assert warnings(caplog) == []  # any machine outside Azure may well have a client
    monkeypatch.setenv("AZURE_FUNCTIONS_ENVIRONMENT", "Development")
    clients = [kind(connection, credential=credential, options=options) for _ in range(2)]
    assert warnings(caplog) == []  # at import, the host would drop it
    for locks in clients:
        locks.lock("x")
    assert warnings(caplog) == []  # as by a decorator
    for locks in clients:
        used(locks)
    assert len(warnings(caplog)) == expected
    assert not expected or "in container 'webjobshost'" in warnings(caplog)[0]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:10000/devstoreaccount1", True),
        ("http://localhost:10000/devstoreaccount1", True),
        ("http://[::1]:10000/x", True),
        ("http://azurite:10000/devstoreaccount1", True),
        ("http://devstoreaccount1.blob.localhost:10000", True),
        (URL, False),
        ("https://localhost.example.org", False),
        ("https://orders.blob.core.usgovcloudapi.net", False),
    ],
)
def test_an_emulator_is_known_by_its_url(url: str, expected: bool) -> None:
    assert localrun.is_emulator(url) is expected


@pytest.mark.parametrize("environment", ["Development", "Production"])
def test_locks_without_a_host_id_in_their_names_are_everybodys(
    thread: LockThread, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, environment: str
) -> None:
    monkeypatch.setenv("AZURE_FUNCTIONS_ENVIRONMENT", environment)
    monkeypatch.delenv("AzureFunctionsWebHost__hostid")
    call(a_job("sync", scope="Id", layout="dequeueable"), msg='{"Id": "7"}')
    assert [("in container 'webjobshost'" in said) for said in warnings(caplog)] == [True] * (
        environment == "Development"
    )
