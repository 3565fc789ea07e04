"""The looks that every workload takes find nothing where all is true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from singleton.base.errors import LockNotAcquired, StorageUnavailable
from singleton.base.holder_record import Holder
from singleton.locking.section import Section
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


@pytest.mark.parametrize(("released", "found"), [(17.0, set()), (27.0, {"nobody took it"})])
def test_whose_release_failed_lets_others_have_their_turn_after_its_lease(released: float, found: set[str]) -> None:
    scene = Scene()

    async def lapses(host: Host) -> None:
        await host.take()
        await host.until(1.0)
        host.says("waiting", "me")

    async def takes(host: Host) -> None:
        await host.until(16.0)
        belief = await host.take(IDS[1])
        await host.until(released)
        await host.store.release(LOCK, belief.id)

    scene.a.plays(lapses)
    scene.b.plays(takes)
    assert set(scene.found()) & {"nobody took it"} == found


@pytest.mark.parametrize(("heard", "found"), [(1.0, {"wrong holder named"}), (10.0, set())])
def test_a_blob_names_its_last_holder_until_the_next_one_hears_of_its_lease(heard: float, found: set[str]) -> None:
    scene = Scene()

    async def takes(host: Host) -> None:
        lease: Any = await host.take()
        await host.until(heard)
        scene.world.oracle.ends.begun(host.machine, Section(LOCK, "me", 1, lease, None))

    async def reads(host: Host) -> None:
        await host.until(11.0)
        scene.world.oracle.holders.named(host.machine, Holder(lock=LOCK, owner="him", renewed=True), 8.0)

    scene.a.plays(takes)
    scene.b.plays(reads)
    assert set(scene.found()) & {"wrong holder named"} == found
