"""Cancellation at any moment (guarantees 5 and 9): never a lease left behind, never a waiter forgotten."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from singleton.base.errors import LockNotAcquired, SingletonError, StorageUnavailable
from singleton.locking.lock import Lock, release
from tests.support.network import LOST_REPLY, Fate, Network, answered
from tests.support.steps import SteppedLoop, at_every_step
from tests.support.world import NAME, foreign_id, held, lock_on, now, occupy, section, settled, until, virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


async def quietly(coro: Coroutine[Any, Any, Any]) -> None:
    """Let it fail as it may, but not with another's cancellation swallowed."""
    with contextlib.suppress(SingletonError):
        await coro


async def still_good(network: Network, *locks: Lock) -> None:
    """All is given back, in the time that dead storage may take, and each lock can be had again."""
    network.heal()
    await settled(network.service, *locks)
    for lock in locks:
        await section(lock, timeout=8.0)
    await settled(network.service, *locks)


async def alone(loop: SteppedLoop) -> None:
    network = Network()
    lock = lock_on(network)
    victim = loop.victim(section(lock, 0.05))
    await asyncio.wait({victim})
    assert victim.cancelled() == loop.cancelled
    await still_good(network, lock)


async def with_a_time_out(loop: SteppedLoop) -> None:
    """The time is up at the same instant as the answer arrives."""
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network, fencing=False)
    victim = loop.victim(quietly(section(lock, 0.05, timeout=0.02)))
    await asyncio.wait({victim})
    await still_good(network, lock)


async def under_a_time_out_of_the_callers_own(loop: SteppedLoop) -> None:
    network = Network()
    lock = lock_on(network)

    async def impatient() -> None:
        async with asyncio.timeout(0.08):
            await section(lock, 0.05)

    async def guarded() -> None:
        with contextlib.suppress(TimeoutError):
            await impatient()

    victim = loop.victim(guarded())
    await asyncio.wait({victim})
    await still_good(network, lock)


async def in_the_middle_of_the_line(loop: SteppedLoop) -> None:
    network = Network()
    lock = lock_on(network)
    first = asyncio.create_task(section(lock, 0.2))
    await asyncio.sleep(0)
    victim = loop.victim(section(lock, 0.2))
    await asyncio.sleep(0)
    last = asyncio.create_task(section(lock, 0.2))
    await asyncio.wait({first, victim, last}, timeout=30.0)
    assert now() < 1.5, "somebody waited for nobody"
    assert first.done()
    assert last.done()
    await first
    await last
    await still_good(network, lock)


async def first_in_line_against_another_host(loop: SteppedLoop) -> None:
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    victim = loop.victim(section(lock, 0.1))
    await asyncio.sleep(0)
    behind = asyncio.create_task(section(lock, 0.1))
    loop.call_later(0.5, asyncio.ensure_future, network.service.release(NAME, foreign_id()))
    await asyncio.wait({victim, behind}, timeout=30.0)
    assert now() < 3.0
    await behind
    await still_good(network, lock)


async def while_replies_get_lost(loop: SteppedLoop) -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network)
    network.plan("acquire", LOST_REPLY, answered(executed=True))
    network.plan("write", LOST_REPLY, answered(executed=True))
    network.plan("release", answered(executed=True))
    victim = loop.victim(section(lock, 0.05))
    await asyncio.wait({victim})
    await still_good(network, lock)


async def on_slow_storage(loop: SteppedLoop) -> None:
    network = Network()
    for call in ("acquire", "create", "read", "write"):
        network.always(call, Fate(up=0.7, down=0.7))
    lock = lock_on(network)
    victim = loop.victim(quietly(section(lock, 9.0, timeout=4.0)))
    await asyncio.wait({victim})
    await still_good(network, lock)


async def at_the_end_of_a_turn(loop: SteppedLoop) -> None:
    network = Network()
    lock = lock_on(network, handoff_window=0.0, poll_max=1.0)
    first = asyncio.create_task(section(lock, 0.1))
    await asyncio.sleep(0)
    victim = loop.victim(section(lock, 0.1))
    await asyncio.sleep(0)
    last = asyncio.create_task(section(lock, 0.1))
    await asyncio.wait({first, victim, last}, timeout=30.0)
    assert now() < 4.0
    await first
    await last
    await still_good(network, lock)


async def in_a_release(loop: SteppedLoop) -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    network.plan("release", answered(503), LOST_REPLY)
    victim = loop.victim(release(hold))
    await asyncio.wait({victim})
    assert victim.cancelled() == loop.cancelled
    await settled(network.service, lock, within=6.0)
    await still_good(network, lock)


async def in_a_release_with_somebody_behind(loop: SteppedLoop) -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    behind = asyncio.create_task(section(lock, 0.1))
    await asyncio.sleep(0.01)
    victim = loop.victim(release(hold))
    await asyncio.wait({victim, behind})
    await behind
    await still_good(network, lock)


async def during_a_renewal(loop: SteppedLoop) -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    network.always("renew", Fate(up=1.0, down=1.0))
    await until(7.4)

    async def body() -> None:
        try:
            await asyncio.sleep(4.0)
        finally:
            await release(hold)

    victim = loop.victim(body())
    await asyncio.wait({victim})
    await still_good(network, lock)


SCENARIOS: list[Callable[[SteppedLoop], Coroutine[Any, Any, None]]] = [
    alone,
    with_a_time_out,
    under_a_time_out_of_the_callers_own,
    in_the_middle_of_the_line,
    first_in_line_against_another_host,
    while_replies_get_lost,
    on_slow_storage,
    at_the_end_of_a_turn,
    in_a_release,
    in_a_release_with_somebody_behind,
    during_a_renewal,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_cancellation_at_any_step_leaves_no_lease_and_forgets_no_waiter(
    scenario: Callable[[SteppedLoop], Coroutine[Any, Any, None]],
) -> None:
    assert at_every_step(scenario) > 2, "there was nothing to cancel"


@pytest.mark.parametrize("stamped", ["by others", "by this process", "never"])
@pytest.mark.parametrize("fate", [Fate(), Fate(up=0.5, down=0.5)], ids=["fast", "slow"])
def test_a_cut_of_the_task_behind_the_line_at_any_await_leaves_nothing_leased(stamped: str, fate: Fate) -> None:
    """A close cuts it, after its patience: also in the middle of a stamp."""

    async def cut(loop: SteppedLoop) -> None:
        network = Network()
        lock, other = lock_on(network), lock_on(Network(network.service), 2)
        if stamped != "never":
            await section(lock)
        if stamped == "by others":
            await section(other)
        await settled(network.service, lock, other)
        network.fail_all(fate)
        begin = lock._ensure_server

        def begun() -> None:
            lock._ensure_server = begin  # type: ignore[method-assign]
            lock._server = loop.victim(lock._serve())

        lock._ensure_server = begun  # type: ignore[method-assign]
        waiting = asyncio.create_task(lock.acquire(timeout=20.0))
        await asyncio.wait({waiting})
        if waiting.exception() is None:
            await release(waiting.result())
            await asyncio.sleep(16.0 if waiting.result().lost.reason == "closed" else 0.0)  # its lease lapses
        await asyncio.sleep(1.0)  # the last request arrives
        await still_good(network, lock, other)

    assert at_every_step(cut) > 10


@pytest.mark.parametrize("again", [1, 5])
@pytest.mark.parametrize("scenario", [alone, while_replies_get_lost, in_a_release], ids=lambda one: one.__name__)
def test_a_second_cancellation_soon_after_changes_nothing(
    scenario: Callable[[SteppedLoop], Coroutine[Any, Any, None]], again: int
) -> None:
    at_every_step(scenario, again=again)


async def closing(loop: SteppedLoop) -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network)
    running = asyncio.create_task(quietly(section(lock, 0.1)))
    waiting = asyncio.create_task(quietly(section(lock, 0.1)))
    await asyncio.sleep(0.005)
    victim = loop.victim(lock.aclose())
    await asyncio.wait({victim})
    await lock.aclose()
    await asyncio.wait({running, waiting})
    assert lock.idle
    await asyncio.sleep(16.0)
    assert network.service.leased() == {}


def test_a_cancelled_close_can_be_closed_again() -> None:
    assert at_every_step(closing) > 3


@virtual
async def test_a_hundred_cancelled_waiters_leave_the_last_one_its_place() -> None:
    network = Network()
    lock = lock_on(network)
    async with held(lock):
        gone = [asyncio.create_task(lock.acquire()) for _ in range(100)]
        stays = asyncio.create_task(section(lock))
        await asyncio.sleep(1.0)
        for one in gone:
            one.cancel()
    start = now()
    await stays
    assert now() - start < 0.1
    assert all(one.cancelled() for one in gone)


@virtual
async def test_waiters_that_leave_end_the_polling() -> None:
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    waiting = [asyncio.create_task(lock.acquire()) for _ in range(5)]
    await until(12.0)
    for one in waiting:
        one.cancel()
    await asyncio.sleep(0.1)
    assert lock.idle
    sent = len(network.requests)
    await until(50.0)
    assert len(network.requests) == sent


@virtual
async def test_a_cancelled_waiter_is_no_reason_to_refuse_another() -> None:
    network = Network()
    network.always("acquire", Fate(up=3.0))
    lock = lock_on(network)
    first = asyncio.create_task(lock.acquire())
    await asyncio.sleep(1.0)
    second = asyncio.create_task(lock.acquire(timeout=20.0))
    first.cancel()
    await release(await second)


@virtual
async def test_a_time_out_right_at_the_answer_is_one_or_the_other_and_leaves_nothing() -> None:
    for microseconds in range(-3, 4):
        network = Network()
        await network.service.create(NAME)
        lock = lock_on(network)
        with contextlib.suppress(LockNotAcquired, StorageUnavailable):
            await section(lock, timeout=0.04 + microseconds / 1e6)
        await settled(network.service, lock)
