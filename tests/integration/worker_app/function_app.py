"""An app with a bit of everything that a worker indexes."""

from __future__ import annotations

import asyncio
import time

import azure.functions as func
from steps import STEP, steps, write  # type: ignore[import-not-found] # a module of the app's own folder

from singleton import LockClient, SingletonOptions, current_hold, singleton

app = func.FunctionApp()
app.register_functions(steps)


@app.timer_trigger(arg_name="timer", schedule="0 0 2 * * *")
@singleton(on_contention="skip")
def timer_skip(timer: func.TimerRequest, context: func.Context) -> None:
    write("in", context=context.invocation_id)
    time.sleep(STEP)
    write("out")


@app.function_name("TimerRenamed")
@singleton
@app.retry(strategy="fixed_delay", max_retry_count="2", delay_interval="00:00:01")
@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *", run_on_startup=False)
async def timer_async(timer: func.TimerRequest, context) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    write("in", context=context.invocation_id)
    await asyncio.sleep(STEP)
    write("out")


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
def queue_sync(msg: func.QueueMessage) -> None:
    write("in")
    time.sleep(STEP)
    write("out")


@app.queue_trigger(arg_name="msg", queue_name="customers", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="out", queue_name="done", connection="AzureWebJobsStorage")
@singleton(scope="My:Nested:Id")
async def queue_nested(msg: func.QueueMessage, out: func.Out[str]) -> None:
    write("in")
    await asyncio.sleep(STEP)
    out.set("done")
    write("out")


@app.queue_trigger(arg_name="context", queue_name="contexts", connection="AzureWebJobsStorage")
@singleton(scope_id="zone-{Zone}", level="host")
def queue_named_context(context: func.QueueMessage) -> None:
    write("in")
    time.sleep(STEP)
    write("out")


@singleton(scope_id="zone-{Zone}", level="host")
@app.generic_trigger(arg_name="msg", type="queueTrigger", queueName="zones", connection="AzureWebJobsStorage")
async def queue_generic(msg: str) -> None:
    write("in")
    await asyncio.sleep(STEP)
    write("out")


@app.queue_trigger(arg_name="msg", queue_name="raised", connection="AzureWebJobsStorage")
@singleton(scope="Id", on_contention="raise")
async def queue_raise(msg: func.QueueMessage) -> None:
    write("in")
    await asyncio.sleep(1)
    write("out")


@app.queue_trigger(arg_name="msg", queue_name="lost", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def queue_lost(msg: func.QueueMessage) -> None:
    """Have an operator break its own lock."""
    write("in")
    lock = current_hold().lock
    await asyncio.to_thread(LockClient(options=SingletonOptions(container="worker")).break_, lock, 0)
    try:
        await asyncio.sleep(60)
    finally:
        write("out")
