"""The workload ``coalesce``: messages of some customers, of which one runs, one waits, and the others leave.

Bodies fail at times. Invocations time out, reach a time limit of the function, or are cancelled. Each message that did
not end as a success is delivered again.

left for nobody         an invocation left, and no body of a message that had come by then began after its arrival
ended without its body  an invocation ended as a success, with neither a body nor an end as coalesced
left at a high price    an invocation left after more than three requests, or waited beside the waiter of its process
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from simulator.host.app.app_model import Parameter
from simulator.host.triggers.bindings import queue_input
from simulator.virtual.hosts.jobs import Job, some_jobs, under_way, without_options
from simulator.virtual.hosts.queue_host import QueueWorld, cancel, declare, invoke_one, orders
from simulator.virtual.oracle.callers import STALE
from simulator.virtual.storage.network import SOON, both
from singleton import singleton
from singleton.decorator import guards_of
from singleton.locking.seat import seat_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simulator.host.triggers.queue import QueueMessage
    from simulator.virtual.hosts.queue_host import Feed
    from simulator.virtual.storage.network import NetworkRequest, Passage
    from simulator.virtual.storage.service import Tenure
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.base.events import LockEvent

QUEUE: Final = "changes"
_LIMITED: Final = "refresh_limited"
_ON_THREADS: Final = "refresh_sync"
_PARAMETER: Final = Parameter(name="msg", binding="queueTrigger", converter="queueTrigger")
_LIMIT: Final = 45
"""Seconds of the ``functionTimeout`` of a function with a limit."""
_TO_LEAVE: Final = 3
"""Requests of an invocation that leaves at its first attempt."""
_ROUND: Final = 0.4
"""The part of the shortest polling interval that lies between two attempts, at least."""


@cache
def coalescing_jobs() -> dict[str, Callable[..., Any]]:
    """Declare the functions for all worlds of a process."""

    async def refresh(msg: Any, job: Job) -> None:  # noqa: ARG001 - the scope is found in it
        await job.run()

    def refresh_sync(msg: Any, job: Job) -> None:  # noqa: ARG001
        job.run_sync()

    guarded = partial(singleton, scope="Order:Id", on_contention="coalesce")
    with without_options():
        made = {
            "refresh": guarded()(refresh),
            "refresh_soon": guarded(timeout=12)(refresh),
            _ON_THREADS: guarded(timeout=30)(refresh_sync),
        }
    with without_options({"AzureFunctionsJobHost__functionTimeout": f"00:00:{_LIMIT}"}):
        made[_LIMITED] = guarded()(refresh)
        assert guards_of(made[_LIMITED])[0]._limit.timeout is not None  # noqa: SLF001 - it is read once
    return made


def start_coalesce(world: World) -> None:
    """Let all hosts listen to a queue with more changes than need a run."""
    rng = world.rng_work
    jobs = [replace(job, fails=rng.random() < 0.1) for job in some_jobs(world, rng.randint(3, 14))]
    runner = CoalescingRunner(world, jobs, rng.choice([0.0, 0.0, 0.1, 0.4]), rng.random())
    feeds = orders(rng, QUEUE, len(jobs), within=rng.choice([2.0, 20.0, 50.0]))
    runner.start(rng.choice([*coalescing_jobs()]), feeds)


@dataclass(slots=True)
class CoalescingRunner:
    """Runs deliveries as the worker does; ``cancels`` is the share that is cancelled."""

    world: World
    jobs: Sequence[Job]
    cancels: float = 0.0
    salt: float = 0.0

    def start(self, kind: str, feeds: Sequence[Feed]) -> None:
        """Let all hosts listen to the queue as a function of this kind, and send the messages."""
        functions = {kind: coalescing_jobs()[kind]}
        declare(self.world, functions, queue=QUEUE, limit=_LIMIT if kind == _LIMITED else None)
        self.world.oracle.callers.apart.add(kind)  # not all who wait stand in line: the others ask for the seat
        judge = CoalescingJudge(self.world, guards_of(functions[kind])[0].options.lock_acquisition_min_polling_interval)
        hosting = QueueWorld(self.world)
        for machine in self.world.machines:
            hosting.listen(machine, kind, QUEUE, partial(self._deliver, judge, machine, functions, kind))
        hosting.feed(feeds, seconds=sum(job.steps * job.pause + 20.0 for job in self.jobs) + 200.0)

    async def _deliver(
        self,
        judge: CoalescingJudge,
        machine: Machine,
        functions: Mapping[str, Callable[..., Any]],
        kind: str,
        received: QueueMessage,
    ) -> bool:
        """Run one invocation; tell whether it succeeded."""
        body = json.loads(received.body)
        job = self.jobs[body["Number"]]
        job = replace(job, fails=job.fails and received.dequeue_count == 1)
        invocation = f"{machine.name}/{received.id}/{received.dequeue_count}"
        given: dict[str, Any] = {"msg": queue_input(_PARAMETER, received), "job": job}
        call = invoke_one(
            self.world, machine, functions, kind, invocation, key=body["Order"]["Id"], message=received.id, **given
        )
        invoked: asyncio.Task[Any] = asyncio.create_task(call, name=invocation)
        rng = random.Random(f"{self.salt}/{invocation}")
        with under_way(invoked):
            if kind != _ON_THREADS and rng.random() < self.cancels:
                await asyncio.wait({invoked}, timeout=rng.uniform(0.0, 25.0))
                await cancel(self.world, invoked, invocation)
            await asyncio.wait({invoked})
        outcome = "cancelled" if invoked.cancelled() else invoked.result()
        self.world.oracle.reached[f"invocation: {outcome}"] += 1
        if outcome == "ok":
            judge.succeeded(invocation)
        return outcome == "ok"


class _LeftInvocation(NamedTuple):
    """An invocation that left, when it came, and when it left."""

    owner: str
    lock: str
    came: float
    left: float


@dataclass(slots=True)
class _ArrivedInvocation:
    """An invocation on its way.

    ``alone``: no other was on its way for the lock on its machine at any time. ``seat``: the lease of the seat, if
    its own process had the seat when the invocation came.
    """

    machine: Machine
    lock: str
    since: float
    sent: int
    alone: bool
    seat: str


@dataclass(slots=True)
class CoalescingJudge:
    """Hears who comes, leaves and begins; ``poll`` is the shortest polling interval."""

    world: World
    poll: float
    _first: dict[str, float] = field(default_factory=dict)
    """When each message first came."""
    _bodies: dict[str, list[tuple[float, str]]] = field(default_factory=lambda: defaultdict(list))
    """When bodies of a lock began, and for which message."""
    _left: dict[str, _LeftInvocation] = field(default_factory=dict)
    _ran: set[str] = field(default_factory=set)
    _visits: dict[str, _ArrivedInvocation] = field(default_factory=dict)
    _sent: Counter[tuple[Machine, str]] = field(default_factory=Counter)
    _last: dict[tuple[Machine, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.oracle.also_hears = self.hear
        self.world.oracle.conduct.keeps = self.keeps
        self.world.oracle.last_checks.append(self.must_have_begun)
        self.world.network.on_send = both(self.world.network.on_send, self._asked)

    def _asked(self, request: NetworkRequest, _: Passage) -> None:
        self._sent[request.machine, request.name] += request.call in ("acquire", "read")
        if request.call == "create":  # at a first use more requests are needed
            self._sent[request.machine, request.name] -= 1

    def hear(self, event: LockEvent, machine: Machine) -> None:
        """Receive an event of a host's lock."""
        now, owner, lock = self.world.loop.now, event.owner, event.lock
        if event.kind == "waiting":
            self._first.setdefault(_message(owner), now)
            others = [each for each in self._visits.values() if (each.machine, each.lock) == (machine, lock)]
            for each in others:
                each.alone = False
            self._visits[owner] = _ArrivedInvocation(
                machine, lock, now, self._count(machine, lock), not others, self._seat(machine, lock)
            )
            return
        visit = self._visits.get(owner)
        if event.kind == "body_started":
            self._ran.add(owner)
            self._bodies[lock].append((now, _message(owner)))
        elif event.kind == "coalesced" and visit is not None:
            self.world.oracle.reached["messages coalesced"] += 1
            self._left[owner] = _LeftInvocation(owner, lock, visit.since, now)
            self._must_be_cheap(owner, visit)
        if event.kind in ("acquired", "contended", "coalesced", "failed"):
            self._visits.pop(owner, None)

    def keeps(self, tenure: Tenure) -> bool:
        """Tell whether an invocation that waits keeps the lease: of the seat, or of the lock just before its body."""
        machine, lock = tenure.machine, tenure.lock
        if machine is None or machine.leaving:
            return False
        waits = any(each.machine is machine and each.lock == lock for each in self._visits.values())
        return waits or lock.endswith(seat_name(""))

    def _seat(self, machine: Machine, lock: str) -> str:
        """Return the lease of the lock's seat, if the machine has had the seat for a moment; else the empty text."""
        seat = self.world.oracle.service.tenure(seat_name(lock))
        known = seat is not None and seat.machine is machine and seat.since < self.world.loop.now - 2 * SOON
        return seat.lease_id if seat is not None and known else ""

    def _count(self, machine: Machine, lock: str) -> int:
        return self._sent[machine, lock] + self._sent[machine, seat_name(lock)]

    def _must_be_cheap(self, owner: str, visit: _ArrivedInvocation) -> None:
        waited, machine = self.world.loop.now - visit.since, visit.machine
        sent = self._count(machine, visit.lock) - visit.sent
        most = _TO_LEAVE * (1 + int(waited / (_ROUND * self.poll)))
        if visit.seat and visit.seat == self._seat(machine, visit.lock):
            visit.alone, most = True, 0
        asked = waited > 0 if most == 0 else sent > most
        if visit.alone and asked and self.world.oracle.conduct.well(machine, waited + STALE):
            text = f"{owner} left after {sent} requests in {waited:.1f} s, and may send {most}"
            self.world.oracle.blame("left at a high price", text)

    def succeeded(self, invocation: str) -> None:
        """Take the end of an invocation as a success."""
        if invocation not in self._ran and invocation not in self._left:
            text = f"{invocation} ended as a success, and neither its body began nor did it leave"
            self.world.oracle.blame("ended without its body", text)

    def must_have_begun(self) -> None:
        """At the end, all messages have been delivered until they were done."""
        for left in self._left.values():
            if not any(at >= left.came and self._first[of] <= left.left for at, of in self._bodies[left.lock]):
                last = max((at for at, _ in self._bodies[left.lock]), default=-1.0)
                text = f"{left.owner} came at {left.came:.2f} and left, and the last body began at {last:.2f}"
                self.world.oracle.blame("left for nobody", text)
                return


def _message(invocation: str) -> str:
    """Return the message of an invocation."""
    return invocation.partition("/")[2].rpartition("/")[0]
