"""``name`` and the options that a function may have for itself: the lock's name, its lease, its polls."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from singleton import ConfigurationError, SingletonOptions, singleton
from singleton.decorator import guards_of
from singleton.testing import Headcount
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import InlineHost
from tests.support.lock_thread import Context, a_job, an_app, guard_of
from tests.support.world import now, virtual

if TYPE_CHECKING:
    from pathlib import Path

TIMINGS: dict[str, Any] = {
    "lock_period": 30,
    "lock_acquisition_polling_interval": 2,
    "lock_acquisition_min_polling_interval": 0.5,
    "renewal_interval": 10,
    "handoff_window": 3,
    "defer_delay": 60,
    "failover": 4,
}
OF_LISTENERS: dict[str, Any] = {"listener_lock_period": 45, "listener_lock_recovery_polling_interval": 15}
APP_WIDE = {"container", "http", "fencing_tokens", "enabled", "fail_fast", "host_id", "local_run_warning"}
"""What all functions of an app have in common."""


@pytest.fixture(autouse=True)
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch, '{"singleton": {"lockPeriod": "00:00:20", "handoffWindow": "00:00:07"}}')


def lock(body: object = None, **arguments: Any) -> str:
    def ship(msg: Any) -> None: ...

    name: str = guard_of(singleton(**arguments)(ship)).call({"msg": json.dumps(body)}, Context()).lock
    return name


# --- name -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "locks/app/dispatch"),
        ({"scope_id": "x"}, "locks/app/dispatch.x"),
        ({"layout": "webjobs"}, "locks/app/Host.Functions.dispatch"),
        ({"layout": "webjobs", "scope_id": "x"}, "locks/app/Host.Functions.dispatch.x"),
        ({"mode": "listener"}, "locks/app/dispatch~listener"),
        ({"limit": 2}, "locks/app/dispatch"),
    ],
)
def test_a_function_that_was_renamed_keeps_its_lock(arguments: dict[str, Any], expected: str) -> None:
    assert lock(name="dispatch", **arguments) == expected
    assert lock(**arguments) == expected.replace("dispatch", "ship")


def test_what_is_told_of_it_has_its_own_name() -> None:
    def ship() -> None: ...

    call = guard_of(singleton(name="dispatch")(ship)).call({}, Context())
    assert (call.function, call.lock) == ("ship", "locks/app/dispatch")


@virtual
async def test_the_old_and_the_new_function_exclude_one_another() -> None:
    inside = Headcount()

    async def body() -> None:
        with inside:
            await asyncio.sleep(5)

    async def dispatch() -> None:
        await body()

    async def ship() -> None:
        await body()

    service = MemoryLeaseStore()
    old, new = singleton(dispatch), singleton(name="dispatch")(ship)
    tasks = []
    for seed, job in enumerate((old, new, old, new)):
        with InlineHost(service, seed).here():
            tasks.append(asyncio.create_task(job()))
    await asyncio.gather(*tasks)
    assert (inside.total, inside.most) == (4, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": ""}, "name is ''"),
        ({"name": " "}, "name is ' '"),
        ({"name": 5}, "name is 5: give the function's name"),
        ({"name": "a", "level": "host", "scope_id": "x"}, "the locks of level='host' have no function's name"),
        ({"name": "a", "layout": "dequeueable", "scope": "Id"}, "the scope is the whole name"),
        ({"name": "a", "layout": "webjobs", "dotnet_name": "A.B.C"}, "are both given"),
        ({"name": "A.B.Ship", "layout": "webjobs"}, "for the full name of a C# method give dotnet_name"),
    ],
)
def test_a_name_that_can_not_be_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        a_job("sync", **arguments)


# --- timings ----------------------------------------------------------------------------------------------------------


def options(mode: Any = "function", **arguments: Any) -> SingletonOptions:
    (guard,) = guards_of(a_job("sync", mode=mode, **arguments))
    return guard.options


@pytest.mark.parametrize("name", TIMINGS)
def test_a_function_may_have_a_timing_of_its_own(name: str) -> None:
    apps = options()
    own = options(**{name: TIMINGS[name]})
    assert getattr(own, name) == TIMINGS[name] != getattr(apps, name)
    others = [field.name for field in fields(own) if field.name != name]
    assert all(getattr(own, other) == getattr(apps, other) for other in others), "the others are the app's"
    assert getattr(options("function", **{name: timedelta(seconds=TIMINGS[name])}), name) == TIMINGS[name]


@pytest.mark.parametrize("name", OF_LISTENERS)
def test_a_listener_may_too(name: str) -> None:
    assert getattr(options("listener", **{name: OF_LISTENERS[name]}), name) == OF_LISTENERS[name]
    with pytest.raises(ConfigurationError, match=f"{name}=.* is for mode='listener' only"):
        options(**{name: OF_LISTENERS[name]})


def test_a_recovery_interval_without_end_is_none_and_nought_turns_failover_off() -> None:
    assert options("listener", listener_lock_recovery_polling_interval=math.inf).recovery is None
    assert options(failover=0).failover is None
    assert options(cancel_on_loss=False).cancel_on_loss is False


def test_help_shows_each_argument_with_type_and_default() -> None:
    shown = inspect.signature(singleton)
    assert str(shown).startswith(
        "(function: 'Any' = None, /, *, scope: 'str | None' = None, scope_id: 'str' = '', level:"
    )
    assert str(shown).endswith("cancel_on_loss: 'bool | None' = None, **unknown: 'Any') -> 'Any'")
    assert len(shown.parameters) == len({"function", *(singleton.__kwdefaults__ or ()), "unknown"}) == 29


def test_all_options_are_either_a_functions_or_the_apps() -> None:
    arguments = set(singleton.__kwdefaults__ or ())
    known = {field.name for field in fields(SingletonOptions)}
    assert known - arguments - {"lock_acquisition_timeout"} == APP_WIDE


def test_the_lease_is_as_long_as_the_function_says() -> None:
    (guard,) = guards_of(a_job("sync", lock_period=60, renewal_interval=10))
    timing = guard._addresses(guard.call({}, Context()))[0].timing
    assert (timing.period, timing.renewal, timing.handoff_window) == (60, 10, 7)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"lock_period": 5}, "lock_period is 5: it must be from 15 to 60 seconds"),
        ({"lock_period": 20.5}, r"lock_period is 20\.5"),
        (
            {"renewal_interval": 19},
            r"renewal_interval is 19 seconds, and lock_period is 20 seconds: set renewal_interval to 16\.6 seconds",
        ),
        ({"lock_acquisition_polling_interval": 0.05}, r"lock_acquisition_polling_interval is 0\.05"),
        ({"cancel_on_loss": 1}, "cancel_on_loss is 1"),
        (
            {"lock_period": 30, "mode": "listener"},
            "lock_period=30 is for mode='function' only.*listener_lock_p",
        ),
        ({"lock_period": 30, "layout": "dequeueable", "scope": "Id"}, "Dequeueable__Singleton__LeaseDurationInSeconds"),
    ],
)
def test_a_timing_that_can_not_be_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        a_job("sync", **arguments)


@virtual
async def test_two_functions_that_share_a_lock_with_other_periods_never_overlap() -> None:
    """In one process and over two; each keeps its own lease, and waits in a line of its own."""
    inside = Headcount()

    def a_function(**arguments: Any) -> Any:
        @singleton(level="host", scope_id="shared", **arguments)
        async def job() -> None:
            with inside:
                await asyncio.sleep(25)

        return job

    short = a_function(lock_period=15, lock_acquisition_polling_interval=1)
    long = a_function(lock_period=60, handoff_window=0)
    service = MemoryLeaseStore()
    tasks = []
    for seed in range(2):
        with InlineHost(service, seed).here():
            tasks += [asyncio.create_task(job()) for job in (short, long, short, long)]
    await asyncio.gather(*tasks)
    assert (inside.total, inside.most) == (8, 1)
    assert now() < 8 * 25 + 8 * 6
    assert service.leased() == {}
