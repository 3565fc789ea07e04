"""The real Python worker, azure-functions-runtime, indexes a rich app and invokes it, in two processes at once."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.workers import Worker, both, needs_worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.azurite.server import Azurite
    from tests.integration.workers import Invocation

pytestmark = needs_worker
APP = Path(__file__).parent / "worker_app"


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def workers(azurite: Azurite, journal: Path) -> Iterator[list[Worker]]:
    """Two workers of one app; the second has one thread for all its sync functions."""
    pair = [Worker(APP, azurite.connection_string, journal, threads) for threads in (None, 1)]
    try:
        yield pair
    finally:
        for worker in pair:
            worker.end()


def sections(journal: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the entries of each lock in the order in which they happened."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in journal.read_text().splitlines():
        entry = json.loads(line)
        found[entry["lock"]].append(entry)
    return {lock: sorted(entries, key=lambda entry: float(entry["at"])) for lock, entries in found.items()}


FUNCTIONS = [
    *("TimerRenamed", "queue_generic", "queue_lost", "queue_named_context", "queue_nested", "queue_raise"),
    *("queue_sync", "step_above", "step_sync", "timer_skip"),
]


def test_bodies_in_two_workers_exclude_one_another(workers: list[Worker], journal: Path) -> None:
    assert [worker.functions() for worker in workers] == [FUNCTIONS, FUNCTIONS]
    invocations: list[Invocation] = [
        *[("TimerRenamed", "timer", None)] * 3,
        *[("step_sync", "timer", None)] * 3,
        *[("queue_sync", "msg", json.dumps({"Id": key})) for key in (1, 2, 1, 2, 1)],
        *[("queue_nested", "msg", json.dumps({"My": {"Nested": {"Id": key}}})) for key in ("a", "b", "a", "b")],
        *[("queue_named_context", "context", json.dumps({"Zone": zone})) for zone in ("north", "south", "north")],
        *[("queue_generic", "msg", json.dumps({"Zone": zone})) for zone in ("north", "south", "north")],
        *[("step_above", "msg", json.dumps({"Order": {"Id": key}})) for key in (7, 8, 7)],
    ]
    outcomes = both(workers, invocations)
    assert [outcome for outcome in outcomes if outcome.get("error", "escaped") is not None] == []
    locks = sections(journal)
    assert set(locks) == {
        *("locks/worker/TimerRenamed", "locks/worker/step_sync", "locks/worker/queue_sync.1"),
        *("locks/worker/queue_sync.2", "locks/worker/queue_nested.a", "locks/worker/queue_nested.b"),
        *("locks/worker/~zone-north", "locks/worker/~zone-south"),
        *("locks/worker/step_above.7", "locks/worker/step_above.8"),
    }
    owners = [entry["owner"] for entries in locks.values() for entry in entries if entry["edge"] == "in"]
    assert sorted(owners) == sorted(outcome["id"] for outcome in outcomes)
    for lock, entries in locks.items():
        for entered, left in zip(entries[::2], entries[1::2], strict=True):
            assert (entered["edge"], left["edge"]) == ("in", "out"), f"two bodies inside {lock}"
            assert entered["owner"] == left["owner"]
        tokens = [entry["token"] for entry in entries[::2]]
        assert tokens == sorted(set(tokens))
    assert len({entry["pid"] for entries in locks.values() for entry in entries}) == 2
    assert overlapping(locks) > 0, "different scopes run at the same time"


def overlapping(locks: dict[str, list[dict[str, Any]]]) -> int:
    """Count the pairs of bodies of different locks that were inside at the same time."""
    spans = [
        (lock, entered["at"], left["at"])
        for lock, entries in locks.items()
        for entered, left in zip(entries[::2], entries[1::2], strict=True)
    ]
    return sum(
        one[0] != other[0] and one[1] < other[2] and other[1] < one[2]
        for one, other in itertools.combinations(spans, 2)
    )


def test_skipped_is_a_success_and_raised_is_a_failure_of_the_invocation(workers: list[Worker], journal: Path) -> None:
    for worker in workers:
        worker.functions()
    outcomes = both(workers, [("timer_skip", "timer", None)] * 10)
    assert [outcome["error"] for outcome in outcomes] == [None] * 20
    ran = sections(journal).pop("locks/worker/timer_skip")
    assert 1 <= len(ran) // 2 < 20
    assert all(entry["context"] == entry["owner"] for entry in ran if entry["edge"] == "in")

    outcomes = both(workers, [("queue_raise", "msg", '{"Id": 1}')] * 3)
    errors = [outcome["error"] for outcome in outcomes if outcome["error"] is not None]
    assert len(errors) == 5
    assert all(error.startswith("LockNotAcquired: lock 'locks/worker/queue_raise.1' was not") for error in errors)


def test_errors_are_answered_and_nothing_escapes_from_the_worker(workers: list[Worker], journal: Path) -> None:
    for worker in workers:
        worker.functions()
    workers[0].ask(
        [("queue_sync", "msg", "no JSON"), ("queue_sync", "msg", '{"id": 1}'), ("queue_lost", "msg", '{"Id": 1}')]
    )
    not_json, no_id, lost = workers[0].answer()
    assert not_json["error"].startswith("ScopeError: scope 'Id': the body can't be parsed as JSON")
    assert "This is message '" in not_json["error"]
    assert "names are case-sensitive" in no_id["error"]
    assert lost["error"].startswith("LockLost: the hold of lock 'locks/worker/queue_lost.1' is lost (broken)")
    # The lock thread's line has the invocation's id: the host drops others.
    assert any(line.startswith("lock locks/worker/queue_lost.1: hold lost (broken)") for line in lost["log"])
    assert [entry["edge"] for entry in sections(journal)["locks/worker/queue_lost.1"]] == ["in", "out"]
    # The worker goes on.
    workers[0].ask([("queue_sync", "msg", '{"Id": 1}')])
    assert workers[0].answer()[0]["error"] is None
