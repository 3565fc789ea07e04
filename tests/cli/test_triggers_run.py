"""A whole run of an app without a timer and without a storage queue: HTTP, Service Bus, Event Hubs and blobs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simulator.history.journal import read_journals
from tests.cli.apps import write_app

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.running import Sim

APP = """
import asyncio
import json
import time

import azure.functions as func

from singleton import current_hold, singleton

app = func.FunctionApp()


@app.route(route="orders/{id}/ship", methods=["POST"])
@singleton(scope_id="{id}")
async def ship(req: func.HttpRequest) -> func.HttpResponse:
    await asyncio.sleep(0.3)
    return func.HttpResponse(json.dumps(req.get_json()), status_code=201, mimetype="application/json")


@app.route(route="health")
def health(req: func.HttpRequest) -> str:
    return "well"


@app.service_bus_queue_trigger(arg_name="msg", queue_name="%REGION%-orders", connection="Bus")
@singleton(scope="Id")
def bus(msg: func.ServiceBusMessage) -> None:
    assert (msg.delivery_count or 0) >= 1 and msg.lock_token, "a message without its lock"
    time.sleep(0.3)


@app.event_hub_message_trigger(arg_name="event", event_hub_name="events", connection="Hub")
@singleton(scope_id="{PartitionKey}")
async def hub(event: func.EventHubEvent) -> None:
    assert event.partition_key == "p", event.partition_key
    await asyncio.sleep(0.1)


@app.blob_trigger(arg_name="blob", path="orders/{year}/{name}", connection="AzureWebJobsStorage")
@singleton(scope_id="{year}")
def blob(blob: func.InputStream) -> None:
    assert blob.read() == b"content" and current_hold().lock.endswith("2026")


@app.event_hub_message_trigger(arg_name="event", event_hub_name="quiet", connection="Hub")
@singleton(scope="Id")
def quiet(event: func.EventHubEvent) -> None:
    raise AssertionError("nothing is delivered to it")
"""
DELIVERED = [
    *({"function": "hub", "body": number, "metadata": {"PartitionKey": "p"}} for number in range(6)),
    *({"function": "blob", "body": "content", "metadata": {"path": f"orders/2026/{name}"}} for name in "abc"),
]


@pytest.mark.slow
def test_http_service_bus_and_deliveries_survive_the_kill_of_a_holder(
    sim: Callable[..., Sim], tmp_path: Path, storage: str
) -> None:
    app = write_app(tmp_path / "app", APP)
    (tmp_path / "messages").write_text("\n".join(map(json.dumps, DELIVERED)))
    own = ("--messages", str(tmp_path / "messages"), "--app", str(app), "--visibility", "4")
    run = sim(
        "--hosts", "2", "--kill", "1", "--duration", "3", "--seed", "6", "--json", "--keep", "--storage", storage, *own
    )
    assert run.wait() == 0, run.output + run.errors
    verdict = run.verdict
    assert (verdict["verdict"], verdict["overlaps"], verdict["reasons"]) == ("holds", [], [])
    how = {function["name"]: (function["exercised"], function["how"]) for function in verdict["functions"]}
    assert how == {
        "ship": (True, "simulated"),
        "health": (True, "simulated"),
        "bus": (True, "simulated"),
        "hub": (True, "delivered"),
        "blob": (True, "delivered"),
        "quiet": (False, "not exercised"),
    }
    messages, requests = verdict["messages"], verdict["requests"]
    assert messages["sent"] == messages["completed"] > len(DELIVERED) + 5
    assert requests["sent"] == requests["answered"] + requests["cut"] > 10
    assert set(requests["statuses"]) == {"200", "201"}
    assert requests["unanswered"] == requests["open"] == 0
    folder = Path(verdict["journals"])
    records = read_journals(folder)
    shutil.rmtree(folder)
    served = {record.get("request") for record in records if record.event == "request_served"}
    assert len(served) >= requests["answered"]
    bus = [record for record in records if record.event == "message_received" and record.get("function") == "bus"]
    assert {record.get("queue") for record in bus} == {"servicebus/north-orders"}
    assert len({record.get("id") for record in bus if record.get("dequeue_count") == 1}) > 5
    assert run.left_behind() == []
