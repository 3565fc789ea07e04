"""HTTP streams in the real Python worker: a stream after the lock is refused, a stream that takes the lock is alone."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.workers import Worker, needs_worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.azurite.server import Azurite

pytestmark = [
    needs_worker,
    pytest.mark.skipif(
        importlib.util.find_spec("azurefunctions") is None,
        reason="azurefunctions-extensions-http-fastapi is not installed",
    ),
]
APP = Path(__file__).parent / "streams_app"
ROWS = "row 0\nrow 1\nrow 2\n"


@pytest.fixture(scope="module")
def worker(azurite: Azurite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    made = Worker(APP, azurite.connection_string, tmp_path_factory.mktemp("streams") / "journal")
    try:
        made.functions()
        yield made
    finally:
        made.end()


def three(worker: Worker, function: str) -> list[dict[str, Any]]:
    """Return the answers to three requests at once."""
    http = {
        "method": "GET",
        "url": f"https://app.example/api/{function}",
        "params": {},
        "body": "",
        "headers": {},
        "query": {},
    }
    request = {"inputs": {"req": ("http", http)}, "metadata": {}, "path": f"/api/{function}"}
    worker.ask([(function, "req", request)] * 3)
    answers: list[dict[str, Any]] = worker.answer()
    return answers


def most(worker: Worker) -> dict[str, int]:
    """Return how many streams or tasks of each function ran at once."""
    counts: dict[str, int] = json.loads(three(worker, "plain")[0]["received"])["at once"]
    return counts


def test_without_a_lock_three_streams_run_at_once(worker: Worker) -> None:
    assert [each["received"] for each in three(worker, "open")] == [ROWS] * 3
    assert most(worker)["open"] == 3


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("export", "@singleton on export: its body returned a StreamingResponse"),
        ("export_by_client", "lock 'export' can't decorate export_by_client: it returned a StreamingResponse"),
        ("task", "@singleton on task: its body returned a JSONResponse"),
    ],
)
def test_what_would_run_after_the_lock_is_refused_before_one_row(worker: Worker, function: str, said: str) -> None:
    for answer in three(worker, function):
        assert said in answer["error"]
        assert answer["received"].startswith("500")
    assert most(worker)[function] == 0


def test_a_stream_that_takes_the_lock_is_alone(worker: Worker) -> None:
    assert [each["received"] for each in three(worker, "alone")] == [ROWS] * 3
    assert most(worker)["alone"] == 1


def test_a_plain_response_passes(worker: Worker) -> None:
    assert [each["error"] for each in three(worker, "plain")] == [None] * 3
