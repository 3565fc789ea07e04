"""Situations for the checks of the workload ``nested``: what they must not overlook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from singleton.base.hold import Hold, shown_hold
from tests.worlds.nested import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.simulation.scenes import Host, Scene


def _entered(host: Host) -> tuple[Work, Hold]:
    """Return a call in its outer layer, and the hold of the layer."""
    work, outer = Work(host.scene.world, host.machine, "call", 1.0), Hold("outer")
    shown_hold.set(outer)
    work.enter()
    shown_hold.set(Hold("inner"))
    return work, outer


async def _begun(host: Host) -> None:
    work, outer = _entered(host)
    outer.lost.fire("expired")
    work.begin()


async def _not_told(host: Host) -> None:
    work, outer = _entered(host)
    work.begin()
    outer.lost.fire("expired")
    work.end()


async def _waits(host: Host) -> None:
    work, outer = _entered(host)
    outer.lost.fire("expired")
    await host.until(20.0)
    work.refused()


async def _waits_on(host: Host) -> None:
    work = Work(host.scene.world, host.machine, "call", 1.0, since=0.0)
    await host.until(20.0)
    work.refused()


def _plays(part: Callable[[Host], Coroutine[object, object, None]]) -> Callable[[Scene], None]:
    return lambda scene: scene.a.plays(part)


NESTED: Final[dict[str, Callable[[Scene], None]]] = {
    "begun under a loss": _plays(_begun),
    "not told of a loss": _plays(_not_told),
    "waits under a loss": _plays(_waits),
    "waits past its limit": _plays(_waits_on),
}
