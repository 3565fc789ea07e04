"""Apps as users write them, for the runs of these tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.support.checked import BUNDLE

if TYPE_CHECKING:
    from pathlib import Path

SMALL = """
import asyncio
import azure.functions as func
from singleton import current_hold, singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="parcels", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def send(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.3)
    current_hold().raise_if_lost()
"""

MIXED = """
import asyncio
import json
import logging
import time

import azure.functions as func
from singleton import current_hold, singleton

app = func.FunctionApp()
blueprint = func.Blueprint()


@singleton(on_contention="skip")
@app.timer_trigger(arg_name="clock", schedule="0 0 3 * * *")
def sweep(clock: func.TimerRequest, context: func.Context) -> None:
    logging.info("%s sweeps with %s", context.invocation_id, current_hold().token)
    time.sleep(1.2)


@app.timer_trigger(arg_name="clock", schedule="*/2 * * * * *")
@singleton
async def beat(clock: func.TimerRequest) -> None:
    await asyncio.sleep(0.2)


@app.timer_trigger(arg_name="clock", schedule="0 * * * * *")
def unguarded(clock: func.TimerRequest) -> None:
    logging.info("nobody waits for me")


@app.function_name("Bill")
@app.queue_trigger(arg_name="msg", queue_name="bills", connection="Billing")
@singleton(scope="Order:Customer:Id")
def bill(msg: func.QueueMessage, context: func.Context) -> None:
    assert context.function_name == "Bill"
    assert msg.get_json()["Order"]["Customer"]["Id"]
    time.sleep(0.2)


@blueprint.queue_trigger(arg_name="msg", queue_name="visits", connection="AzureWebJobsStorage")
@singleton(scope_id="%REGION%-{Clinic.Id}", level="host")
async def visit(msg: str) -> None:
    json.loads(msg)
    await asyncio.sleep(0.2)


@singleton(scope="Clinic:Id", on_contention="skip")
@blueprint.queue_trigger(arg_name="msg", queue_name="calls", connection="AzureWebJobsStorage")
def call(msg: bytes) -> None:
    time.sleep(0.1)


@app.queue_trigger(arg_name="msg", queue_name="notes", connection="AzureWebJobsStorage")
def note(msg: func.QueueMessage) -> None:
    if b"poison" in msg.get_body():
        raise ValueError("no such note")


app.register_functions(blueprint)
"""

SETTINGS = (
    '{"IsEncrypted": false, "Values": {"REGION": "north", "Billing": "UseDevelopmentStorage=true", "Bus": "b", '
    '"Hub": "h"}}'
)


def write_app(folder: Path, source: str) -> Path:
    """Make an app of a source, with its own way of encoding messages."""
    folder.mkdir()
    (folder / "function_app.py").write_text(source)
    host_json = {"version": "2.0", **BUNDLE, "extensions": {"queues": {"messageEncoding": "none"}}}
    (folder / "host.json").write_text(json.dumps(host_json))
    (folder / "local.settings.json").write_text(SETTINGS)
    return folder
