"""A hold as its body sees it (guarantee 4): the loss signal, from coroutines and from threads."""

from __future__ import annotations

import asyncio
import logging
import pickle
import threading
import time
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from singleton.base.errors import LockLost
from singleton.base.hold import Hold, LossSignal
from singleton.base.kinds import LossReason
from singleton.locking.lock import release
from tests.support.network import LOST_REQUEST, Network
from tests.support.virtual import run_virtual
from tests.support.world import NAME, lock_on, now, section, until, virtual, virtual_loop

REASONS: tuple[LossReason, ...] = get_args(LossReason)


def test_a_good_hold_says_so() -> None:
    hold = Hold("a", owner="me", token=7)
    assert not hold.lost.is_set()
    assert hold.lost.reason is None
    hold.raise_if_lost()
    assert repr(hold) == "<Hold 'a' token 7 held>"


@pytest.mark.parametrize("reason", REASONS)
def test_a_lost_hold_says_so_with_its_reason(reason: LossReason) -> None:
    hold = Hold("a", owner="me", token=7)
    hold.lost.fire(reason)
    assert hold.lost.is_set()
    assert hold.lost.reason == reason
    assert repr(hold) == f"<Hold 'a' token 7 lost: {reason}>"
    with pytest.raises(LockLost, match=reason) as caught:
        hold.raise_if_lost()
    assert (caught.value.lock, caught.value.owner, caught.value.reason) == ("a", "me", reason)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert (str(again), again.lock, again.owner, again.reason) == (str(caught.value), "a", "me", reason)


def test_only_the_first_loss_counts() -> None:
    hold = Hold("a")
    told: list[LossReason] = []
    hold.lost.add_callback(told.append)
    hold.lost.fire("broken")
    hold.lost.fire("expired")
    assert told == ["broken"]
    assert hold.lost.reason == "broken"


def test_a_callback_added_after_the_loss_is_called_at_once() -> None:
    hold = Hold("a")
    hold.lost.fire("stolen")
    told: list[LossReason] = []
    hold.lost.add_callback(told.append)
    assert told == ["stolen"]


def test_a_callback_that_was_taken_back_is_not_called() -> None:
    hold = Hold("a")
    told: list[LossReason] = []
    remove = hold.lost.add_callback(told.append)
    remove()
    remove()
    hold.lost.fire("stolen")
    remove()
    assert told == []


def test_a_callback_that_raises_is_logged_and_keeps_nobody_from_knowing(caplog: pytest.LogCaptureFixture) -> None:
    hold = Hold("a")
    told: list[LossReason] = []

    def bad(_: LossReason) -> None:
        raise RuntimeError("oh")

    hold.lost.add_callback(bad)
    hold.lost.add_callback(told.append)
    with caplog.at_level(logging.ERROR, logger="singleton"):
        hold.lost.fire("stolen")
        hold.lost.add_callback(bad)
    assert told == ["stolen"]
    assert len(caplog.records) == 2


def test_a_callback_may_take_itself_back_or_add_another() -> None:
    hold = Hold("a")
    told: list[str] = []

    def first(_: LossReason) -> None:
        remove()
        hold.lost.add_callback(lambda reason: told.append(f"second {reason}"))
        told.append("first")

    remove = hold.lost.add_callback(first)
    hold.lost.fire("broken")
    assert told == ["second broken", "first"]


def test_a_thread_waits_for_the_loss() -> None:
    hold = Hold("a")
    seen: list[bool] = []
    waiting = threading.Thread(target=lambda: seen.append(hold.lost.wait(10.0)))
    waiting.start()
    hold.lost.fire("stolen")
    waiting.join(60)
    assert seen == [True]
    assert hold.lost.wait(0.0)


def test_a_thread_that_waits_in_vain_is_told_so_and_leaves_nothing() -> None:
    hold = Hold("a")
    start = time.monotonic()
    assert not hold.lost.wait(0.01)
    assert time.monotonic() - start < 60.0
    assert hold.lost._callbacks == []


def test_a_wait_may_be_longer_than_a_thread_can_wait() -> None:
    hold = Hold("a")
    seen: list[bool] = []
    waiting = threading.Thread(target=lambda: seen.append(hold.lost.wait(10_675_199 * 86_400.0)))
    waiting.start()
    time.sleep(0.02)
    hold.lost.fire("stolen")
    waiting.join(60)
    assert seen == [True]


def test_many_threads_see_one_loss() -> None:
    for _ in range(20):
        hold = Hold("a")
        told: list[LossReason] = []
        threads = [threading.Thread(target=hold.lost.fire, args=(reason,)) for reason in REASONS]
        threads += [threading.Thread(target=hold.lost.add_callback, args=(told.append,)) for _ in range(5)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert told == [hold.lost.reason] * 5


def test_a_coroutine_on_another_loop_is_woken_from_the_lock_thread() -> None:
    hold = Hold("a")

    async def body() -> LossReason | None:
        threading.Thread(target=hold.lost.fire, args=("stolen",)).start()
        return await asyncio.wait_for(_wait_for(hold), 10.0)

    assert asyncio.run(body()) == "stolen"


def test_a_loop_that_is_gone_does_not_disturb_the_loss(caplog: pytest.LogCaptureFixture) -> None:
    hold = Hold("a")
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(_wait_for(hold))
    loop.run_until_complete(asyncio.sleep(0))
    told: list[LossReason] = []
    hold.lost.add_callback(told.append)
    waiting.cancel()
    loop.run_until_complete(asyncio.wait({waiting}))
    loop.close()
    hold.lost.fire("stolen")
    assert told == ["stolen"]
    assert caplog.records == []


async def _wait_for(hold: Hold) -> LossReason | None:
    return await hold.lost


@virtual
async def test_awaiting_a_loss_that_happened_returns_at_once() -> None:
    hold = Hold("a")
    hold.lost.fire("broken")
    assert await hold.lost == "broken"
    assert await hold.lost == "broken"


@virtual
async def test_a_cancelled_wait_leaves_no_callback() -> None:
    hold = Hold("a")
    waiting = asyncio.create_task(_wait_for(hold))
    await asyncio.sleep(1.0)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    assert hold.lost._callbacks == []


@virtual
async def test_a_hold_tells_its_lock_owner_token_and_lease() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire(owner="me")
    assert hold.lock == NAME
    assert hold.owner == "me"
    assert hold.lease_id == network.service.leased()[NAME]
    assert isinstance(hold.token, int)
    await release(hold)


@virtual
async def test_a_hold_that_was_released_is_not_lost_later() -> None:
    network = Network()
    hold = await section(lock_on(network), 1.0)
    await until(100.0)
    assert not hold.lost.is_set()
    assert hold.lost.reason is None


@virtual
async def test_a_hold_that_was_released_covers_nothing_any_more() -> None:
    """What a body left running behind itself must not take its hold for good (M-27)."""
    lock = lock_on(Network())
    hold = await lock.acquire(owner="me")
    assert not hold.lost.ended
    await release(hold)
    assert hold.lost.ended
    with pytest.raises(LockLost, match="was released") as caught:
        hold.raise_if_lost()
    assert (caught.value.lock, caught.value.owner, caught.value.reason) == (NAME, "me", "released")


@virtual
async def test_a_hold_whose_lease_was_handed_on_covers_nothing_any_more() -> None:
    lock = lock_on(Network())
    first = await lock.acquire()
    following = asyncio.create_task(lock.acquire())
    await asyncio.sleep(0.1)
    await release(first)
    second = await following
    second.raise_if_lost()
    with pytest.raises(LockLost, match="was released"):
        first.raise_if_lost()
    await release(second)


@virtual
async def test_a_hold_that_was_lost_stays_lost_after_its_release() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    network.always("renew", LOST_REQUEST)
    assert await hold.lost == "expired"
    assert now() < 14.2
    await release(hold)
    assert hold.lost.reason == "expired"


@virtual
async def test_a_hold_whose_release_came_after_its_deadline_counts_as_lost() -> None:
    """The machine sleeps, and the body's next step is its end."""
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    virtual_loop().now += 15.0
    await release(hold)
    assert hold.lost.reason == "expired"


def test_a_hold_that_ends_after_its_deadline_tells_its_loss_though_nobody_else_did() -> None:
    class Overdue:
        id, deadline = "lease", 14.0
        loop: Any = SimpleNamespace(time=lambda: 14.0)

    lost = LossSignal(Overdue())
    told: list[LossReason] = []
    lost.add_callback(told.append)
    lost.freeze()
    assert told == ["expired"]
    assert lost.wait(0)


@virtual
async def test_releasing_a_hold_that_no_lock_made_does_nothing() -> None:
    await release(Hold("a"))


def test_a_thread_that_waits_for_a_loss_ends_with_a_hold_that_ends_well() -> None:
    lost = LossSignal(None)
    seen: list[bool] = []
    waiting = threading.Thread(target=lambda: seen.append(lost.wait()))
    waiting.start()
    lost.freeze()
    waiting.join(60)
    assert seen == [False]
    assert not lost.wait(), "and at once afterwards"


def test_awaiting_a_loss_ends_with_a_hold_that_ends_well() -> None:
    async def main() -> None:
        lost = LossSignal(None)
        asyncio.get_running_loop().call_later(1, lost.freeze)
        assert await lost is None
        assert await lost is None

    run_virtual(main())
