"""Virtual worlds get the verdict that real hosts get, from records of the same kind: it sees what the oracle sees."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from simulator.checks.verdict import judge
from simulator.history.historian import read_history
from simulator.host.triggers.queue import QueueListener
from simulator.virtual.faults import KINDS
from simulator.virtual.faults.host_faults import Crash, Operator, Pause
from simulator.virtual.oracle.oracle import Oracle
from simulator.virtual.search.world_scenario import WorldScenario
from simulator.virtual.worlds.outcome import broken_promises
from tests.simulation.bugs import bug
from tests.support.journals import TIMER, Story
from tests.worlds import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.virtual.oracle.evidence import Violation
    from simulator.virtual.worlds.outcome import Run


def run(seed: int, *workloads: str) -> Run:
    return WorldScenario.draw(seed, hosts=4, kinds=tuple(KINDS), workloads=workloads or WORKLOADS).run()


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch off every check of the oracle: only the verdict is left."""
    blame = Oracle.blame

    def only_the_verdict(oracle: Oracle, check: str, text: str) -> None:
        if check == "verdict":
            blame(oracle, check, text)

    monkeypatch.setattr(Oracle, "blame", only_the_verdict)


@contextmanager
def messages_deleted_on_failure() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QueueListener, "_retry_later", QueueListener._complete)
        yield


def first_found(*workloads: str, first: int = 0) -> str:
    """Return what the verdict says of the first world that does not get a good one; ``first``: where to look first."""
    found: tuple[Violation, ...] = ()
    for seed in sorted(range(600), key=lambda seed: seed != first):
        found = run(seed, *workloads).violations
        if found:
            break
    return found[0].text if found else ""


# --- by itself --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("blind")
@pytest.mark.parametrize(
    ("name", "words", "first"),
    [
        ("leases that exclude nobody", "two bodies of one lock ran at the same time", 0),
        ("deadline ignored", "two bodies of one lock ran at the same time", 295),
        ("token not increased", "out of order", 0),
        ("a lock that nobody is told of", "without holding the lock", 0),
    ],
)
def test_the_verdict_finds_a_planted_bug_without_the_oracle(name: str, words: str, first: int) -> None:
    with bug(name):
        assert words in first_found("mutex", "mixed", first=first)


@pytest.mark.usefixtures("blind")
@pytest.mark.parametrize("workload", ["queue", "defer"])
def test_the_verdict_finds_a_message_that_is_deleted_on_failure_without_the_oracle(workload: str) -> None:
    with messages_deleted_on_failure():
        assert "lost: gone from the queue, never processed" in first_found(workload)


@pytest.mark.usefixtures("blind")
@pytest.mark.parametrize("workload", WORKLOADS)
def test_no_world_gets_a_bad_verdict_whatever_strikes(workload: str) -> None:
    assert [run(seed, workload).violations for seed in range(6)] == [()] * 6


# --- from the same records --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_records_of_a_world_tell_the_verdict_of_its_bodies(workload: str) -> None:
    worlds = (WorldScenario(seed=seed, hosts=3, workload=workload).run().records for seed in range(3, 20))
    calm = next(records for records in worlds if not any(record.event == "operator" for record in records))
    verdict = judge(calm)
    assert verdict.sections > 0
    assert verdict.verdict == "holds", verdict.reasons
    assert verdict.tokens.issued > 0


@pytest.mark.parametrize("workload", ["queue", "defer"])
def test_the_records_of_a_world_tell_the_verdict_of_its_messages(workload: str) -> None:
    for seed in range(8):
        calm = WorldScenario(seed=seed, hosts=3, workload=workload).run()
        messages = judge(calm.records).messages
        put_back = calm.reached["messages put back"]
        ends = messages.completed + messages.poisoned + messages.skipped
        assert messages.sent == ends
        assert calm.reached["messages done"] == messages.completed + messages.skipped
        assert messages.deferrals == put_back
        assert (put_back > 0) is (messages.deferred > 0)


def test_the_records_of_a_world_tell_of_its_kills_and_pauses() -> None:
    faults = (Crash(at=5.0, host=0), Pause(at=6.0, host=1, seconds=20.0))
    history = read_history(WorldScenario(seed=3, hosts=3, workload="mutex", faults=faults).run().records)
    assert [(kill.t, kill.host) for kill in history.kills] == [(5.0, "host-0")]
    assert [(pause.host, pause.start, pause.end) for pause in history.pauses] == [("host-1", 6.0, 26.0)]


def test_the_records_of_a_world_tell_what_operators_do() -> None:
    faults = (Operator(at=5.0, action="steal"),)
    history = read_history(WorldScenario(seed=3, hosts=3, workload="mutex", faults=faults).run().records)
    assert history.operated == [(5.0, "locks/explored/~key-0")]


# --- what no lock can help --------------------------------------------------------------------------------------------


def overlap(*, is_async: bool = True) -> Story:
    """Tell of two bodies inside; of the first its host says in time that its lock is lost."""
    story = Story(hosts=0)
    story.add(0.0, "host-1", "function", name="import_eligibility", guarded=True, **{"async": is_async})
    owner = story.body("host-1", 1.0, 8.0, token=1, outcome="lost")
    story.lock(4.5, "host-1", "lost", TIMER, owner, reason="expired")
    story.body("host-2", 5.0, 9.0, token=2)
    return story


def broken(story: Story) -> tuple[str, ...]:
    """Judge a story as that of a world, which tells of no fleet."""
    return broken_promises(record for record in story.records if record.host != "fleet")


def test_an_overlap_is_a_bad_verdict_in_a_world_too() -> None:
    assert "two bodies of one lock" in broken(overlap())[0]


def test_a_thread_that_was_told_in_time_is_excused() -> None:
    assert broken(overlap(is_async=False)) == ()


@pytest.mark.parametrize("killed", [True, False])
def test_a_host_that_never_wakes_is_excused(killed: bool) -> None:
    story = Story(hosts=2)
    story.body("host-1", 1.0, None, token=1)
    story.add(2.0, "host-1", "pause")
    story.body("host-2", 20.0, 21.0, token=2)
    if killed:
        story.add(22.0, "host-1", "kill", holds=[])
    assert broken(story) == ()


def test_a_body_whose_lease_an_operator_ended_is_excused_for_a_while() -> None:
    for at, excused in ((4.0, True), (-40.0, False), (6.0, False)):
        story = overlap()
        story.add(at, "world", "operator", action="steal", lock=TIMER)
        assert (broken(story) == ()) is excused


def test_real_hosts_are_excused_none_of_this() -> None:
    story = overlap(is_async=False)
    story.add(4.0, "world", "operator", action="steal", lock=TIMER)
    assert judge(story.end(30.0)).verdict == "violated"


def test_a_message_that_is_gone_after_a_success_is_done_though_the_answer_to_its_deletion_was_lost() -> None:
    story = Story()
    story.sent(1.0, "m1")
    story.received(1.1, "host-1", "m1")
    story.body("host-1", 2.0, 3.0, token=1, message="m1")
    messages = judge(story.end(30.0)).messages
    assert (messages.completed, messages.lost) == (1, 0)
