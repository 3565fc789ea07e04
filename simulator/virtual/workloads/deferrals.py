"""The workload ``defer``: messages of some customers, put back while their customer's lock is busy.

Some bodies have an ``Id``, in whose place the host hides the message's own: these go back without it (H-80).

Beside what holds for every queue:

burnt       a message was received twice under one id although nothing went wrong
doubled     a message ran twice although nothing went wrong
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from simulator.host.app.model import Parameter
from simulator.host.triggers.bindings import queue_input
from simulator.host.triggers.messages import decode, encode
from simulator.virtual.workloads.hosting import QueueWorld, orders
from simulator.virtual.workloads.invocations import declare, invoke_one
from simulator.virtual.workloads.jobs import Job, some_jobs, without_options
from singleton import singleton

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from simulator.host.triggers.messages import Message
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.workloads.hosting import Feed
    from simulator.virtual.worlds.world import World

_QUEUE = "deferred-orders"
_MESSAGE = Parameter(name="msg", binding="queueTrigger", converter="queueTrigger")


def start_deferrals(world: World) -> None:
    """Have all hosts listen to one queue, with more messages of a customer than can run."""
    rng = world.rng_work
    hosting = QueueWorld(world)
    kind = rng.choice(("put_off", "put_off_sync"))
    declare(world, _functions(), queue=_QUEUE)
    jobs = some_jobs(world, rng.randint(3, 10))
    counter = _Counter(world, jobs)
    for machine in world.machines:
        hosting.listen(machine, kind, _QUEUE, partial(counter.deliver, machine, kind))
    work = sum(job.steps * job.pause + 13.0 for job in jobs)
    feeds = orders(rng, _QUEUE, len(jobs), within=30.0)
    hosting.feed([_named(rng, feed) for feed in feeds], seconds=work + 200.0)


def _named(rng: random.Random, feed: Feed) -> Feed:
    """Give half of the bodies an ``Id``."""
    name: object = rng.choice((*[None] * 5, "k", "..", "", 7, {}))
    body = json.loads(decode(feed.text, "base64")) | {"iD": name}
    return replace(feed, text=encode(json.dumps(body).encode(), "base64"))


@dataclass(slots=True)
class _Counter:
    """Runs deliveries as the worker does, and keeps count of them."""

    world: World
    jobs: list[Job]
    runs: Counter[int] = field(default_factory=Counter)

    async def deliver(self, machine: Machine, kind: str, received: Message) -> bool:
        """Run one invocation; tell whether it succeeded."""
        world = self.world
        body = json.loads(received.body)
        self.received(received)
        invocation = f"{machine.name}/{received.id}/{received.dequeue_count}"
        ran: list[int] = []
        outcome = await invoke_one(
            world,
            machine,
            _functions(),
            kind,
            invocation,
            key=body["Order"]["Id"],
            message=received.id,
            msg=queue_input(_MESSAGE, received),
            job=self.jobs[body["Number"]],
            ran=ran,
        )
        if outcome == "ok" and ran:
            self.ran(body["Number"])
        world.oracle.reached[f"invocation: {'put back' if outcome == 'ok' and not ran else outcome}"] += 1
        return outcome == "ok"

    def received(self, message: Message) -> None:
        """Take a delivery: where nothing goes wrong, each is the first."""
        if message.dequeue_count > 1 and not self.world.faults:
            self.world.oracle.blame("burnt", f"message {message.id} was received {message.dequeue_count} times")

    def ran(self, number: int) -> None:
        """Take a job that was done: where nothing goes wrong, once."""
        self.runs[number] += 1
        if self.runs[number] > 1 and not self.world.faults:
            self.world.oracle.blame("doubled", f"message number {number} ran again")


@cache
def _functions() -> dict[str, Callable[..., Any]]:
    """Declare the functions; to be put back they need a trigger that tells the queue."""
    import azure.functions as func

    app = func.FunctionApp()
    triggered = app.queue_trigger(arg_name="msg", queue_name=_QUEUE, connection="AzureWebJobsStorage")
    guarded = singleton(scope="Order:Id", level="host", on_contention="defer")

    async def put_off(msg: func.QueueMessage, job: Job, ran: list[int]) -> None:  # noqa: ARG001 - the scope is in it
        ran.append(1)
        await job.run()

    def put_off_sync(msg: func.QueueMessage, job: Job, ran: list[int]) -> None:  # noqa: ARG001
        ran.append(1)
        job.run_sync()

    with without_options():
        builders: list[Any] = [guarded(triggered(put_off)), guarded(triggered(put_off_sync))]
    functions = [builder._function.get_user_function() for builder in builders]  # noqa: SLF001 - no public way
    return {function.__name__: function for function in functions}
