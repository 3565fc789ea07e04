"""The workload ``coalesce``: messages of some customers, of which one runs, one waits, and the others leave.

Bodies fail at times. Invocations time out, reach a time limit of the function, or are cancelled. Each message that did
not end as a success is delivered again. In some worlds the lock is being renamed: versions with its old name, with both
names (``also=``) and with its new name run side by side. In some worlds a change comes as each body begins: just too
late for the body. In some worlds each look at a seat is answered late. In some worlds late requests take seats that
are free again, for nobody, replies to stamps of seats are lost, and a host dies after such a stamp.

left for nobody         an invocation left, and no body of a message that had come by then began after its arrival
left by half            an invocation left, and nobody said since its arrival that he waits on one of the seats
ended without its body  an invocation ended as a success, with neither a body nor an end as coalesced
left at a high price    an invocation left after more than three requests for each name of its lock, or waited beside
                        the waiter of its process
"""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from simulator.host.app.app_model import Parameter
from simulator.host.triggers.bindings import queue_input
from simulator.host.triggers.queue import encode
from simulator.virtual.hosts.jobs import Job, message, some_jobs, under_way, without_options
from simulator.virtual.hosts.queue_host import VISIBILITY, Feed, QueueWorld, cancel, declare, invoke_one, orders
from simulator.virtual.oracle.callers import STALE
from simulator.virtual.storage.network import SOON, both
from singleton import OldLock, singleton
from singleton.decorator import guards_of
from singleton.locking.seat import seat_name
from singleton.stores.protocol import StoreFailure
from singleton.stores.stamps import WORD_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simulator.host.triggers.queue import QueueMessage
    from simulator.virtual.storage.network import NetworkRequest, Passage
    from simulator.virtual.storage.service import Tenure
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.base.events import LockEvent
    from singleton.functions.guard import Guard

QUEUE: Final = "changes"
_LIMITED: Final = "refresh_limited"
_ON_THREADS: Final = "refresh_sync"
_PARAMETER: Final = Parameter(name="msg", binding="queueTrigger", converter="queueTrigger")
_KINDS: Final = ("refresh", "refresh_soon", _ON_THREADS, _LIMITED)
_RENAMED: Final = 0.4
"""The share of worlds in which the lock may be renamed."""
_STIRRED: Final = 0.5
"""The share of worlds in which changes come as bodies begin."""
_LATE: Final = 10
"""Of so many bodies, at most."""
_SLOW: Final = 0.4
"""The share of worlds in which each look at a seat is answered late."""
_TAKEN_LATE: Final = 0.4
"""The share of worlds in which late requests take seats, for nobody."""
_TAKEN_UNTIL: Final = 100.0
"""Seconds of a world in which they do."""
_UNCOUNTED: Final = 0.15
"""The share of worlds in which no delivery shows its count: each invocation waits."""
_SOON_AGAIN: Final = 5.0
"""Seconds after which such a message comes again whose host is dead: before the lease of a seat ends."""
_LIMIT: Final = 45
"""Seconds of the ``functionTimeout`` of a function with a limit."""
_TO_LEAVE: Final = 3
"""Requests of an invocation that leaves at its first attempt, for each name of the lock."""
_BOTH: Final = "_both"
_BACK: Final = "_back"
_NEW: Final = "_new"
_FLEETS: Final = (("",), (_BOTH,), (_BOTH,), ("", _BOTH), (_BOTH, ""), (_BOTH, _NEW), (_NEW, _BOTH), (_BACK, _BOTH))
"""The versions of a function that run side by side, on one machine after the other."""
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
    made: dict[str, Callable[..., Any]] = {}
    with without_options():
        for kind, waits, body in (
            ("refresh", guarded, refresh),
            ("refresh_soon", partial(guarded, timeout=12), refresh),
            (_ON_THREADS, partial(guarded, timeout=30), refresh_sync),
        ):
            made |= _versions(kind, waits, body)
    with without_options({"AzureFunctionsJobHost__functionTimeout": f"00:00:{_LIMIT}"}):
        made |= (limited := _versions(_LIMITED, guarded, refresh))
        for each in limited.values():
            assert guards_of(each)[0]._limit.timeout is not None  # noqa: SLF001 - it is read once
    return made


def _versions(kind: str, guarded: Callable[..., Any], body: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return the versions of a function whose lock is renamed: with the old name, both, both back, and the new one."""
    new = f"{kind}_renamed"
    names: dict[str, dict[str, Any]] = {
        "": {"name": kind},
        _BOTH: {"name": new, "also": OldLock(name=kind)},
        _BACK: {"name": kind, "also": OldLock(name=new)},
        _NEW: {"name": new},
    }
    return {f"{kind}{version}": guarded(**named)(body) for version, named in names.items()}


def _names(guard: Guard) -> tuple[str, ...]:
    assert guard.name is not None
    return (guard.name,) if guard.also is None else (guard.name, guard.also.name or "")


def start_coalesce(world: World) -> None:
    """Let all hosts listen to a queue with more changes than need a run."""
    rng = world.rng_work
    jobs = [replace(job, fails=rng.random() < 0.1) for job in some_jobs(world, rng.randint(3, 14))]
    runner = CoalescingRunner(world, jobs, rng.choice([0.0, 0.0, 0.1, 0.4]), rng.random())
    feeds = orders(rng, QUEUE, len(jobs), within=rng.choice([2.0, 20.0, 50.0]))
    kind = rng.choice(_KINDS)
    runner.counts = random.Random(f"{runner.salt}/counts").random() >= _UNCOUNTED
    runner.start(kind, feeds, rng.choice(_FLEETS) if rng.random() < _RENAMED else ("",))
    if rng.random() < _STIRRED:
        runner.late = rng.randint(3, _LATE)
    if rng.random() < _SLOW:
        world.network.rules.append(partial(_answer_late, rng.uniform(0.3, 1.5)))
    if rng.random() < _TAKEN_LATE:
        _take_seats_late(world, random.Random(f"{runner.salt}/late"), rng.choice((0.2, 0.5, 0.9)))


def _take_seats_late(world: World, rng: random.Random, share: float) -> None:
    """Let late requests take some seats whose lease has ended, lose some replies to stamps, and let a waiter die."""
    dies = rng.randint(1, 4)

    def strikes(name: str) -> bool:
        return name.endswith(seat_name("")) and world.loop.now < _TAKEN_UNTIL and rng.random() < share

    def ended(tenure: Tenure) -> None:
        if strikes(tenure.lock):
            world.later(rng.uniform(0.0, 0.3), take_late, world, tenure.lock)

    def stamped(request: NetworkRequest, passage: Passage) -> None:
        nonlocal dies
        if request.call == "write" and strikes(request.name):
            dies -= 1
            if dies == 0:
                world.later(0.5, world.crash, request.machine.index)
            else:
                passage.reply_lost, passage.reset = True, rng.random() < 0.8

    world.service.on_end = both(world.service.on_end, ended)
    world.network.rules.append(stamped)


def take_late(world: World, seat: str) -> None:
    """Carry out a late request for the lease of a seat, for nobody."""
    with suppress(StoreFailure):
        world.service.execute(None, "acquire", seat, ("00000000-0000-4000-8000-000000000000", 15))


def _answer_late(seconds: float, request: NetworkRequest, passage: Passage) -> None:
    if request.call == "read" and request.name.endswith(seat_name("")):
        passage.back += seconds


@dataclass(slots=True)
class CoalescingRunner:
    """Runs deliveries as the worker does.

    ``cancels`` is the share that is cancelled. ``late``: of so many bodies, each has a change come as it begins.
    """

    world: World
    jobs: Sequence[Job]
    cancels: float = 0.0
    salt: float = 0.0
    late: int = 0
    counts: bool = True
    """Whether a delivery shows its count, as one of a queue does, and one of a blob does not."""
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of the lock, by function; none where all versions have one name."""

    def start(self, kind: str, feeds: Sequence[Feed], versions: Sequence[str] = ("",)) -> None:
        """Let all hosts listen to the queue as versions of a function of this kind, and send the messages."""
        functions = {f"{kind}{version}": coalescing_jobs()[f"{kind}{version}"] for version in dict.fromkeys(versions)}
        declare(self.world, functions, queue=QUEUE, limit=_LIMIT if kind == _LIMITED else None)
        self.world.oracle.callers.apart |= {*functions}  # not all who wait stand in line: the others ask for the seat
        guards = {name: guards_of(function)[0] for name, function in functions.items()}
        self.names = {name: _names(guard) if len(guards) > 1 or guard.also else () for name, guard in guards.items()}
        poll = min(guard.options.lock_acquisition_min_polling_interval for guard in guards.values())
        judge = CoalescingJudge(self.world, poll, max(map(len, self.names.values())) or 1, versions=self.names)
        hosting = QueueWorld(self.world)
        judge.when_begun = partial(self._come_late, hosting)
        for machine in self.world.machines:
            named = f"{kind}{versions[machine.index % len(versions)]}"
            deliver = partial(self._deliver, judge, machine, functions, named)
            hosting.listen(machine, named, QUEUE, deliver, visibility=VISIBILITY if self.counts else _SOON_AGAIN)
        longest = max(job.steps * job.pause for job in self.jobs) + 20.0
        hosting.feed(feeds, seconds=sum(job.steps * job.pause + 20.0 for job in self.jobs) + _LATE * longest + 200.0)

    def _come_late(self, hosting: QueueWorld, key: str) -> None:
        if self.late:
            self.late -= 1
            text = message(key, self.late % len(self.jobs))
            hosting.send(Feed(self.world.loop.now, QUEUE, encode(text.encode(), "base64")))

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
        shown = queue_input(_PARAMETER, received) if self.counts else received.body
        given: dict[str, Any] = {"msg": shown, "job": job}
        call = invoke_one(
            self.world,
            machine,
            functions,
            kind,
            invocation,
            key=body["Order"]["Id"],
            message=received.id,
            names=self.names[kind],
            **given,
        )
        invoked: asyncio.Task[Any] = asyncio.create_task(call, name=invocation)
        rng = random.Random(f"{self.salt}/{invocation}")
        with under_way(invoked):
            if not kind.startswith(_ON_THREADS) and rng.random() < self.cancels:
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

    ``alone``: no other was on its way for the lock on its machine at any time. ``seats``: the leases of the seats, if
    its own process had all of them when the invocation came.
    """

    machine: Machine
    lock: str
    since: float
    sent: int
    alone: bool
    seats: list[str]


@dataclass(slots=True)
class CoalescingJudge:
    """Hears who comes, leaves and begins; ``poll`` is the shortest polling interval.

    ``names``: how many names the lock of a key has in some version. A lock is known by its key here.
    """

    world: World
    poll: float
    names: int = 1
    when_begun: Callable[[str], object] = lambda _: None
    """Called with the key as a body begins."""
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of the lock, by function; none where all versions have one name."""
    _waited: dict[str, float] = field(default_factory=dict)
    """Until when each seat has said that somebody waits; infinite: still."""
    _says: dict[tuple[Machine, str], bool] = field(default_factory=dict)
    """Whether the last word of a machine on a seat is that somebody waits."""
    _first: dict[str, float] = field(default_factory=dict)
    """When each message first came."""
    _bodies: dict[str, list[tuple[float, str]]] = field(default_factory=lambda: defaultdict(list))
    """When bodies of a lock began, and for which message."""
    _left: dict[str, _LeftInvocation] = field(default_factory=dict)
    _inside: dict[str, tuple[Machine, str]] = field(default_factory=dict)
    """Who has a lock, on which machine."""
    _ran: set[str] = field(default_factory=set)
    _visits: dict[str, _ArrivedInvocation] = field(default_factory=dict)
    _sent: Counter[tuple[Machine, str]] = field(default_factory=Counter)
    _last: dict[tuple[Machine, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.oracle.also_hears = self.hear
        self.world.oracle.conduct.keeps = self.keeps
        self.world.oracle.last_checks.append(self.must_have_begun)
        self.world.network.on_send = both(self.world.network.on_send, self._asked)
        self.world.network.on_answer = both(self.world.network.on_answer, self._answered)

    def _asked(self, request: NetworkRequest, _: Passage) -> None:
        where = request.machine, _key(request.name)
        self._sent[where] += request.call in ("acquire", "read")
        if request.call == "create":  # at a first use more requests are needed
            self._sent[where] -= 1

    def _answered(self, request: NetworkRequest, failure: Exception | None, _: Passage) -> None:
        if request.call == "write" and failure is None and request.name.endswith(seat_name("")):
            self._says[request.machine, request.name] = waits = request.args[1].get(WORD_KEY) == "waiting"
            if waits or self._waited.get(request.name) == math.inf:
                self._waited[request.name] = math.inf if waits else self.world.loop.now

    def _must_be_told(self, event: LockEvent, visit: _ArrivedInvocation) -> None:
        """Check that each seat has said since the arrival that somebody waits, or the own process thinks so."""
        folder, _, own = event.lock.rpartition("/")
        names = self.versions.get(event.function or "") or (own.partition(".")[0],)
        for seat in (seat_name(f"{folder}/{name}.{visit.lock}") for name in names):
            if self._waited.get(seat, -math.inf) < visit.since and not self._says.get((visit.machine, seat)):
                text = f"{event.owner} left, and nobody waits on {seat}"
                self.world.oracle.blame("left by half", text)

    def hear(self, event: LockEvent, machine: Machine) -> None:
        """Receive an event of a host's lock."""
        now, owner, lock = self.world.loop.now, event.owner, _key(event.lock)
        if event.kind == "waiting":
            self._first.setdefault(_message(owner), now)
            others = [each for each in self._visits.values() if (each.machine, each.lock) == (machine, lock)]
            for each in others:
                each.alone = False
            self._visits[owner] = _ArrivedInvocation(
                machine, lock, now, self._sent[machine, lock], not others, self._seats(machine, lock)
            )
            return
        visit = self._visits.get(owner)
        if event.kind == "body_started":
            self._ran.add(owner)
            self._bodies[lock].append((now, _message(owner)))
            self.when_begun(lock)
        elif event.kind == "coalesced" and visit is not None:
            self.world.oracle.reached["messages coalesced"] += 1
            self._left[owner] = _LeftInvocation(owner, lock, visit.since, now)
            self._must_be_cheap(owner, visit)
            self._must_be_told(event, visit)
        if event.kind == "acquired":
            self._inside[owner] = machine, lock
        if event.kind == "released":
            self._inside.pop(owner, None)
        if event.kind in ("acquired", "contended", "coalesced", "failed"):
            self._visits.pop(owner, None)

    def keeps(self, tenure: Tenure) -> bool:
        """Tell whether an invocation keeps the lease: of a seat, of its lock before the body, or of the other name."""
        machine, key, is_seat = tenure.machine, _key(tenure.lock), tenure.lock.endswith(seat_name(""))
        waits = any(each.machine is machine and each.lock == key for each in self._visits.values())
        has_both = self.names > 1 and (waits or (machine, key) in self._inside.values())  # or the first, and asks on
        if machine is None or machine.leaving:
            return has_both and not is_seat
        return waits or is_seat or has_both

    def _seats(self, machine: Machine, lock: str) -> list[str]:
        """Return the leases of the lock's seats, if the machine has had all of them for a moment; else nothing."""
        known = [
            seat.lease_id
            for seat in self.world.oracle.service.tenures()
            if seat.lock.endswith(seat_name(""))
            and _key(seat.lock) == lock
            and seat.machine is machine
            and seat.since < self.world.loop.now - 2 * SOON
        ]
        return sorted(known) if len(known) == self.names else []

    def _must_be_cheap(self, owner: str, visit: _ArrivedInvocation) -> None:
        waited, machine = self.world.loop.now - visit.since, visit.machine
        sent = self._sent[machine, visit.lock] - visit.sent
        most = _TO_LEAVE * self.names * (1 + int(waited / (_ROUND * self.poll)))
        if visit.seats and visit.seats == self._seats(machine, visit.lock):
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


def _key(lock: str) -> str:
    """Return the key of the lock that has this name, or this seat."""
    return lock.removesuffix(seat_name("")).rpartition("/")[2].partition(".")[2]
