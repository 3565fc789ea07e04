"""Situations for the looks that all workloads take: errors, records and ends of holds that are not true."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.oracle.errors_told import LockWait
from simulator.virtual.oracle.holders_told import SOME
from singleton.base.errors import LockLost, LockNotAcquired, SingletonError, StorageDenied, StorageUnavailable
from singleton.base.holder_record import Holder
from singleton.locking.section import Section
from singleton.stores.stamps import EPOCH_KEY, HELD_KEY, OWNER_KEY
from tests.simulation.scenes import IDS, LOCK, PERIOD, Host, Scene

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


def wait_of(host: Host, *, timeout: float | None = None, **more: Any) -> LockWait:
    """Return a wait that begins now."""
    now = host.scene.world.loop.now
    what: dict[str, Any] = {"lock": LOCK, "limit": None, "owner": "me", **more}
    wait = LockWait(machine=host.machine, timeout=timeout, since=now, **what)
    host.scene.world.oracle.errors.waits(wait)
    return wait


def told(host: Host, wait: LockWait, error: type[SingletonError]) -> None:
    """End a wait with an error."""
    errors = host.scene.world.oracle.errors
    errors.refused(wait, error("told"))
    errors.ended(wait)


async def _tells_of_no_trouble(host: Host) -> None:
    wait = wait_of(host)
    await host.store.create(LOCK)
    host.scene.world.network.rules.append(lambda _, passage: setattr(passage, "lost", True))
    host.store.request("acquire", LOCK, (IDS[0], PERIOD), IDS[0])
    await host.until(30.0)
    told(host, wait, StorageUnavailable)


async def _tells_of_a_denial(host: Host) -> None:
    wait = wait_of(host)
    await host.take()
    told(host, wait, StorageDenied)


async def _tells_of_a_holder(host: Host) -> None:
    belief = await host.take()
    await host.store.release(LOCK, belief.id)
    await host.until(20.0)
    wait = wait_of(host, timeout=5.0)
    await host.until(25.0)
    told(host, wait, LockNotAcquired)


async def _tells_of_contention(host: Host) -> None:
    await host.take()
    wait = wait_of(host, timeout=20.0)
    host.scene.world.network.rules.append(lambda _, passage: setattr(passage, "lost", True))
    host.store.request("acquire", LOCK, (IDS[1], PERIOD), IDS[1])
    await host.until(20.0)
    told(host, wait, LockNotAcquired)


async def _held(host: Host) -> Section:
    """Take a lock that the registry of a host would tell of."""
    lease: Any = await host.take()
    hold = Section(LOCK, "me", 1, lease, None)
    host.scene.world.oracle.ends.begun(host.machine, hold)
    return hold


async def _goes_on(host: Host) -> None:
    (await _held(host)).record.settle()


async def _sleeps_on(host: Host) -> None:
    hold = await _held(host)
    hold.own_lost._ended = True
    hold.record.settle()


async def _keeps_a_callback(host: Host) -> None:
    hold = await _held(host)
    hold.own_lost.add_callback(lambda _: None)
    hold.own_lost.finish(kept=True)
    hold.record.settle()


async def _tells_at_a_renewal(host: Host, owner: str) -> None:
    belief = await host.take()
    hold = host.enter(belief)
    await host.until(8.0)
    etag = (await host.store.read(LOCK)).etag
    await host.store.write(LOCK, belief.id, {EPOCH_KEY: "5", OWNER_KEY: owner, HELD_KEY: "8.0"}, etag)
    host.leave(hold)


async def _keeps_a_timer(_: Host) -> None:
    asyncio.get_running_loop().call_later(1000.0, print)


async def _is_told_of_a_loss(host: Host) -> None:
    await _held(host)
    LockLost("told", lock=LOCK, owner="me", reason="expired")


async def _names_another(host: Host) -> None:
    await _held(host)
    host.scene.world.oracle.holders.named(host.machine, Holder(lock=LOCK, owner="him", pid=1), 0.0)


async def _says_that_nobody_has_it(host: Host) -> None:
    await host.take()
    await host.until(1.0)
    host.scene.world.oracle.holders.said(host.machine, LOCK, "nobody held it just now", {}, 1.0)


async def _lists_nothing(host: Host) -> None:
    host.scene.world.oracle.book.taken(host.machine, await _held(host))
    await host.until(5.0)
    for _ in range(SOME):
        host.scene.world.oracle.holders.listed(host.machine)


def _by(part: Callable[[Host], Coroutine[Any, Any, None]], scene: Scene) -> None:
    scene.a.plays(part)


LOOKS: Final[dict[str, Callable[[Scene], None]]] = {
    "no trouble to tell of": partial(_by, _tells_of_no_trouble),
    "nobody denied": partial(_by, _tells_of_a_denial),
    "nobody was inside": partial(_by, _tells_of_a_holder),
    "trouble to tell of": partial(_by, _tells_of_contention),
    "owned after its end": partial(_by, _goes_on),
    "waits for its end": partial(_by, _sleeps_on),
    "callback left": partial(_by, _keeps_a_callback),
    "left of a hold": partial(_by, _keeps_a_timer),
    "no loss to tell of": partial(_by, _is_told_of_a_loss),
    "wrong holder named": partial(_by, _names_another),
    "nobody held it": partial(_by, _says_that_nobody_has_it),
    "wrong holds": partial(_by, _lists_nothing),
    "another named": partial(_by, partial(_tells_at_a_renewal, owner="him")),
}
