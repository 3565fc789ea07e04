"""MCP tools and batches in the real Python worker: nothing ends well without its body, unless a skip is declared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from azure.storage.blob import BlobServiceClient

from tests.integration.workers import Worker, needs_worker
from tests.support import deliveries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.azurite.server import Azurite

pytestmark = needs_worker
APP = Path(__file__).parent / "tools_app"
BODY = json.dumps({"Id": 7})
KAFKA = json.dumps({"Offset": 1, "Partition": 0, "Topic": "t", "Timestamp": "", "Value": BODY, "Key": "k"})
ARRAYS = ("Timestamp", "Key", "Partition", "Headers")
DELIVERED: dict[str, tuple[str, Any, dict[str, tuple[str, Any]]]] = {
    "hub": ("collection_string", [BODY, BODY], {"SystemPropertiesArray": ("json", "[{}, {}]")}),
    "bus": ("collection_string", [BODY, BODY], {"UserPropertiesArray": ("json", "[{}, {}]")}),
    "kafka": (
        "collection_string",
        [KAFKA, KAFKA],
        {
            **{f"{name}Array": ("json", '["", ""]') for name in ARRAYS},
            "OffsetArray": ("collection_sint64", [1, 2]),
            "TopicArray": ("collection_string", ["t", "t"]),
        },
    ),
    "documents": ("json", f"[{BODY}, {BODY}]", {}),
}
Answers = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def taken(azurite: Azurite) -> Iterator[None]:
    """Have another process hold the locks that are taken."""
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        container = service.get_container_client("tools")
        if not container.exists():
            container.create_container()
        leases = []
        for name in ("busy", "busy.7", "busy~listener"):
            blob = container.get_blob_client(f"locks/worker/{name}")
            blob.upload_blob(b"", overwrite=True)
            leases.append(blob.acquire_lease())
        yield
        for lease in leases:
            lease.release()


@pytest.fixture(scope="module")
def answers(azurite: Azurite, taken: None, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Return what each function of the app answers, and what its body wrote."""
    journal = tmp_path_factory.mktemp("tools") / "journal"
    worker = Worker(APP, azurite.connection_string, journal, threads=100)
    try:
        names = worker.functions()
        worker.ask([(name, *delivered(name)) for name in names])
        outcomes = worker.answer()
    finally:
        worker.end()
    wrote = [json.loads(line) for line in journal.read_text().splitlines()]
    return {
        name: {**answer, "wrote": [each for each in wrote if each["function"] == name]}
        for name, answer in zip(names, outcomes, strict=True)
    }


def delivered(name: str) -> tuple[str, dict[str, Any]]:
    batch = DELIVERED.get(name.partition("_")[0])
    if batch is None:
        return "context", {"inputs": {"context": ("string", deliveries.tool_call(order="7"))}, "metadata": {}}
    kind, value, metadata = batch
    return "given", {"inputs": {"given": (kind, value)}, "metadata": metadata}


def test_a_body_runs_where_the_lock_is_free_or_this_process_listens(answers: Answers) -> None:
    free = {name: answer for name, answer in answers.items() if name.endswith("_free")}
    assert len(free) == (2 + 2 * 2 + 4 * 2) * 4
    for name, answer in free.items():
        assert (answer["error"], len(answer["wrote"])) == (None, 1), name
        if "messages" not in answer["wrote"][0]:
            assert "'7 eu'" in str(answer["sent"]), name
            assert ".7" in answer["wrote"][0]["lock"] or "listener" in name


def test_without_a_body_an_invocation_fails_unless_a_skip_is_declared(answers: Answers) -> None:
    taken = {name: answer for name, answer in answers.items() if name.endswith("_taken")}
    assert len(taken) == (2 + 2 * 2 + 4 * 2) * 4
    for name, answer in taken.items():
        assert answer["wrote"] == [], name
        if "_skip_" in name:
            assert answer["error"] is None, name
        else:
            assert "LockNotAcquired" in str(answer["error"]), name


def test_a_batch_has_no_scope(answers: Answers) -> None:
    for name in DELIVERED:
        answer = answers[f"{name}_scoped"]
        assert "ScopeError" in answer["error"]
        assert "is a batch" in answer["error"]
        assert answer["wrote"] == []
