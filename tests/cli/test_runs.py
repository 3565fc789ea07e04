"""Whole runs of the command: what it proves, what it finds, and with which exit code it says so."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simulator.checks.verdict import judge
from simulator.history.journal import read_journals
from tests.cli.apps import MIXED, SMALL, write_app
from tests.cli.running import ROOT, Sim
from tests.support.traces import problems

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.slow
def test_a_killed_holder_is_replaced_in_time_and_the_journals_tell_the_same_again(sim: Callable[..., Sim]) -> None:
    run = sim(
        "--hosts", "3", "--kill", "1", "--duration", "8", "--seed", "11", "--json", "--keep", "--report", "run.html"
    )
    assert run.wait() == 0, run.output + run.errors
    verdict = run.verdict
    assert run.errors == ""
    assert verdict["verdict"] == "holds"
    assert verdict["reasons"] == []
    assert verdict["overlaps"] == []
    assert verdict["seed"] == 11
    (failover,) = verdict["failovers"]
    assert failover["ok"]
    assert 0 < failover["seconds"] <= failover["bound"] + 1.5
    assert failover["by"] != failover["host"]
    assert failover["token_after"] > failover["token"]
    assert [host["ended"] for host in verdict["hosts"]].count("killed") == 1
    messages = verdict["messages"]
    assert messages["sent"] == messages["completed"] > 10
    assert verdict["tokens"]["increasing"]
    assert verdict["tokens"]["issued"] >= verdict["sections"] > 10
    # The journals stay, without the storage's key, and the verdict is a pure function of them.
    folder = Path(verdict.pop("journals"))
    assert verdict.pop("report") == "run.html"
    page = (run.work / "run.html").read_text("utf-8")
    assert "HOLDS: never two at once and failover was in time; one lock id for all hosts" in page
    assert "AccountKey" not in page
    assert judge(read_journals(folder)).to_dict() == verdict
    assert not [path.name for path in folder.iterdir() if b"AccountKey" in path.read_bytes()]
    shutil.rmtree(folder)
    assert run.left_behind() == []


@pytest.mark.slow
def test_a_paused_holder_is_overtaken_and_told_when_it_goes_on(sim: Callable[..., Sim]) -> None:
    run = sim("--hosts", "3", "--pause", "1", "--duration", "8", "--seed", "4", "--json")
    assert run.wait() == 0, run.output + run.errors
    verdict = run.verdict
    assert (verdict["verdict"], verdict["pauses"], verdict["overlaps"]) == ("holds", 1, [])
    assert verdict["caught_count"] == len(verdict["caught"]) > 0
    assert {overlap["first"]["ending"] for overlap in verdict["caught"]} == {"lost"}
    assert verdict["tokens"]["increasing"]
    messages = verdict["messages"]
    assert messages["sent"] == messages["completed"] > 10
    assert run.left_behind() == []


def test_without_the_lock_bodies_overlap_and_the_verdict_says_so(sim: Callable[..., Sim], storage: str) -> None:
    run = sim("--hosts", "3", "--duration", "4", "--no-singleton", "--storage", storage, "--report", "run.html")
    assert run.wait() == 1, run.output + run.errors
    assert "OVERLAP: " in run.output
    assert "VIOLATED: two were inside at once." in run.output
    assert "both inside for" in run.output
    assert "guarded bodies ran without holding the lock (--no-singleton)" in run.output
    assert run.output.endswith("\nThe report is in run.html\n")
    assert "VIOLATED: two were inside at once." in (run.work / "run.html").read_text("utf-8")
    assert run.left_behind() == []


def test_an_app_with_everything_runs_unchanged(sim: Callable[..., Sim], tmp_path: Path, storage: str) -> None:
    app = write_app(tmp_path / "app", MIXED)
    run = sim(
        "--app", str(app), "--hosts", "2", "--duration", "6", "--timer-every", "2", "--json", "--storage", storage
    )
    assert run.wait() == 0, run.output + run.errors
    functions = {function["name"]: function for function in run.verdict["functions"]}
    assert set(functions) == {"sweep", "beat", "unguarded", "Bill", "visit", "call", "note"}
    for name in ("sweep", "beat", "Bill", "visit", "call"):
        assert functions[name]["guarded"]
        assert functions[name]["bodies"] > 0
        assert functions[name]["failed"] == 0
    for name in ("unguarded", "note"):
        assert functions[name]["invocations"] > 0
        assert not functions[name]["guarded"]
    assert run.left_behind() == []


def test_messages_of_ones_own_are_sent_once_each(sim: Callable[..., Sim], tmp_path: Path, storage: str) -> None:
    app = write_app(tmp_path / "app", MIXED)
    (tmp_path / "messages").write_text(
        '{"visits": [{"Clinic": {"Id": 7}}, {"Clinic": {"Id": 7}}, {"clinic": {"Id": 8}}], "notes": ["a", "poison"]}'
    )
    own = ("--messages", str(tmp_path / "messages"))
    run = sim("--app", str(app), "--hosts", "2", "--duration", "3", "--json", "--storage", storage, *own)
    assert run.wait() == 0, run.output + run.errors
    verdict = run.verdict
    messages = verdict["messages"]
    assert (messages["sent"], messages["completed"], messages["poisoned"]) == (5, 4, 1)
    assert messages["troubles"][0]["what"] == "poisoned after 5 invocations: ValueError: no such note"
    assert "1 message poisoned from 'notes' by its function's own errors (ValueError)" in verdict["notes"]
    assert run.left_behind() == []


def test_on_a_terminal_the_run_is_drawn(tmp_path: Path, storage: str) -> None:
    write_app(tmp_path / "app", SMALL)
    main, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "simulator.cli", "--hosts", "2", "--duration", "2", "--trace", str(tmp_path / "t.json")],
        cwd=tmp_path / "app",
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SINGLETON_SIM_STORAGE": storage,
            "SINGLETON_SIM_CACHE": str(tmp_path / "cache"),
            "TERM": "xterm-256color",
        },
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    drawn = b""
    while True:
        try:
            drawn += os.read(main, 65536)
        except OSError:
            break
    os.close(main)
    assert process.wait() == 0, drawn.decode()
    text = drawn.decode()
    assert "\x1b[" in text
    assert "work comes in" in text
    last = text.rpartition("the hosts stop")[2]
    assert "HOLDS, as far as it was tried: " in last
    assert re.search(r"host-[12] .*█", last)  # the timeline stays; in two seconds one host may have had no turn
    (report,) = (tmp_path / "cache" / "reports").glob("run-*.html")
    assert str(report) in last.rstrip().splitlines()[-1]
    assert problems(json.loads((tmp_path / "t.json").read_text())) == []
