"""A developer's machine: a shorter lease for listeners (W-24), and a warning at the locks of the cloud (B24)."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, ConfigurationError, LockClient, SingletonOptions, once
from singleton.base.invocation import warn_once
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
def _once_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    no_container(monkeypatch)
    warn_once.cache_clear()
    yield
    warn_once.cache_clear()


@pytest.fixture
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    monkeypatch.setenv("AzureWebJobsStorage", CLOUD)
    with LockThread() as running:
        yield running


def no_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests may run in a container."""
    monkeypatch.setattr(localrun, "_CONTAINER_FILES", ())
    monkeypatch.setattr(localrun, "node", lambda: "laptop")
    for name in (*localrun._CONTAINER_SETTINGS, *localrun._DEVELOPERS, "AZURE_FUNCTIONS_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)


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
        ("http://azurite.invalid:10000/acct", True),
        ("http://storage:10000/acct/", True),
        (URL, False),
        ("https://gateway.example.org/orders", False),
        ("http://storage.example.org", False),
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


# --- containers ----------------------------------------------------------------------------------------------------

PODS = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


@pytest.fixture
def own_id(thread: LockThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the machine's name gives a host id."""
    monkeypatch.delenv("AzureFunctionsWebHost__hostid")


def docker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mark: str) -> None:
    """Let it be a container by this mark."""
    if mark == "name":
        monkeypatch.setattr(localrun, "node", lambda: "4f1c2ab9d0e1")
    elif mark == "file":
        (tmp_path / ".dockerenv").touch()
        monkeypatch.setattr(localrun, "_CONTAINER_FILES", (str(tmp_path / ".dockerenv"),))
    else:
        monkeypatch.setenv(mark, "true")


@pytest.mark.parametrize("mark", ["name", "file", "DOTNET_RUNNING_IN_CONTAINER", "KUBERNETES_SERVICE_HOST"])
@pytest.mark.parametrize("storage", ["UseDevelopmentStorage=true", CLOUD])
@pytest.mark.usefixtures("own_id")
def test_a_container_with_locks_of_its_own_warns_once_and_host_id_is_the_way_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, mark: str, storage: str
) -> None:
    monkeypatch.setenv("AzureWebJobsStorage", storage)
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__localRunWarning", "false")
    monkeypatch.setenv("CI", "true")
    docker(monkeypatch, tmp_path, mark)
    for job in (a_job("sync"), a_job("async", scope="Id")):
        call(job, msg='{"Id": "7"}')
    (said,) = warnings(caplog)
    assert "runs in a container" in said
    assert "Set hostId in the section singleton of host.json" in said
    warn_once.cache_clear()
    caplog.clear()
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__hostId", "orders")
    call(a_job("sync"))
    assert warnings(caplog) == []


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.usefixtures("own_id")
def test_a_pod_that_would_exclude_no_other_pod_runs_no_body(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for name, value in PODS.items():
        monkeypatch.setenv(name, value)
    ran: list[str] = []
    for job in (a_job(kind, lambda: ran.append("x")), a_job(kind, lambda: ran.append("y"), level="host", scope="Id")):
        with pytest.raises(ConfigurationError, match="Set hostId in the section singleton"):
            call(job, msg='{"Id": "7"}')
    with pytest.raises(ConfigurationError, match=r"and other keys of @once"):
        call(shipped, msg='{"Id": "7"}')
    assert ran == []
    assert warnings(caplog) == []
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__hostId", "orders")
    call(a_job(kind, lambda: ran.append("z")))
    assert ran == ["z"]


@once(key="{Id}")
def shipped(msg: str) -> None: ...


@pytest.mark.usefixtures("own_id")
def test_a_pod_may_have_an_emulator_with_an_account_of_its_own(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in PODS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(
        "AzureWebJobsStorage", f"AccountName=acct;AccountKey={KEY};BlobEndpoint=http://azurite.ns:1/acct"
    )
    ran: list[str] = []
    call(a_job("sync", lambda: ran.append("x")))
    assert ran == ["x"]
    assert ["runs in a container" in said for said in warnings(caplog)] == [True]


@pytest.mark.parametrize("name", ["AZURE_FUNCTIONS_ENVIRONMENT", "CI", "CODESPACES", "REMOTE_CONTAINERS"])
@pytest.mark.usefixtures("own_id")
def test_where_something_says_development_a_pod_of_its_own_gets_a_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for pods, value in PODS.items():
        monkeypatch.setenv(pods, value)
    monkeypatch.setenv(name, "Development")
    call(a_job("sync"))
    assert len(warnings(caplog)) == 1


@pytest.mark.usefixtures("own_id")
def test_a_lock_without_a_host_id_in_its_name_is_shared_by_all_pods(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pods, value in PODS.items():
        monkeypatch.setenv(pods, value)
    call(a_job("sync", scope="Id", layout="dequeueable"), msg='{"Id": "7"}')
    used(LockClient())
    assert warnings(caplog) == []
