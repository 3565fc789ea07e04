"""An app with HTTP streams: functions that send their rows later, at once or under a lock, and background tasks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import azure.functions as func
from azurefunctions.extensions.http.fastapi import JSONResponse, Request, StreamingResponse  # type: ignore[import-not-found, unused-ignore]
from starlette.background import BackgroundTask  # type: ignore[import-not-found, unused-ignore]

from singleton import AsyncLockClient, singleton
from singleton.testing import Headcount

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
locks = AsyncLockClient("AzureWebJobsStorage")
inside = {name: Headcount() for name in ("open", "export", "export_by_client", "task", "alone")}


async def rows(name: str) -> AsyncIterator[bytes]:
    with inside[name]:
        for number in range(3):
            await asyncio.sleep(0.1)
            yield f"row {number}\n".encode()


def route(function: Callable[..., Any]) -> Any:
    made: Any = app.route(route=function.__name__)
    return made(function)


@route
async def open(req: Request) -> StreamingResponse:  # noqa: A001 - its path
    return StreamingResponse(rows("open"))


@route
@singleton
async def export(req: Request):  # type: ignore[no-untyped-def]  # noqa: ANN201 - an annotation would be refused
    return StreamingResponse(rows("export"))


@route
@locks.lock("export")
async def export_by_client(req: Request):  # type: ignore[no-untyped-def]  # noqa: ANN201
    return StreamingResponse(rows("export_by_client"))


@route
@singleton
async def task(req: Request) -> JSONResponse:
    async def later() -> None:
        async for _ in rows("task"):
            pass

    return JSONResponse({}, background=BackgroundTask(later))


@route
async def alone(req: Request) -> StreamingResponse:
    async def locked() -> AsyncIterator[bytes]:
        async with locks.lock("alone"):
            async for row in rows("alone"):
                yield row

    return StreamingResponse(locked())


@route
@singleton
async def plain(req: Request) -> JSONResponse:
    return JSONResponse({"at once": {name: count.most for name, count in inside.items()}})
