"""Small worlds: two or three hosts, one lock, and one body for each call. Every point of such a world is struck once.

The calls and what happens beside them are fixed; a seed gives the latencies and the order of events.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from simulator.host.triggers.queue import encode
from simulator.virtual.hosts.jobs import Job, ended, guarded_jobs, message
from simulator.virtual.hosts.queue_host import Feed, declare, invoke_one
from simulator.virtual.workloads.coalescing import QUEUE, CoalescingRunner, take_late
from simulator.virtual.workloads.deferrals import APPS, DeferralRunner, Order, name_of, queues_of, shapes
from simulator.virtual.workloads.semaphores import Pool, SlotPlan
from simulator.virtual.worlds.registry import Workload
from singleton.locking.seat import seat_name
from singleton.stores.protocol import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World

SmallCall = tuple[int, float, float]
"""A call: on which host, when, and the seconds of its body."""
_RENEWED: Final = 9.0
"""Seconds of a body whose lease is renewed once."""
_KEY: Final = "key-0"
_HERE: Final = "simulator.virtual.workloads"


def start_calls(
    world: World, functions: Mapping[str, Callable[..., Any]], *calls: SmallCall, kind: str = "ship"
) -> None:
    """Let some hosts call a guarded function."""
    declare(world, functions)
    for number, (host, at, seconds) in enumerate(calls):
        machine = world.machines[host]
        job = Job(world.resource, 1, seconds)
        invoked = partial(_invoked, world, machine, functions, kind, job, f"{machine.name}/{number}")
        world.start(machine, _call(at, invoked), seconds=seconds + 30.0)


async def _call(at: float, invoked: Callable[[], Any]) -> None:
    await asyncio.sleep(at)
    await invoked()


async def _invoked(
    world: World, machine: Machine, functions: Mapping[str, Callable[..., Any]], kind: str, job: Job, invocation: str
) -> None:
    call = invoke_one(world, machine, functions, kind, invocation, key=_KEY, msg=message(_KEY), job=job)
    outcome = await ended(call, invocation, cancel_after=None)
    world.oracle.reached[f"invocation: {outcome or 'cancelled'}"] += 1


def start_take(world: World) -> None:
    """Take a lock, keep it for longer than a renewal, give it back; take it on the other host."""
    start_calls(world, guarded_jobs(), (0, 0.0, _RENEWED), (1, 12.0, 1.0))


def start_hand_over(world: World) -> None:
    """Wait for a lock on another host than its owner's."""
    start_calls(world, guarded_jobs(), (0, 0.0, 2.0), (1, 1.0, 1.0))


def start_hand_over_within(world: World) -> None:
    """Wait for a lock on its owner's host, and on another."""
    start_calls(world, guarded_jobs(), (0, 0.0, 2.0), (0, 0.5, 1.0), (1, 1.0, 1.0))


def start_lose(world: World) -> None:
    """Lose a lock to an operator, who breaks its lease, while another host waits."""
    start_calls(world, guarded_jobs(), (0, 0.0, _RENEWED), (1, 1.0, 1.0))
    world.later(3.0, world.operate, "break_", 0)


def start_take_over(world: World) -> None:
    """Wait for a lock whose owner is killed."""
    start_calls(world, guarded_jobs(), (0, 0.0, _RENEWED), (1, 1.0, 1.0), (2, 20.0, 1.0))
    world.later(3.0, world.crash, 0)


def start_semaphore_of_one(world: World) -> None:
    """Wait for the only slot of a semaphore."""
    declare(world, guarded_jobs())
    pool = Pool(world, 1)
    for machine in world.machines:
        plan = SlotPlan(pause=1.0 * machine.index, timeout=None, steps=1, seconds=2.0, cancel_after=None)
        world.start(machine, pool.visits(machine, 0, [plan]), seconds=30.0)
    world.watch(pool.must_find_takers)


def start_coalesce(world: World) -> None:
    """Run for a message, and wait for a second one; while that one runs, wait for a third, and leave for the third.

    The second body is long: a seat whose holder gets no answer ends during the body.
    """
    _send(world, (0.0, 4.0), (0.7, 8.0), (9.0, 1.0), (12.0, 1.0))


def start_renamed(world: World) -> None:
    """Coalesce while the lock gets a new name: one host takes the new name only, and the other host takes both."""
    _send(world, (0.0, 2.0), (0.7, 5.0), (5.0, 1.0), versions=("_new", "_both"))


def start_seat(world: World) -> None:
    """Run for a message, and wait for a second one beside the seat, which a late request has for nobody."""
    world.later(0.5, _take_late, world, seat_name(f"locks/explored/refresh.{_KEY}"))
    _send(world, (0.0, 3.0), (1.0, 1.0))


def _send(world: World, *messages: tuple[float, float], versions: Sequence[str] = ("",)) -> None:
    """Send messages that coalesce: when, and the seconds of the body of each."""
    jobs = [Job(world.resource, 1, seconds) for _, seconds in messages]
    texts = [encode(message(_KEY, number).encode(), "base64") for number in range(len(jobs))]
    feeds = [Feed(at, QUEUE, text) for (at, _), text in zip(messages, texts, strict=True)]
    CoalescingRunner(world, jobs).start("refresh", feeds, versions)


def _take_late(world: World, seat: str) -> None:
    world.service.execute(None, "create", seat, (NOTHING,))
    take_late(world, seat)


def start_defer(world: World) -> None:
    """Put a message back while its lock is taken for another message."""
    app, queue, kind = APPS[0], "deferred-orders", "put_off"
    hosting, ledger = queues_of(world, app)
    orders = [Order(number, Job(world.resource, 1, seconds), fails=0) for number, seconds in enumerate((3.0, 1.0))]
    runner = DeferralRunner(world, ledger, orders, app.options.max_dequeue_count, cancels=0.0, salt=0.0)
    shape, name = shapes(app, queue)[kind], name_of(kind, queue)
    declare(world, {name: shape.run}, queue=queue)
    for machine in world.machines:
        hosting.listen(machine, name, queue, partial(runner.deliver, machine, name, shape))
    texts = [encode(message(_KEY, order.number).encode(), "base64") for order in orders]
    feeds = [Feed(float(at), queue, text) for at, text in enumerate(texts)]
    hosting.feed(feeds, seconds=300.0)


SMALL: Final = {
    "small-take": Workload(start=start_take, small=2),
    "small-hand-over": Workload(start=start_hand_over, small=2),
    "small-hand-over-within": Workload(start=start_hand_over_within, small=2),
    "small-lose": Workload(start=start_lose, small=2),
    "small-take-over": Workload(start=start_take_over, small=3),
    "small-semaphore": Workload(start=start_semaphore_of_one, small=2, checks=(f"{_HERE}.semaphores",)),
    "small-coalesce": Workload(start=start_coalesce, small=2, checks=(f"{_HERE}.coalescing",)),
    "small-seat": Workload(start=start_seat, small=2, checks=(f"{_HERE}.coalescing",)),
    "small-renamed": Workload(start=start_renamed, small=2, checks=(f"{_HERE}.coalescing",)),
    "small-defer": Workload(start=start_defer, small=2, checks=(f"{_HERE}.ledger",)),
}
