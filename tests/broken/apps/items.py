"""Results and outputs that are iterated over: by ``map``, and by an iterator of the app's own, which fails at times."""

import functools
import time
from collections.abc import Callable
from typing import Any

import azure.functions as func

from singleton import once, singleton

app = func.FunctionApp()


class Lines:
    """The lines of a message; the second line of some messages fails when a message comes for the first time."""

    def __init__(self, msg: func.QueueMessage) -> None:
        self.id, self.tries, self.line = str(msg.get_json()["Id"]), msg.dequeue_count or 1, 0

    def __iter__(self) -> "Lines":
        return self

    def __next__(self) -> str:
        self.line += 1
        if self.line == 2 and self.tries == 1 and self.id < "b":
            raise ValueError("not yet")
        if self.line > 3:
            raise StopIteration
        return f"{self.id} {self.line}"


def counted(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def counting(msg: func.QueueMessage) -> Any:
        lines = function(msg)
        assert isinstance(lines, Lines)
        assert lines.line == 0
        return lines

    return counting


@app.queue_trigger(arg_name="msg", queue_name="asks", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="$return", queue_name="answers", connection="AzureWebJobsStorage")
@singleton(scope="Id")
def ask(msg: func.QueueMessage):  # type: ignore[no-untyped-def]  # noqa: ANN201 - no type that the worker takes
    time.sleep(0.1)
    return map("{}/{}".format, [msg.get_json()["Id"]] * 3, range(3))


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="$return", queue_name="answers", connection="AzureWebJobsStorage")
@singleton(scope="Id")
@counted
def order(msg: func.QueueMessage):  # type: ignore[no-untyped-def]  # noqa: ANN201 - no type that the worker takes
    return Lines(msg)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="$return", queue_name="answers", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def bill(msg: func.QueueMessage):  # type: ignore[no-untyped-def]  # noqa: ANN201 - no type that the worker takes
    return Lines(msg)


@app.queue_trigger(arg_name="msg", queue_name="mails", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="out", queue_name="answers", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def mail(msg: func.QueueMessage, out: func.Out[str]) -> None:
    out.set(Lines(msg))  # type: ignore[arg-type]


@app.queue_trigger(arg_name="msg", queue_name="refunds", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="$return", queue_name="answers", connection="AzureWebJobsStorage")
@once(key="Id")
def refund(msg: func.QueueMessage):  # type: ignore[no-untyped-def]  # noqa: ANN201 - no type that the worker takes
    return Lines(msg)
