"""What people see: plain words without anything to read up on, on a terminal and off it."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from simulator.checks.verdict import Verdict, judge
from simulator.real.run import run
from simulator.real.settle import Signals
from simulator.report.board import Board
from simulator.report.files import write_json
from simulator.report.terminal import view
from simulator.report.words import Phase, PlainReporter, Progress, ReaderGone, Reporter, headline, pulse, summary
from simulator.work.scenario import Scenario
from tests.support.journals import TIMER, Story, good_story, key_lock


def told(verdict: Verdict) -> str:
    return "\n".join(line.text for line in (headline(verdict), *summary(verdict)))


def board(story: Story) -> Board:
    now = Board()
    for record in sorted(story.records, key=lambda record: record.t):
        now.take(record)
    return now


def progress(phase: Phase = "working", at: float = 10) -> Progress:
    return Progress(phase=phase, now=1000 + at, elapsed=at, duration=30)


def bad_story() -> Story:
    story = Story(kill=1)
    story.body("host-1", 1, 3, token=5)
    story.body("host-2", 2, 4, token=5)
    story.sent(5, "lost", "b")
    story.body("host-1", 9, None, key_lock("a"), token=1)
    story.kill(10, "host-1", key_lock("a"))
    story.body("host-2", 40, 41, key_lock("a"), token=2, asked=9)
    return story


def full_story() -> Story:
    """A good run in which a body lasts for more than half its lease, too."""
    story = good_story()
    story.body("host-3", 6, 15, token=2)
    story.lease(13.5, "host-3", "renew")
    return story


def test_a_verdict_that_holds_is_told_in_plain_words() -> None:
    assert told(judge(full_story().end(30))).splitlines() == [
        "HOLDS: never two at once and failover was in time.",
        "3 hosts, each an app of its own",
        "7 guarded bodies ran on 3 locks: 0 overlaps",
        "host-2 (pid 100) was killed at 4.5 s while it held ship.a; host-1 took it over after 15.5 s (bound 20.0 s)",
        "4 messages sent: 4 processed, none lost or poisoned",
        "1 message ran again after the kill: queues deliver at least once",
        "7 fencing tokens on 3 locks: strictly increasing on each",
        "exercised: 1 renewal, 1 wait, 1 refusal, 4 hand-overs between hosts, 0 within one",
    ]


def test_what_was_not_tried_is_in_the_headline() -> None:
    verdict = judge(good_story().end(30))
    assert verdict.holds
    assert headline(verdict).text == ("HOLDS, as far as it was tried: no renewal was seen (bodies take 1 s at most).")
    assert verdict.to_dict()["untried"] == ["no renewal was seen (bodies take 1 s at most)"]
    assert verdict.to_dict()["exercised"]["renewals"] == 0


@pytest.mark.parametrize(
    ("same_app", "words"),
    [(False, "3 hosts, each an app of its own"), (True, "3 hosts, instances of one app")],
)
def test_what_the_hosts_are_is_told_from_the_start_to_the_end(same_app: bool, words: str) -> None:
    story = Story(same_app=same_app)
    console = Console(file=io.StringIO(), width=80)
    console.print(view(board(story), progress(), 80, 24))
    assert console.file.getvalue().startswith(f"singleton-sim  {words}  ")  # type: ignore[attr-defined]
    assert summary(judge(story.end(30)))[0].text == words


def test_a_violation_is_told_with_who_where_and_when() -> None:
    text = told(judge(bad_story().end(60)))
    for words in (
        "VIOLATED: two were inside at once.",
        "import_eligibility: host-1 and host-2 both inside for 1.00 s at 2.0 s",
        "host-2 took it over after 30.0 s, too late (bound 20.0 s)",
        "1 message sent: 0 processed, 1 lost",
        "1 message of orders: gone from its queue after 0 invocations, none of which finished it",
        "4 fencing tokens on 2 locks, 1 out of order",
    ):
        assert words in text


@pytest.mark.parametrize("story", [good_story, bad_story, Story])
def test_every_reason_is_told(story: type[Story]) -> None:
    verdict = judge(story().end(60))
    text = told(verdict)
    for reason in verdict.reasons:
        subject = re.sub(r"^[\d, ]+", "", reason).split()[0].rstrip("s,:")
        assert subject in text


def test_without_locks_nothing_is_said_of_failover() -> None:
    story = Story(kill=1, singleton=False)
    story.body("host-1", 1, 3, held=False)
    story.body("host-2", 2, None, held=False)
    story.kill(4, "host-2", TIMER)
    text = told(judge(story.end(10)))
    assert "1 host killed; without locks nothing had to be taken over" in text
    assert "2 guarded bodies ran without holding the lock (--no-singleton)" in text


def faulty_story() -> Story:
    """Tell of a host that was cut off past its lease, and of others to which other things happened."""
    story = Story(faults=["partition", "break"]).know(**{"async": False})
    story.fault(3.0, 18.0, "partition", "host-1", what="host-1 is cut off", hits=7)
    story.fault(30.0, 30.0, "break", "host-2", lock=key_lock("b"), what="an operator", hits=0)
    story.lock(1.0, "host-1", "waiting", key_lock("a"), "call-1")
    for t, kind in ((1.0, "acquired"), (1.0, "body_started"), (15.0, "lost"), (25.0, "body_ended")):
        story.lock(t, "host-1", kind, key_lock("a"), "call-1", token=1, reason="lost" if t > 20 else "expired")
    story.body("host-2", 16.0, 20.0, key_lock("a"), token=2, asked=5.0)
    story.add(31.0, "host-2.2", "host_restarted", after="host-2")
    story.add(31.5, "host-2.2", "host_started", pid=200)
    story.add(32.0, "host-2.2", "host_ready")
    story.fleet(49.0, "healed")
    return story


def test_faults_are_counted_by_kind_and_each_says_what_it_explains() -> None:
    verdict = judge(faulty_story().end(50))
    assert headline(replace(verdict, untried=(), functions=())).text == "HOLDS: never two at once; 2 faults of 2 kinds."
    said = [line.text for line in summary(verdict)]
    assert said[0] == "3 hosts, each an app of its own; started again 1 time"
    assert "2 faults of 2 kinds: 1 partition, 1 break; 7 requests hit" in said
    place = said.index("1 of them explains what went wrong:")
    assert said[place + 1] == "  partition of host-1 at 3 s: 1 overlap, 1 lost hold"


def test_a_run_that_is_broken_off_is_told_as_such() -> None:
    story = Story()
    story.message("m1", "host-1", 1, 2)
    story.sent(3, "m2")
    story.fleet(4, "run_ended", interrupted=True)
    text = told(judge(story.records))
    assert "BROKEN OFF" in text
    assert "2 messages sent: 1 processed, 1 not through yet" in text
    assert "the run was broken off after 4 s" in text


def test_plain_lines_tell_what_happens_once_and_fill_the_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    reporter = PlainReporter(stream)
    clock = [100.0]
    monkeypatch.setattr("simulator.report.words.clock", lambda: clock[0])
    reporter.step("Starting Azurite")
    now = board(good_story())
    for _ in range(50):
        reporter.show(now, progress())
        clock[0] += 0.1
    lines = stream.getvalue().splitlines()
    assert lines[0] == "Starting Azurite"
    assert [line for line in lines if "killed" in line] == ["   4.5 s  host-2 (pid 100) killed while it held ship.a"]
    assert sum("messages done" in line for line in lines) == 2


def test_the_pulse_says_who_is_inside() -> None:
    story = Story()
    story.body("host-1", 1, None)
    story.sent(1, "m")
    assert pulse(board(story), progress()).strip() == (
        "10.0 s  host-1 in import_eligibility; 0 waiting; 0 of 1 message done"
    )
    assert "nobody inside" in pulse(board(Story()), progress())
    assert "stopping the hosts" in pulse(board(Story()), progress("stopping"))


def test_plain_lines_survive_a_stream_that_knows_little() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    reporter = PlainReporter(stream)
    reporter.step("Zoë and her app …")
    reporter.finish(judge(good_story().end(30)), ["try"])
    assert b"Zo?" in raw.getvalue()
    stream.close()


def test_json_is_the_verdict_and_nothing_else() -> None:
    stream = io.StringIO()
    verdict = judge(good_story().end(30))
    write_json(verdict, {"journals": None}, stream)
    assert json.loads(stream.getvalue()) == verdict.to_dict()
    stream = io.StringIO()
    write_json(verdict, {"journals": Path("/journals")}, stream)
    assert json.loads(stream.getvalue()) == {**verdict.to_dict(), "journals": "/journals"}


def test_a_reader_that_has_gone_is_no_trouble_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    def course(self: object) -> None:
        PlainReporter(Closed()).step("Starting")

    monkeypatch.setattr("simulator.real.run._Course.run", course)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "function_app.py").write_text("")
    with Signals() as signals, pytest.raises(ReaderGone):
        run(Scenario(app=tmp_path / "app"), Reporter(), signals)
    assert [path.name for path in tmp_path.iterdir()] == ["app"]
