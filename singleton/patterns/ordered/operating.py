"""What an inbox offers to operators: which keys are stopped, resuming one, what was put aside. On the lock thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from singleton.base.errors import StorageError
from singleton.base.state import MOST_STATE, STATE_KEY, Kept
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered
from singleton.patterns.ordered.aside import entry_aside, put_aside, remove_aside, sent_again, that_is_aside
from singleton.patterns.ordered.bells import Bell
from singleton.patterns.ordered.position import Position
from singleton.patterns.ordered.reading import LogReader
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from singleton.base.state import Keeper
    from singleton.patterns.ordered.aside import AsideMessage
    from singleton.patterns.ordered.protocol import Store
    from singleton.patterns.ordered.service import Service
    from singleton.process.registry import Registry

_PATIENCE: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedKey:
    """A key that stands still.

    Attributes:
        key: the key.
        error: what its message failed with last.
        failures: how often.
    """

    key: str
    error: str
    failures: int


async def stopped(service: Service, registry: Registry) -> list[StoppedKey]:
    """Return the keys that stand still: of those that have a log."""
    store, found = service.store(registry), []
    async for spot in service.spots(store):
        name = service.names.lock(spot)
        try:
            blob, body, _ = await answered(lambda: store.get(name, None, MOST_STATE))  # noqa: B023 - used at once
        except StoreFailure as failure:
            if failure.meaning == "missing":
                continue
            raise storage_error(name, failure) from failure
        marks = {key: value for key, value in blob.metadata.items() if key.lower() == STATE_KEY.lower()}
        position = Position.read(name, Kept(body, marks))
        if position.stopped:
            found.append(StoppedKey(key=position.key, error=position.stopped, failures=position.tried))
    return found


async def resume(service: Service, spot: str, registry: Registry, *, skip: bool) -> None:
    """Have a key go on."""
    store = service.store(registry)
    hold = await service.client.acquisition(service.names.lock(spot), _PATIENCE)(registry)
    try:
        keeper = hold.keeper()
        position = Position.read(hold.lock, await keeper.read())
        if skip:
            await _skip(service, store, spot, position, keeper)
        position.failures, position.begun, position.until, position.stopped = 0, 0, 0.0, ""
        await keeper.write(position.kept())
    finally:
        await registry.release(hold)
    if not await service.is_drained(registry, spot):
        await service.ring(registry, Bell(service.names.inbox, spot))


async def _skip(service: Service, store: Store, spot: str, position: Position, keeper: Keeper) -> None:
    """Put the first message aside that was not handled, if there is one."""
    reader = LogReader(store, service.names, spot, position)
    while entries := await reader.more():
        for entry in entries:
            if position.is_repeat(entry):
                position.passed(entry)
                continue
            position.aside = position.aside or position.stopped or "skipped by an operator"
            await keeper.write(position.kept())  # from now on, nobody handles it
            await put_aside(store, service.names, spot, entry, position.aside)
            position.passed(entry)
            return


async def aside(service: Service, registry: Registry) -> list[AsideMessage]:
    """Return what was put aside."""
    return await that_is_aside(service.store(registry), service.names)


async def resend(service: Service, message: AsideMessage, registry: Registry) -> None:
    """Send a message again that was put aside. Whoever dies on the way may do it again: it is sent once."""
    store = service.store(registry)
    entry = await entry_aside(store, message.name)
    if entry is None:
        raise StorageError(
            f"there is no message {message.name}: it was sent again, or discarded", reason="no such message"
        )
    await service.send(service.names.spot(entry.key), sent_again(entry, message.name), registry)
    await remove_aside(store, message.name)


async def discard(service: Service, message: AsideMessage, registry: Registry) -> None:
    """Delete a message that was put aside."""
    await remove_aside(service.store(registry), message.name)
