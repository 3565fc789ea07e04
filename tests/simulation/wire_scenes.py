"""Situations for the checks of the virtual wire: stores that are broken on purpose, each in one way."""

from __future__ import annotations

import base64
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from singleton.settings.accounts import LockContainer
from singleton.settings.connection import StorageAccount
from singleton.stores.access import AccountKey
from singleton.stores.bearer_token import Token
from singleton.stores.protocol import StoreFailure
from tests.simulation.scenes import IDS, LOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.simulation.scenes import Host, Scene


async def _store(host: Host) -> Any:
    """Open a store on the wire, with a lock in it."""
    place = LockContainer(StorageAccount(), "webjobshost")
    store: Any = host.scene.world.openings.store(host.machine, place)
    await store.create(LOCK)
    return store


async def _signed_wrongly(host: Host) -> None:
    store = await _store(host)
    store._wire._access = AccountKey(lambda: ("explored", base64.b64encode(b"another").decode()))
    with suppress(StoreFailure):
        await store.read(LOCK)


async def _asks_another(host: Host) -> None:
    store = await _store(host)
    store._path = lambda name: f"/webjobshost/{name}-2"
    with suppress(StoreFailure):
        await store.read(LOCK)


async def _sends_twice(host: Host) -> None:
    store = await _store(host)
    ask = store._wire.ask

    async def twice(*args: Any, **more: Any) -> Any:
        await ask(*args, **more)
        return await ask(*args, **more)

    store._wire.ask = twice
    await store.acquire(LOCK, IDS[0], 15)


async def _misreads(host: Host) -> None:
    store = await _store(host)
    send = store._wire._way.send

    async def all_well(*args: Any) -> Any:
        return (await send(*args))._replace(status=201)

    store._wire._way.send = all_well
    await store.acquire(LOCK, IDS[0], 15)
    await store.acquire(LOCK, IDS[1], 15)


async def _uses_what_is_closed(host: Host) -> None:
    store = await _store(host)
    way = store._wire._way
    connection = way._idle.pop()[1] if way._idle else await way._connected()
    connection._transport.abort()
    connection._ended = False
    way._kept = lambda: connection
    with suppress(StoreFailure):
        await store.read(LOCK)


async def _keeps_its_token(host: Host) -> None:
    async def get_token(_: str) -> Any:
        return SimpleNamespace(token="void", expires_on=1e9)

    store = await _store(host)
    store._wire._access = Token(SimpleNamespace(get_token=get_token))
    for _ in range(2):
        with suppress(StoreFailure):
            await store.read(LOCK)
        await host.until(1.0)


def _plays(part: Callable[[Host], Coroutine[object, object, None]]) -> Callable[[Scene], None]:
    def play(scene: Scene) -> None:
        scene.world.wire_up()
        scene.a.plays(part)

    return play


WIRES: Final[dict[str, Callable[[Scene], None]]] = {
    "wrong signature": _plays(_signed_wrongly),
    "another request": _plays(_asks_another),
    "request sent twice": _plays(_sends_twice),
    "another answer": _plays(_misreads),
    "dead connection": _plays(_uses_what_is_closed),
    "refused token": _plays(_keeps_its_token),
}
