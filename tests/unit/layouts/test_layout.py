"""@singleton(layout=…): which blob an invocation locks, in which container, and what it leaves there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from simulator.pilot.assumed.lease_table import written
from singleton import ConfigurationError, LockClient, LockNotAcquired, ScopeError, current_hold, singleton
from singleton.settings.options import SingletonOptions
from singleton.stores.stamps import EPOCH_KEY, FUNCTION_KEY, HELD_KEY, HOST_KEY, OWNER_KEY, PID_KEY, SCOPE_KEY
from tests.support.lock_thread import FOREIGN, Context, LockThread, a_job, an_app, call, guard_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WEBJOBS = "azure-webjobs-hosts"
NAMES = pytest.mark.parametrize("layout", ["default", "webjobs", "dequeueable"])
KINDS = pytest.mark.parametrize("kind", ["sync", "async"])


@pytest.fixture(autouse=True)
def app_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    an_app(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture
def thread() -> Iterator[LockThread]:
    with LockThread() as running:
        yield running


def dequeueable(environment: pytest.MonkeyPatch, **settings: object) -> None:
    for key, value in settings.items():
        environment.setenv(f"Dequeueable__Singleton__{key}", str(value))


def metadata(thread: LockThread, name: str) -> dict[str, str]:
    return dict(thread.do(lambda: thread.memory.read(name)).metadata)


def message(**body: object) -> str:
    return json.dumps(body)


@pytest.mark.parametrize(
    ("arguments", "body", "container", "lock"),
    [
        ({}, "", "webjobshost", "locks/app/job"),
        ({"layout": "default", "scope": "Id"}, message(Id="a/b"), "webjobshost", "locks/app/job.a%2Fb"),
        ({"layout": "webjobs"}, "", WEBJOBS, "locks/app/Host.Functions.job"),
        ({"layout": "webjobs", "scope": "Id"}, message(Id="a/b"), WEBJOBS, "locks/app/Host.Functions.job.a/b"),
        ({"layout": "webjobs", "scope_id": "{Zone}"}, message(Zone=3), WEBJOBS, "locks/app/Host.Functions.job.3"),
        (
            {"layout": "webjobs", "scope_id": "My.Jobs.Import", "scope": "Id", "level": "host"},
            message(Id=42),
            WEBJOBS,
            "locks/app/My.Jobs.Import.42",
        ),
        ({"layout": "dequeueable", "scope": "Order:Id"}, message(Order={"Id": 419}), "webjobshost", "419"),
        ({"layout": "dequeueable", "scope": "Id"}, message(Id=True), "webjobshost", "True"),
        ({"layout": "dequeueable", "scope": "Id"}, '{"Id": 1.50}', "webjobshost", "1.50"),
        ({"layout": "dequeueable", "scope_id": "{A}-{B}"}, message(A="x", B="y"), "webjobshost", "x-y"),
        ({"layout": "dequeueable", "scope": "Id", "level": "host"}, message(Id="a/b"), "webjobshost", "a/b"),
    ],
)
@KINDS
def test_an_invocation_locks_the_blob_of_its_layout(
    thread: LockThread, kind: str, arguments: dict[str, Any], body: str, container: str, lock: str
) -> None:
    seen: list[str] = []
    job = a_job(kind, lambda: seen.append(current_hold().lock), **arguments)
    call(job, msg=body)
    assert seen == thread.memory.names() == [lock]
    assert [place.container for place in thread.places] == [container]
    assert thread.leased() == set()


@KINDS
def test_in_the_webjobs_layout_the_owner_is_left_on_the_blob_and_nothing_else(thread: LockThread, kind: str) -> None:
    """W-57; what others left there stays."""
    tokens: list[int | None] = []
    job = a_job(kind, lambda: tokens.append(current_hold().token), layout="webjobs")
    call(job, owner="inv-1")
    name = "locks/app/Host.Functions.job"
    assert metadata(thread, name) == {OWNER_KEY: "inv-1"}
    thread.do(lambda: _edited(thread, name, {"Mine": "1", "functioninstance": "net", EPOCH_KEY: "7"}))
    call(job, owner="inv-2")
    assert metadata(thread, name) == {"Mine": "1", EPOCH_KEY: "7", OWNER_KEY: "inv-2"}
    assert tokens == [None, None]


async def _edited(thread: LockThread, name: str, metadata: dict[str, str]) -> None:
    thread.memory.edit(name, metadata)


def test_an_owner_that_is_not_known_is_not_written(thread: LockThread) -> None:
    """W-57: "if an owner id was given"."""
    job = a_job("sync", layout="webjobs")
    call(job, owner="inv-1")
    job(msg="")
    assert metadata(thread, "locks/app/Host.Functions.job") == {OWNER_KEY: "inv-1"}


def test_the_owner_costs_one_request_while_nobody_else_wrote(thread: LockThread) -> None:
    job = a_job("sync", layout="webjobs")
    call(job)
    thread.memory.calls.clear()
    call(job)
    assert dict(thread.memory.calls) == {"acquire": 1, "write": 1, "release": 1}


def test_fencing_tokens_off_writes_nothing_in_any_layout(thread: LockThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__fencingTokens", "false")
    call(a_job("sync", layout="webjobs"))
    assert metadata(thread, "locks/app/Host.Functions.job") == {}


def test_in_the_dequeueable_layout_holds_have_tokens(thread: LockThread) -> None:
    tokens: list[int | None] = []
    job = a_job("sync", lambda: tokens.append(current_hold().token), layout="dequeueable", scope="Id")
    for _ in range(2):
        call(job, msg=message(Id=1))
    assert tokens[0] is not None
    assert tokens[1] is not None
    assert tokens[1] > tokens[0]
    assert set(metadata(thread, "1")) == {HELD_KEY, HOST_KEY, OWNER_KEY, PID_KEY, FUNCTION_KEY, SCOPE_KEY}


@NAMES
def test_somebody_else_s_lease_on_the_blob_is_contention(thread: LockThread, layout: str) -> None:
    job = a_job("sync", layout=layout, scope="Id", on_contention="raise")
    call(job, msg=message(Id="x"))
    (name,) = thread.memory.names()
    thread.do(lambda: thread.memory.acquire(name, FOREIGN, 60))
    with pytest.raises(LockNotAcquired):
        call(job, msg=message(Id="x"))
    assert call(a_job("sync", layout=layout, scope="Id", on_contention="skip"), msg=message(Id="x")) is None
    assert thread.leased() == {name}


def test_two_functions_and_apps_share_a_dequeueable_lock(thread: LockThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """D-18."""
    nested: list[str] = []
    inner = a_job("sync", lambda: nested.append("inside"), layout="dequeueable", scope="Nr", on_contention="skip")
    outer = a_job("sync", lambda: call(inner, msg=message(Nr=7)), layout="dequeueable", scope="Id")
    call(outer, msg=message(Id=7))
    assert nested == []
    monkeypatch.setenv("AzureFunctionsWebHost__hostid", "another")
    call(a_job("sync", layout="dequeueable", scope="Id"), msg=message(Id=7))
    assert thread.memory.names() == ["7"]


def test_the_section_s_scope_and_options_are_used(thread: LockThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """D-1."""
    dequeueable(monkeypatch, Scope="Order:Id", LeaseDurationInSeconds=30, ContainerName="orders", MaxRetries=0)
    job = a_job("sync", layout="dequeueable")
    guard = guard_of(job)
    assert (guard.scope, guard.period, guard.options.container, guard.wait) == ("Order:Id", 30.0, "orders", None)
    assert guard.poll == 120.0
    call(job, msg=message(Order={"Id": "x"}))
    assert thread.places[0].container == "orders"
    thread.do(lambda: thread.memory.acquire("x", FOREIGN, 60))
    with pytest.raises(LockNotAcquired, match="retry limit of 0"):
        call(job, msg=message(Order={"Id": "x"}))


def test_of_a_dequeueable_scope_that_is_not_there_nothing_is_locked(thread: LockThread) -> None:
    """D-17."""
    job = a_job("sync", layout="dequeueable", scope="Id")
    for body in (message(Nr=1), message(Id=None), message(Id=" "), message(Id={}), "no JSON", message(Id="a\\b")):
        with pytest.raises(ScopeError):
            call(job, msg=body)
    assert thread.memory.names() == []


def test_a_listener_has_its_blob_in_each_layout_that_has_one(thread: LockThread) -> None:
    """W-33, W-58, H-12: of one function, both modes, the default layout beside that of WebJobs."""
    for arguments, name, left in (
        ({"layout": "webjobs"}, "locks/app/Host.Functions.job.Listener", set()),
        ({"layout": "webjobs", "scope_id": "Region"}, "locks/app/Host.Functions.job.Region.Listener", set()),
        ({}, "locks/app/job~listener", {HELD_KEY, HOST_KEY, PID_KEY, FUNCTION_KEY}),
    ):
        seen: list[str] = []
        call(a_job("sync", lambda: seen.append(current_hold().lock), mode="listener", **arguments))  # noqa: B023
        assert seen == [name]
        assert set(metadata(thread, name)) == left
    assert {place.container for place in thread.places} == {WEBJOBS, "webjobshost"}


@pytest.mark.parametrize(
    ("arguments", "host_id", "name"),
    [
        ({}, None, None),
        ({}, "app", None),
        ({}, "another", "locks/another/Host.Functions.job.Listener"),
        ({"scope_id": "Region"}, None, "locks/app/Host.Functions.job.Region.Listener"),
        ({"connection": "Orders"}, None, "locks/app/Host.Functions.job.Listener"),
    ],
)
def test_a_timer_is_not_guarded_with_the_lock_that_its_own_host_has(
    thread: LockThread,
    monkeypatch: pytest.MonkeyPatch,
    arguments: dict[str, Any],
    host_id: str | None,
    name: str | None,
) -> None:
    """W-111: it would never run."""
    monkeypatch.setenv("Orders", "UseDevelopmentStorage=true")
    if host_id:
        monkeypatch.setenv("AzureFunctionsJobHost__singleton__hostId", host_id)

    def job(timer: func.TimerRequest) -> None: ...

    builder: Any = func.FunctionApp().timer_trigger(arg_name="timer", schedule="0 0 * * * *")(job)
    singleton(mode="listener", layout="webjobs", **arguments)(builder)
    guarded = builder._function.get_user_function()
    if name:
        guarded(timer="{}", context=Context())
        assert thread.memory.names() == [name]
    else:
        with pytest.raises(ConfigurationError, match="the Functions host itself holds this lock for its timer"):
            guarded(timer="{}", context=Context())
        assert thread.memory.names() == []


def test_the_function_is_named_as_the_host_names_it(thread: LockThread) -> None:
    """H-12."""

    @singleton(layout="webjobs")
    def job(msg: str) -> None: ...

    job(msg="", context=Context("inv-1", "ShipOrders"))  # type: ignore[call-arg]
    assert thread.memory.names() == ["locks/app/Host.Functions.ShipOrders"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"layout": "webjob"}, "did you mean 'webjobs'?"),
        ({"layout": None}, "layout is None: it must be one of 'default', 'webjobs', 'dequeueable'"),
        ({"layout": "dequeueable"}, "needs a scope: give @singleton one, or set Dequeueable__Singleton__Scope"),
        ({"layout": "dequeueable", "scope": "Id", "scope_id": "{Id}"}, "scope or scope_id, not both"),
        ({"layout": "dequeueable", "mode": "listener"}, "mode='listener' can't be used with layout='dequeueable'"),
        ({"layout": "webjobs", "level": "host"}, "level='host' needs a scope"),
    ],
)
def test_what_is_declared_wrongly_is_said_at_the_declaration(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        a_job("sync", **arguments)
    assert told in str(caught.value)


def test_a_wrong_setting_of_dequeueable_concerns_its_layout_only(monkeypatch: pytest.MonkeyPatch) -> None:
    dequeueable(monkeypatch, MaxRetries=11)
    a_job("sync")
    with pytest.raises(ConfigurationError, match="MaxRetries is '11': it must be a whole number from 0 to 10"):
        a_job("sync", layout="dequeueable", scope="Id")


# --- who has it (W-81) ------------------------------------------------------------------------------------------------


def test_of_a_blob_that_a_dotnet_host_wrote_the_owner_is_told_while_it_is_leased(thread: LockThread) -> None:
    name = "locks/app/Host.Functions.job"
    client = LockClient(options=SingletonOptions(container=WEBJOBS))
    assert client.holder(name) is None

    async def lock_as_dotnet_does() -> None:
        await thread.memory.create(name)
        await thread.memory.acquire(name, FOREIGN, 15)
        await written(thread.memory, name, FOREIGN, **{OWNER_KEY: "0f8fad5b-d9cb-469f-a165-70867728950e"})

    thread.do(lock_as_dotnet_does)
    found = client.holder(name)
    assert found is not None
    assert found.owner == "0f8fad5b-d9cb-469f-a165-70867728950e"
    assert (found.host, found.since, found.token) == (None, None, None)
    thread.do(lambda: thread.memory.release(name, FOREIGN))
    assert client.holder(name) is None
    assert metadata(thread, name)[OWNER_KEY]
    client.close()


def test_of_a_listener_of_dotnet_only_that_there_is_one_is_known(thread: LockThread) -> None:
    """W-58."""
    name = "locks/app/Host.Functions.job.Listener"
    thread.do(lambda: thread.memory.create(name))
    thread.do(lambda: thread.memory.acquire(name, FOREIGN, 60))
    found = LockClient(options=SingletonOptions(container=WEBJOBS)).holder(name)
    assert found is not None
    assert found.owner is None
