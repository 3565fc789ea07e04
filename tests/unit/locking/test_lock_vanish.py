"""A lock's blob or container that vanishes, at any moment: it is made again, or waited for (B18)."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.network import Fate, Network, answered
from tests.support.world import NAME, lock_on, now, section, settled, virtual


async def break_it(network: Network) -> None:
    await network.service.break_(NAME)


async def delete(network: Network) -> None:
    network.service.delete(NAME)


async def delete_and_make_again(network: Network) -> None:
    network.service.delete(NAME)
    await network.service.create(NAME)


@pytest.mark.parametrize("harm", [delete, delete_and_make_again, break_it])
@virtual
async def test_the_blob_may_vanish_at_any_moment_of_an_acquisition(harm: object) -> None:
    """B18: it is made again, and nobody ends up with two tokens in the wrong order."""
    for step in range(1, 30):
        network = Network()
        lock = lock_on(network)
        await asyncio.sleep(2.0)
        first = await section(lock)
        await asyncio.sleep(2.0)
        running = asyncio.create_task(section(lock, 1.0))
        await asyncio.sleep(step * 0.005)
        if harm is delete:
            network.service.delete(NAME)
        elif harm is delete_and_make_again:
            await delete_and_make_again(network)
        elif network.service.leased():
            await break_it(network)
        hold = await running
        assert first.token is not None
        assert hold.token is not None
        assert hold.token > first.token
        await settled(network.service, lock)


@pytest.mark.parametrize("call", ["acquire", "create", "read", "write"])
@pytest.mark.parametrize(
    "fate",
    [
        answered(404, "ContainerNotFound"),
        answered(404, "BlobNotFound"),
        answered(409, "ContainerBeingDeleted"),
        answered(412, "LeaseNotPresentWithBlobOperation"),
        answered(412, "LeaseIdMismatchWithBlobOperation"),
        answered(412, "LeaseLost"),
    ],
    ids=lambda fate: str(fate.failure),
)
@virtual
async def test_a_blob_or_container_that_is_gone_for_half_a_minute_is_waited_for(call: str, fate: Fate) -> None:
    network = Network()
    if call in ("read", "write"):  # a blob that is not ours
        await network.service.create(NAME)
    lock = lock_on(network)
    network.always(call, fate)
    waiting = asyncio.create_task(section(lock))
    await asyncio.sleep(30.0)
    assert not waiting.done()
    network.heal()
    await waiting
    assert now() < 36.0
    await settled(network.service, lock)
