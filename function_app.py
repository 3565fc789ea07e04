"""The sample app: an import that must never run twice at once, and orders of which each is shipped by one at a time.

Run it with ``func start``, or let ``singleton-sim`` run five hosts of it and kill one.
"""

import asyncio
import logging
import time

import azure.functions as func

from singleton import current_hold, singleton

app = func.FunctionApp()
log = logging.getLogger("sample")


@app.timer_trigger(arg_name="timer", schedule="%IMPORT_SCHEDULE%")
@singleton(on_contention="skip")
def import_eligibility(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the binding must be named
    """Import the eligibility file, unless a run goes on still, here or in an app, slot or region with the same host id.

    Of one app's instances the platform lets one fire. How soon another one does when that dies, ``host.json`` says
    with its two ``listenerLock…`` settings.
    """
    hold = current_hold()
    for batch in range(1, 21):
        time.sleep(0.5)  # stands for reading a batch of rows
        hold.raise_if_lost()  # before each side effect: is it still ours?
        log.info("eligibility batch %d of 20 saved with fencing token %s", batch, hold.token)


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def ship_order(msg: func.QueueMessage) -> None:
    """Ship an order. Messages of one order wait for one another, on every instance; different orders run at once."""
    order = msg.get_json()
    hold = current_hold()
    await asyncio.sleep(0.5)  # stands for booking the parcel
    hold.raise_if_lost()
    log.info("order %s shipped with fencing token %s", order["Id"], hold.token)
