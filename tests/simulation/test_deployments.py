"""Deployments in worlds: the same each time, whatever this machine has set, and written in every way there is."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from simulator.virtual.search.world_scenario import WorldScenario
from simulator.virtual.time.loop import VirtualLoop
from simulator.virtual.time.machine import Machine
from tests.worlds.deployments import deployment as deployments
from tests.worlds.deployments.deployment import DEPLOYMENTS, deployment
from tests.worlds.deployments.environment import environment, environments


def _told(number: int) -> list[object]:
    drawn = deployment.__wrapped__(number)
    return [(each.settings, each.ways, each.app.functions) for each in drawn]


def test_no_declaration_that_is_drawn_is_refused() -> None:
    assert [each.refused for number in range(DEPLOYMENTS) for each in deployment(number) if each.refused] == []


def test_a_deployment_is_the_same_each_time_whatever_this_machine_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _told(3)
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__lockPeriod", "not even a time span")
    monkeypatch.setenv("AzureWebJobsScriptRoot", "/nowhere")
    assert _told(3) == before


def test_deployments_have_all_layouts_policies_and_ways_into_an_account() -> None:
    editions = [each for number in range(DEPLOYMENTS) for each in deployment(number)]
    functions = [function for each in editions for function in each.app.functions]
    assert {each.layout for each in functions} == {"default", "webjobs", "dequeueable"}
    assert {each.on_contention for each in functions} == {"wait", "skip", "raise"}
    ways = Counter(way.split()[0] for each in editions for way in each.ways)
    assert set(ways) == {"key", "signature", "identity"}
    assert min(ways.values()) >= 5


def test_no_two_places_of_a_deployment_have_a_lock_of_one_name() -> None:
    for number in range(DEPLOYMENTS):
        places: dict[str, set[tuple[str, str]]] = {}
        for edition in deployment(number):
            for function in edition.app.functions:
                for _, values in function.scope.messages:
                    if values is not None:
                        expected = function.expected(edition, values)
                        places.setdefault(expected.name, set()).add((expected.endpoint, expected.container))
        assert [name for name, found in places.items() if len(found) > 1] == [], number


def test_worlds_of_deployments_meet_hosts_of_dotnet_and_messages_without_a_scope() -> None:
    reached: Counter[str] = Counter()
    for seed in range(12):
        run = WorldScenario(seed=seed, hosts=3, workload="deployed").run()
        assert run.violations == ()
        reached += run.reached
    assert reached["bodies of a .NET host"]
    assert reached["invocation: ScopeError"]
    assert reached["invocation: ok"]


def test_a_world_of_deployments_is_the_same_history_each_time() -> None:
    scenario = WorldScenario(seed=5, hosts=3, workload="deployed")
    assert scenario.run().history == scenario.run().history


def test_the_code_of_each_host_sees_its_own_settings_and_this_process_gets_its_own_back() -> None:
    loop = VirtualLoop()  # type: ignore[abstract]
    one, other = Machine(0, loop), Machine(1, loop)
    real = os.environ
    with environments({one: {"A": "1"}}):
        assert one.context().run(lambda: (os.environ["A"], os.environ.get("PATH"))) == ("1", None)
        assert one.context().run(lambda: (dict(os.environ), os.environ == {"A": "1"})) == ({"A": "1"}, True)
        assert other.context().run(os.environ.get, "PATH") == real["PATH"]
        assert os.environ["PATH"] == real["PATH"]
        assert one.context().run(lambda: "A" in os.environ)
        assert "A" not in os.environ
    assert os.environ is real


def test_an_environment_is_put_back_after_an_error() -> None:
    real = os.environ
    with pytest.raises(KeyError), environment({"A": "1"}):
        os.environ["B"]
    assert os.environ is real


def test_a_declaration_that_is_refused_is_told_without_the_folder_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deployments, "host_json", lambda *_: '{"singleton": {"lockPeriod": "soon"}}')
    (refused, *_) = deployment.__wrapped__(0)
    assert "lockPeriod" in refused.refused
    assert "/" not in refused.refused.partition("host.json")[0]
