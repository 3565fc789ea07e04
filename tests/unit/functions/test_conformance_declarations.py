"""Declarations: how many of which mode, and what goes together (W-4, W-7 to W-15, W-25, W-44)."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from singleton import ConfigurationError, current_hold, singleton
from singleton.decorator import guards_of
from tests.support.listeners import TICK
from tests.support.lock_thread import Context, LockThread, an_app, outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from singleton.base.kinds import Mode

both_kinds = pytest.mark.parametrize("kind", ["sync", "async"])
both_orders = pytest.mark.parametrize("modes", [("function", "listener"), ("listener", "function")], ids="-".join)
OPTIONS = '{"singleton": {"lockPeriod": "00:00:20", "listenerLockPeriod": "00:00:30"}}'


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch, OPTIONS)
    with LockThread() as running:
        yield running


def a_function(kind: str, body: Callable[[], Any] = lambda: None) -> Callable[..., Any]:
    def job(timer: object = None) -> Any:
        return body()

    async def async_job(timer: object = None) -> Any:
        return body()

    async_job.__name__ = "job"
    return async_job if kind == "async" else job


def declared(function: Callable[..., Any], *declarations: dict[str, Any]) -> Callable[..., Any]:
    for arguments in declarations:
        function = singleton(**arguments)(function)
    return function


@both_kinds
def test_a_function_without_a_declaration_has_no_guard_and_makes_no_request(thread: LockThread, kind: str) -> None:
    """W-13."""
    job = a_function(kind)
    assert guards_of(job) == ()
    outcome(job())
    assert thread.places == []


@pytest.mark.parametrize("timeout", [0.001, 1, 5, 60, 86_400 * 365, 1e9])
def test_a_time_out_has_no_upper_bound(timeout: float) -> None:
    """W-3."""
    (guard,) = guards_of(declared(a_function("sync"), {"timeout": timeout}))
    assert guard.wait == timeout


@pytest.mark.parametrize("timeout", [0, -1, -0.001, timedelta(seconds=-1)])
def test_a_time_out_of_nothing_is_refused_at_the_declaration(timeout: float) -> None:
    """W-3: 0 or below, before any call."""
    with pytest.raises(ConfigurationError, match="must be more than 0 seconds"):
        declared(a_function("sync"), {"timeout": timeout})


@both_kinds
@pytest.mark.parametrize("mode", ["function", "listener"])
def test_a_second_declaration_of_a_mode_is_refused(kind: str, mode: Mode) -> None:
    """W-7, W-9."""
    with pytest.raises(ConfigurationError, match="one of each mode is allowed"):
        declared(a_function(kind), {"mode": mode}, {"mode": mode})


@both_orders
def test_a_second_declaration_of_a_mode_is_refused_beside_the_other(modes: tuple[Mode, Mode]) -> None:
    """W-7, W-9."""
    for third in modes:
        with pytest.raises(ConfigurationError, match="one of each mode is allowed"):
            declared(a_function("sync"), *({"mode": mode} for mode in (*modes, third)))


@both_kinds
@both_orders
def test_one_of_each_mode_holds_both_locks_in_a_body(thread: LockThread, kind: str, modes: tuple[Mode, Mode]) -> None:
    """W-4, W-15: under two ids; the listener's outlives the body."""
    seen: list[set[str]] = []
    job = declared(
        a_function(kind, lambda: seen.append(thread.leased() | {current_hold().lock})),
        *({"mode": mode, "scope_id": "east"} for mode in modes),
    )
    assert {guard.mode for guard in guards_of(job)} == {"function", "listener"}
    outcome(job(context=Context()))
    assert seen == [{"locks/app/job.east", "locks/app/job.east~listener"}]
    assert thread.leased() == {"locks/app/job.east~listener"}


@both_kinds
def test_in_the_layout_of_webjobs_these_are_its_two_blobs(thread: LockThread, kind: str) -> None:
    """W-15, W-33."""
    seen: list[set[str]] = []
    both = {"scope_id": "TestScope", "layout": "webjobs"}
    job = declared(a_function(kind, lambda: seen.append(thread.leased())), both, {**both, "mode": "listener"})
    outcome(job(context=Context()))
    name = "locks/app/Host.Functions.job.TestScope"
    assert seen == [{name, f"{name}.Listener"}]


def test_the_period_is_that_of_the_mode(thread: LockThread) -> None:
    """W-25: in the declaration, and on the blob."""
    durations: dict[str, int] = {}
    acquire = thread.memory.acquire

    async def watched(name: str, lease_id: str, duration: int) -> str:
        durations[name] = duration
        return await acquire(name, lease_id, duration)

    thread.memory.acquire = watched  # type: ignore[method-assign]
    job = declared(a_function("sync"), {}, {"mode": "listener"})
    assert {guard.mode: guard.period for guard in guards_of(job)} == {"function": 20.0, "listener": 30.0}
    job(context=Context())
    assert durations == {"locks/app/job": 20, "locks/app/job~listener": 30}


@pytest.mark.parametrize("above", [True, False], ids=["above the trigger", "below it"])
def test_a_listener_at_level_host_is_refused(above: bool) -> None:
    """W-11."""
    declare = singleton(mode="listener", level="host", scope_id="shared")
    trigger = func.FunctionApp().timer_trigger(arg_name="timer", schedule="0 0 * * * *")
    target: Any = trigger(a_function("sync")) if above else a_function("sync")
    with pytest.raises(ConfigurationError, match="level='host' is for mode='function' only"):
        declare(target)


def test_a_listeners_scope_is_filled_from_settings_alone(thread: LockThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """W-44."""
    monkeypatch.setenv("REGION", "north")
    job = declared(a_function("sync"), {"mode": "listener", "scope_id": "TestScope%REGION%"})
    job(context=Context())
    assert thread.leased() == {"locks/app/job.TestScopenorth~listener"}
    with pytest.raises(ConfigurationError, match="a listener is chosen before there is a message"):
        declared(a_function("sync"), {"mode": "listener", "scope_id": "{Zone}"})


@both_kinds
def test_a_listener_without_a_trigger_runs_in_the_process_that_leads(thread: LockThread, kind: str) -> None:
    """W-8 refuses it; here it is just called."""
    runs: list[str] = []
    job = declared(a_function(kind, lambda: runs.append(current_hold().lock)), {"mode": "listener"})
    outcome(job())
    assert runs == ["locks/app/job~listener"]


@both_kinds
def test_where_another_process_listens_that_is_said_with_the_lock_and_nothing_fails(
    thread: LockThread, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """W-101."""
    thread.taken_by_another_process("locks/app/job~listener")
    job = declared(a_function(kind, pytest.fail), {"mode": "listener"})
    with caplog.at_level(logging.DEBUG, "singleton"):
        assert outcome(job(timer=TICK)) is None
    said = [record for record in caplog.records if "locks/app/job~listener" in record.getMessage()]
    assert any("another process has it" in record.getMessage() for record in said)
    assert {record.levelno for record in said} == {logging.DEBUG}


def test_two_threads_of_one_process_share_its_leadership() -> None:
    """W-5: a listener is a process, so its invocations run at the same time."""
    most = 0
    inside = 0

    async def job(timer: object = None) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.01)
        inside -= 1

    listener = singleton(mode="listener")(job)

    async def run() -> None:
        await asyncio.gather(*(listener() for _ in range(5)))

    asyncio.run(run())
    assert most > 1
