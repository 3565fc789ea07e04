"""Listeners in virtual worlds full of faults: never two processes, no message lost, no lease ended under a body."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.simulation.listening import Watcher, refused
from tests.simulation.scenes import Scene
from tests.support.checked import BUNDLE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulation.scenes import Host

FUNCTIONS = """
import asyncio, time
import azure.functions as func
from singleton import singleton

app = func.FunctionApp()

@app.timer_trigger(arg_name="timer", schedule="*/30 * * * * *", use_monitor=False)
@singleton(mode="listener")
def clean(timer: func.TimerRequest) -> None:
    time.sleep(3)

@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(mode="listener")
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(2)

@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="out", queue_name="{Id}-outs", connection="AzureWebJobsStorage")
@singleton(mode="listener")
@singleton(scope="Id")
async def bill(msg: func.QueueMessage, out: func.Out[str]) -> None:
    await asyncio.sleep(0.5)
    out.set("nobody reads this")
"""
OPTIONS = {
    "listenerLockPeriod": "00:00:15",
    "listenerLockRecoveryPollingInterval": "00:00:15",
    "deferDelay": "00:00:02",
}


EXPLORE = """
import json, sys
from simulator.virtual.search.exploration import Exploration
from simulator.virtual.faults import KINDS
from tests.worlds import WORKLOADS
from simulator.virtual.worlds.runtime import prepare_process

prepare_process()
plan = Exploration(scenarios=0, hosts=4, kinds=tuple(KINDS), workloads=WORKLOADS, seed=22, app=sys.argv[1])
for number in range(int(sys.argv[2])):
    run = plan.scenario(number).run()
    print(json.dumps([[str(each) for each in run.violations], run.reached]))
"""


@pytest.mark.process
@pytest.mark.timeout(600)
def test_no_promise_is_broken_whatever_strikes(tmp_path: Path) -> None:
    (tmp_path / "function_app.py").write_text(FUNCTIONS)
    (tmp_path / "host.json").write_text(json.dumps({"version": "2.0", **BUNDLE, "singleton": OPTIONS}))
    command = [sys.executable, "-W", "ignore", "-c", EXPLORE, str(tmp_path), "12"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=580)
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(runs) == 12
    assert [violations for violations, _ in runs if violations] == []
    reached: Counter[str] = Counter()
    for _, states in runs:
        reached.update(states)
    wanted = ("terms as a listener", "bodies together under a listener", "messages put back", "messages done")
    assert [state for state in wanted if not reached[state]] == []
    assert reached["leases of dead hosts that expired"] > 0


@pytest.mark.parametrize(("told", "blamed"), [(45.0, False), (62.0, True)])
def test_a_listener_whose_lease_was_taken_believes_that_until_its_bodies_have_ended_and_it_has_asked_again(
    told: float, blamed: bool
) -> None:
    """A body ends after 14 s, a release may get no answer for 5 s, it asks 15 s later, and has its answer in 10 s."""

    async def part(host: Host) -> None:
        watcher = Watcher(host)
        watcher.says("waiting")
        seat = watcher.leads(await host.take())
        watcher.says("body_started", "another", hold=seat, token=7)
        await host.until(5.0)
        watcher.says("lost", reason="broken")
        await host.until(19.0)
        watcher.says("body_ended", "another", hold=seat, token=7, reason="lost")
        await host.until(told)
        watcher.invoked()
        watcher.says("contended", "inv", reason="skip")

    scene = Scene()
    scene.a.plays(part, seconds=told + 1.0)
    assert ("no without a word" in scene.found()) == blamed


@pytest.mark.parametrize(("told", "blamed"), [(45.0, False), (62.0, True)])
def test_a_candidate_that_stood_still_as_its_refusal_came_believes_the_refusal_from_its_resumption_on(
    told: float, blamed: bool
) -> None:
    """A pause from 0.1 to 20 s meets the reply; the candidate asks 15 s later, and has its answer in 10 s."""

    async def part(host: Host) -> None:
        watcher = Watcher(host)
        watcher.says("waiting")
        await refused(watcher)
        host.machine.stop(20.0)
        await host.until(told)
        watcher.invoked()
        watcher.says("contended", "inv", reason="skip")

    scene = Scene()
    scene.a.plays(part, seconds=told + 1.0)
    assert ("no without a word" in scene.found()) == blamed
