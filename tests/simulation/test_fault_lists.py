"""Hypothesis over lists of faults: whatever strikes breaks no promise."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from simulator.virtual.faults import KINDS, WorldFault
from simulator.virtual.faults.host_faults import (
    BlockedLoop,
    Crash,
    Drift,
    HolderDies,
    Operator,
    Pause,
    PauseBetweenSteps,
    ShortPause,
    ShutDown,
)
from simulator.virtual.faults.network_faults import Fading, Failing, Lossy, Partition, Slow
from simulator.virtual.faults.request_faults import (
    OF_MESSAGES,
    BreaksInVain,
    LogsDisturbed,
    OneLogRequest,
    OneMessage,
    OneQueueRequest,
    SeatDisturbed,
    Silenced,
    StateDisturbed,
)
from simulator.virtual.faults.store_faults import BlockedLog, FailingCredentials, StrangeError
from simulator.virtual.faults.wire_faults import (
    ForgottenConnections,
    ReplacedCredentials,
    SpoiltAnswers,
)
from simulator.virtual.search.story_report import tell
from simulator.virtual.search.world_scenario import WorldScenario
from tests.simulation.bugs import bug

HOSTS = 3
SETTINGS: dict[str, Any] = {
    "derandomize": True,
    "database": None,
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
}


def tenths(least: float, most: float) -> st.SearchStrategy[float]:
    """Draw a time in tenths of a second: shrunk to the least, and round."""
    return st.integers(round(least * 10), round(most * 10)).map(lambda number: number / 10)


WHEN = {"at": tenths(0, 60), "host": st.integers(0, HOSTS - 1)}
LASTING = {**WHEN, "seconds": tenths(0.5, 40)}
NETWORK = {**LASTING, "everybody": st.booleans()}
BY_KIND: dict[type[WorldFault], st.SearchStrategy[Any]] = {
    Crash: st.builds(Crash, **WHEN),
    ShutDown: st.builds(ShutDown, **WHEN),
    Pause: st.builds(Pause, **LASTING),
    BlockedLoop: st.builds(BlockedLoop, **LASTING),
    PauseBetweenSteps: st.builds(PauseBetweenSteps, **LASTING, steps=st.integers(1, 60)),
    Drift: st.builds(Drift, at=st.just(0.0), host=WHEN["host"], percent=tenths(-6, 6), everybody=st.booleans()),
    Operator: st.builds(Operator, at=WHEN["at"], action=st.sampled_from(Operator.allowed["action"])),
    Partition: st.builds(Partition, **NETWORK, one_way=st.booleans()),
    Lossy: st.builds(Lossy, **NETWORK, percent=st.integers(1, 100)),
    Slow: st.builds(Slow, **NETWORK, delay=tenths(0.1, 8)),
    Failing: st.builds(Failing, **NETWORK, status=st.sampled_from([500, 503, 429, 408, 403, 404, 409])),
    Fading: st.builds(Fading, **NETWORK, slow_for=tenths(1, 9)),
    ForgottenConnections: st.builds(ForgottenConnections, **WHEN),
    SpoiltAnswers: st.builds(
        SpoiltAnswers, **NETWORK, how=st.sampled_from(SpoiltAnswers.allowed["how"]), percent=st.integers(1, 100)
    ),
    ReplacedCredentials: st.builds(ReplacedCredentials, **WHEN),
    OneQueueRequest: st.builds(
        OneQueueRequest,
        **LASTING,
        call=st.sampled_from(sorted(set(OneQueueRequest.allowed["call"]))),
        fate=st.sampled_from([fate for fate in OneQueueRequest.allowed["fate"] if fate not in OF_MESSAGES]),
        times=st.integers(1, 9),
        by_locks=st.booleans(),
    ),
    OneMessage: st.builds(
        OneMessage,
        **LASTING,
        call=st.sampled_from(sorted(set(OneMessage.allowed["call"]))),
        fate=st.sampled_from(OneMessage.allowed["fate"]),
    ),
    StateDisturbed: st.builds(
        StateDisturbed,
        **NETWORK,
        call=st.sampled_from(StateDisturbed.allowed["call"]),
        fate=st.sampled_from(StateDisturbed.allowed["fate"]),
        delay=tenths(0.1, 20),
    ),
    SeatDisturbed: st.builds(
        SeatDisturbed,
        **NETWORK,
        call=st.sampled_from(("all", *SeatDisturbed.allowed["call"])),
        fate=st.sampled_from(SeatDisturbed.allowed["fate"]),
        delay=tenths(0.1, 20),
    ),
    LogsDisturbed: st.builds(
        LogsDisturbed,
        **NETWORK,
        call=st.sampled_from(LogsDisturbed.allowed["call"]),
        fate=st.sampled_from(LogsDisturbed.allowed["fate"]),
        delay=tenths(0.1, 20),
    ),
    OneLogRequest: st.builds(
        OneLogRequest,
        **LASTING,
        call=st.sampled_from(OneLogRequest.allowed["call"]),
        fate=st.sampled_from(OneLogRequest.allowed["fate"]),
        times=st.integers(1, 9),
    ),
    StrangeError: st.builds(
        StrangeError,
        **NETWORK,
        percent=st.integers(1, 100),
        error=st.sampled_from(StrangeError.allowed["error"]),
        when=st.sampled_from(StrangeError.allowed["when"]),
    ),
    FailingCredentials: st.builds(
        FailingCredentials, **NETWORK, error=st.sampled_from(FailingCredentials.allowed["error"])
    ),
    Silenced: st.builds(
        Silenced,
        **NETWORK,
        call=st.sampled_from(Silenced.allowed["call"]),
        fate=st.sampled_from(Silenced.allowed["fate"]),
    ),
    HolderDies: st.builds(HolderDies, **WHEN, lock=st.integers(0, 3)),
    BreaksInVain: st.builds(BreaksInVain, **NETWORK, fate=st.sampled_from(BreaksInVain.allowed["fate"])),
    ShortPause: st.builds(ShortPause, **LASTING, steps=st.integers(1, 40)),
    BlockedLog: st.builds(BlockedLog, **LASTING, raises=st.booleans()),
}
FAULTS = st.lists(st.one_of(*BY_KIND.values()), max_size=5)
WORKLOADS = (
    "mutex",
    "keys",
    "chain",
    "skip",
    "mixed",
    "queue",
    "semaphore",
    "leader",
    "defer",
    "clients",
    "failover",
    "state",
    "once",
    "wires",
)


def scenario(faults: list[WorldFault], *, seed: int = 1, workload: str = "mutex") -> WorldScenario:
    ordered = tuple(sorted(faults, key=lambda fault: fault.at))
    return WorldScenario(seed=seed, hosts=HOSTS, workload=workload, faults=ordered, wire=seed % 3 == 0)


def test_every_kind_of_fault_is_drawn_but_those_that_come_to_a_point() -> None:
    assert set(BY_KIND) == {kind for kind in KINDS.values() if not kind.comes_to_a_point}


@settings(max_examples=40, phases=[Phase.generate, Phase.shrink], **SETTINGS)
@given(st.integers(0, 999), st.sampled_from(WORKLOADS), FAULTS)
def test_whatever_strikes_breaks_no_promise(seed: int, workload: str, faults: list[WorldFault]) -> None:
    planned = scenario(faults, seed=seed, workload=workload)
    run = planned.run()
    assert not run.violations, "\n".join(tell(planned, run))


def test_leases_whose_requests_all_arrive_twice_put_no_epoch_back_for_stamps_have_a_condition() -> None:
    def found() -> list[str]:
        return [each.check for seed in range(20) for each in twice(seed).run().violations]

    def twice(seed: int) -> WorldScenario:
        faults = [
            OneMessage(at=9.0 * turn, host=turn % 2, call="acquire", fate="twice", seconds=2.0 + turn)
            for turn in range(7)
        ]
        return WorldScenario(seed=seed, hosts=2, workload="mutex", faults=tuple(faults))

    assert not found()
    with bug("stamps have no condition"):
        assert "token order" in found()
