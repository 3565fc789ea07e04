"""From a scenario that breaks a promise to a small one: nothing in it that is not needed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from simulator.virtual.faults.host_faults import BlockedLoop, Crash, Pause
from simulator.virtual.faults.network_faults import Lossy, Partition
from simulator.virtual.faults.request_faults import OneMessage
from simulator.virtual.oracle.evidence import Violation
from simulator.virtual.search.exploration import MOST_RUNS, shrink
from simulator.virtual.search.world_scenario import WorldScenario
from tests.simulation.bugs import bug

if TYPE_CHECKING:
    import pytest

    from simulator.virtual.worlds.outcome import Run

NOISE = (
    OneMessage(at=3.217, host=1, call="release", fate="reply lost"),
    Pause(at=7.5, host=3, seconds=4.3),
    Crash(at=11.331, host=3),
    Lossy(at=40.02, host=2, seconds=20.5, percent=10),
    BlockedLoop(at=55.4, host=1, seconds=6.0),
)
CUT = Partition(at=14.62, host=0, seconds=40.5, everybody=True)


def with_noise(seed: int) -> WorldScenario:
    faults = tuple(sorted((*NOISE, CUT), key=lambda fault: fault.at))
    return WorldScenario(seed=seed, hosts=4, workload="mutex", faults=faults)


def shrunk(name: str, seed: int = 0, *, check: str | None = None) -> tuple[WorldScenario, WorldScenario, Run]:
    """Return the first scenario, from this seed on, that a planted bug breaks, what is left of it, and its run."""
    with bug(name):
        while True:
            whole = with_noise(seed)
            run = whole.run()
            if run.violations and check in (None, run.violations[0].check):
                return whole, *shrink(whole, run)
            seed += 1


def test_faults_that_are_not_needed_are_dropped_and_the_one_that_is_stays() -> None:
    whole, small, run = shrunk("deadline ignored", check="inside after end")
    assert [fault.kind for fault in small.faults] == ["partition"]
    assert run.violations[0].check == "inside after end"
    assert small.seed == whole.seed


def test_a_fault_that_is_needed_is_made_shorter_and_rounder() -> None:
    _, small, _ = shrunk("deadline ignored", check="inside after end")
    (cut,) = small.faults
    assert isinstance(cut, Partition)
    assert cut.seconds < CUT.seconds
    assert cut.at == round(cut.at)


def test_a_bug_that_needs_no_fault_is_shown_without_one_and_with_fewer_hosts() -> None:
    whole, small, run = shrunk("token not increased")
    assert small.faults == ()
    assert small.hosts < whole.hosts
    assert run.violations[0].check == "token order"


def test_what_is_left_breaks_the_same_promise_each_time() -> None:
    _, small, run = shrunk("deadline ignored", check="inside after end")
    with bug("deadline ignored"):
        assert small.run().history == run.history
    assert not small.run().violations


def test_shrinking_ends_even_if_everything_breaks_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = 0

    def breaks(_: WorldScenario) -> Run:
        nonlocal runs
        runs += 1
        return broken

    whole = with_noise(1)
    innocent = whole.run()
    broken = replace(innocent, violations=(Violation(1.0, "believes", "it does"),))
    monkeypatch.setattr(WorldScenario, "run", breaks)
    small, _ = shrink(whole, broken)
    assert runs <= MOST_RUNS
    assert (small.faults, small.hosts) == ((), 1)


def test_shrinking_gives_up_when_nothing_simpler_breaks_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = with_noise(1)
    innocent = whole.run()
    broken = replace(innocent, violations=(Violation(1.0, "believes", "it does"),))
    monkeypatch.setattr(WorldScenario, "run", lambda _: innocent)
    assert shrink(whole, broken) == (whole, broken)
