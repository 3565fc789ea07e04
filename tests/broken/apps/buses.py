"""Service Bus, with sessions and without: with time-outs, tries, locks that are kept, and state."""

import asyncio

import azure.functions as func

from singleton import current_hold, singleton

app = func.FunctionApp()


@app.service_bus_queue_trigger(
    arg_name="msg", queue_name="parcels", connection="AzureWebJobsServiceBus", is_sessions_enabled=True
)
@singleton(scope="Id", timeout=4)
async def ship(msg: func.ServiceBusMessage) -> None:
    await asyncio.sleep(0.3)


@app.service_bus_queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsServiceBus")
@app.retry(strategy="fixed_delay", max_retry_count="2", delay_interval="00:00:01")
@singleton(scope="Id")
def bill(msg: func.ServiceBusMessage) -> None:
    state = current_hold().state
    state.write(1 + state.read(default=0))


@app.service_bus_queue_trigger(arg_name="msg", queue_name="notes", connection="AzureWebJobsServiceBus")
@singleton(at_least=4, timeout=8)
async def remark(msg: func.ServiceBusMessage) -> None:
    await asyncio.sleep(0.1)
