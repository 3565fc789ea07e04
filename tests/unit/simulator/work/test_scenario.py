"""Scenarios: each value out of range is refused in one line that names it, what is allowed, and what to do."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from simulator.work.scenario import Scenario, ScenarioError, default_app, in_seconds


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
        ({"faults": "partitoin"}, ["--faults partitoin", "did you mean 'partition'?"]),
        ({"faults": "all", "hosts": 2}, ["--faults with --hosts 2", "--hosts 3 or more"]),
        ({"faults": "all", "kill": 1}, ["--faults with --kill 1", "leave --kill and --pause out"]),
        ({"faults": "all", "fault_every": 0.1}, ["--fault-every 0.1", "from 0.5 to 600 seconds"]),
        ({"fault_every": 7}, ["--fault-every 7", "no faults", "--faults all"]),
        ({"faults": "break", "singleton": False}, ["--faults break", "no lease to break"]),
        ({"fault_plan": Path("/nope")}, ["--fault-plan /nope", "No such file"]),
        ({"fault_plan": Path("/nope"), "faults": "all"}, ["--faults all --fault-plan /nope", "leave one of them out"]),
        ({"sites": ("a", "b"), "hosts": 1}, ["--hosts 1", "there are 2 apps", "--hosts 2 or more"]),
        ({"sites": ("a", "a")}, ["--site 'a', 'a'", "a name of its own"]),
        ({"sites": ("",)}, ["--site ''", "a name of its own"]),
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


def test_several_folders_are_told_apart(app: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    assert Scenario(app=app, more=(other,)).folders == (app, other)
    with pytest.raises(ScenarioError, match="a folder is given twice: for one app under two names give --site"):
        Scenario(app=app, more=(app,))
    with pytest.raises(ScenarioError, match="each one's name is WEBSITE_SITE_NAME of its"):
        Scenario(app=app, more=(other,), sites=("north", "south"))
    with pytest.raises(ScenarioError, match=r"--app .*missing: no such folder"):
        Scenario(app=app, more=(other / "missing",))


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


def test_it_names_every_folder_and_every_site(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (app / "south").mkdir()
    monkeypatch.chdir(app)
    assert Scenario(app=app, sites=("north", "south")).options() == "--site north --site south --hosts 5 --seed 0"
    assert Scenario(app=app, more=(app / "south",)).options() == "--app . --app south --hosts 5 --seed 0"


def test_it_names_an_app_that_is_not_the_one_of_this_folder_and_the_users_own_messages(
    app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (app / "my messages.json").write_text("{}")
    monkeypatch.chdir(app.parent)
    scenario = Scenario(app=app, seed=5, messages=app / "my messages.json", storage="AccountKey=c2VjcmV0")
    assert scenario.options() == f"--app {app.name} --hosts 5 --seed 5 --messages '{app.name}/my messages.json'"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 5.0), ("5s", 5.0), (" 2 m ", 120.0), ("1.5min", 90.0), ("500ms", 0.5), ("-3", -3.0), ("1h", 3600.0)],
)
def test_a_duration_may_have_a_unit(text: str, seconds: float) -> None:
    assert in_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "5x", "s", "5 s 3", "1,5"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration: write seconds, as in 30 or 30s"):
        in_seconds(text)


def test_without_locks_nobody_breaks_a_lease_and_the_rest_strikes(app: Path) -> None:
    assert "break" in Scenario(app=app, faults="all").kinds()
    kinds = Scenario(app=app, faults="break,kill,lose", singleton=False).kinds()
    assert kinds == ("kill", "lose")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"at": 40, "kind": "kill"}, ["kill at 40 s", "work for 30 s only", "--duration 50 or more"]),
        ({"at": 4, "kind": "kill", "host": "host-9"}, ["no 'host-9'", "host-1 to host-5"]),
        ({"at": 4, "kind": "kil"}, ["fault 1", "did you mean 'kill'?"]),
    ],
)
def test_a_plan_that_does_not_fit_the_run_is_refused(app: Path, fault: dict[str, object], words: list[str]) -> None:
    plan = app / "plan.json"
    plan.write_text(json.dumps([fault]))
    with pytest.raises(ScenarioError) as caught:
        Scenario(app=app, fault_plan=plan)
    for word in (f"--fault-plan {plan}", *words):
        assert word in str(caught.value)


def test_the_options_repeat_the_faults(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(app)
    assert Scenario(app=app, faults="all").options() == "--hosts 5 --seed 0 --faults all --fault-every 5"
    some = Scenario(app=app, faults="lose,kill", fault_every=2.5)
    assert some.options() == "--hosts 5 --seed 0 --faults kill,lose --fault-every 2.5"
    (app / "plan.json").write_text('[{"at": 1, "kind": "kill"}]')
    plan = Scenario(app=app, fault_plan=app / "plan.json")
    assert plan.options() == "--hosts 5 --seed 0 --fault-plan plan.json"
    assert plan.kinds() == ("kill",)
    often = Scenario(app=app, fault_plan=app / "plan.json", fault_every=1)
    assert often.options() == "--hosts 5 --seed 0 --fault-plan plan.json --fault-every 1"


def test_a_run_that_can_not_go_without_the_lock_does_not_suggest_it(app: Path) -> None:
    assert Scenario(app=app, faults="all").runs_without_locks()
    assert not Scenario(app=app, faults="break").runs_without_locks()
    (app / "plan.json").write_text('[{"at": 1, "kind": "break"}, {"at": 2, "kind": "kill"}]')
    assert not Scenario(app=app, fault_plan=app / "plan.json").runs_without_locks()
