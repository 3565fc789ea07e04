"""A story is read by people: sentences, in order, with what was lost or late, and with the promise that broke."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

import pytest

from simulator.virtual.faults import KINDS, WorldFault, fault_from
from simulator.virtual.faults.host_faults import Crash, Pause
from simulator.virtual.faults.network_faults import Fading, Partition, Slow
from simulator.virtual.faults.request_faults import OneMessage
from simulator.virtual.search.exploration import Exploration
from simulator.virtual.search.story_report import promises, tell
from simulator.virtual.search.world_scenario import WorldScenario
from tests.simulation.bugs import bug

if TYPE_CHECKING:
    from simulator.virtual.worlds.outcome import Run

LINE = re.compile(r" *\d+\.\d{3} s  [^ ].*[^.]\.")


def story_of(name: str, *faults: WorldFault, hosts: int = 3, workload: str = "mutex") -> list[str]:
    """Return the story of the first world with these faults that a planted bug breaks."""
    with bug(name):
        for seed in range(100):
            scenario = WorldScenario(seed=seed, hosts=hosts, workload=workload, faults=faults)
            if (run := scenario.run()).violations:
                return tell(scenario, run)
    raise AssertionError(f"{name} breaks none of 100 worlds")


def test_each_line_is_a_sentence_with_its_time_in_order() -> None:
    cut = Partition(at=12.0, host=0, seconds=30.0, everybody=True)
    first, *rest = story_of("deadline ignored", cut)
    assert re.fullmatch(r"3 hosts, of which 1 matters here \(host-\d\), workload 'mutex', seed \d+\.", first)
    told = [line for line in rest if not line.startswith(" " * 11)]
    assert all(LINE.fullmatch(line) for line in told), told
    times = [float(line.split(" s  ")[0]) for line in told]
    assert times == sorted(times)
    assert "   12.000 s  all requests and replies of every host are lost for 30 s." in told


def test_it_ends_with_the_promise_that_was_broken_in_words() -> None:
    *_, broken, promise = story_of("token not increased")
    assert re.fullmatch(r" +\d+\.\d{3} s  BROKEN \(token order\): host-\d got token \d+ of ~key-\d after \d+\.", broken)
    assert promise.strip() == "What must not be: an epoch or token that is not greater than all before it."


def test_a_request_that_is_lost_a_reply_that_is_lost_and_both_that_are_late_are_told() -> None:
    unheard = OneMessage(at=1.0, host=0, call="write", fate="reply lost")
    late = Slow(at=0.0, host=0, seconds=60.0, delay=3)
    told = "\n".join(line for fault in (unheard, late) for line in story_of("token not increased", fault, hosts=1))
    assert "the service carries out host-0's write of ~key-0, but the reply is lost." in told
    cut = Partition(at=12.0, host=0, seconds=30.0, everybody=True)
    lost = r"host-\d's renew of ~key-0 is lost on its way, 4 times until \d+\.\d{3} s\."
    assert re.search(lost, "\n".join(story_of("deadline ignored", cut)))
    assert re.search(
        r"carries out host-0's \w+ of ~key-0, \d\.\d s after it was sent; the reply takes \d\.\d s\.", told
    )


def test_polls_in_vain_that_follow_one_another_are_one_line() -> None:
    lines = story_of("polls ever more seldom", hosts=2)
    (vain,) = [line for line in lines if "in vain" in line]
    assert re.search(r"host-\d asks for the lease of ~key-0 in vain, \d+ times until \d+\.\d{3} s\.", vain)


def test_a_world_without_a_broken_promise_tells_its_faults_and_that_all_is_well() -> None:
    scenario = WorldScenario(
        seed=1, hosts=2, workload="mutex", faults=(Pause(at=3.0, host=1, seconds=2.0), Crash(at=9.0))
    )
    assert tell(scenario, scenario.run()) == [
        "2 hosts, workload 'mutex', seed 1.",
        "    3.000 s  host-1 stands still for 2 s.",
        "    9.000 s  host-0 is killed.",
        "Every promise was kept.",
    ]


def test_healthy_hand_overs_are_counted_in_a_line_with_their_lock_their_hosts_and_their_time() -> None:
    *told, broken, _ = story_of("no end of one's turn", hosts=4, workload="chain")
    assert "keeps ~key-0 for" in broken
    folded = r" +\d+\.\d{3} s  until \d+\.\d{3} s: \d+ healthy hand-overs of ~key-0 (on host-\d|among \d hosts)\."
    assert 1 <= len([line for line in told if re.fullmatch(folded, line)]) <= 3
    assert len(told) < 20


PLANTED = (
    ("403 read as contention", "keys"),
    ("a hold does not look at the clock", "chain"),
    ("any failed renewal is a loss", "queue"),
    ("candidates sleep too long", "leader"),
    ("deadline ignored", "semaphore"),
    ("given up without release", "mixed"),
    ("handoff without deadline check", "chain"),
    ("last come, first served", "keys"),
    ("mismatch read as transient", "mutex"),
    ("never released", "semaphore"),
    ("no end of one's turn", "chain"),
    ("no renewal after a failed one", "mixed"),
    ("renewed without a later deadline", "defer"),
    ("once is again and again", "skip"),
    ("release before drain", "chain"),
    ("sections overlap", "keys"),
    ("slots polled ever more seldom", "semaphore"),
    ("time-outs ignored", "semaphore"),
    ("waiter's wake-up lost", "mixed"),
)


@pytest.mark.planted
@pytest.mark.parametrize(("name", "workload"), PLANTED)
def test_a_story_is_short_and_shows_the_beginning_of_all_that_its_last_line_names(name: str, workload: str) -> None:
    plan = Exploration(scenarios=600, hosts=5, kinds=tuple(KINDS), workloads=(workload,))
    with bug(name):
        scenario, run = next(found for found in map(_ran, map(plan.scenario, range(600))) if found[1].violations)
    lines = tell(scenario, run)
    end = next(number for number, line in enumerate(lines) if "BROKEN" in line)
    told = lines[:end]
    assert len(lines) <= 40, "\n".join(lines)
    for beginning in _beginnings(lines[end]):
        assert any(re.search(beginning, line) for line in told), (beginning, "\n".join(lines))
    struck = [fault for fault in scenario.faults if fault.at <= run.violations[0].at and fault.kind != "operator"]
    for fault in struck:
        assert any(line.endswith(f"  {fault.words()}.") for line in told), (fault, "\n".join(lines))


def _ran(scenario: WorldScenario) -> tuple[WorldScenario, Run]:
    return scenario, scenario.run()


def _beginnings(broken: str) -> list[str]:
    """Return what must have been told of those whom a last line names."""
    waits = [rf"  {caller} (asks for|wants a slot)" for caller in re.findall(r"host-\d+/\S+\w", broken)]
    if candidate := re.search(r"(host-\d) is a candidate", broken):
        waits.append(rf"  {candidate[1]} becomes a candidate")
    has = r"(host-\d+) (?:lost|counts on|left|is told that|still counts on|keeps|entered|runs two bodies)"
    holders = re.findall(has, broken) + re.findall(r"ended with (host-\d+) inside|ended, and (host-\d+)", broken)
    hosts = [host for found in holders for host in ([found] if isinstance(found, str) else found) if host]
    leases = [
        rf"  the service gives {host} the lease of \S+ until|gives {host} the lease of .* until" for host in hosts
    ]
    inside = [rf"  {host}\S* .*enters its body" for host in hosts if "left the lease" not in broken]
    return waits + leases + inside


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_fault_is_told_in_words_and_comes_back_from_json(kind: str) -> None:
    rng, of_kind = random.Random(kind), KINDS[kind]
    if of_kind.comes_to_a_point:  # no world draws it
        ((what, values),) = of_kind.allowed.items()
        told = {"at": 1.0, "call": "acquire", "seconds": 20.0}
        faults = [fault_from({"kind": kind, **told, what: value}) for value in values]
    else:
        faults = [of_kind.draw(rng, hosts=5, until=60.0) for _ in range(50)]
    for fault in faults:
        assert fault_from(fault.to_dict()) == fault
        assert re.fullmatch(r"[\w%].*\w( with .*)?,?", fault.words())
        assert not re.search(r"[<>{}_=]|None|True|False|  ", fault.words())


def test_a_fading_network_that_was_shortened_is_told_without_an_end_that_never_comes() -> None:
    assert Fading(at=1.0, seconds=3.0, slow_for=8.0).words() == "replies to host-0 are late for 3 s"


def test_every_promise_has_a_sentence() -> None:
    assert len(promises()) > 30
    assert all(len(words.split()) > 4 for words in promises().values())
