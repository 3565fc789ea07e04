"""Orchestrations of two instances, started by all hosts: a client stands for Durable's, which a start replaces."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace

import azure.functions as func

from singleton import singleton, start_singleton

app = func.FunctionApp()


def began(instance: str) -> float:
    path = Path(f"{instance}.started")
    return float(path.read_text() or 0) if path.exists() else 0.0


def begin(instance: str) -> None:
    Path(f"{instance}.started").write_text(str(time.time()))


class Client:
    """Starts instances that run for two seconds."""

    async def get_status(self, instance: str) -> SimpleNamespace:
        await asyncio.sleep(0.1)
        start = began(instance)
        status = None if not start else "Running" if time.time() < start + 2 else "Completed"
        return SimpleNamespace(runtime_status=status, created_time=start)

    async def start_new(self, _: str, instance: str, __: object) -> None:
        await asyncio.sleep(0.2)
        begin(instance)


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
async def run(msg: func.QueueMessage) -> None:
    await start_singleton(Client(), "run", f"even-{int(str(msg.id)[-1], 16) % 2}")


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def bill(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.5)
