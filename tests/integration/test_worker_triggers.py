"""The real Python worker indexes an app with every kind of trigger, invokes each, and runs Durable's starters."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.workers import Worker, both, needs_worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.azurite.server import Azurite
    from tests.integration.workers import Invocation

pytestmark = needs_worker
APP = Path(__file__).parent / "triggers_app"
WHEN = '"2026-11-28T12:00:00Z"'
ORDER = json.dumps({"Id": 419, "Zone": "north", "Order": {"Id": "o-1"}})


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def worker(azurite: Azurite, journal: Path) -> Iterator[Worker]:
    made = Worker(APP, azurite.connection_string, journal)
    try:
        yield made
    finally:
        made.end()


def given(parameter: str, kind: str, value: Any, **metadata: tuple[str, Any]) -> dict[str, Any]:
    return {"inputs": {parameter: (kind, value)}, "metadata": metadata}


def request(path: str, body: str = "", **route: str) -> dict[str, Any]:
    url = f"https://app.example/api/{path}?zone=query&code=key"
    asked = {"headers": {"content-type": "application/json"}, "query": {"zone": "query", "code": "key"}}
    return given("req", "http", {"method": "POST", "url": url, "params": route, "body": body, **asked})


EVENT = {"id": "e-1", "topic": "t", "subject": "orders/7", "eventType": "made", "eventTime": "2026-11-28T12:00:00Z"}
HUB = {
    "PartitionKey": ("string", "p-1"),
    "EnqueuedTimeUtc": ("json", WHEN),
    "SequenceNumber": ("json", "17"),
    "Offset": ("string", "42"),
}
SINGLE = {**HUB, "SystemProperties": ("json", "{}")}
BUS = {"MessageId": ("string", "sb-1"), "SessionId": ("string", "tenant-7"), "UserProperties": ("json", "{}")}
BLOB = {"BlobTrigger": ("string", "orders/2026/a.json"), "Uri": ("json", '"http://a/orders/2026/a.json"')}

DELIVERED: list[tuple[Invocation, str, Any]] = [
    (("http_route", "req", request("orders/7", ORDER, id="7")), "http_route.7-query-o-1", json.loads(ORDER)),
    (("http_body", "req", request("body", ORDER)), "http_body.419", json.loads(ORDER)),
    (("bus", "msg", given("msg", "bytes", "text", **BUS)), "bus.tenant-7", "text"),
    (("hub", "event", given("event", "string", "text", **SINGLE)), "hub.p-1-20261128", "text"),
    (
        ("grid", "event", given("event", "json", json.dumps({**EVENT, "data": json.loads(ORDER)}))),
        "grid.orders%2F7.419",
        json.loads(ORDER),
    ),
    (("blob_path", "blob", given("blob", "bytes", "not JSON", **BLOB)), "blob_path.2026", "not JSON"),
    (("blob_body", "blob", given("blob", "bytes", ORDER, **BLOB)), "blob_body.419", ORDER),
    (("cosmos", "documents", given("documents", "json", f"[{ORDER}]")), "cosmos.419", 1),
    (("activity", "order", given("order", "json", ORDER)), "activity.419", json.loads(ORDER)),
    (("activity_text", "customer", given("customer", "json", '"c-1"')), "activity_text.c-1", "c-1"),
]


def test_what_each_trigger_delivers_is_scoped_and_reaches_the_function_untouched(worker: Worker, journal: Path) -> None:
    worker.functions()
    worker.ask([invocation for invocation, _, _ in DELIVERED])
    outcomes = worker.answer()
    assert [outcome["error"] for outcome in outcomes] == [None] * len(DELIVERED)
    assert [outcome["status"] for outcome in outcomes[:2]] == ["201", "202"]
    entries = {entry["owner"]: entry for entry in map(json.loads, journal.read_text().splitlines())}
    ran = [(entries[outcome["id"]]["lock"], entries[outcome["id"]]["body"]) for outcome in outcomes]
    assert ran == [(f"locks/worker/{lock}", body) for _, lock, body in DELIVERED]


def test_what_cannot_be_done_is_said(worker: Worker, journal: Path) -> None:
    worker.functions()
    batch = {"SystemPropertiesArray": ("json", "[{}, {}]")}
    refused: list[tuple[Invocation, str]] = [
        (("hub_batch", "event", given("event", "json", f"[{ORDER}, {ORDER}]", **batch)), "a batch (messages: 2)"),
        (("cosmos", "documents", given("documents", "json", f"[{ORDER}, {ORDER}]")), "max_items_per_invocation=1"),
        (("http_body", "req", request("body", "a=1")), "can't be parsed as JSON"),
        (("http_skip", "req", request("skips")), "an HTTP trigger must answer"),
        (("http_nothing", "req", request("nothing")), 'unsupported type "http"'),
    ]
    worker.ask([invocation for invocation, _ in refused])
    answers = worker.answer()
    for outcome, (invocation, said) in zip(answers, refused, strict=True):
        assert said in str(outcome["error"]), invocation[0]
    assert journal.read_text() == ""


# --- starters ---------------------------------------------------------------------------------------------------------


class Extension(BaseHTTPRequestHandler):
    """The Durable extension's HTTP API, as far as a starter needs it: an instance shows a while after its start."""

    def do_GET(self) -> None:
        seen = self.server.seen.get(self.path.rpartition("/")[2].partition("?")[0])  # type: ignore[attr-defined]
        time.sleep(0.02)
        self._tell(404 if seen is None else 202, seen)

    def do_POST(self) -> None:
        instance = self.path.partition("?")[0].rpartition("/")[2]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.started.append((instance, body))  # type: ignore[attr-defined]
        status = {"instanceId": instance, "runtimeStatus": "Running", "createdTime": "2026-11-28T12:00:00Z"}
        threading.Timer(0.2, self.server.seen.setdefault, (instance, status)).start()  # type: ignore[attr-defined]
        self._tell(202, {"id": instance})

    def _tell(self, status: int, answer: object) -> None:
        content = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def extension() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Extension)
    server.seen, server.started, server.daemon_threads = {}, [], False
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_of_many_starters_in_two_workers_one_starts_each_instance(
    azurite: Azurite, journal: Path, extension: Any
) -> None:
    base = f"http://127.0.0.1:{extension.server_port}/"
    urls = {"createNewInstancePostUri": base + "orchestrators/{functionName}[/{instanceId}]?code=key"}
    client = {"taskHubName": "hub", "creationUrls": urls, "managementUrls": {"id": "INSTANCEID"}, "rpcBaseUrl": base}
    asked: list[Invocation] = []
    for number in (1, 2) * 4:
        start = request(f"imports/{number}", '{"n": 1}', id=f"order-{number}")
        start["inputs"]["client"] = ("string", json.dumps(client))
        asked.append(("start_import", "req", start))
    workers = [Worker(APP, azurite.connection_string, journal) for _ in range(2)]
    try:
        for worker in workers:
            worker.functions()
        outcomes = both(workers, asked)
    finally:
        for worker in workers:
            worker.end()
    assert [outcome["error"] for outcome in outcomes] == [None] * 16
    assert sorted(outcome["status"] for outcome in outcomes) == ["202"] * 2 + ["409"] * 14
    assert sorted(instance for instance, _ in extension.started) == ["order-1", "order-2"]
