"""A story is read by people: sentences, in order, with what was lost or late, and with the promise that broke."""

from __future__ import annotations

import random
import re

import pytest

from simulator.virtual.faults import KINDS, Fault, fault_from
from simulator.virtual.faults.hosts import Crash, Pause
from simulator.virtual.faults.network import OneMessage, Partition, Slow
from simulator.virtual.search.scenario import Scenario
from simulator.virtual.search.story import promises, tell
from tests.simulation.bugs import bug

LINE = re.compile(r" *\d+\.\d{3} s  [^ ].*[^.]\.")


def story_of(name: str, *faults: Fault, hosts: int = 3, workload: str = "mutex") -> list[str]:
    """Return the story of the first world with these faults that a planted bug breaks."""
    with bug(name):
        for seed in range(100):
            scenario = Scenario(seed=seed, hosts=hosts, workload=workload, faults=faults)
            if (run := scenario.run()).violations:
                return tell(scenario, run)
    raise AssertionError(f"{name} breaks none of 100 worlds")


def test_each_line_is_a_sentence_with_its_time_in_order() -> None:
    cut = Partition(at=12.0, host=0, seconds=30.0, everybody=True)
    first, *rest = story_of("deadline ignored", cut)
    assert re.fullmatch(r"3 hosts, workload 'mutex', seed \d+\.", first)
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
    assert re.search(r"host-\d's renew of ~key-0 is lost on its way\.", "\n".join(story_of("deadline ignored", cut)))
    assert re.search(
        r"carries out host-0's \w+ of ~key-0, \d\.\d s after it was sent; the reply takes \d\.\d s\.", told
    )


def test_polls_in_vain_are_told_once() -> None:
    lines = story_of("never released", hosts=2)
    vain = [line for line in lines if "in vain" in line]
    assert vain
    assert len(vain) <= 4


def test_a_world_without_a_broken_promise_tells_its_faults_and_that_all_is_well() -> None:
    scenario = Scenario(seed=1, hosts=2, workload="mutex", faults=(Pause(at=3.0, host=1, seconds=2.0), Crash(at=9.0)))
    assert tell(scenario, scenario.run()) == [
        "2 hosts, workload 'mutex', seed 1.",
        "    3.000 s  host-1 stands still for 2 s.",
        "    9.000 s  host-0 is killed.",
        "Every promise was kept.",
    ]


def test_a_story_has_no_more_lines_than_somebody_reads() -> None:
    lines = story_of("stand-back missing", hosts=5)
    assert "BROKEN" in lines[-2]
    assert len(lines) < 50


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_fault_is_told_in_words_and_comes_back_from_json(kind: str) -> None:
    rng = random.Random(kind)
    for _ in range(50):
        fault = KINDS[kind].draw(rng, hosts=5, until=60.0)
        assert fault_from(fault.to_dict()) == fault
        assert re.fullmatch(r"[\w%].*\w( with .*)?,?", fault.words())
        assert not re.search(r"[<>{}_=]|None|True|False|  ", fault.words())


def test_every_promise_has_a_sentence() -> None:
    assert len(promises()) > 30
    assert all(len(words.split()) > 4 for words in promises().values())
