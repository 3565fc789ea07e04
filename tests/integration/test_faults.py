"""Leases lost for every reason there is, and renewals that fail in every way: told in time, and only when it must be.

B1 to B7, B12, B18, B22; all scenarios of this file run at once (see ``tests/support/fault_world.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from simulator.proxy.actions import Answer, Delay, DropReply, DropRequest, Hang, PassOn
from singleton import StorageUnavailable, current_hold
from tests.support.fault_world import DEADLINE, OPTIONS, PERIOD, RENEWAL, SLACK, World, run_all
from tests.support.recording_proxy import Drip, on

if TYPE_CHECKING:
    from concurrent.futures import Future

    from simulator.azurite.server import Azurite

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
AT_THE_NEXT_RENEWAL = RENEWAL + 0.5


# --- somebody takes it away -------------------------------------------------------------------------------------------


def a_stolen_lease_is_noticed_at_the_next_renewal(world: World) -> None:
    def body() -> None:
        thief.append(world.stolen())
        world.is_told("stolen", within=AT_THE_NEXT_RENEWAL)()

    thief: list[Any] = []
    world.fails_with_lock_lost(body, "stolen")
    assert world.call(pytest.fail, on_contention="skip") is None, "the thief's lease was released"
    thief[0].release()
    world.works_again()


def a_lease_that_an_operator_breaks_is_noticed_at_the_next_renewal(world: World) -> None:
    def body() -> None:
        world.broken()
        world.is_told("broken", within=AT_THE_NEXT_RENEWAL)()

    world.fails_with_lock_lost(body, "broken")
    world.works_again()


def an_async_body_is_cancelled_when_its_lease_is_broken(world: World) -> None:
    async def body() -> None:
        await asyncio.to_thread(world.broken)
        await world.is_cancelled(within=AT_THE_NEXT_RENEWAL)()

    world.fails_with_lock_lost(body, "broken")
    world.works_again()


def a_deleted_blob_is_a_lost_hold_and_is_made_anew(world: World) -> None:
    def body() -> None:
        tokens.append(current_hold().token or 0)
        world.deleted()
        world.is_told("blob gone", within=AT_THE_NEXT_RENEWAL)()

    tokens: list[int] = []
    world.fails_with_lock_lost(body, "blob gone")
    world.call(lambda: tokens.append(current_hold().token or 0))
    assert tokens == sorted(set(tokens)), "tokens increase even when the blob is made anew"


def a_deleted_container_is_a_lost_hold_and_is_made_anew(world: World) -> None:
    container = f"test-{uuid.uuid4().hex}"
    client = world.client(OPTIONS.replace(container=container))
    with client.lock("reports", owner="me", on_loss="tell") as hold:
        with contextlib.closing(world.blob()._get_container_client()) as faults:
            faults._get_blob_service_client().delete_container(container)
        world.proxy.forget()
        assert hold.lost.wait(AT_THE_NEXT_RENEWAL + SLACK)
        assert hold.lost.reason == "blob gone"
    assert "release" not in world.proxy.operations()
    with client.lock("reports", timeout=60):
        pass


def a_body_that_swallows_its_cancellation_fails_all_the_same(world: World) -> None:
    async def body() -> str:
        await asyncio.to_thread(world.broken)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return "done"

    world.fails_with_lock_lost(body, "broken")


# --- renewals that fail --------------------------------------------------------------------------------------------


def expires(world: World, *, asynchronous: bool = False) -> None:
    """Check that the hold is lost at its deadline, not earlier, and that nobody has the lock until the margin is over.

    The body goes on until then, as a thread that can't be stopped does.
    """
    told: list[float] = []
    rival: list[Future[float]] = []

    def begin() -> None:
        current_hold().lost.add_callback(lambda _: told.append(time.monotonic()))
        rival.append(world.rival())

    def body() -> None:
        begin()
        world.is_told("expired", within=DEADLINE, earliest=DEADLINE)()
        rival[0].result(PERIOD)

    async def async_body() -> None:
        begin()
        try:
            await world.is_cancelled(within=DEADLINE, earliest=DEADLINE)()
        finally:
            await asyncio.to_thread(rival[0].result, PERIOD)

    world.fails_with_lock_lost(async_body if asynchronous else body, "expired")
    assert 0 < rival[0].result(PERIOD) - told[0] < 1 + 0.5 + SLACK


def renewals_that_hang_lose_the_hold_at_its_deadline(world: World) -> None:
    with world.proxy.fault(on("renew"), Hang()):
        expires(world)
    world.works_again()


def renewals_that_are_carried_out_without_an_answer_lose_the_hold_too(world: World) -> None:
    with world.proxy.fault(on("renew"), Hang(forward=True)):
        world.fails_with_lock_lost(world.is_told("expired", within=DEADLINE, earliest=DEADLINE), "expired")
    world.works_again()


def renewals_that_hang_cancel_an_async_body_at_its_deadline(world: World) -> None:
    with world.proxy.fault(on("renew"), Hang()):
        expires(world, asynchronous=True)


def renewals_whose_answer_drips_in_lose_the_hold_at_its_deadline(world: World) -> None:
    with world.proxy.fault(on("renew"), Drip(interval=0.5)):
        world.fails_with_lock_lost(world.is_told("expired", within=DEADLINE, earliest=DEADLINE), "expired")


def renewals_that_answer_500_lose_the_hold_at_its_deadline(world: World) -> None:
    with world.proxy.fault(on("renew"), Answer(500, "InternalError")):
        expires(world)
    assert world.proxy.count(on("renew")) >= 4, "it is asked again, faster and faster"


def renewals_that_answer_503_and_to_wait_a_minute_lose_the_hold_at_its_deadline(world: World) -> None:
    with world.proxy.fault(on("renew"), Answer(503, "ServerBusy", {"Retry-After": "60"})):
        expires(world)
    assert world.proxy.count(on("renew")) >= 2, "there is a last try"


def renewals_that_answer_429_lose_the_hold_at_its_deadline(world: World) -> None:
    with world.proxy.fault(on("renew"), Answer(429, "TooManyRequests")):
        expires(world, asynchronous=True)


def renewals_that_answer_403_lose_the_hold_at_its_deadline(world: World) -> None:
    """A role assignment that is taken away says nothing of the lease: it is ours until it lapses."""
    with world.proxy.fault(on("renew"), Answer(403, "AuthorizationFailure")):
        expires(world)


def renewals_that_are_reset_lose_the_hold_at_its_deadline(world: World) -> None:
    with world.proxy.fault(on("renew"), DropRequest()):
        expires(world, asynchronous=True)


def trouble_that_ends_in_time_costs_nothing(world: World) -> None:
    """Some seconds of each kind, one after the other, while the hold lasts for two leases."""
    renew = on("renew")
    world.proxy.add(renew, Answer(500, "InternalError"), uses=1)
    world.proxy.add(renew, Answer(503, "ServerBusy", {"Retry-After": "1"}), uses=1)
    world.proxy.add(renew, DropReply(), uses=1)
    world.proxy.add(renew, PassOn(), uses=1)
    world.proxy.add(renew, Answer(429, "TooManyRequests"), uses=1)
    world.proxy.add(renew, Answer(403, "AuthorizationFailure"), uses=1)
    world.proxy.add(renew, Hang(), uses=1)
    rival = world.rival()
    rival.result(5 + SLACK)
    contender: list[Future[float]] = []
    ended: list[float] = []

    def body() -> None:
        contender.append(world.rival())
        world.stays_held(2 * PERIOD)()
        ended.append(time.monotonic())

    world.call(body)
    assert contender[0].result(10 + SLACK) >= ended[0]
    assert world.proxy.operations()[-1] == "release"


def a_slow_network_costs_nothing(world: World) -> None:
    with world.proxy.fault(on("renew"), Delay(2.0)):
        world.call(world.stays_held(PERIOD + 2))


def a_partition_that_heals_in_time_costs_nothing(world: World) -> None:
    def body() -> None:
        time.sleep(RENEWAL - 1)
        with world.proxy.fault(lambda _: True, Hang()):
            time.sleep(4)
        world.stays_held(PERIOD - 3)()

    world.call(body)


def a_partition_that_does_not_loses_the_hold_and_the_process_lives_on(world: World) -> None:
    renewals = world.proxy.add(on("renew"), Hang())
    expires(world)
    world.proxy.remove(renewals)
    partition = world.proxy.add(lambda _: True, Hang())
    with pytest.raises(StorageUnavailable):
        world.call(pytest.fail, timeout=0.5)
    world.proxy.remove(partition)
    world.works_again()


# --- the worker's own trouble -----------------------------------------------------------------------------------------


def a_body_that_blocks_its_event_loop_starves_no_renewal(world: World) -> None:
    async def body() -> None:
        time.sleep(PERIOD + 5)  # noqa: ASYNC251 - that is what it is about
        assert not current_hold().lost.is_set()

    contender = world.later(lambda: world.rival().result(60), after=2)
    world.call(body)
    assert world.proxy.count(on("renew")) >= 2
    contender.result(60)


def a_cancellation_from_outside_goes_through_storage_that_hangs(world: World) -> None:
    async def body() -> None:
        world.proxy.add(on("release"), Hang())
        inside.set()
        await asyncio.sleep(60)

    async def cancel_it() -> None:
        from singleton import singleton

        job = singleton(scope_id=world._scope, connection=world._setting)(body)
        task = asyncio.create_task(job())
        await inside.wait()
        start = time.monotonic()
        task.cancel("from outside")
        with pytest.raises(asyncio.CancelledError, match="from outside"):
            await task
        assert time.monotonic() - start < 5 + SLACK

    inside = asyncio.Event()
    asyncio.run(cancel_it())


SCENARIOS = [
    value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__annotations__", {}).get("world") == "World" and name != "expires"
]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, azurite: Azurite, tmp_path_factory: Any) -> dict[str, Future[None]]:
    chosen = [item.callspec.params["scenario"] for item in request.session.items if item.module is request.module]  # type: ignore[attr-defined]
    return run_all(chosen, azurite, tmp_path_factory.mktemp("app"))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_that(scenario: Any, outcomes: dict[str, Future[None]]) -> None:
    outcomes[scenario.__name__].result()
