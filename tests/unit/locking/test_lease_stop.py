"""Stopping a lease ends all that it started (B22): its renewals are over and its timer gone before it is given back."""

from __future__ import annotations

import asyncio

from singleton.locking.lease import Lease
from singleton.locking.lock import release
from tests.support.network import Network
from tests.support.world import NAME, foreign_id, lock_on, now, pending_timers, until, virtual


class SlowToStop(Network):
    """A store whose renewals, once cancelled, take two seconds to clean up, as a client that closes a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[float] = []

    async def renew(self, name: str, lease_id: str) -> str:
        try:
            await asyncio.sleep(3.0)
            return await super().renew(name, lease_id)
        finally:
            await asyncio.sleep(2.0)
            self.done.append(now())


@virtual
async def test_the_lease_is_given_back_only_when_a_renewal_that_is_slow_to_stop_has_stopped() -> None:
    network = SlowToStop()
    hold = await lock_on(network).acquire()
    await until(8.5)  # a renewal has been under way since 7.5
    await release(hold)
    assert network.done == [10.5]
    assert network.sent("release")[0].sent >= network.done[0]
    assert network.service.leased() == {}


@virtual
async def test_a_lease_that_was_stopped_leaves_no_timer_behind() -> None:
    network = Network()
    await network.service.create(NAME)
    await network.acquire(NAME, foreign_id(1), 15)
    lease = Lease(network, NAME, foreign_id(1), sent=now(), period=15.0)
    await asyncio.sleep(0)
    await lease.stop()
    assert pending_timers() == []
    await asyncio.sleep(7.5)
    assert network.sent("renew") == []
