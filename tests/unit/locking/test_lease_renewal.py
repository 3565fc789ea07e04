"""Gone is not unknown (guarantee 3): what each answer to a renewal does to a lease."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import TYPE_CHECKING

import pytest

from singleton.locking.lease import Lease
from singleton.stores.protocol import StoreFailure
from tests.support.network import FINE, LOST_REQUEST, Fate, Network, answered, raising
from tests.support.world import NAME, foreign_id, now, until, virtual, virtual_loop

if TYPE_CHECKING:
    from singleton.base.kinds import LossReason

MINE = foreign_id(1)

UNKNOWN = {
    "500": answered(500, "InternalError"),
    "500 time-out": answered(500, "OperationTimedOut"),
    "502 without a code": answered(502),
    "503": answered(503, "ServerBusy"),
    "504": answered(504),
    "429": answered(429, "TooManyRequests"),
    "408": answered(408),
    "401": answered(401, "NoAuthenticationInformation"),
    "403": answered(403, "AuthorizationFailure"),
    "400": answered(400, "InvalidHeaderValue"),
    "403 without a code": answered(403),
    "404 without a code": answered(404),
    "409 without a code": answered(409),
    "412 without a code": answered(412),
    "connection": answered(),
    "carried out, connection gone": answered(executed=True),
    "no answer": LOST_REQUEST,
    "a bug in the store": raising(ValueError("what?")),
}
DEFINITIVE: dict[str, tuple[int, LossReason]] = {
    "LeaseIdMismatchWithLeaseOperation": (409, "stolen"),
    "LeaseIdMismatchWithBlobOperation": (412, "stolen"),
    "LeaseIsBrokenAndCannotBeRenewed": (409, "broken"),
    "LeaseIsBreakingAndCannotBeChanged": (409, "broken"),
    "LeaseLost": (409, "expired"),
    "LeaseNotPresentWithLeaseOperation": (409, "expired"),
    "LeaseNotPresentWithBlobOperation": (412, "expired"),
    "BlobNotFound": (404, "blob gone"),
    "ContainerNotFound": (404, "blob gone"),
    "ResourceNotFound": (404, "blob gone"),
    "ContainerBeingDeleted": (409, "blob gone"),
    "BlobBeingDeleted": (409, "blob gone"),
}


async def take(network: Network, period: float = 15.0) -> Lease:
    """Acquire without the network's delays: the lease is of time 0."""
    await network.service.create(NAME)
    await network.service.acquire(NAME, MINE, round(period))
    return Lease(network, NAME, MINE, sent=now(), period=period)


@virtual
async def test_the_first_renewal_is_sent_at_half_the_period_and_so_is_each_after_a_success() -> None:
    network = Network()
    lease = await take(network)
    await until(40.0)
    assert [request.sent for request in network.requests] == pytest.approx([7.5, 15.0, 22.5, 30.0, 37.5])
    await lease.stop()


@pytest.mark.parametrize("fate", UNKNOWN.values(), ids=UNKNOWN)
@virtual
async def test_an_answer_that_says_nothing_about_the_lease_is_asked_again_and_survived(fate: Fate) -> None:
    network = Network()
    lease = await take(network)
    network.always("renew", fate)
    await until(13.0)
    network.heal()
    await until(60.0)
    assert lease.lost is None
    assert lease.alive()
    await lease.stop()


@pytest.mark.parametrize("fate", UNKNOWN.values(), ids=UNKNOWN)
@virtual
async def test_an_answer_that_says_nothing_loses_the_lease_exactly_at_its_deadline(fate: Fate) -> None:
    network = Network()
    lease = await take(network)
    lost: list[tuple[LossReason, float]] = []
    lease.when_lost = lambda reason: lost.append((reason, now()))
    await until(20.0)
    network.always("renew", fate)
    deadline = lease.deadline
    await until(60.0)
    assert deadline == pytest.approx(15.0 + 14.0)
    assert lost == [("expired", deadline)]
    assert isinstance(lease.cause, StoreFailure), "the last error is not kept"
    await lease.stop()


@pytest.mark.parametrize("code", DEFINITIVE)
@virtual
async def test_a_definitive_answer_loses_the_lease_at_once_and_says_why(code: str) -> None:
    status, reason = DEFINITIVE[code]
    network = Network()
    lease = await take(network)
    lost: list[tuple[LossReason, float]] = []
    lease.when_lost = lambda why: lost.append((why, now()))
    network.plan("renew", answered(status, code))
    await until(60.0)
    ((why, when),) = lost
    assert why == reason
    assert when == pytest.approx(7.5, abs=0.03)
    assert lease.cause is not None
    assert lease.cause.code == code
    assert len(network.requests) == 1, "asked again for what is gone"
    await lease.stop()


@virtual
async def test_a_definitive_answer_during_an_outage_loses_the_lease_at_once() -> None:
    network = Network()
    lease = await take(network)
    network.plan("renew", answered(500), answered(503), answered(409, "LeaseIdMismatchWithLeaseOperation"))
    await until(12.0)
    assert lease.lost == "stolen"
    await lease.stop()


@virtual
async def test_a_renewal_answered_for_another_lease_id_means_stolen() -> None:
    """Azurite renews an expired lease for anybody, and tells whose it was (A-1)."""

    class Confused(Network):
        async def renew(self, name: str, lease_id: str) -> str:
            await super().renew(name, lease_id)
            return foreign_id(99)

    network = Confused()
    lease = await take(network)
    await until(8.0)
    assert lease.lost == "stolen"
    await until(40.0)
    assert len(network.requests) == 1
    await lease.stop()


@virtual
async def test_an_outage_is_met_with_renewals_faster_and_faster_but_not_under_a_second() -> None:
    network = Network()
    lease = await take(network, 60.0)
    network.always("renew", answered(500))
    await until(60.0)
    sent = [request.sent for request in network.requests]
    gaps = [later - earlier for earlier, later in itertools.pairwise(sent)]
    assert len(sent) >= 8
    assert gaps == sorted(gaps, reverse=True)
    assert min(gaps) >= 1.0
    assert lease.deadline - sent[-1] < 1.5, "no try shortly before the deadline"
    await lease.stop()


@virtual
async def test_an_outage_in_which_requests_hang_is_met_with_several_tries_too() -> None:
    network = Network()
    lease = await take(network)
    network.always("renew", LOST_REQUEST)
    await until(30.0)
    assert len(network.requests) >= 4
    await lease.stop()


@pytest.mark.parametrize("retry_after", [0.0, 2.0, 4.0, 6.0])
@virtual
async def test_retry_after_is_honoured(retry_after: float) -> None:
    network = Network()
    lease = await take(network)
    network.plan("renew", answered(503, "ServerBusy", retry_after=retry_after))
    await until(30.0)
    first, second = (request.sent for request in network.requests[:2])
    assert second - first >= retry_after
    assert second - first <= max(retry_after, 2.0) + 0.1
    assert lease.lost is None
    await lease.stop()


@pytest.mark.parametrize("retry_after", [6.4, 7.0, 30.0, 86400.0, 1e300])
@virtual
async def test_retry_after_never_costs_the_last_try_before_the_deadline(retry_after: float) -> None:
    network = Network()
    lease = await take(network)
    network.plan("renew", answered(503, "ServerBusy", retry_after=retry_after))
    await until(30.0)
    second = network.requests[1].sent
    assert 13.0 <= second < 14.0
    assert lease.lost is None
    assert lease.alive()
    await lease.stop()


@virtual
async def test_after_an_outage_renewals_go_back_to_half_the_period() -> None:
    network = Network()
    lease = await take(network)
    network.plan("renew", answered(500), answered(500), FINE)
    await until(40.0)
    *_, before, last = (request.sent for request in network.requests)
    assert last - before == pytest.approx(7.5)
    assert lease.cause is None, "an old error would explain a new loss"
    await lease.stop()


@virtual
async def test_nothing_revives_a_lost_lease_and_a_second_loss_is_not_told() -> None:
    network = Network()
    lease = await take(network)
    told: list[LossReason] = []
    lease.when_lost = told.append
    lease.lose("broken")
    lease.lose("stolen")
    await until(40.0)
    assert told == ["broken"]
    assert lease.lost == "broken"
    assert network.requests == []
    await lease.stop()


@virtual
async def test_a_lease_lost_while_its_renewal_is_under_way_stays_lost() -> None:
    network = Network()
    lease = await take(network)
    network.plan("renew", Fate(up=0.5, down=0.5))
    await until(8.0)
    deadline = lease.deadline
    lease.lose("closed")
    await until(10.0)
    assert lease.lost == "closed"
    assert lease.deadline == deadline
    await lease.stop()


@virtual
async def test_stop_joins_a_renewal_that_is_under_way_and_none_follows() -> None:
    network = Network()
    lease = await take(network)
    network.always("renew", LOST_REQUEST)
    await until(8.0)
    await lease.stop()
    assert now() == pytest.approx(8.0), "waited for a request that hangs"
    await until(60.0)
    assert len(network.requests) == 1
    assert lease.lost is None, "a lease that was stopped is given back, not lost"


@virtual
async def test_a_stopped_lease_can_be_stopped_again_and_not_be_lost() -> None:
    lease = await take(Network())
    await lease.stop()
    await lease.stop()
    lease.lose("stolen")
    assert lease.lost is None


@virtual
async def test_stopping_is_bounded_when_the_renewal_was_just_about_to_start() -> None:
    for steps in range(6):
        network = Network()
        start = now()
        lease = await take(network)
        await until(start + 7.5)
        for _ in range(steps):
            await asyncio.sleep(0)
        await lease.stop()
        sent = len(network.requests)
        await asyncio.sleep(30.0)
        assert len(network.requests) == sent


def test_an_outage_is_one_warning_and_a_loss_another(caplog: pytest.LogCaptureFixture) -> None:
    @virtual
    async def outage() -> None:
        network = Network()
        lease = await take(network)
        network.always("renew", answered(500, "InternalError"))
        await until(40.0)
        await lease.stop()

    with caplog.at_level(logging.DEBUG, logger="singleton"):
        outage()
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 2
    assert "trying again" in warnings[0]
    assert "hold lost (expired)" in warnings[1]
    assert "InternalError" in warnings[1]
    assert all(NAME in text for text in warnings)


class Stubborn(Network):
    """A store that answers although it was cut off."""

    async def renew(self, name: str, lease_id: str) -> str:
        try:
            return await super().renew(name, lease_id)
        except asyncio.CancelledError:
            return await self.service.renew(name, lease_id)


@pytest.mark.parametrize("kind", [Network, Stubborn])
@virtual
async def test_a_renewal_that_was_cut_off_leaves_nothing_behind_that_cuts_off_another(kind: type[Network]) -> None:
    network = kind()
    lease = await take(network)
    wrote: list[float] = []

    async def write(*_: object) -> None:
        await asyncio.sleep(2.0)
        wrote.append(now())

    lease.when_renewed = write
    network.plan("renew", LOST_REQUEST)
    network.plan("renew", LOST_REQUEST)
    await until(60.0)
    assert lease.alive()
    assert len(wrote) == 1
    await asyncio.wait_for(lease.stop(), 1.0)
    assert lease.lost is None


@virtual
async def test_a_stop_that_meets_a_renewal_as_it_is_cut_off_joins_it() -> None:
    network = Network()
    lease = await take(network)
    network.plan("renew", LOST_REQUEST)
    await until(7.6)
    task = lease.task
    assert task is not None
    ends = network.sent("renew")[0].sent + 3.25
    virtual_loop().call_at(ends, task.cancel)  # as the stop does; it comes right after the time-out of the request
    await until(ends)
    await lease.stop()
    assert task.cancelled()
    assert lease.lost is None
