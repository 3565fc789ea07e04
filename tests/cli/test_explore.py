"""``singleton-sim explore`` and ``replay``, as somebody at a terminal or a CI job meets them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from simulator import explore_cli
from simulator.cli import cli, main
from simulator.virtual.faults import KINDS
from simulator.virtual.oracle.evidence import MOMENTS
from simulator.virtual.search import exploration
from simulator.virtual.search.exploration import kinds_named
from simulator.virtual.search.tried import DANGERS
from simulator.virtual.search.world_scenario import WorldScenario
from simulator.virtual.workloads.builtin import BUILT_IN
from simulator.virtual.worlds import registry
from tests.simulation.bugs import bug
from tests.worlds import NAMED, WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
WORLDS = {name: registry.workload(name) for name in WORKLOADS + NAMED}


@pytest.fixture(autouse=True)
def _prepared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")
    monkeypatch.setenv("AzureFunctionsWebHost__hostid", "taken back after the test")
    monkeypatch.setenv("AzureFunctionsJobHost__functionTimeout", "-1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_workloads", dict(BUILT_IN))  # other tests have registered more


@pytest.fixture
def sim() -> Callable[..., tuple[int, str]]:
    """Run the command line in this process; return its exit code and what it printed."""

    def run(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli, list(arguments), standalone_mode=False, env={"COLUMNS": "200"})
        if result.exception is not None:
            raise result.exception
        return int(result.return_value), result.output

    return run


def explored(sim: Callable[..., tuple[int, str]], *arguments: str, scenarios: int = 30) -> tuple[int, str]:
    return sim("explore", "--scenarios", str(scenarios), "--jobs", "1", *arguments)


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run what is wrong usage; return the one line that says so."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    printed = capsys.readouterr()
    assert caught.value.code == 2
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    return printed.err


def story(**fields: object) -> str:
    return json.dumps({"format": 1, "seed": 1, "hosts": 2, "workload": "mutex", "faults": [], **fields})


def test_worlds_in_which_all_goes_well_end_with_0_and_no_file(sim: Callable[..., tuple[int, str]]) -> None:
    code, output = explored(sim, "--report", "explored.html")
    assert code == 0
    assert "No promise was broken." in output
    page = Path("explored.html").read_text()
    assert "No promise was broken." in page
    assert "30 virtual worlds with up to 5 hosts ran the workloads coalesce, defer, keys, leader, mutex, queue" in page
    assert re.search(r"\d+ faults struck, of \d+ kinds: ", page)
    assert "applied, reply lost" not in page  # words, no names of counters
    assert not Path("singleton-story.json").exists()


def test_the_summary_counts_scenarios_virtual_hours_faults_by_kind_and_the_states_worth_reaching(
    sim: Callable[..., tuple[int, str]],
) -> None:
    _, output = explored(sim, scenarios=200)
    assert re.search(r"200 scenarios of seed 1, \d+\.\d virtual hours, in \d+\.\d s \(\d+ a second\)", output)
    for kind in (kind for kind, fault in KINDS.items() if not fault.of or {*fault.of} & {*BUILT_IN}):
        assert re.search(rf"^ +\d+  {kind}$", output, re.MULTILINE), kind
    states = ("acquire applied, reply lost", "renew applied, reply lost", "stale holder refused", *MOMENTS)
    for state in (*states, "bodies", "leases of dead hosts that expired"):
        assert re.search(rf"^ +[\d,]+  {state}$", output, re.MULTILINE), state


def test_every_state_of_the_summary_is_one_that_worlds_reach() -> None:
    """A counter that nobody counts up would always say 0."""
    files = [path for path in (ROOT / "simulator" / "virtual").rglob("*.py") if path != Path(exploration.__file__)]
    source = "".join(path.read_text(encoding="utf-8") for path in files)
    assert {*exploration.STATES, *MOMENTS} - {"bodies", "leases", "messages done"} == DANGERS.keys()
    for state in (*exploration.STATES, *MOMENTS):
        assert f'"{state}"' in source or state.endswith(" applied, reply lost"), state


def test_a_broken_promise_ends_with_1_a_small_story_in_words_its_faults_in_a_file_and_the_line_that_replays_it(
    sim: Callable[..., tuple[int, str]],
) -> None:
    with bug("lost reply not asked again"):
        code, output = explored(sim, "--workload", "mutex,keys", scenarios=200)
        assert code == 1
        assert "breaks a promise" in output
        assert re.search(r"\d+\.\d{3} s  BROKEN \([a-z ]+\): .+\.$", output, re.MULTILINE)
        assert "What must not be: " in output
        assert output.rstrip().endswith("replay singleton-story.json")
        story = json.loads(Path("singleton-story.json").read_text())
        assert 1 <= len(story["faults"]) <= 2
        again, replayed = sim("replay", "singleton-story.json")
    assert again == 1
    assert f"History {story['history']}: the same as recorded." in replayed
    told = [line for line in output.splitlines() if " s  " in line and "scenarios" not in line]
    assert told == [line for line in replayed.splitlines() if " s  " in line]
    code, replayed = sim("replay", "singleton-story.json")
    assert (code, "Every promise was kept." in replayed) == (0, True), "the bug is gone, and so is what it broke"


def test_the_story_goes_where_it_is_told_to(sim: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    with bug("token not increased"):
        code, output = explored(sim, "--story", str(tmp_path / "there.json"), "--report", "story.html")
    assert code == 1
    assert output.endswith("The report is in story.html\n")
    page = Path("story.html").read_text()
    assert "BROKEN (token order): " in page
    assert json.loads((tmp_path / "there.json").read_text())["hosts"] == page.count('{"name":"host-')
    assert f"replay {tmp_path / 'there.json'}" in output
    assert json.loads((tmp_path / "there.json").read_text())["broken"][0] == "token order"


def test_another_python_s_story_is_replayed_without_a_comparison(sim: Callable[..., tuple[int, str]]) -> None:
    Path("old.json").write_text(story(python="3.9", history="x"))
    code, output = sim("replay", "old.json", "--report", "old.html")
    assert code == 0
    assert "Every promise was kept in this world." in Path("old.html").read_text()
    assert "It was recorded by another version of Python" in output


def test_progress_on_a_pipe_is_lines_with_an_estimate(
    sim: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explore_cli, "_BETWEEN_LINES", 0.0)
    _, output = explored(sim, scenarios=60)
    assert re.search(r"^20 of 60 scenarios, \d+ a second, \d+ s left$", output, re.MULTILINE)
    assert re.search(r"^60 of 60 scenarios, \d+ a second, 0 s left$", output, re.MULTILINE)


def test_progress_on_a_terminal_is_a_bar(sim: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    _, output = explored(sim)
    assert "exploring" in output
    assert "30/30" in output
    assert "virtual hours" in output


def test_workloads_that_are_not_in_all_can_be_named_beside_it() -> None:
    assert kinds_named(["all", "images"], WORKLOADS, NAMED) == (*WORKLOADS, "images")
    assert kinds_named(["crowd", "all"], WORKLOADS, NAMED) == (
        "crowd",
        *(name for name in WORKLOADS if name != "crowd"),
    )


def test_the_help_names_the_workloads(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["explore", "--help"])
    assert f"names with commas between them: {', '.join(BUILT_IN)}." in " ".join(capsys.readouterr().out.split())


@pytest.mark.process
def test_the_help_of_make_explore_names_those_of_the_tests_too_and_which_are_not_in_all() -> None:
    shown = subprocess.check_output([sys.executable, "-m", "tests.worlds", "--help"], cwd=ROOT, text=True)
    text = " ".join(shown.split())
    assert f"names with commas between them: {', '.join(WORKLOADS)}." in text
    assert f"Not in all: {', '.join(NAMED)} (" in text


def test_a_workload_of_the_tests_is_not_in_all_and_the_message_names_the_command_that_runs_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = complaint(capsys, "explore", "--workload", "chain")
    assert (
        "'chain' is unknown: give all, none, or some of: mutex, keys, queue, semaphore, leader, defer, coalesce."
        in told
    )
    assert 'make explore ARGS="--workload NAME"' in told


@pytest.mark.process
def test_a_story_of_a_workload_of_the_tests_says_which_command_replays_it(
    sim: Callable[..., tuple[int, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "chain.json"
    file.write_text(story(workload="chain"))
    assert f'make explore ARGS="replay {file}"' in complaint(capsys, "replay", str(file))
    command = [sys.executable, "-m", "tests.worlds", "replay", str(file)]
    assert "Every promise was kept." in subprocess.check_output(command, cwd=ROOT, text=True)


def test_a_story_that_make_explore_found_is_replayed_by_it() -> None:
    scenario = WorldScenario(seed=1, hosts=2, workload="chain")
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(registry._workloads, "chain", WORLDS["chain"])
        assert explore_cli._replay(scenario, Path("a.json")) == 'make explore ARGS="replay a.json"'
    assert explore_cli._replay(replace(scenario, workload="mutex"), Path("a.json")).endswith("replay a.json")
    assert explore_cli._replay(replace(scenario, app="there"), Path("a.json")).endswith("-sim replay a.json")


def test_requests_that_the_transport_below_the_sdk_does_not_know_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry, "_workloads", WORLDS)
    told = complaint(capsys, "explore", "--workload", "ordered", "--through-sdk")
    assert "--through-sdk can't be used with workload 'ordered', whose store is virtual" in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--scenarios", "0"], "--scenarios is 0: it must be from 1 to"),
        (["--hosts", "51"], "--hosts is 51: it must be from 1 to 50"),
        (["--jobs", "0"], "--jobs is 0"),
        (["--seed", "-1"], "--seed is -1"),
        (["--faults", "craash"], "--faults: 'craash' is unknown: give all, none, or some of: "),
        (["--workload", "mutes"], "'mutes' is unknown"),
        (["--workload", "none"], "--workload is 'none': give all, or some of: "),
        (["--app", "nowhere"], "--app: "),
        (["--story", "nowhere/story.json"], "--story nowhere/story.json: there is no such folder"),
        (["--hosts", "many"], "--hosts"),
    ],
)
def test_wrong_usage_ends_with_2_and_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in complaint(capsys, "explore", *arguments)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file"),
        ("{", "is not JSON"),
        (
            '{"format": 1, "seed": 1, "hosts": 2, "workload": "mutex", "faults": [{"kind": "fire"}]}',
            "'fire' is unknown",
        ),
        (story(app="gone"), "--app: "),
    ],
)
def test_a_story_that_can_not_be_replayed_ends_with_2_and_one_line(
    text: str | None, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        Path("story.json").write_text(text)
    assert words in complaint(capsys, "replay", "story.json")


def test_an_app_for_a_story_that_has_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("story.json").write_text(story())
    assert "has no app" in complaint(capsys, "replay", "story.json", "--app", os.curdir)


def test_a_cluster_without_dask_installed_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    told = complaint(capsys, "explore", "--scheduler", "tcp://127.0.0.1:8786")
    assert "--scheduler: Dask (the extra [dask]) is not installed: pip install distributed" in told


UNREACHABLE = """
from simulator.cli import main
from simulator.virtual.search import cluster
cluster._CONNECT = 0.3
main(["explore", "--scheduler", "tcp://127.0.0.1:1"])
"""


@pytest.mark.process
def test_a_scheduler_that_does_not_answer_is_named() -> None:
    result = subprocess.run(
        [sys.executable, "-c", UNREACHABLE],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1, result.stderr
    assert "--scheduler: no Dask scheduler answers at tcp://127.0.0.1:1 within 0.3 s" in result.stderr
    assert "start one with `dask scheduler`" in result.stderr


def test_the_worlds_of_an_app_are_not_sent_to_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = complaint(capsys, "explore", "--scheduler", "tcp://127.0.0.1:1", "--app", str(tmp_path))
    assert "--scheduler can't be used with --app" in told
