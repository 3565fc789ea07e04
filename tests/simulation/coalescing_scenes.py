"""Situations for the checks of the workload ``coalesce``: what they must not overlook."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from simulator.virtual.workloads.coalescing import CoalescingJudge
from singleton.locking.seat import seat_name
from singleton.stores.protocol import StoreFailure
from tests.simulation.scenes import IDS, LOCK, PERIOD

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.simulation.scenes import Host, Scene

_INVOCATION: Final = "host-0/m1/1"


async def _for_nobody(host: Host) -> None:
    _judge(host)
    host.says("waiting", _INVOCATION)
    host.says("coalesced", _INVOCATION)


async def _without_its_body(host: Host) -> None:
    _judge(host).succeeded(_INVOCATION)


async def _at_a_high_price(host: Host) -> None:
    _judge(host)
    host.says("waiting", _INVOCATION)
    for _ in range(4):
        with suppress(StoreFailure):
            await host.store.acquire(LOCK, IDS[0], PERIOD)
    host.says("coalesced", _INVOCATION)


async def _by_half(host: Host) -> None:
    judge = _judge(host)
    judge._waited.clear()
    host.says("waiting", _INVOCATION)
    host.says("coalesced", _INVOCATION)


def _judge(host: Host) -> CoalescingJudge:
    """Return a judge who knows that somebody waits on the seat."""
    judge = CoalescingJudge(host.scene.world, poll=5.0)
    judge._waited[seat_name(LOCK)] = math.inf
    return judge


def _plays(part: Callable[[Host], Coroutine[object, object, None]]) -> Callable[[Scene], None]:
    return lambda scene: scene.a.plays(part)


COALESCING: Final[dict[str, Callable[[Scene], None]]] = {
    "left for nobody": _plays(_for_nobody),
    "left by half": _plays(_by_half),
    "ended without its body": _plays(_without_its_body),
    "left at a high price": _plays(_at_a_high_price),
}
