"""What is logged of a lock, and what a renewal that is cancelled by its store does (W-68, W-71 to W-75)."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING

from singleton.locking.lease import Lease
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import InlineHost
from tests.support.network import FINE, Network, answered, raising
from tests.support.world import NAME, foreign_id, now, until, virtual

if TYPE_CHECKING:
    import pytest


@virtual
async def test_a_normal_cycle_logs_two_lines_one_when_acquired_and_one_when_released() -> None:
    """W-68: both for debugging, both with the name of the lock; renewals say nothing."""
    said: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = said.append  # type: ignore[assignment,method-assign]
    log = logging.getLogger("singleton")
    log.addHandler(handler)
    level = log.level
    log.setLevel(logging.DEBUG)
    try:
        host = InlineHost(MemoryLeaseStore())
        with host.here() as locks:
            async with locks.lock("job"):
                await asyncio.sleep(100.0)
                assert [each.getMessage() for each in said] == ["lock job: acquired"]
            async with locks.semaphore("reports", 2):
                pass
    finally:
        log.setLevel(level)
        log.removeHandler(handler)
    lines = ["lock job: acquired", "lock job: released"]
    slot = re.sub(r"\D", "", said[2].getMessage())
    slots = [f"lock reports/slot-{slot}: acquired", f"lock reports/slot-{slot}: released"]
    assert [each.getMessage() for each in said] == lines + slots
    assert {each.levelno for each in said} == {logging.DEBUG}


async def taken(network: Network) -> Lease:
    await network.service.create(NAME)
    await network.service.acquire(NAME, foreign_id(1), 15)
    return Lease(network, NAME, foreign_id(1), sent=now(), period=15.0)


@virtual
async def _lose(network: Network) -> None:
    lease = await taken(network)
    await until(20.0)
    await lease.stop()


def test_a_loss_is_told_with_all_that_is_known_of_it(caplog: pytest.LogCaptureFixture) -> None:
    """W-73: the lock, status and code, the lease's length, and when it was last granted."""
    network = Network()
    network.plan("renew", FINE, answered(409, "LeaseIdMismatchWithLeaseOperation"))
    _lose(network)
    (line,) = [each.getMessage() for each in caplog.records]
    assert re.fullmatch(
        rf"lock {NAME}: hold lost \(stolen\): 409 LeaseIdMismatchWithLeaseOperation; "
        r"its lease of 15 s was last granted 7\.5 s ago",
        line,
    )


@virtual
async def test_a_renewal_that_its_store_cancels_is_one_that_failed_and_is_asked_again() -> None:
    """W-75: it neither ends the renewals nor loses the hold."""
    network = Network()
    lease = await taken(network)
    network.plan("renew", raising(asyncio.CancelledError()), raising(asyncio.CancelledError("within")))
    await until(60.0)
    assert lease.alive()
    assert network.calls().count("renew") > 6
    await lease.stop()


@virtual
async def test_a_renewal_that_is_cancelled_from_outside_ends() -> None:
    network = Network()
    lease = await taken(network)
    await until(7.505)  # its first renewal is under way
    renewal = lease.task
    assert renewal is not None
    renewal.cancel()
    await asyncio.wait({renewal})
    assert renewal.cancelled()
    await until(60.0)
    assert lease.lost == "expired"
    await lease.stop()
