"""Events, documents and activities, some below a decorator of the app's own, while one host is cut off for a while."""

import functools
import logging
import time
import typing
from collections.abc import Callable

import azure.durable_functions as df
import azure.functions as func

from singleton import singleton

app: func.FunctionApp = df.DFApp()


def timed(function: Callable[..., typing.Any]) -> Callable[..., typing.Any]:
    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        began = time.monotonic()
        try:
            return function(*args, **kwargs)
        finally:
            logging.getLogger(__name__).info("%s took %.1f s", function.__name__, time.monotonic() - began)

    return call


@app.event_grid_trigger(arg_name="event")
@singleton(scope="Id", on_contention="skip")
def sort(event: func.EventGridEvent) -> None:
    time.sleep(0.2)


@app.event_grid_trigger(arg_name="event")
@timed
@singleton(scope_id="{data.customer}")
def remark(event: func.EventGridEvent) -> None:
    time.sleep(0.2)


@app.cosmos_db_trigger(
    arg_name="docs",
    database_name="d",
    container_name="c",
    connection="AzureWebJobsStorage",
    max_items_per_invocation=1,
)
@singleton(scope="account")
def changed(docs: func.DocumentList) -> None:
    time.sleep(0.2)


@app.activity_trigger(input_name="order")  # type: ignore[untyped-decorator] # no stubs
@timed
@singleton(scope="Customer", on_contention="raise")
def book(order: typing.Dict[str, object]) -> str:  # noqa: UP006 - as of the batch
    time.sleep(0.6)
    return "booked"
