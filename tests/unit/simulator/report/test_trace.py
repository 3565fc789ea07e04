"""The trace: it keeps to Chrome's format, and shows who was inside what, and who got it from whom."""

from __future__ import annotations

import copy
import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from click import UsageError
from click.testing import CliRunner

import tests.worlds  # noqa: F401 - registers the workloads
from simulator.checks.verdict import judge
from simulator.cli import cli
from simulator.report.files import OutFile
from simulator.report.timeline.build import build_timeline
from simulator.report.trace import Slice, pack, trace_of, written
from simulator.virtual.faults import fault_from
from simulator.virtual.oracle.evidence import Violation
from simulator.virtual.search.story_report import write_story_trace
from simulator.virtual.search.world_scenario import WorldScenario
from tests.support.journals import TIMER, Story, good_story, key_lock, quiet_story
from tests.support.traces import problems

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from simulator.history.journal import Record


def traced(records: list[Record]) -> dict[str, Any]:
    verdict = judge(records)
    text = written(trace_of(build_timeline(records, verdict), verdict))
    assert text.isascii()
    trace: dict[str, Any] = json.loads(text)
    return trace


def events(trace: dict[str, Any], phase: str, kind: str = "") -> list[dict[str, Any]]:
    return [each for each in trace["traceEvents"] if each["ph"] == phase and kind in ("", each.get("cat"))]


def processes(trace: dict[str, Any]) -> list[str]:
    return [each["args"]["name"] for each in events(trace, "M") if each["name"] == "process_name"]


def rough_story() -> Story:
    """A run with an overlap, a loss, faults that last, a host that is started again, and hostile names."""
    story = good_story()
    nasty = key_lock("%1B[31m%E6%97%A5%22%3C%2Fscript%3E%E2%80%A8")
    story.body("host-1", 30, 34, nasty, token=1)
    story.body("host-3", 32, 36, nasty, token=1)
    about = {"lock": "", "way": "both", "aim": "anybody", "seconds": 5}
    story.fleet(26, "fault", id=1, kind="partition", hosts=["host-1"], what="host-1 is cut off", **about)
    story.fleet(31, "fault_ended", id=1, hits=12)
    story.add(5, "host-2.2", "host_restarted", after="host-2")
    story.add(6, "host-2.2", "host_ready")
    story.body("host-2.2", 27, 28, key_lock("c"), token=1)
    story.body("host-1", 37, 39, key_lock("c"), token=2, asked=27.5)
    story.lock(38, "host-1", "lost", TIMER, "x", reason="expired")
    story.fleet(40, "healed")
    story.end(60)
    return story


def test_a_run_is_a_trace_without_a_fault() -> None:
    for story in (good_story(), rough_story(), Story()):
        assert problems(traced(story.records if story.records[-1].event == "run_ended" else story.end(30))) == []


def test_each_host_is_a_process_and_so_are_the_faults_and_the_locks() -> None:
    assert processes(traced(rough_story().records)) == ["faults", "host-1", "host-2", "host-3", "locks"]


def test_hosts_that_never_ran_a_body_are_one_process_with_the_number_of_their_invocations() -> None:
    trace = traced(quiet_story(62).end(30))
    assert problems(trace) == []
    assert [each for each in processes(trace) if "host" in each] == ["host-1", "host-2", "60 hosts ran no body"]
    (whole,) = [each for each in events(trace, "X") if each["name"] == "60 hosts ran no body"]
    assert (whole["args"]["hosts"][0], len(whole["args"]["hosts"])) == ("host-3", 60)
    counted = [each["args"]["invocations"] for each in events(trace, "C") if each["name"] == "invocations"]
    assert max(counted) == 60
    assert processes(traced(quiet_story(4).end(30))) == ["faults", "host-1", "host-2", "host-3", "host-4", "locks"]


def test_an_invocation_has_its_wait_and_its_body_within_it_on_one_thread() -> None:
    trace = traced(good_story().end(30))
    (call,) = [each for each in events(trace, "X", "invocation") if each["args"].get("message") == "m4"]
    (wait,) = [each for each in events(trace, "X", "wait") if each["tid"] == call["tid"]]
    (body,) = [each for each in events(trace, "X", "body") if each["args"]["invocation"] == call["args"]["invocation"]]
    assert (call["ts"], wait["ts"], wait["dur"], body["ts"]) == (5e6, 5e6, 15e6, 20e6)
    assert body["tid"] == call["tid"]
    assert body["args"] == {
        "lock": key_lock("a"),
        "token": 3,
        "invocation": call["args"]["invocation"],
        "ending": "ok",
        "held": True,
    }


def test_an_arrow_leads_from_a_dead_host_to_the_one_that_took_over() -> None:
    trace = traced(good_story().end(30))
    (begin,) = events(trace, "s", "take-over")
    (end,) = events(trace, "f", "take-over")
    names = {each["pid"]: each["args"]["name"] for each in events(trace, "M") if each["name"] == "process_name"}
    assert (names[begin["pid"]], names[end["pid"]]) == ("host-2", "host-1")
    assert (begin["ts"], end["ts"]) == (4.5e6 - 1, 20e6)
    assert begin["name"] == "take-over of ship.a"
    assert len(events(trace, "s", "hand-over")) == len(events(trace, "f", "hand-over")) == 2


def test_two_inside_at_once_are_seen_in_the_lock_and_among_the_faults() -> None:
    trace = traced(rough_story().records)
    (overlap,) = events(trace, "X", "overlap")
    assert overlap["name"].startswith("OVERLAP in ship.\\x1b[31m")
    assert (overlap["ts"], overlap["dur"], overlap["args"]["hosts"]) == (32e6, 2e6, ["host-1", "host-3"])
    held = [each for each in events(trace, "X", "hold") if each["ts"] in (30e6, 32e6)]
    assert len({each["tid"] for each in held}) == 2
    assert trace["otherData"]["verdict"] == "violated"
    assert trace["otherData"]["overlaps"] == 1


def test_faults_last_and_kills_and_losses_are_moments() -> None:
    trace = traced(rough_story().records)
    (fault,) = events(trace, "X", "partition")
    assert (fault["ts"], fault["dur"], fault["args"]["hits"]) == (26e6, 5e6, 12)
    assert {each["cat"] for each in events(trace, "i")} >= {"kill", "lost", "healed", "partition"}


def test_how_many_wait_is_counted() -> None:
    waiting = [
        each["args"]["waiting"] for each in events(traced(good_story().end(30)), "C") if each["name"] == "waiting"
    ]
    assert max(waiting) == 1
    assert waiting[0] == waiting[-1] == 0


def test_a_key_in_a_name_is_not_in_the_trace() -> None:
    story = Story()
    story.body("host-1", 1, 2, key_lock("AccountKey%3Dc2VjcmV0%3B"), token=1, message="sig=c2VjcmV0")
    story.lock(3, "host-1", "lost", key_lock("AccountKey%3Dc2VjcmV0"), "x", reason="AccountKey=c2VjcmV0")
    text = json.dumps(traced(story.end(9)))
    assert "AccountKey=***" in text
    assert "=c2VjcmV0" not in text


def test_a_body_without_its_lock_is_drawn_in_the_lock_too() -> None:
    story = Story(singleton=False)
    story.body("host-1", 1, 3, held=False)
    story.body("host-2", 2, 4, held=False)
    trace = traced(story.end(9))
    assert problems(trace) == []
    assert [each["name"] for each in events(trace, "X", "no hold")] == [
        "host-1, without the lock",
        "host-2, without the lock",
    ]


def test_any_slices_lie_beside_or_within_each_other() -> None:
    chance = random.Random(5)
    units = []
    for _ in range(300):
        start = chance.randrange(1000)
        unit = [(start + chance.randrange(20), chance.randrange(30)) for _ in range(chance.randrange(1, 5))]
        units.append([Slice(name="x", kind="x", start=begin, end=begin + dur) for begin, dur in unit])
    threads: dict[int, list[Slice]] = {}
    for number, each in pack(units):
        threads.setdefault(number, []).append(each)
    assert sum(map(len, threads.values())) == sum(map(len, units))
    for several in threads.values():
        for first in several:
            for second in several:
                assert not first.start < second.start < first.end < second.end


def test_as_few_threads_as_run_at_once_are_used() -> None:
    units = [[Slice(name="x", kind="x", start=start, end=start + 10)] for start in range(0, 1000, 5)]
    assert {number for number, _ in pack(units)} == {0, 1}


@pytest.mark.usefixtures("prepared_for_worlds")
def test_the_story_of_a_world_is_a_trace_with_its_faults(tmp_path: Path) -> None:
    fault = fault_from({"kind": "crash", "at": 3.0, "host": 1})
    scenario = WorldScenario(seed=2, hosts=3, workload="chain", faults=(fault,))
    broken = Violation(at=4.0, check="exclusion", text="<host-1> and <host-2> are inside")
    run = replace(scenario.run(), violations=(broken,))
    write_story_trace(OutFile("--trace", tmp_path / "story.json"), scenario, run)
    trace = json.loads((tmp_path / "story.json").read_text())
    assert problems(trace) == []
    assert processes(trace) == ["faults", "host-0", "host-1", "host-2", "locks"]
    (struck,) = [each for each in events(trace, "i", "crash") if each["pid"] == 1]
    assert (struck["ts"], struck["name"]) == (3e6, fault.words())
    found = events(trace, "i", "finding")
    assert [each["ts"] for each in found] == [4e6] * 3
    assert {processes(trace)[each["pid"] - 1] for each in found} == {"faults", "host-1", "host-2"}
    assert (trace["otherData"]["verdict"], trace["otherData"]["history"]) == ("violated", run.history)
    assert events(trace, "X", "invocation")


@pytest.mark.usefixtures("prepared_for_worlds")
def test_in_the_trace_of_a_world_what_has_not_ended_lasts_until_the_end_of_the_world(tmp_path: Path) -> None:
    run = WorldScenario(seed=2, hosts=3, workload="chain").run()
    early = replace(run, records=tuple(record for record in run.records if record.t < 6), seconds=8.0)
    file = OutFile("--trace", tmp_path / "story.json")
    write_story_trace(file, WorldScenario(seed=2, hosts=3, workload="chain"), early)
    trace = json.loads((tmp_path / "story.json").read_text())
    unended = [each for each in events(trace, "X") if each["args"].get("ending") == "open"]
    assert {each["cat"] for each in unended} == {"invocation", "wait", "body", "hold"}
    assert {each["ts"] + each["dur"] for each in unended} == {8e6}


@pytest.mark.parametrize("arguments", [[], ["explore"], ["replay", "no-story"]])
def test_a_trace_that_cant_be_written_is_refused_before_anything_starts(arguments: list[str], tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "run.json"
    result = CliRunner().invoke(cli, [*arguments, "--trace", str(path)], standalone_mode=False)
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == (f"--trace {path}: there is no folder {path.parent}: make it, or give another path")


def _cross(trace: dict[str, Any]) -> None:
    first = events(trace, "X", "invocation")[0]
    at = trace["traceEvents"].index(first)
    trace["traceEvents"].insert(at + 1, {**first, "dur": first["dur"] + 1})


def _drop(phase: str) -> Callable[[dict[str, Any]], None]:
    return lambda trace: trace["traceEvents"].remove(events(trace, phase)[0])


def _change(phase: str, **fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda trace: events(trace, phase)[0].update(fields)


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (_cross, "crosses the end of"),
        (_drop("s"), "has one end only"),
        (_drop("f"), "has one end only"),
        (_drop("M"), "is not given"),
        (_change("X", ph="B"), "unknown phase 'B'"),
        (_change("X", dur=-1), "dur of"),
        (_change("X", ts="1"), "ts of"),
        (_change("X", pid=99), "is not given"),
        (_change("f", bp=None), "does not end in the slice"),
        (_change("i", s="x"), "scope of"),
        (_change("C", args={"waiting": "1"}), "counts"),
        (_change("s", ts=10**9), "not in the order of time"),
        (_change("s", name="other"), "has two names"),
        (lambda trace: trace["traceEvents"].reverse(), "not in the order of time"),
        (lambda trace: trace.pop("traceEvents"), "no traceEvents"),
    ],
)
def test_a_broken_trace_is_refused(spoil: Callable[[dict[str, Any]], None], what: str) -> None:
    trace = traced(good_story().end(30))
    broken = copy.deepcopy(trace)
    spoil(broken)
    assert what in "; ".join(problems(broken))
