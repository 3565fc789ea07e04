"""Requests, each of which is answered: by a body, by what another has kept, or with 409."""

import asyncio

import azure.functions as func

from singleton import once, singleton

app = func.FunctionApp()


@app.route(route="ship", methods=["POST"])
@singleton
async def ship(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    await asyncio.sleep(0.3)
    return func.HttpResponse(context.invocation_id, status_code=201, headers={"X-Done": "yes"})


@app.route(route="bill", methods=["POST"])
@singleton(on_contention="conflict")
def bill(req: func.HttpRequest) -> func.HttpResponse:
    return func.HttpResponse(req.get_body(), mimetype="application/json")


@app.route(route="charge", methods=["POST"])
@once(key="{headers.x-arr-log-id}")
@singleton
def charge(req: func.HttpRequest) -> func.HttpResponse:
    return func.HttpResponse("charged", status_code=202, headers={"X-Done": "yes"}, charset="latin-1")


@app.queue_trigger(arg_name="msg", queue_name="charges", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="$return", queue_name="answers", connection="AzureWebJobsStorage")
@once(key="Number")
def book(msg: func.QueueMessage):  # type: ignore[no-untyped-def]  # noqa: ANN201 - as the worker takes it
    return {"pair": (1, 2), "text": "", "none": None}
