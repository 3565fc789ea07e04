"""Where failover can be given, and where it is refused: early, and saying why."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, ConfigurationError, LockClient, SingletonOptions, singleton
from singleton.decorator import guards_of
from singleton.runtime.address import Address
from singleton.settings.options import load_options
from tests.support.lock_thread import LockThread, an_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ON = SingletonOptions(failover=2)
both_kinds = pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


def declared(**arguments: Any) -> float | None:
    @singleton(**arguments)
    def job() -> None: ...

    return guards_of(job)[0].options.failover


def test_it_is_off_unless_it_is_asked_for() -> None:
    assert SingletonOptions().failover is None
    assert declared() is None


@pytest.mark.parametrize("value", [2, 2.0, 10, timedelta(seconds=2.5)])
def test_it_takes_two_to_ten_seconds(value: Any) -> None:
    assert SingletonOptions(failover=value).failover == declared(failover=value)


@pytest.mark.parametrize("value", [1.9, 10.1, -1, float("nan"), True, False, "2"])
def test_other_values_are_refused_with_the_range(value: Any) -> None:
    for given in (lambda: SingletonOptions(failover=value), lambda: declared(failover=value)):
        with pytest.raises(ConfigurationError, match=r"failover is .*2 to 10"):
            given()


def test_host_json_turns_it_on_and_a_function_may_turn_it_off(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text(json.dumps({"singleton": {"failover": "00:00:03"}}))
    assert load_options(tmp_path, {}).failover == 3
    assert ON.replace(failover=None).failover is None
    assert declared(failover=0) is None


def test_zero_turns_it_off_wherever_it_can_be_turned_on(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text(json.dumps({"singleton": {"failover": "00:00:03"}}))
    off = {"AzureFunctionsJobHost__singleton__failover": "00:00:00"}
    assert load_options(tmp_path, off).failover is None
    for nothing in (0, 0.0, timedelta(0)):
        assert ON.replace(failover=nothing).failover is None
        assert SingletonOptions(failover=nothing, fencing_tokens=False).failover is None


def test_it_needs_fencing_tokens() -> None:
    with pytest.raises(ConfigurationError, match="failover is 2, and fencing_tokens is False"):
        SingletonOptions(failover=2, fencing_tokens=False)


@pytest.mark.parametrize("layout", ["webjobs", "dequeueable"])
def test_locks_that_other_libraries_take_as_well_refuse_it(layout: str) -> None:
    with pytest.raises(ConfigurationError, match=f"failover is 2, and can't be used with layout='{layout}'"):
        declared(layout=layout, scope="Id", failover=2)


@both_kinds
def test_a_semaphore_refuses_it(kind: type[LockClient | AsyncLockClient]) -> None:
    client = kind(options=ON)
    asks: list[Callable[[], object]] = [
        lambda: client.semaphore("reports", 3),
        lambda: client.try_lock("reports", limit=3),
    ]
    for ask in asks:
        with pytest.raises(
            ConfigurationError, match=r"failover is 2, and can't be used with semaphore 'reports'.*on the lock client"
        ):
            ask()


@both_kinds
def test_a_client_in_the_container_of_webjobs_refuses_it(kind: type[LockClient | AsyncLockClient]) -> None:
    with pytest.raises(ConfigurationError, match="where \\.NET hosts have their locks"):
        kind(options=ON.replace(container="azure-webjobs-hosts"))


@both_kinds
def test_a_client_takes_it_beside_its_options(kind: type[LockClient | AsyncLockClient]) -> None:
    assert kind(failover=2)._options.failover == 2
    assert kind(options=ON, failover=0)._options.failover is None


def test_a_candidate_asks_again_after_a_quarter_of_it() -> None:
    assert ON.recovery == 0.5
    assert SingletonOptions().recovery == 60
    assert ON.replace(listener_lock_recovery_polling_interval=None).recovery is None


def test_a_lock_with_another_value_is_another_lock_of_the_process() -> None:
    client = LockClient(options=ON)
    place = client._place
    assert Address.of(place, "a", ON) != Address.of(place, "a", SingletonOptions())
    assert Address.of(place, "a", ON).blob == Address.of(place, "a", SingletonOptions()).blob
