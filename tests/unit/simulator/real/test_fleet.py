"""The fleet's processes: killed only while they are inside, and gone when they should be."""

from __future__ import annotations

import json
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from simulator.history.journal import Record, read_journal
from simulator.host.app.app_model import NO_TICKS
from simulator.real.fleet import Fleet, FleetTrouble, Host
from simulator.work.deployments import Deployment
from simulator.work.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

# In and out of a body hundreds of times a second, each time for a fraction of a millisecond; `out` never enters.
PROGRAM = """
import json, os, signal, sys, time
from simulator.history.journal import Journal
config = json.load(open(sys.argv[1]))
mode = config["lock_host_id"]
if mode == "broken":
    sys.exit("no storage in sight")
journal = Journal(config["journal"], config["name"])
journal.write("host_started", pid=0)
journal.write("function", name="f", trigger="queue", guarded=True, lease=0.4)
journal.write("host_ready")
if mode == "parent" and not os.fork():
    time.sleep(60)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
number = 0
while True:
    number += 1
    event = {"lock": "locks/x/f", "function": "f", "owner": f"{config['name']}-{number}", "token": number}
    if mode != "out":
        journal.write("lock", kind="waiting", **event)
        time.sleep(0.002)
        for kind in ("acquired", "body_started"):
            journal.write("lock", kind=kind, **event)
        time.sleep(0.0002)
        for kind in ("body_ended", "released"):
            journal.write("lock", kind=kind, **event)
    time.sleep(0.002)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "function_app.py").write_text("")
    monkeypatch.setattr(Host, "program", (sys.executable, "-c", PROGRAM))
    return tmp_path


def make(folder: Path, mode: str = "quick", hosts: int = 2) -> Fleet:
    return Fleet(Scenario(app=folder, hosts=hosts), folder, storage="", lock_host_id=mode)


def test_the_ticks_end_once_and_the_journal_tells_when(folder: Path) -> None:
    fleet = make(folder)
    fleet.end_ticks()
    fleet.end_ticks()
    fleet.journal.close()
    assert (folder / NO_TICKS).exists()
    told = [json.loads(line)["event"] for line in (folder / "fleet.jsonl").read_text().splitlines()]
    assert told == ["ticks_ended"]


def test_the_hosts_run_several_apps_in_turn_each_with_the_ids_of_its_app(folder: Path) -> None:
    north, south = (
        Deployment(name=name, folder=folder / name, host_id=name, lock_id=f"shop-{name}", cause="")
        for name in ("north", "south")
    )
    fleet = Fleet(Scenario(app=folder, hosts=3), folder, storage="", lock_host_id="run-", sites=(north, south))
    fleet.journal.close()
    told = [json.loads((folder / f"host-{number}.config.json").read_text()) for number in (1, 2, 3)]
    assert [Path(each["app"]).name for each in told] == ["north", "south", "north"]
    assert [each["lock_host_id"] for each in told] == ["run-shop-north", "run-shop-south", "run-shop-north"]
    assert [each["host_id"] for each in told] == ["simulated-north", "simulated-south", "simulated-north"]
    assert [each["site"] for each in told] == ["north", "south", "north"]
    assert all(each["same_app"] for each in told)


@pytest.fixture
def fleet(folder: Path) -> Iterator[Fleet]:
    fleet = make(folder)
    fleet.start(lambda: None, nullcontext)
    yield fleet
    fleet.end_at_once()
    fleet.journal.close()


def lock_events(folder: Path, host: str) -> list[Record]:
    return [record for record in read_journal(folder / f"{host}.jsonl") if record.event == "lock"]


@pytest.mark.process
@pytest.mark.parametrize("attempt", range(4))
def test_a_host_is_killed_only_while_it_is_inside_a_body(fleet: Fleet, folder: Path, attempt: int) -> None:
    end = time.monotonic() + 60
    while not fleet.strike_one("kill", wanted=False):
        assert time.monotonic() < end
    (kill,) = [record for record in read_journal(folder / "fleet.jsonl") if record.event == "kill"]
    (hold,) = kill.get("holds")
    last = lock_events(folder, kill.host)[-1]
    assert last.get("kind") == "body_started"
    assert (hold["owner"], hold["token"], hold["lock"]) == (last.get("owner"), last.get("token"), last.get("lock"))
    assert last.t < kill.t
    # The other one was looked at perhaps, and goes on.
    (survivor,) = fleet.board.alive()
    before = len(lock_events(folder, survivor))
    time.sleep(0.2)
    assert len(lock_events(folder, survivor)) > before
    assert not fleet.strike_one("kill", wanted=False)  # somebody must survive


@pytest.mark.process
def test_a_host_is_paused_inside_a_body_past_its_lease_and_goes_on(
    fleet: Fleet, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulator.real.fleet.PAST_LEASE", (0.1, 0.2))
    end = time.monotonic() + 60
    while not fleet.strike_one("pause", wanted=False):
        assert time.monotonic() < end
    (pause,) = [record for record in read_journal(folder / "fleet.jsonl") if record.event == "pause"]
    stopped = lock_events(folder, pause.host)
    assert stopped[-1].get("kind") == "body_started"
    assert not fleet.strike_one("pause", wanted=False)  # somebody must go on
    assert not fleet.strike_one("kill", wanted=False)
    time.sleep(0.3)
    fleet.wake()
    assert fleet.asleep
    assert lock_events(folder, pause.host) == stopped
    while fleet.asleep:
        assert time.monotonic() < end
        fleet.wake()
    (resume,) = [record for record in read_journal(folder / "fleet.jsonl") if record.event == "resume"]
    assert resume.t - pause.t >= 0.5
    time.sleep(0.2)
    assert len(lock_events(folder, pause.host)) > len(stopped)


@pytest.mark.process
def test_a_paused_host_is_woken_to_be_stopped(fleet: Fleet, folder: Path) -> None:
    end = time.monotonic() + 60
    while not fleet.strike_one("pause", wanted=False):
        assert time.monotonic() < end
    fleet.stop(grace=10)
    exits = [record for record in read_journal(folder / "fleet.jsonl") if record.event == "host_exited"]
    assert [record.get("expected") for record in exits] == [True, True]


@pytest.mark.process
def test_a_host_that_holds_nothing_is_not_killed(folder: Path) -> None:
    fleet = make(folder, "out")
    fleet.start(lambda: None, nullcontext)
    try:
        assert not any(fleet.strike_one("kill", wanted=False) for _ in range(20))
        assert len(fleet.board.alive()) == 2
    finally:
        fleet.end_at_once()
        fleet.journal.close()


@pytest.mark.process
def test_hosts_that_stop_when_asked_are_no_crash(fleet: Fleet, folder: Path) -> None:
    fleet.stop(grace=10)
    exits = [record for record in read_journal(folder / "fleet.jsonl") if record.event == "host_exited"]
    assert [(record.host, record.get("expected"), record.get("forced")) for record in exits] == [
        ("host-1", True, False),
        ("host-2", True, False),
    ]


@pytest.mark.process
def test_a_host_that_will_not_stop_is_ended(folder: Path) -> None:
    fleet = make(folder, "stubborn", hosts=1)
    fleet.start(lambda: None, nullcontext)
    fleet.stop(grace=0.3)
    fleet.journal.close()
    (exited,) = [record for record in read_journal(folder / "fleet.jsonl") if record.event == "host_exited"]
    assert (exited.get("expected"), exited.get("forced")) == (True, True)


@pytest.mark.process
def test_what_an_app_has_started_ends_with_its_host(folder: Path) -> None:
    fleet = make(folder, "parent", hosts=1)
    fleet.start(lambda: None, nullcontext)
    end = time.monotonic() + 60
    while not (children := psutil.Process(fleet.hosts[0].pid).children()):
        assert time.monotonic() < end
    fleet.stop(grace=10)
    fleet.journal.close()
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive


@pytest.mark.process
def test_a_host_that_ends_by_itself_is_noticed(fleet: Fleet, folder: Path) -> None:
    fleet.hosts[0]._process.kill()  # type: ignore[union-attr]
    end = time.monotonic() + 60
    while fleet.board.state("host-1") != "failed":
        assert time.monotonic() < end
        fleet.look()
    exits = [record for record in read_journal(folder / "fleet.jsonl") if record.event == "host_exited"]
    assert [(record.host, record.get("expected"), record.get("code")) for record in exits] == [("host-1", False, -9)]


@pytest.mark.process
def test_a_host_that_does_not_start_says_why(folder: Path) -> None:
    fleet = make(folder, "broken")
    with pytest.raises(FleetTrouble, match="did not start: no storage in sight"):
        fleet.start(lambda: None, nullcontext)
    fleet.end_at_once()
    fleet.journal.close()


def test_few_hosts_start_at_the_same_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = make(folder, hosts=7)
    begun: list[str] = []
    most: list[int] = []

    def start(host: Host) -> None:
        begun.append(host.name)

    def watch() -> None:
        late = [name for name in begun if fleet.board.state(name) == "starting"]
        most.append(len(late))
        for name in late[:2]:
            fleet.board.take(Record(1.0, name, "host_ready", {}))

    monkeypatch.setattr("simulator.real.fleet.AT_ONCE", 3)
    monkeypatch.setattr(Host, "start", start)
    monkeypatch.setattr(Host, "running", True)
    fleet.start(watch, nullcontext)
    assert begun == [f"host-{number}" for number in range(1, 8)]
    assert max(most) == 3
    fleet.journal.close()


@pytest.mark.parametrize(("hosts", "seconds"), [(5, 1.0), (25, 1.0), (100, 4.0)])
def test_many_hosts_ask_an_empty_queue_more_seldom(folder: Path, hosts: int, seconds: float) -> None:
    fleet = make(folder, hosts=hosts)
    config = json.loads((folder / "host-1.config.json").read_text())
    assert config["max_polling_interval"] == seconds
    fleet.journal.close()


def test_the_storages_key_is_for_the_hosts_eyes_only(folder: Path) -> None:
    fleet = make(folder)
    assert {path.stat().st_mode & 0o777 for path in folder.glob("*.config.json")} == {0o600}
    fleet.journal.close()
