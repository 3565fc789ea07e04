"""Commands of operators on an inbox: stopped keys, resume, messages which were put aside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from singleton.base.errors import StorageError
from singleton.base.state import MOST_STATE
from singleton.locking.holder import if_present
from singleton.patterns.ordered.aside_messages import entry_aside, put_aside, remove_aside, sent_again
from singleton.patterns.ordered.bells import Bell
from singleton.patterns.ordered.log_reader import LogReader, Position
from singleton.stores.stamps import kept_in

if TYPE_CHECKING:
    from singleton.base.state import Keeper
    from singleton.patterns.ordered.aside_messages import AsideMessage
    from singleton.patterns.ordered.service import Service
    from singleton.runtime.registry import Registry

_PATIENCE: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedKey:
    """A stopped key.

    Attributes:
        key: the key.
        error: last error of the failed message.
        failures: number of its failures.
    """

    key: str
    error: str
    failures: int


async def stopped(service: Service, registry: Registry) -> list[StoppedKey]:
    """Return the stopped keys among the keys with a log."""
    store, found = service.store(registry), []
    async for spot in service.spots(store):
        name = service.names.lock(spot)
        content = await if_present(lambda: store.get(name, None, MOST_STATE), name)  # noqa: B023 - used at once
        if content is None:
            continue
        position = Position.read(name, kept_in(content))
        if position.stopped:
            found.append(StoppedKey(key=position.key, error=position.stopped, failures=position.tried))
    return found


async def resume(service: Service, spot: str, registry: Registry, *, skip: bool) -> None:
    """Have a key go on."""
    acquire = service.client._acquire(service.names.lock(spot), _PATIENCE, "")  # noqa: SLF001 - the inbox's own client
    hold = await acquire(registry)
    try:
        keeper = hold.keeper()
        position = Position.read(hold.lock, await keeper.read())
        if skip:
            await _skip(service, registry, spot, position, keeper)
        position.failures, position.begun, position.until, position.stopped = 0, 0, 0.0, ""
        await service.keep(keeper, spot, position, registry)
    finally:
        await registry.release(hold)
    if not await service.is_drained(registry, spot):
        await service.ring(registry, Bell(service.names.inbox, spot))


async def _skip(service: Service, registry: Registry, spot: str, position: Position, keeper: Keeper) -> None:
    """Put the first unhandled message aside, if there is a message."""
    store = service.store(registry)
    reader = LogReader(store, service.names, spot, position)
    while entries := await reader.more():
        for entry in entries:
            if position.is_repeat(entry):
                position.passed(entry)
                continue
            position.aside = position.aside or position.stopped or "skipped by an operator"
            await service.keep(keeper, spot, position, registry)  # from now on no consumer handles the message
            await put_aside(store, service.names, spot, entry, position.aside)
            position.passed(entry)
            return


async def resend(service: Service, message: AsideMessage, registry: Registry) -> None:
    """Send a message which was put aside. After a crash in between the command may be repeated: one message results.

    The key must remember the first message: it does so until 256 other senders have sent messages of the key.
    """
    store = service.store(registry)
    entry = await entry_aside(store, message.name)
    if entry is None:
        raise StorageError(
            f"there is no message {message.name}: it was sent again, or discarded", reason="no such message"
        )
    await service.send(service.names.spot(entry.key), sent_again(entry, message.name), registry)
    await remove_aside(store, message.name)


async def discard(service: Service, message: AsideMessage, registry: Registry) -> None:
    """Delete a message which was put aside."""
    await remove_aside(service.store(registry), message.name)
