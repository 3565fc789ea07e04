"""An app with a function for each kind of trigger, most of them guarded below it, some above."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any, List  # noqa: UP035

import azure.durable_functions as df  # no stubs
import azure.functions as func

from singleton import current_hold, singleton, start_singleton

if TYPE_CHECKING:
    from collections.abc import Callable

new_app: Callable[[], Any] = df.DFApp
app = new_app()
STORAGE = "AzureWebJobsStorage"
JOURNAL = os.open(os.environ["JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def write(**more: Any) -> None:
    hold = current_hold()
    entry = {"at": time.monotonic(), "lock": hold.lock, "owner": hold.owner, **more}
    os.write(JOURNAL, (json.dumps(entry) + "\n").encode())


@app.route(route="orders/{id}", methods=["POST"])
@singleton(scope_id="{id}-{zone}-{Order.Id}")
def http_route(req: func.HttpRequest) -> func.HttpResponse:
    write(body=req.get_json())
    return func.HttpResponse("done", status_code=201)


@singleton(scope="Id")
@app.route(route="body", methods=["POST"])
async def http_body(req: func.HttpRequest) -> func.HttpResponse:
    write(body=req.get_json())
    return func.HttpResponse("done", status_code=202)


@app.route(route="skips")
@singleton(on_contention="skip")
def http_skip(req: func.HttpRequest) -> func.HttpResponse:
    raise AssertionError("an HTTP function that skips is refused before its body")


@app.route(route="nothing")
def http_nothing(req: func.HttpRequest) -> func.HttpResponse:
    """Answer nothing, as a skipped invocation would."""
    return None  # type: ignore[return-value]


@app.service_bus_queue_trigger(arg_name="msg", queue_name="orders", connection=STORAGE)
@singleton(scope_id="{SessionId}")
def bus(msg: func.ServiceBusMessage) -> None:
    write(body=msg.get_body().decode())


@app.event_hub_message_trigger(arg_name="event", event_hub_name="orders", connection=STORAGE)
@singleton(scope_id="{PartitionKey}-{EnqueuedTimeUtc:yyyyMMdd}")
async def hub(event: func.EventHubEvent) -> None:
    write(body=event.get_body().decode())


@app.event_hub_message_trigger(
    arg_name="event", event_hub_name="orders", connection=STORAGE, cardinality=func.Cardinality.MANY
)
@singleton(scope="Id")
def hub_batch(event: List[func.EventHubEvent]) -> None:  # noqa: UP006 - the worker knows no list[...]
    write(body=len(event))


@app.event_grid_trigger(arg_name="event")
@singleton(scope="Id", scope_id="{subject}")
def grid(event: func.EventGridEvent) -> None:
    write(body=event.get_json())


@app.blob_trigger(arg_name="blob", path="orders/{year}/{name}", connection=STORAGE)
@singleton(scope_id="{year}")
def blob_path(blob: func.InputStream) -> None:
    write(body=blob.read().decode())


@singleton(scope="Id")
@app.blob_trigger(arg_name="blob", path="orders/{name}", connection=STORAGE)
async def blob_body(blob: func.InputStream) -> None:
    write(body=blob.read().decode())


@app.cosmos_db_trigger(
    arg_name="documents",
    connection=STORAGE,
    database_name="shop",
    container_name="orders",
    max_items_per_invocation=1,
)
@singleton(scope="Id")
def cosmos(documents: func.DocumentList) -> None:
    write(body=len(documents))


@app.activity_trigger(input_name="order")
@singleton(scope="Id")
def activity(order: dict) -> str:  # type: ignore[type-arg] # what the worker's check takes
    write(body=order)
    return "done"


@singleton(scope_id="{data}")
@app.activity_trigger(input_name="customer")
async def activity_text(customer: str) -> str:
    write(body=customer)
    return "done"


@app.orchestration_trigger(context_name="context")
def import_order(context: df.DurableOrchestrationContext) -> Any:
    yield context.call_activity("activity", context.get_input())


@app.route(route="imports/{id}", methods=["POST"])
@app.durable_client_input(client_name="client")
async def start_import(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    result = await start_singleton(client, "import_order", req.route_params["id"], req.get_json())
    if not result.started:
        return func.HttpResponse(f"it is {result.status}", status_code=409)
    return func.HttpResponse(status_code=202)
