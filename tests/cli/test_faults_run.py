"""A run full of faults, with real processes: every kind strikes, what ended comes back, and nothing stays behind."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simulator.faults.real import ALL
from simulator.history.journal import read_journal
from simulator.nemesis.aims import lane_of
from tests.cli.apps import SMALL, write_app

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.history.journal import Record
    from tests.cli.running import Sim

ON_THE_NETWORK = {"partition", "lose", "delay", "duplicate", "throttle", "error"}
PLAN = [
    {"at": 0.5, "kind": "partition", "way": "replies", "seconds": 3, "aim": "waiters"},
    {"at": 1, "kind": "duplicate", "seconds": 3, "percent": 60, "late": 0.5, "aim": "release"},
    {"at": 1.5, "kind": "kill", "aim": "holder"},
    {"at": 2.5, "kind": "lose", "seconds": 3, "percent": 40, "aim": "release"},
    {"at": 3, "kind": "drain"},
    {"at": 3.5, "kind": "forget", "aim": "holder"},
    {"at": 4, "kind": "throttle", "seconds": 2, "everybody": True, "percent": 40, "retry_after": 1},
    {"at": 5.5, "kind": "break", "aim": "holder"},
    {"at": 6, "kind": "pause", "seconds": 2, "aim": "holder"},
    {"at": 6.5, "kind": "delay", "way": "replies", "seconds": 3, "late": 0.5},
    {"at": 7.5, "kind": "error", "seconds": 2, "percent": 50, "aim": "release"},
]

DURATIONS = (14, 40, 120)
"""Seconds of a run, and of the next ones on a machine that is so busy that not all kinds had time to strike."""
LATE = 20.0
"""Seconds by which a fault may end late on a busy machine."""
BY_CHANCE = {each["kind"] for each in PLAN if "percent" in each}
"""They strike some of the requests of two or three seconds: one of them may meet nobody, but not all."""
SURE = ON_THE_NETWORK - BY_CHANCE
"""They strike each request of their seconds. On a machine that is too busy for a request, the run was too short."""


def run_in_which_every_kind_strikes(
    sim: Callable[..., Sim], app: Path, plan: Path
) -> tuple[Sim, Path, dict[str, list[Record]]]:
    """Run until all have struck: a busy machine needs a longer run. Return it, its folder and the fleet's records."""
    for duration in DURATIONS:
        run = sim(
            *("--app", str(app), "--hosts", "5", "--duration", str(duration), "--visibility", "10", "--seed", "5"),
            *("--json", "--keep", "--fault-plan", str(plan)),
        )
        code = run.wait()
        verdict = run.verdict
        assert (code, verdict["reasons"]) == (0, []), run.errors
        folder = Path(verdict["journals"])
        told = defaultdict(list)
        for record in read_journal(folder / "fleet.jsonl"):
            told[record.event].append(record)
        (begin,) = told["run_started"]
        assert set(begin.get("faults")) == set(ALL)
        hits = {record.get("id"): record.get("hits") for record in told["fault_ended"]}
        met = [hits[record.get("id")] for record in told["fault"] if record.get("kind") in SURE]
        if {record.get("kind") for record in told["fault"]} == set(ALL) and all(met):
            return run, folder, told
        shutil.rmtree(folder)
    pytest.fail(f"not all kinds struck in {DURATIONS[-1]} s")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_kind_strikes_and_all_that_ended_comes_back(sim: Callable[..., Sim], tmp_path: Path) -> None:
    app = write_app(tmp_path / "app", SMALL)
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    run, folder, told = run_in_which_every_kind_strikes(sim, app, tmp_path / "plan.json")
    ended = {record.get("id"): record for record in told["fault_ended"]}
    for fault in told["fault"]:
        end = ended[fault.get("id")]
        assert end.t - fault.t <= (fault.get("seconds") or 15.0) + LATE
        if fault.get("kind") not in BY_CHANCE:
            assert (end.get("hits") > 0) == (fault.get("kind") in ON_THE_NETWORK), fault
    assert any(ended[fault.get("id")].get("hits") for fault in told["fault"] if fault.get("kind") in BY_CHANCE)

    # The killed one and the drained one come back under their next names, and work.
    (healed,) = told["healed"]
    gone = {record.host for record in (*told["kill"], *told["host_draining"])}
    back = {record.host: record.get("after") for record in told["host_restarted"]}
    assert set(back.values()) == gone
    assert all(lane_of(host) == lane_of(after) for host, after in back.items())
    for host in back:
        ready = [record.t for record in read_journal(folder / f"{host}.jsonl") if record.event == "host_ready"]
        assert ready
        assert max(ready) < healed.t
    last = [record for record in told["host_exited"] if record.host in gone]
    assert all(record.get("expected") for record in last)
    assert not [path.name for path in folder.iterdir() if b"AccountKey" in path.read_bytes()]
    shutil.rmtree(folder)
    assert run.left_behind() == []
