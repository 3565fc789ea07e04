"""Decorators of the app's own, above and below: one tries again, one swallows, one switches off."""

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine
from itertools import count
from typing import TypeAlias

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()
numbers = count(1)

Body: TypeAlias = Callable[..., Coroutine[None, None, None]]


def tried_again(function: Body) -> Body:
    @functools.wraps(function)
    async def tries(msg: func.QueueMessage, **more: object) -> None:
        for _ in range(3):
            try:
                await function(msg, **more)
            except RuntimeError:
                await asyncio.sleep(0.1)
            else:
                return

    return tries


def quiet(function: Body) -> Body:
    @functools.wraps(function)
    async def quietly(msg: func.QueueMessage) -> None:
        with contextlib.suppress(ValueError):
            await function(msg)

    return quietly


def every_other(function: Body) -> Body:
    @functools.wraps(function)
    async def sometimes(msg: func.QueueMessage) -> None:
        if next(numbers) % 2:
            await function(msg)

    return sometimes


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
@tried_again
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.1)
    if next(numbers) % 3 == 0:
        raise RuntimeError("not yet")


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(scope="Id")
@quiet
async def bill(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.1)
    raise ValueError("never mind")


@app.queue_trigger(arg_name="msg", queue_name="notes", connection="AzureWebJobsStorage")
@singleton(scope="Id")
@every_other
async def remark(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.1)


@app.queue_trigger(arg_name="msg", queue_name="mails", connection="AzureWebJobsStorage")
@tried_again
@singleton(scope="Id")
async def mail(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.1)
    if next(numbers) % 3 == 0:
        raise RuntimeError("not yet")
