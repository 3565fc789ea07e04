"""Guards inside one another, and below a decorator that hides them: helpers, ``@once``, a decorator without wraps."""

import time
from collections.abc import Callable

import azure.functions as func

from singleton import current_hold, once, singleton

app = func.FunctionApp()


def quiet(function: Callable[..., None]) -> Callable[..., None]:
    def inner(msg: func.QueueMessage) -> None:
        function(msg)

    inner.__name__ = function.__name__
    return inner


def renamed(function: Callable[..., None]) -> Callable[..., None]:
    def post(msg: func.QueueMessage) -> None:
        function(msg)

    return post


@singleton
def note_down(entry: str, context: func.Context) -> None:
    time.sleep(0.05)
    current_hold().raise_if_lost()


@singleton
def write_ledger(entry: str) -> None:
    time.sleep(0.1)
    current_hold().raise_if_lost()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
def ship(msg: func.QueueMessage, context: func.Context) -> None:
    write_ledger("shipped")
    note_down("shipped", context=context)


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
def nightly(timer: func.TimerRequest, context: func.Context) -> None:
    write_ledger("nightly")
    note_down("nightly", context=context)


@app.queue_trigger(arg_name="msg", queue_name="charges", connection="AzureWebJobsStorage")
@once(key="Number")
@singleton(scope_id="charges")
def charge(msg: func.QueueMessage) -> None:
    time.sleep(0.1)
    current_hold().raise_if_lost()


@app.route(route="pay/{id}", methods=["POST"])
@once(key="{id}", on_contention="conflict")
@singleton(scope_id="till")
def pay(req: func.HttpRequest) -> func.HttpResponse:
    time.sleep(0.4)
    current_hold().raise_if_lost()
    return func.HttpResponse("paid", status_code=201)


@app.queue_trigger(arg_name="msg", queue_name="mails", connection="AzureWebJobsStorage")
@quiet
@singleton(scope="Id")
def mail(msg: func.QueueMessage) -> None:
    time.sleep(0.3)
    current_hold().raise_if_lost()


@app.queue_trigger(arg_name="msg", queue_name="letters", connection="AzureWebJobsStorage")
@renamed
@singleton(scope="Id")
def letter(msg: func.QueueMessage) -> None:
    time.sleep(0.1)
    current_hold().raise_if_lost()
