"""A decorator of the app's own that takes no `context`, and a policy with answers that mean nothing."""

import functools
from collections.abc import Callable

import azure.functions as func

from singleton import Contention, singleton

app = func.FunctionApp()


def logged(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def inner(msg: func.QueueMessage) -> None:
        function(msg)

    return inner


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@logged
@singleton(scope="Id")
def ship(msg: func.QueueMessage) -> None: ...


def guess(contention: Contention) -> str:
    return "perhaps"


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(on_contention=guess)  # type: ignore[arg-type]
def bill(msg: func.QueueMessage) -> None:
    for _ in range(10_000_000):
        pass


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(on_contention="skip")
async def tidy(timer: func.TimerRequest) -> None: ...
