"""A function that takes its lock under its old name, too, while an older version of the app still runs."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from singleton import ConfigurationError, LockLost, LockNotAcquired, OldLock, ScopeError, current_hold, singleton
from tests.support.lock_thread import Context, LockThread, an_app, guard_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BODY = {"Id": "42"}
HASHED = "locks/app/ship.73475cb40a568e8da8a045ced110137e159f890a"
PLAIN = "locks/app/ship.42"


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


def a_ship(body: Callable[[], Any] = lambda: None, **arguments: Any) -> Callable[..., Any]:
    def ship(msg: Any) -> Any:
        return body()

    arguments = {"scope": "Id", "scope_hash": True, "also": OldLock(scope_hash=False), **arguments}
    return singleton(**arguments)(ship)


def invoke(job: Callable[..., Any], owner: str = "inv-1") -> Any:
    return job(msg=json.dumps(BODY), context=Context(owner))


# --- which two locks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("new", "also", "old"),
    [
        ({"scope_hash": True}, OldLock(scope_hash=False), ("webjobshost", PLAIN)),
        ({}, OldLock(scope_hash=True), ("webjobshost", HASHED)),
        ({}, OldLock(name="send"), ("webjobshost", "locks/app/send.42")),
        ({"name": "send"}, OldLock(name=""), ("webjobshost", PLAIN)),
        ({"name": "send"}, OldLock(host_id="other"), ("webjobshost", "locks/other/send.42")),
        ({}, OldLock(host_id="other"), ("webjobshost", "locks/other/ship.42")),
        ({}, OldLock(container="older"), ("older", PLAIN)),
        ({"scope_hash": True}, OldLock(layout="webjobs"), ("azure-webjobs-hosts", "locks/app/Host.Functions.ship.42")),
        ({"layout": "webjobs"}, OldLock(layout="default"), ("webjobshost", PLAIN)),
        (
            {},
            OldLock(layout="webjobs", dotnet_name="A.B.Ship"),
            ("azure-webjobs-hosts", "locks/app/A.B.Ship.42"),
        ),
        (
            {"layout": "webjobs", "dotnet_name": "A.B.Ship"},
            OldLock(dotnet_name=""),
            ("azure-webjobs-hosts", "locks/app/Host.Functions.ship.42"),
        ),
        (
            {"layout": "webjobs", "dotnet_name": "A.B.Ship"},
            OldLock(name="Send"),
            ("azure-webjobs-hosts", "locks/app/Host.Functions.Send.42"),
        ),
        ({"scope_hash": True}, OldLock(layout="dequeueable"), ("webjobshost", "42")),
        ({"level": "host"}, OldLock(host_id="other"), ("webjobshost", "locks/other/~42")),
    ],
)
def test_what_is_not_given_is_as_in_the_new_declaration(
    new: dict[str, Any], also: OldLock, old: tuple[str, str]
) -> None:
    def ship(msg: Any) -> None: ...

    guard = guard_of(singleton(scope="Id", also=also, **new)(ship))
    call = guard.call({"msg": json.dumps(BODY)}, Context())
    mine, other = guard._addresses(call)
    assert (other.place.container, other.name) == old
    assert mine.name == call.lock
    assert mine.place.account == other.place.account


@pytest.mark.parametrize(
    ("new", "also", "why"),
    [
        ({}, OldLock(), "the lock that the function has anyway"),
        ({}, OldLock(scope_hash=False), "the lock that the function has anyway"),
        ({}, OldLock(container="webjobshost"), "the lock that the function has anyway"),
        ({"layout": "webjobs"}, OldLock(layout="webjobs"), "the lock that the function has anyway"),
        ({}, {"scope_hash": False}, "give what was different before, such as OldLock"),
        ({}, True, "give what was different before, such as OldLock"),
        ({"limit": 2}, OldLock(name="send"), "does not go with limit=2"),
        ({"layout": "dequeueable"}, OldLock(layout="default"), "does not go with layout='dequeueable'"),
        ({"level": "host"}, OldLock(name="send"), r"also=OldLock\(name='send'\): .*leave it out"),
        ({}, OldLock(name="  "), r"also=OldLock\(name='  '\): name is"),
        ({}, OldLock(dotnet_name="A.B.C"), r"also=OldLock\(dotnet_name='A.B.C'\): .*layout='webjobs' only"),
        ({}, OldLock(layout="webjobs", scope_hash=True), "also=.*scope_hash=True is for layout='default' only"),
        ({}, OldLock(layout="webjobs", container="old"), "leave container out"),
        ({}, OldLock(layout="dequeueable", host_id="old"), "leave host_id out"),
        ({}, OldLock(layout="web"), "also=.*layout is 'web'"),  # type: ignore[arg-type] # on purpose
        ({}, OldLock(container="A"), "also=.*container"),
        ({"failover": 2}, OldLock(layout="webjobs"), "also=.*failover"),
    ],
)
def test_what_is_refused_where_it_is_declared(new: dict[str, Any], also: Any, why: str) -> None:
    def ship(msg: Any) -> None: ...

    with pytest.raises(ConfigurationError, match=why):
        singleton(scope="Id", also=also, **new)(ship)


def test_a_listener_has_no_two_names() -> None:
    with pytest.raises(ConfigurationError, match="mode='function' only"):
        singleton(mode="listener", also=OldLock(name="send"))(lambda: None)


def test_what_is_known_at_an_invocation_only_is_refused_there(thread: LockThread) -> None:
    job = a_ship(scope_hash=False, also=OldLock(host_id="app"))  # that is the app's, as it turns out
    with pytest.raises(ConfigurationError, match=r"names the lock that the function has anyway: 'locks/app/ship\.42'"):
        invoke(job)
    assert thread.leased() == set()


def test_a_value_that_the_old_layout_can_not_name_fails_the_invocation(thread: LockThread) -> None:
    job = a_ship(also=OldLock(layout="dequeueable"), scope="Key")
    with pytest.raises(ScopeError):
        job(msg=json.dumps({"Key": "locks/x"}), context=Context())
    assert thread.leased() == set()


# --- around an invocation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_both_are_held_around_the_body_and_given_back(kind: str, thread: LockThread) -> None:
    seen: list[Any] = []

    def look() -> str:
        seen.extend((thread.leased(), current_hold().lock, current_hold().token))
        return "done"

    if kind == "sync":
        assert invoke(a_ship(look)) == "done"
    else:

        async def ship(msg: Any) -> str:
            return look()

        job = singleton(scope="Id", scope_hash=True, also=OldLock(scope_hash=False))(ship)
        assert asyncio.run(invoke(job)) == "done"
    assert seen[:2] == [{PLAIN, HASHED}, HASHED]
    assert isinstance(seen[2], int)
    assert thread.leased() == set()
    assert thread.kinds() == ["waiting", "acquired", "body_started", "body_ended:ok", "released"]
    assert {event.lock for event in thread.events} == {HASHED}
    assert {event.token for event in thread.events[1:]} == {seen[2]}


@pytest.mark.parametrize("taken", [PLAIN, HASHED])
def test_contention_on_either_is_contention(taken: str, thread: LockThread, caplog: pytest.LogCaptureFixture) -> None:
    thread.taken_by_another_process(taken)
    caplog.set_level("INFO", "singleton")
    assert invoke(a_ship(lambda: pytest.fail("it ran"), on_contention="skip")) is None
    assert f"lock {taken} is held by another invocation" in caplog.text
    with pytest.raises(LockNotAcquired) as caught:
        invoke(a_ship(lambda: pytest.fail("it ran"), on_contention="raise"))
    assert caught.value.lock == taken
    with pytest.raises(LockNotAcquired):
        invoke(a_ship(lambda: pytest.fail("it ran"), timeout=0.3))
    assert thread.leased() == {taken}
    assert thread.kinds() == ["waiting", "contended:skip", "waiting", "contended:raise", "waiting", "contended:timeout"]


@pytest.mark.parametrize("taken", [PLAIN, HASHED])
def test_it_waits_for_either(taken: str, thread: LockThread) -> None:
    thread.taken_by_another_process(taken)
    threading.Timer(0.3, lambda: thread.given_back_by_the_other(taken)).start()
    began = time.monotonic()
    invoke(a_ship())
    assert time.monotonic() - began > 0.2
    assert thread.leased() == set()


@pytest.mark.parametrize("lost", [PLAIN, HASHED])
def test_a_loss_of_either_cancels_an_async_body(lost: str, thread: LockThread) -> None:
    async def ship(msg: Any) -> None:
        thread.deleted(lost)
        await asyncio.sleep(30)

    job = singleton(scope="Id", scope_hash=True, also=OldLock(scope_hash=False))(ship)
    with pytest.raises(LockLost, match="blob gone"):
        asyncio.run(invoke(job))
    assert "lost:blob gone" in thread.kinds()
    assert thread.leased() == set()


@pytest.mark.parametrize("new", [True, False])
def test_the_new_version_and_each_that_knows_one_name_exclude_one_another(new: bool, thread: LockThread) -> None:
    """The old version, and the one of the second deployment, are declared beside the one with both names."""
    alone = a_ship(also=None, scope_hash=new, on_contention="raise")
    inside: list[str] = []

    def body() -> None:
        with pytest.raises(LockNotAcquired):
            invoke(alone, "inv-2")
        inside.append("refused")

    invoke(a_ship(body))
    assert inside == ["refused"]
    invoke(alone)


def test_who_asks_again_under_the_old_name_inside_is_told_at_once() -> None:
    alone = a_ship(also=None, scope_hash=False)
    with pytest.raises(LockNotAcquired, match="would wait for itself"):
        invoke(a_ship(lambda: invoke(alone, "inv-2")))


def test_a_short_body_keeps_both_for_at_least(thread: LockThread) -> None:
    invoke(a_ship(at_least=0.5))
    assert thread.leased() == {PLAIN, HASHED}
    time.sleep(0.8)
    assert thread.leased() == set()


def test_the_old_layout_without_tokens_leaves_those_of_the_new_one(thread: LockThread) -> None:
    tokens: list[int | None] = []
    job = a_ship(lambda: tokens.append(current_hold().token), also=OldLock(layout="webjobs"))
    for _ in range(2):
        invoke(job)
    assert tokens[0] is not None
    assert tokens[1] is not None
    assert tokens[1] > tokens[0]


def test_a_new_layout_without_tokens_gives_none() -> None:
    tokens: list[int | None] = []
    invoke(
        a_ship(
            lambda: tokens.append(current_hold().token),
            layout="webjobs",
            scope_hash=False,
            also=OldLock(layout="default"),
        )
    )
    assert tokens == [None]


def test_operators_see_the_owner_on_both(thread: LockThread) -> None:
    def look() -> None:
        for name in (PLAIN, HASHED):
            metadata = thread.do(lambda name=name: thread.memory.read(name)).metadata  # type: ignore[misc]
            assert (metadata["FunctionInstance"], metadata["SingletonFunction"]) == ("inv-1", "ship")

    invoke(a_ship(look))
