"""The looks that every workload takes find nothing where all is true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from singleton.base.errors import LockNotAcquired, StorageUnavailable
from tests.simulation.looking import told, wait_of
from tests.simulation.scenes import IDS, LOCK, PERIOD, Scene

if TYPE_CHECKING:
    from tests.simulation.scenes import Host


def test_an_error_that_is_true_is_no_finding() -> None:
    scene = Scene()

    async def part(host: Host) -> None:
        belief = await host.take()
        refused, alone = wait_of(host, timeout=5.0), wait_of(host, timeout=0.0)
        await host.until(3.0)
        told(host, alone, LockNotAcquired)
        await host.store.release(LOCK, belief.id)
        told(host, refused, LockNotAcquired)
        scene.world.network.rules.append(lambda _, passage: setattr(passage, "lost", True))
        waiting = wait_of(host)
        host.store.request("acquire", LOCK, (IDS[1], PERIOD), IDS[1])
        await host.until(70.0)
        told(host, waiting, StorageUnavailable)

    scene.a.plays(part)
    assert scene.found() == {}


def test_who_comes_later_may_get_the_answer_to_the_last_request_of_its_process() -> None:
    scene = Scene()

    async def part(host: Host) -> None:
        belief = await host.take()
        first = wait_of(host)
        await host.until(3.0)
        await host.store.release(LOCK, belief.id)
        await host.until(6.0)
        told(host, wait_of(host, timeout=0.0), LockNotAcquired)
        told(host, first, StorageUnavailable)

    scene.a.plays(part)
    assert set(scene.found()) == {"no trouble to tell of"}
