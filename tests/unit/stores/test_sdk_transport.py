"""The transport that is made for the SDK: no look-up waits for another, and no idle connection is used again."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from singleton.runtime.accounts import stores
from singleton.runtime.accounts.stores import open_queue, open_through_sdk
from singleton.settings.connection import StorageAccount
from singleton.stores.protocol import StoreFailure
from tests.support.scripted_server import Answer, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Coroutine


def opened(kind: str, text: str) -> Any:
    if kind == "blobs":
        return open_through_sdk(StorageAccount(text), "locks")
    return open_queue(StorageAccount(text.replace("BlobEndpoint", "QueueEndpoint")), "orders")


def ask(store: Any) -> Coroutine[Any, Any, object]:
    asking: Coroutine[Any, Any, object] = store.create() if hasattr(store, "hide") else store.read("job")
    return asking


@pytest.mark.parametrize("kind", ["blobs", "queue"])
async def test_a_lookup_that_is_stuck_holds_up_no_other(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    look_up, began = loop.getaddrinfo, asyncio.Event()

    async def stuck_once(host: Any, *args: Any, **keywords: Any) -> Any:
        if not began.is_set():
            began.set()
            await asyncio.Event().wait()
        return await look_up("127.0.0.1", *args, **keywords)

    monkeypatch.setattr(loop, "getaddrinfo", stuck_once)
    async with ScriptedServer(Answer(503)) as server:
        text = server.connection_string.replace("127.0.0.1", "made.example")
        store = opened(kind, text)
        async with aclosing(store):
            stuck = asyncio.create_task(ask(store))
            await began.wait()
            with pytest.raises(StoreFailure) as caught:
                await asyncio.wait_for(ask(store), 10)
            assert caught.value.status == 503
            stuck.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await stuck


@pytest.mark.parametrize("kind", ["blobs", "queue"])
@pytest.mark.parametrize(("kept", "dialled"), [(1e-9, 3), (60.0, 1)])
async def test_a_connection_that_was_idle_too_long_is_not_used_again(
    kind: str, kept: float, dialled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network may have dropped the connection without a word, and each other idle one."""
    assert stores._KEPT <= 1.0
    monkeypatch.setattr(stores, "_KEPT", kept)
    async with ScriptedServer(Answer(503)) as server:
        store = opened(kind, server.connection_string)
        async with aclosing(store):
            for _ in range(3):
                with pytest.raises(StoreFailure):
                    await ask(store)
        assert (len(server.requests), len(server._open)) == (3, dialled)
