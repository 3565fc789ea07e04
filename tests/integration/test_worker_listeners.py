"""The real Python worker runs listeners: of two worker processes one does, and the other leaves it to that one."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.workers import Worker, both, needs_worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.azurite.server import Azurite
    from tests.integration.workers import Invocation

pytestmark = needs_worker
APP = Path(__file__).parent / "listener_app"
FUNCTIONS = ["bill", "clean", "ship", "sweep"]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def workers(azurite: Azurite, journal: Path) -> Iterator[list[Worker]]:
    pair = [Worker(APP, azurite.connection_string, journal) for _ in range(2)]
    try:
        yield pair
    finally:
        for worker in pair:
            worker.end()


def rows(journal: Path) -> dict[str, list[list[str]]]:
    found = defaultdict(list)
    for line in journal.read_text().splitlines():
        function, *rest = json.loads(line)
        found[function].append(rest)
    return found


def test_of_two_workers_one_runs_a_listener_and_the_other_leaves_it_to_that_one(
    workers: list[Worker], journal: Path
) -> None:
    assert [sorted(worker.functions()) for worker in workers] == [FUNCTIONS, FUNCTIONS]
    timers: list[Invocation] = [("clean", "timer", None), ("sweep", "timer", None)] * 5
    assert [outcome["error"] for outcome in both(workers, timers)] == [None] * 20
    ran = rows(journal)
    assert {name: len(found) for name, found in ran.items()} == {"clean": 5, "sweep": 5}
    for name, found in ran.items():
        assert len({pid for pid, _, _ in found}) == 1
        assert {lock for _, lock, _ in found} == {f"locks/worker/{name}~listener"}
        assert len({owner for _, _, owner in found}) == 5

    outcomes = both(workers, [("bill", "msg", '{"Id": 1}')] * 3)
    errors = [outcome["error"] for outcome in outcomes if outcome["error"]]
    assert len(errors) == 3
    assert all("bill did not run here: another process is its listener" in error for error in errors)


def test_with_both_modes_the_body_runs_under_its_own_lock_in_the_process_that_listens(
    workers: list[Worker], journal: Path
) -> None:
    for worker in workers:
        worker.functions()
    listener = workers[0]
    listener.ask([("ship", "msg", json.dumps({"Id": key})) for key in (1, 1, 2)])
    assert [outcome["error"] for outcome in listener.answer()] == [None] * 3
    assert sorted(lock for _, lock, _ in rows(journal)["ship"]) == ["locks/worker/ship.1"] * 2 + ["locks/worker/ship.2"]
