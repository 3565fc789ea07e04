"""The app of a pilot's storm: a timer, and messages of a broker on the same machine. Only its locks are in the account.

The storm judges these functions by what they do under their locks, so a body only takes its time.
"""

import asyncio
import random

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *", use_monitor=False)
@singleton(on_contention="skip")
async def tick(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the binding must be named
    """Run in one process at a time, and drop the ticks of the others."""
    await asyncio.sleep(2)


@app.service_bus_queue_trigger(arg_name="msg", queue_name="orders", connection="Bus")
@singleton(scope="Customer")
async def order(msg: func.ServiceBusMessage) -> None:  # noqa: ARG001
    """Handle the orders of one customer one at a time; some take longer than a lease."""
    await asyncio.sleep(20 if random.random() < 0.05 else random.uniform(0.05, 1))


@app.service_bus_queue_trigger(arg_name="msg", queue_name="payments", connection="Bus")
@singleton(scope="Customer", failover=2)
async def payment(msg: func.ServiceBusMessage) -> None:  # noqa: ARG001
    """Handle payments under locks that are taken over within seconds."""
    await asyncio.sleep(random.uniform(0.05, 2))
