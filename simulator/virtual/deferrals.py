"""The workload ``defer``: messages of some customers, put back while their customer's lock is busy.

Beside what holds for every queue:

burnt       a message was received twice under one id although nothing went wrong
doubled     a message ran twice although nothing went wrong
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from simulator.host.triggers.messages import encode
from simulator.virtual.hosting import Feed, QueueWorld
from simulator.virtual.jobs import Context, Job, message, without_options
from simulator.virtual.judged import declare, note_end, note_start
from simulator.virtual.locks import Baton
from simulator.virtual.resource import Refused
from singleton import singleton
from singleton.base.errors import SingletonError

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.host.triggers.messages import Message
    from simulator.virtual.machine import Machine
    from simulator.virtual.world import World

_QUEUE = "deferred-orders"


def start_deferrals(world: World) -> None:
    """Have all hosts listen to one queue, with more messages of a customer than can run."""
    rng = world.rng_work
    hosting = QueueWorld(world)
    kind = rng.choice(("put_off", "put_off_sync"))
    declare(world, _functions(), queue=_QUEUE)
    jobs = []
    for _ in range(rng.randint(3, 10)):
        steps, seconds = rng.randint(1, 3), rng.choice([0.1, 1.0, 6.0, 20.0]) * rng.uniform(0.5, 1.0)
        jobs.append(Job(world.resource, steps, seconds / steps, careful=rng.random() < 0.5))
    counter = _Counter(world, jobs)
    for machine in world.machines:
        hosting.listen(machine, kind, _QUEUE, partial(counter.deliver, machine, kind))
    feeds = [
        Feed(rng.uniform(0, 30.0), _QUEUE, encode(message(f"key-{rng.randrange(2)}", number).encode(), "base64"))
        for number in range(len(jobs))
    ]
    work = sum(job.steps * job.pause + 13.0 for job in jobs)
    hosting.feed(sorted(feeds, key=lambda feed: feed.at), seconds=work + 200.0)


class _Delivered:
    """A message as the worker gives it to a function."""

    def __init__(self, received: Message) -> None:
        self.id = received.id
        self.pop_receipt = received.pop_receipt
        self.dequeue_count = received.dequeue_count
        self.expiration_time = datetime.max.replace(tzinfo=UTC)
        self._body = received.body

    def get_body(self) -> bytes:
        return self._body


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
        world.oracle.callers.expect(machine, invocation, f"locks/explored/~{body['Order']['Id']}")
        ran: list[int] = []
        arguments = {
            "msg": _Delivered(received),
            "job": self.jobs[body["Number"]],
            "ran": ran,
            "context": Context(kind, invocation),
        }
        note_start(world, machine, kind, invocation, received.id)
        outcome = await self._invoke(machine, kind, invocation, arguments)
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

    async def _invoke(self, machine: Machine, kind: str, invocation: str, arguments: dict[str, Any]) -> str:
        function = _functions()[kind]
        outcome = "cancelled"
        try:
            if kind == "put_off_sync":
                await Baton.run(lambda: function(**arguments))
            else:
                await function(**arguments)
            outcome = "ok"
        except (SingletonError, Refused) as error:
            outcome = type(error).__name__
        except asyncio.CancelledError:
            self.world.oracle.blame("cancelled by nobody", f"{invocation} was cancelled, and nobody asked for that")
            raise
        finally:
            self.world.oracle.callers.ended(machine, invocation, outcome)
        note_end(self.world, machine, invocation, outcome)
        return outcome


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
