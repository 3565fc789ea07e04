"""State that is kept with a lock and removed again."""

import azure.functions as func

from singleton import current_hold, singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id", level="host")
def ship(msg: func.QueueMessage) -> None:
    state = current_hold().state
    if state.read(default=0):
        state.remove()
    else:
        state.write(1)
