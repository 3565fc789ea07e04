"""Situations for the checks of failover: holders that do not touch their lock as they should, waiters in a hurry."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from singleton.base.failover_mark import LEASE_KEY, MARK_KEY
from singleton.base.hold import Hold
from singleton.decorator import guards_of
from singleton.stores.protocol import StoreFailure
from singleton.stores.stamps import EPOCH_KEY
from tests.simulation.scenes import IDS, LOCK, Belief, Host, Scene
from tests.worlds import failovers

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

F: Final = 2.0


def _scene(scene: Scene) -> None:
    guards = {name: guards_of(function)[0] for name, function in failovers.failover_functions().items()}
    scene.world.oracle.callers.know(guards)
    scene.world.oracle.silence.declared = {host.machine: {F} for host in (scene.a, scene.b)}


async def _touch(host: Host, belief: Belief, mark: str = "2000/5", lease: str | None = None) -> None:
    """Touch the lock, and count on it for as long as one may."""
    etag = (await host.store.read(LOCK)).etag
    sent = host.now()
    named = {} if lease is None else {LEASE_KEY: f"5/{lease}"}
    await host.store.write(LOCK, belief.id, {EPOCH_KEY: "5", MARK_KEY: mark, **named}, etag)
    belief.deadline = sent + F * 14 / 15


def _begin(host: Host, belief: Belief) -> None:
    host.says("waiting", function="ship_2")
    host.says("body_started", function="ship_2", hold=Hold(LOCK, owner="me", lease=belief))


async def _entered_untouched(host: Host) -> None:
    _begin(host, await host.take(lasts=1.8))


async def _counts_on_a_touch(host: Host) -> None:
    belief = await host.take()
    await _touch(host, belief)
    belief.deadline += 0.1
    _begin(host, belief)


async def _wrong_touch(host: Host) -> None:
    await _touch(host, await host.take(), "3000/5")


async def _broken_too_soon(host: Host, *, wait: float, conditional: bool = True) -> None:
    await _touch(host, await host.take())
    other = host.scene.b.store
    etag = (await other.read(LOCK)).etag
    await host.until(wait)
    await other.read(LOCK)
    await other.break_(LOCK, etag if conditional else None)


async def _broken_blindly(host: Host, *, named: bool) -> None:
    """End the lease of a silent holder: without its id, which its mark names, or by an id that no mark names."""
    belief = await host.take()
    await _touch(host, belief, lease=belief.id if named else None)
    other = host.scene.b.store
    etag = (await other.read(LOCK)).etag
    await host.until(5.0)
    await other.read(LOCK)
    await (other.break_(LOCK, etag) if named else other.evict(LOCK, belief.id, etag))


async def _refuted(host: Host) -> None:
    """End a lease twice by a mark that an earlier holder left, whose lease is over."""
    await _touch(host, await host.take(), lease=IDS[1])
    other = host.scene.b.store
    for at in (5.0, 10.0):
        etag = (await other.read(LOCK)).etag
        await host.until(at)
        await other.read(LOCK)
        with suppress(StoreFailure):
            await other.evict(LOCK, IDS[1], etag)


async def _taken_from_the_living(host: Host) -> None:
    belief = await host.take()
    await _touch(host, belief)
    _begin(host, belief)
    belief.deadline += 10.0
    other = host.scene.b.store
    etag = (await other.read(LOCK)).etag
    await host.until(5.0)
    await other.read(LOCK)
    await other.break_(LOCK, etag)


def _not_taken_over(scene: Scene) -> None:
    async def dies(host: Host) -> None:
        await _touch(host, await host.take(IDS[1]))
        scene.world.crash(0)
        await host.until(1.0)

    async def waits(host: Host) -> None:
        host.says("waiting", function="ship_2")
        await host.until(20.0)

    scene.a.plays(dies)
    scene.b.plays(waits)


def _played(part: Callable[[Host], Coroutine[Any, Any, None]], scene: Scene) -> None:
    _scene(scene)
    scene.a.plays(part)


def _with(make: Callable[[Scene], None], scene: Scene) -> None:
    _scene(scene)
    make(scene)


SILENCING: Final[dict[str, Callable[[Scene], None]]] = {
    "entered untouched": partial(_played, _entered_untouched),
    "counts on a touch": partial(_played, _counts_on_a_touch),
    "wrong touch": partial(_played, _wrong_touch),
    "broken too soon": partial(_played, partial(_broken_too_soon, wait=2.0)),
    "broken blindly": partial(_played, partial(_broken_blindly, named=True)),
    "refuted stamp used": partial(_played, _refuted),
    "taken from the living": partial(_played, _taken_from_the_living),
    "not taken over": partial(_with, _not_taken_over),
}
