"""A queue listener in virtual time, on a queue in memory that keeps time as the service does (H-33 to H-46)."""

from __future__ import annotations

import asyncio
import itertools
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from simulator.host.triggers.queue import Backoff
from tests.support.memory_queues import Host
from tests.support.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from simulator.host.triggers.queue import QueueMessage


def in_virtual_time(test: Coroutine[Any, Any, None]) -> None:
    run_virtual(test)


async def succeeds(_: QueueMessage) -> bool:
    return True


async def fails(_: QueueMessage) -> bool:
    return False


def test_a_message_is_run_and_deleted() -> None:
    seen: list[bytes] = []

    async def run(message: QueueMessage) -> bool:
        seen.append(message.body)
        return True

    host = Host(run)
    host.queues.put("orders", "one", "two")
    in_virtual_time(host.listen(0.05))
    assert seen == [b"one", b"two"]
    assert host.queues.texts("orders") == []
    assert [fields["id"] for fields in host.told("message_completed")] == ["m1", "m2"]


def test_a_failed_message_is_tried_five_times_and_then_poison() -> None:
    host = Host(fails)
    host.queues.put("orders", "bad")
    in_virtual_time(host.listen(5))
    assert [fields["dequeue_count"] for fields in host.told("message_received")] == [1, 2, 3, 4, 5]
    assert len(host.told("message_returned")) == 4
    assert host.queues.texts("orders-poison") == ["bad"]
    assert host.queues.texts("orders") == []
    assert host.told("message_poisoned")[0]["poison"] == "orders-poison"
    assert host.woken == ["orders-poison"]


def test_a_message_that_was_dequeued_too_often_is_poison_without_a_run() -> None:
    async def never(_: QueueMessage) -> bool:
        pytest.fail("it must not be run")

    host = Host(never)
    host.queues.put("orders", "worn out", count=5)
    in_virtual_time(host.listen(0.5))
    assert host.queues.texts("orders-poison") == ["worn out"]


def test_the_visibility_timeout_is_the_pause_before_the_next_try() -> None:
    host = Host(fails, visibility_timeout=30.0, max_dequeue_count=3)
    host.queues.put("orders", "bad")
    starts: list[float] = []

    async def main() -> None:
        await host.listen(100)
        starts.extend(at for at in host.queues.times("renew"))

    in_virtual_time(main())
    assert len(host.told("message_received")) == 3
    assert starts[1] - starts[0] >= 30.0


def test_a_failed_message_without_a_poison_queue_stays_invisible_for_its_time_and_is_tried_again() -> None:
    runs: list[float] = []

    async def run(_: QueueMessage) -> bool:
        runs.append(round(asyncio.get_running_loop().time()))
        return False

    host = Host(run, queue="orders-poison", max_dequeue_count=3, max_polling_interval=0.1)
    host.queues.put("orders-poison", "bad")
    in_virtual_time(host.listen(90))
    assert runs == [0, 20, 40]
    assert host.told("message_returned")[0]["reason"] == "failed; this queue has no poison queue"


@pytest.mark.parametrize(("timeout", "waited"), [(0.9, 0), (2.5, 2)])
def test_the_visibility_timeout_is_cut_to_whole_seconds(timeout: float, waited: int) -> None:
    runs: list[float] = []

    async def run(_: QueueMessage) -> bool:
        runs.append(asyncio.get_running_loop().time())
        return False

    host = Host(run, visibility_timeout=timeout, max_polling_interval=0.1)
    host.queues.put("orders", "bad")
    in_virtual_time(host.listen(3))
    assert int(runs[1] - runs[0]) == waited


def test_poison_without_a_poison_queue_stays_invisible_for_its_time() -> None:
    host = Host(fails, queue="orders-poison", max_dequeue_count=1)
    host.queues.put("orders-poison", "bad")
    in_virtual_time(host.listen(50))
    received = host.told("message_received")
    assert [fields["dequeue_count"] for fields in received] == [1, 2, 3]
    assert host.queues.texts("orders-poison") == ["bad"]
    assert not host.told("message_poisoned")


def test_what_is_not_base64_goes_to_poison_at_once_as_it_is() -> None:
    host = Host(succeeds)
    host.queues.put("orders", "{plain}", raw=True)
    in_virtual_time(host.listen(0.5))
    assert [stored.text for stored in host.queues.queues["orders-poison"]] == ["{plain}"]
    assert len(host.told("message_received")) == 1


def test_with_no_encoding_bodies_are_taken_as_they_are() -> None:
    seen: list[bytes] = []

    async def run(message: QueueMessage) -> bool:
        seen.append(message.body)
        return True

    host = Host(run, message_encoding="none")
    host.queues.put("orders", "{plain é}", raw=True)
    in_virtual_time(host.listen(0.05))
    assert seen == ["{plain é}".encode()]


def test_a_long_run_is_renewed_at_half_time_so_nobody_else_gets_the_message() -> None:
    async def long(_: QueueMessage) -> bool:
        await asyncio.sleep(95)
        return True

    host = Host(long)
    host.queues.put("orders", "long")
    in_virtual_time(host.listen(95.5))
    assert [round(at) for at in host.queues.times("renew")] == [10, 20, 30, 40, 50, 60, 70, 80, 90]
    assert len(host.told("message_received")) == 1
    assert host.queues.texts("orders") == []


def test_a_renewal_under_way_is_awaited_so_that_the_delete_has_its_receipt() -> None:
    async def ends_while_renewing(_: QueueMessage) -> bool:
        await asyncio.sleep(10.005)
        return True

    host = Host(ends_while_renewing)
    host.queues.put("orders", "tight")
    in_virtual_time(host.listen(11))
    assert host.told("message_completed")
    assert host.queues.texts("orders") == []


def test_a_renewal_that_the_service_refuses_is_tried_again_sooner() -> None:
    async def long(_: QueueMessage) -> bool:
        await asyncio.sleep(25)
        return True

    host = Host(long)
    host.queues.put("orders", "long")
    host.queues.trouble["renew"] = 3
    in_virtual_time(host.listen(25.5))
    assert [round(at) for at in host.queues.times("renew")] == [10, 11, 12, 13, 23]
    assert len(host.told("message_received")) == 1


def test_a_message_that_somebody_else_took_is_left_to_them() -> None:
    async def loses_it(_: QueueMessage) -> bool:
        host.queues.queues["orders"][0].receipt = "another's"
        await asyncio.sleep(15)
        return True

    host = Host(loses_it)
    host.queues.put("orders", "contested")
    in_virtual_time(host.listen(15.5))
    assert len(host.queues.times("renew")) == 1
    assert not host.told("message_completed")
    assert host.told("message_returned")[0]["reason"] == "gone: 400 PopReceiptMismatch"


def test_a_delete_is_asked_again_through_trouble() -> None:
    host = Host(succeeds)
    host.queues.put("orders", "one")
    host.queues.trouble["delete"] = 3
    in_virtual_time(host.listen(2))
    assert len(host.told("message_completed")) == 1
    assert len(host.told("message_received")) == 1


def test_an_unexpected_error_returns_the_message_and_the_listener_goes_on() -> None:
    async def explodes(message: QueueMessage) -> bool:
        if message.body == b"odd":
            raise RuntimeError("a bug of ours")
        return True

    host = Host(explodes)
    host.queues.put("orders", "odd", "even")
    in_virtual_time(host.listen(1))
    assert host.told("message_returned")[0]["reason"] == "RuntimeError: a bug of ours"
    assert [fields["id"] for fields in host.told("message_completed")] == ["m2"]


def test_no_more_than_a_batch_and_its_threshold_are_in_flight() -> None:
    running = most = 0

    async def slow(_: QueueMessage) -> bool:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1 + running * 0.01)
        running -= 1
        return True

    host = Host(slow, batch_size=4, new_batch_threshold=2)
    host.queues.put("orders", *map(str, range(40)))
    in_virtual_time(host.listen(30))
    assert most == 6
    assert host.queues.texts("orders") == []


def test_one_at_a_time_is_a_batch_of_one_with_no_threshold() -> None:
    running = most = 0

    async def slow(_: QueueMessage) -> bool:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1
        return True

    host = Host(slow, batch_size=1, new_batch_threshold=0)
    host.queues.put("orders", *map(str, range(5)))
    in_virtual_time(host.listen(10))
    assert most == 1
    assert host.queues.texts("orders") == []


def test_while_messages_are_found_the_next_request_follows_at_once() -> None:
    host = Host(succeeds, batch_size=2)
    host.queues.put("orders", *"abcdefgh")
    in_virtual_time(host.listen(0.05))
    assert host.queues.times("receive") == [0.0] * 5


def test_an_empty_queue_is_polled_ever_more_rarely_up_to_the_maximum() -> None:
    host = Host(succeeds, max_polling_interval=1.0)
    in_virtual_time(host.listen(10))
    polls = host.queues.times("receive")
    waits = [later - earlier for earlier, later in itertools.pairwise(polls)]
    assert waits[0] == pytest.approx(0.1)
    assert all(wait == pytest.approx(1.0) for wait in waits[6:])
    assert polls[0] == 0.0


def test_a_missing_queue_is_looked_for_and_not_created() -> None:
    host = Host(succeeds, queue="missing")

    async def main() -> None:
        running = asyncio.create_task(host.listener.run())
        await asyncio.sleep(5)
        assert "missing" not in host.queues.queues
        host.queues.put("missing", "at last")
        await asyncio.sleep(1.1)
        host.listener.stop()
        await running

    in_virtual_time(main())
    assert len(host.told("message_completed")) == 1


def test_trouble_with_the_service_is_waited_out() -> None:
    host = Host(succeeds)
    host.queues.trouble["receive"] = 4
    host.queues.put("orders", "one")
    in_virtual_time(host.listen(5))
    assert len(host.told("message_completed")) == 1
    assert [fields["queue"] for fields in host.told("queue_unreachable")] == ["orders"]
    assert [fields["queue"] for fields in host.told("queue_reached")] == ["orders"]


def test_a_queue_without_trouble_and_a_missing_queue_are_not_told() -> None:
    for queue in ("orders", "missing"):
        host = Host(succeeds, queue=queue)
        in_virtual_time(host.listen(1))
        assert not host.told("queue_unreachable")
        assert not host.told("queue_reached")


def test_a_wake_polls_at_once_and_starts_the_backoff_anew() -> None:
    host = Host(succeeds, max_polling_interval=60.0)

    async def main() -> None:
        running = asyncio.create_task(host.listener.run())
        await asyncio.sleep(100.03)
        before = len(host.queues.requests)
        host.queues._sent("orders")
        await asyncio.sleep(0.12)
        assert len(host.queues.requests) == before + 2
        host.listener.stop()
        await running

    in_virtual_time(main())


def test_found_messages_start_the_backoff_anew() -> None:
    host = Host(succeeds, max_polling_interval=60.0)

    async def main() -> None:
        running = asyncio.create_task(host.listener.run())
        await asyncio.sleep(100)
        host.queues.put("orders", "one")
        await asyncio.sleep(60)
        host.listener.stop()
        await running

    in_virtual_time(main())
    polls = host.queues.times("receive")
    found = next(at for at in polls if at > 100)
    assert polls[polls.index(found) + 1 :][:2] == pytest.approx([found, found + 0.1])


def test_what_is_received_while_the_host_stops_is_another_hosts_at_once() -> None:
    host = Host(succeeds)
    host.queues.put("orders", "one", "two")
    received = host.queues.receive

    async def stopping(queue: str, count: int, visibility: float) -> list[QueueMessage]:
        host.listener.stop()
        return await received(queue, count, visibility)

    host.queues.receive = stopping  # type: ignore[method-assign]
    in_virtual_time(host.listener.run())
    assert [stored.visible for stored in host.queues.queues["orders"]] == [0.0, 0.0]
    assert host.told("message_received") == []


def test_stop_polls_no_more_and_awaits_what_runs() -> None:
    ended: list[float] = []

    async def long(_: QueueMessage) -> bool:
        await asyncio.sleep(40)
        ended.append(asyncio.get_running_loop().time())
        return True

    host = Host(long)

    async def main() -> None:
        host.queues.put("orders", "one")
        await host.listen(1)
        assert ended == [40.0]
        assert max(host.queues.times("receive")) <= 1.0
        assert host.queues.times("renew")

    in_virtual_time(main())
    assert len(host.told("message_completed")) == 1


def test_stop_ends_a_long_wait_at_once() -> None:
    host = Host(succeeds, max_polling_interval=60.0)

    async def main() -> None:
        await host.listen(200.03)
        assert asyncio.get_running_loop().time() == pytest.approx(200.03)

    in_virtual_time(main())


def test_the_backoff_has_the_hosts_numbers() -> None:
    for seed in range(50):
        backoff = Backoff(60.0, Random(seed))
        waits = [backoff.next() for _ in range(14)]
        assert waits[0] == 0.1
        for number, wait in enumerate(waits[1:10], start=1):
            assert 0.1 + 0.8 * 2 ** (number - 1) * 0.1 <= wait <= 0.1 + 1.2 * 2 ** (number - 1) * 0.1
        assert waits[12:] == [60.0, 60.0]
        backoff.reset()
        assert backoff.next() == 0.1


def test_the_backoff_never_exceeds_a_short_maximum() -> None:
    backoff = Backoff(0.1, Random(1))
    assert [backoff.next() for _ in range(5)] == [0.1] * 5
