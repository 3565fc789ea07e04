"""Scenarios: each value out of range is refused in one line that names it, what is allowed, and what to do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from simulator.work.scenario import Scenario, ScenarioError, default_app

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "function_app.py").write_text("")
    return tmp_path


def test_a_scenario_of_good_values_is_made(app: Path) -> None:
    scenario = Scenario(app=app, hosts=8, kill=3, seed=5)
    assert (scenario.hosts, scenario.kill, scenario.seed) == (8, 3, 5)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"hosts": 0}, ["--hosts 0", "from 1 to 100"]),
        ({"hosts": -3}, ["--hosts -3", "from 1 to 100"]),
        ({"hosts": 101}, ["--hosts 101", "from 1 to 100"]),
        ({"kill": -1}, ["--kill -1", "from 0 to 4"]),
        ({"kill": 9}, ["--kill 9 --hosts 5", "--kill 0 to 4", "--hosts 10 or more"]),
        ({"kill": 5}, ["--kill 5 --hosts 5", "one host must survive"]),
        ({"pause": -1}, ["--pause -1", "from 0 to 100"]),
        ({"pause": 1, "hosts": 1}, ["--pause 1 --hosts 1", "--hosts 2 or more"]),
        ({"pause": 1, "hosts": 3, "kill": 2}, ["while one is stopped another must work", "--hosts 4 or more"]),
        ({"duration": 0}, ["--duration 0", "from 1 to 3600 seconds"]),
        ({"duration": -5}, ["--duration -5"]),
        ({"duration": math.nan}, ["--duration nan"]),
        ({"duration": math.inf}, ["--duration inf"]),
        ({"visibility": 1}, ["--visibility 1", "2 to 600 seconds"]),
        ({"timer_every": -1}, ["--timer-every -1", "0.5 to 3600 seconds", "0 keeps the app's own schedules"]),
        ({"timer_every": 0.1}, ["--timer-every 0.1"]),
        ({"seed": -1}, ["--seed -1", "from 0 to 4294967295"]),
        ({"seed": 2**32}, ["--seed 4294967296"]),
    ],
)
def test_a_value_out_of_range_is_refused(app: Path, values: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario(**{"app": app, **values})
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_a_folder_that_is_not_there_is_refused(app: Path) -> None:
    with pytest.raises(ScenarioError, match=r"--app .*missing: no such folder: give the folder that holds"):
        Scenario(app=app / "missing")
    with pytest.raises(ScenarioError, match=r"function_app\.py: not a folder"):
        Scenario(app=app / "function_app.py")


def test_timers_may_keep_their_own_schedules(app: Path) -> None:
    assert Scenario(app=app, timer_every=0).timer_every == 0


def test_the_current_folder_is_the_app_if_it_is_one(app: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert default_app(app) == app
    sample = default_app(tmp_path_factory.mktemp("elsewhere"))
    assert (sample / "function_app.py").is_file()
    assert (sample / "host.json").is_file()


def test_the_command_asks_for_the_same_run_again(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(app)
    scenario = Scenario(app=app, hosts=8, kill=3, seed=5, singleton=False, duration=12.5)
    assert scenario.options() == "--hosts 8 --kill 3 --duration 12.5 --seed 5 --no-singleton"


def test_it_names_an_app_that_is_not_the_one_of_this_folder_and_the_users_own_messages(
    app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (app / "my messages.json").write_text("{}")
    monkeypatch.chdir(app.parent)
    scenario = Scenario(app=app, seed=5, messages=app / "my messages.json", storage="AccountKey=c2VjcmV0")
    assert scenario.options() == f"--app {app.name} --hosts 5 --seed 5 --messages '{app.name}/my messages.json'"
