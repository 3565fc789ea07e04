"""Lock clients for operators: which locks there are, what a function's lock is called, and how one is broken gently."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, ConfigurationError, LockClient, LockClosed, SingletonOptions, current_hold
from singleton.base.errors import StorageError
from singleton.stores.protocol import MOST_LISTED, StoreFailure
from tests.support.lock_thread import LockThread, a_job, an_app, call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from singleton import LockInfo

both_kinds = pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])
Kind = type[LockClient | AsyncLockClient]


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


def listed(client: LockClient | AsyncLockClient, *arguments: Any, **keywords: Any) -> list[LockInfo]:
    if isinstance(client, LockClient):
        return list(client.locks(*arguments, **keywords))

    async def run() -> list[LockInfo]:
        return [lock async for lock in client.locks(*arguments, **keywords)]

    return asyncio.run(run())


@both_kinds
def test_all_locks_are_listed_in_order_page_by_page(
    thread: LockThread, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"locks/app/job.{number}" for number in range(7)]
    for name in reversed(names):
        thread.do(lambda name=name: thread.memory.create(name))  # type: ignore[misc]
    thread.taken_by_another_process(names[3])
    page, asked = thread.memory.page, list[int]()

    async def three(prefix: str, marker: str | None, most: int) -> Any:
        asked.append(most)
        return await page(prefix, marker, min(most, 3))

    monkeypatch.setattr(thread.memory, "page", three)
    client = kind()
    assert [lock.name for lock in listed(client)] == names
    assert thread.memory.calls["page"] == 3
    assert asked == [MOST_LISTED] * 3
    assert [lock.name for lock in listed(client, held=True)] == [names[3]]
    assert listed(client, "locks/other/") == []
    assert listed(client, function="other") == []
    thread.push_clock(3600)
    assert len(listed(client, older_than=timedelta(hours=1))) == 7
    assert listed(client, older_than=3700) == []


@both_kinds
def test_a_container_that_is_not_there_is_told(thread: LockThread, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    async def missing(*_: object) -> None:
        raise StoreFailure(404, "ContainerNotFound")

    monkeypatch.setattr(thread.memory, "page", missing)
    with pytest.raises(StorageError, match="there is no container 'webjobshost'") as caught:
        listed(kind())
    assert caught.value.code == "ContainerNotFound"


@both_kinds
def test_a_closed_client_lists_nothing(kind: Kind) -> None:
    client = kind()
    client.close()
    with pytest.raises(LockClosed):
        listed(client)


@pytest.mark.parametrize(
    ("declared", "asked"),
    [
        ({}, {}),
        ({"scope": "Id"}, {"scope": "4/2"}),
        ({"scope": "Id", "scope_id": "eu"}, {"scope": ["eu", "4/2"]}),
        ({"scope": "Id", "level": "host"}, {"scope": "4/2", "level": "host"}),
        ({"scope": "Id", "scope_id": "eu", "scope_hash": True}, {"scope": ["eu", "4/2"], "scope_hash": True}),
        ({"mode": "listener"}, {"listener": True}),
    ],
)
def test_the_lock_of_a_function_is_called_as_its_guard_calls_it(
    declared: dict[str, Any], asked: dict[str, Any]
) -> None:
    taken: list[str] = []
    call(a_job("sync", lambda: taken.append(current_hold().lock), **declared), msg='{"Id": "4/2"}')
    assert LockClient().lock_name("job", **asked) == taken[0]


def test_a_listener_s_lock_that_no_declaration_has_gets_no_name() -> None:
    with pytest.raises(ConfigurationError, match="level='host' and listener=True: no declaration has such a lock"):
        LockClient().lock_name("job", "eu", level="host", listener=True)


def test_the_app_of_a_name_is_the_options_the_host_json_s_or_the_environment_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LockClient().lock_name("job") == "locks/app/job"
    an_app(tmp_path, monkeypatch, '{"version": "2.0", "singleton": {"hostId": "shop"}}')
    assert LockClient().lock_name("job") == "locks/shop/job"
    assert LockClient(options=SingletonOptions(host_id="other")).lock_name("job") == "locks/other/job"
    webjobs = SingletonOptions(container="azure-webjobs-hosts", host_id="net")
    assert LockClient(options=webjobs).lock_name("job", "a/b") == "locks/net/Host.Functions.job.a/b"


def test_a_lock_is_broken_with_the_notice_that_was_asked_for(thread: LockThread) -> None:
    client = LockClient()
    thread.taken_by_another_process("job")
    gently = client.break_("job")
    assert gently is not None
    assert 50 <= gently.free_in <= 60
    assert gently.together == 0
    sooner = client.break_("job", notice=10)
    assert sooner is not None
    assert sooner.free_in == 10
    assert 40 <= sooner.together <= 50


@both_kinds
def test_breaking_a_lock_that_is_not_there_is_an_error_and_one_that_nobody_has_is_none(
    thread: LockThread, kind: Kind
) -> None:
    thread.do(lambda: thread.memory.create("locks/app/ship.42"))
    client = kind()

    def break_(name: str) -> object:
        return client.break_(name) if isinstance(client, LockClient) else asyncio.run(client.break_(name))

    assert break_("locks/app/ship.42") is None
    with pytest.raises(StorageError, match=r"there is no lock 'locks/app/shp\.42'.*Did you mean") as caught:
        break_("locks/app/shp.42")
    assert (caught.value.reason, caught.value.status) == ("no such lock", 404)
    assert "'locks/app/ship.42'?" in str(caught.value)


@both_kinds
def test_what_matches_no_lock_though_there_are_some_is_logged_with_near_misses(
    thread: LockThread, kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    client = kind()
    for asked in ({"prefix": "lock/"}, {"function": "shipp"}):
        assert listed(client, **asked) == []
    assert caplog.records == [], "there is no lock at all"
    thread.do(lambda: thread.memory.create("locks/app/ship.42"))
    assert listed(client, function="ship", held=True) == []
    assert caplog.records == []
    assert listed(client, "lock/") == []
    assert listed(client, function="shipp") == []
    assert [record.getMessage() for record in caplog.records] == [
        "no lock in container 'webjobshost' has a name that begins with 'lock/'. Did you mean 'locks/', 'locks/app/'?",
        "there is no lock of function 'shipp' in container 'webjobshost'; did you mean 'ship'?",
    ]
    lifted = client.lift_epochs() if isinstance(client, LockClient) else asyncio.run(client.lift_epochs())
    assert lifted.lifted == 1


def test_a_name_made_of_this_machines_own_host_id_is_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    LockClient().lock_name("job")
    assert caplog.records == []
    monkeypatch.delenv("AzureFunctionsWebHost__hostid")
    LockClient(options=SingletonOptions(host_id="app")).lock_name("job")
    monkeypatch.setenv("AZURE_FUNCTIONS_ENVIRONMENT", "Development")
    LockClient().lock_name("job")
    assert caplog.records == []
    monkeypatch.delenv("AZURE_FUNCTIONS_ENVIRONMENT")
    for _ in range(2):
        LockClient().lock_name("job")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "is made of this machine and folder" in record.getMessage()


@pytest.mark.parametrize("notice", [-1, 61, math.nan, "10", True])
def test_a_notice_that_is_none_is_refused_before_anything_is_asked(thread: LockThread, notice: Any) -> None:
    with pytest.raises(ConfigurationError, match="notice is"):
        LockClient().break_("job", notice)
    assert thread.memory.calls.total() == 0


@pytest.mark.parametrize(
    ("function", "scope", "said"),
    [
        ("f", 5, "scope is 5: give the text of the value, such as '5' for the number 5"),
        ("f", None, "scope is None: give the text"),
        ("f", b"x", "scope is b'x': give the text"),
        ("f", ["eu", 5], "scope has 5: give the text"),
        ("f", [["eu"]], r"scope has \['eu'\]: give the text"),
        (None, "x", "function is None: give its name"),
        (5, "x", "function is 5: give its name"),
    ],
)
@pytest.mark.parametrize("scope_hash", [False, True])
def test_a_part_of_a_name_that_is_no_text_is_refused(function: Any, scope: Any, said: str, *, scope_hash: bool) -> None:
    with pytest.raises(ConfigurationError, match=said):
        LockClient().lock_name(function, scope, scope_hash=scope_hash)


@pytest.mark.parametrize("level", [None, 5, ["host"], "hsot"])
def test_a_level_that_there_is_not_is_refused(level: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"level is .*give 'function' or 'host'"):
        LockClient().lock_name("f", "x", level=level)
