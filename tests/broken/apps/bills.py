"""Outputs and headers that a repeat of ``@once`` gets again, and decorators of the app's own around ``@once``."""

import functools
import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import azure.functions as func

from singleton import once, singleton

app = func.FunctionApp()


def as_json(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def made(*args: Any, **kwargs: Any) -> str:
        return json.dumps({"result": function(*args, **kwargs)})

    return made


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="out", queue_name="bills", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="more", queue_name="lines", connection="AzureWebJobsStorage")
@once(key="Id")
@singleton(scope="Id")
async def bill(msg: func.QueueMessage, out: func.Out[str], more: func.Out[str]) -> None:
    out.set(json.dumps({"Id": uuid.uuid4().hex}))
    if str(msg.get_json()["Id"]) < "b":
        more.set(uuid.uuid4().hex)


@app.queue_trigger(arg_name="msg", queue_name="returns", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="$return", queue_name="refunds", connection="AzureWebJobsStorage")
@as_json
@once(key="Id")
@as_json
def refund(msg: func.QueueMessage) -> str:
    time.sleep(0.1)
    return uuid.uuid4().hex


@app.route(route="receipts", methods=["POST"])
@once(key="{headers.Idempotency-Key}")
def receipt(req: func.HttpRequest) -> func.HttpResponse:
    return func.HttpResponse("made", status_code=201, headers={"Location": uuid.uuid4().hex})
