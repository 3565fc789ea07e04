"""Worlds in which all of the app's code around the locks raises, each kind of error in turn, and no promise breaks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator.virtual.faults.store_faults import BlockedLog, FailingCredentials
from simulator.virtual.search.world_scenario import WorldScenario
from simulator.virtual.worlds.logs import Logs
from singleton.base import invocation

WORKLOADS = ("mutex", "keys", "queue", "defer", "leader", "semaphore")
ENDINGS = ("SystemExit", "KeyboardInterrupt", "CancelledError", "GeneratorExit")


def a_world(seed: int) -> WorldScenario:
    drawn = WorldScenario.draw(
        seed, hosts=4, kinds=("partition", "operator", "pause"), workloads=(WORKLOADS[seed % len(WORKLOADS)],)
    )
    watchers = [BlockedLog(at=0.5, host=host, seconds=120.0, raises=True) for host in range(drawn.hosts)]
    credentials = [
        FailingCredentials(at=20.0 + 8 * number, seconds=6.0, error=error, everybody=True)
        for number, error in enumerate(ENDINGS)
    ]
    return replace(drawn, faults=tuple(sorted((*drawn.faults, *watchers, *credentials), key=lambda fault: fault.at)))


@pytest.mark.parametrize("seed", range(12))
def test_no_error_of_the_app_s_code_ends_what_others_rely_on(seed: int) -> None:
    run = a_world(seed).run()
    assert run.violations == ()
    assert run.reached["watchers that raised"] > len(ENDINGS)


def test_a_watcher_that_ends_the_lock_thread_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invocation, "caught_here", lambda: Exception)
    world = a_world(9).begun()
    assert {each.check for each in world.run().violations} == {"lock thread ended"}
    assert not world.loop.leftover_tasks(), "a coroutine would end in any later test"


def test_a_log_handler_that_ends_the_log_thread_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singleton.runtime.log_thread.caught_here", lambda: Exception)
    monkeypatch.setattr(invocation, "caught_here", lambda: Exception)
    monkeypatch.setattr(Logs, "_hear", lambda *_: None)
    assert {each.check for each in a_world(0).run().violations} == {"lock thread ended"}
