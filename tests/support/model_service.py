"""The model of the blob service behind HTTP on a real socket: it answers as documented where Azurite does not."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from simulator.proxy.wire import read_request
from simulator.virtual.http.blob_api import CONTAINER, ID, answer_of, asked_by, read_bytes, refusal_of
from singleton.stores.protocol import StoreFailure
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.scripted_server import made_account

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from simulator.virtual.http.blob_api import HttpAnswer


@contextlib.asynccontextmanager
async def model_service(kind: type[MemoryLeaseStore] = MemoryLeaseStore) -> AsyncIterator[str]:
    """Serve the model, or a broken one; yield the connection string. Its container is there, any signature counts."""
    model, tasks = kind(), set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            while (message := await read_request(reader)) is not None:
                answer = await _answered(model, message.raw)
                heads = {**answer.headers, ID: message.headers.get(ID, "")}
                heads.setdefault("content-length", "0")
                if message.first[0] != "HEAD":
                    heads["content-length"] = str(len(answer.body))
                lines = [f"HTTP/1.1 {answer.status} Model", *(f"{name}: {value}" for name, value in heads.items())]
                body = b"" if message.first[0] == "HEAD" else answer.body
                writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
                await writer.drain()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.get_running_loop().create_task(serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield made_account(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _answered(model: MemoryLeaseStore, raw: bytes) -> HttpAnswer:
    now = asyncio.get_running_loop().time()
    try:
        heard = read_bytes(raw)
        heard.path = heard.path.removeprefix("/made")
        asked = asked_by(heard)
        result = await _done(model, asked.call, asked.name, asked.args)
        return answer_of(asked, result, now, ranged="x-ms-range" in heard.headers)
    except StoreFailure as failure:
        return refusal_of(failure, now)


async def _done(model: MemoryLeaseStore, call: str, name: str, args: tuple[Any, ...]) -> Any:
    match call, args:
        case "label", (metadata, ""):  # no condition: of an operator
            return model.edit(name, metadata)
        case _ if call == CONTAINER:
            raise StoreFailure(409, "ContainerAlreadyExists")
    result = await getattr(model, call)(name, *args)
    if call == "tail" and not result.body:
        raise StoreFailure(416, "InvalidRange")
    return result
