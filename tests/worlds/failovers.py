"""The workload ``failover``: guarded functions, timers and leaders whose locks are touched, and others.

The hosts of a fleet have the same failover, or values that differ; some have it off. Some hosts have an older version
without it: that stamps the next epoch, and keeps what else is on the blob. Some have an older version whose mark names
no lease. And some are another library's: they renew their lease, leave no stamp, and die now and then. The last two
are not in one fleet: where an older version left its mark, the lease of a holder without a stamp is broken. The clocks
are wrong by a fifteenth at most.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from functools import cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.hosts.jobs import Job, message, without_options
from simulator.virtual.hosts.queue_host import declare, invoke_one
from simulator.virtual.workloads.leaders import Election, start_election
from simulator.virtual.workloads.small import start_calls
from singleton import SingletonOptions, singleton
from singleton.base.failover_mark import MARK_KEY
from singleton.stores.protocol import StoreFailure
from singleton.stores.stamps import EPOCH_KEY, HELD_KEY, OWNER_KEY
from tests.worlds.other_host import Lease, OtherHost, drawn_ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.virtual.storage.network import NetworkRequest, Passage
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.stores.protocol import BlobState

_VALUES: Final = (2.0, 2.0, 3.0, 5.0, 10.0)
_ALL: Final = (None, *sorted(set(_VALUES)))
_KINDS: Final = ("ship", "ship", "ship", "soon", "sync", "tick", "insist")
_MOST_DRIFT: Final = 0.065
"""The greatest error of a clock: a clock that is slow by a fifteenth shows fourteen fifteenths of the time."""
_OLDER: Final = 0.3
"""The share of hosts with an older version, or of another library, in a mixed fleet."""
_PERIOD: Final = 15
_LONG_PERIOD: Final = 60
_RENEWAL: Final = 5.0
_DIES: Final = 11.0
"""Seconds of a round of a stranger that ends by its death."""
_FAILOVER: Final = 2.0
"""Of an older version."""

_ASKED: Final = 2
"""Whoever waits asks four times in its failover; and locks of a process that have others wait for one blob, each."""


def start_failovers(world: World) -> None:
    """Let some hosts work under one or two locks, and now and then be candidates for a leadership."""
    rng = world.rng_work
    _let_clocks_drift(world)
    functions = functions_of(world)
    declare(world, functions)
    world.oracle.conduct.asked_by = lambda _: _ASKED
    fleet = rng.choice(_VALUES)
    mixed = rng.random() < 0.5
    failovers = {each: rng.choice((*_VALUES, None)) if mixed else fleet for each in world.machines}
    for machine, failover in failovers.items():
        world.note(machine.name, "failover", seconds=failover)
    keys = rng.choice((1, 1, 2))
    older = set(world.machines[1:]) if mixed else set()
    older = {each for each in sorted(older, key=lambda each: each.index) if rng.random() < _OLDER}
    strangers = rng.choice(((_Older, _Foreign), (_Older, _Touching, _Touching)))
    if rng.random() < 0.3:
        election = Election(world, "poller", failovers=failovers)
        world.oracle.silence.wanting.append(election.want)
        start_election(world, election)
    for machine in world.machines:
        if machine in older:
            _start_stranger(world, machine, keys, rng.choice(strangers))
        else:
            for worker in range(rng.choice((1, 1, 2))):
                _start_worker(world, machine, worker, failovers[machine], keys, functions)


def start_small_failover(world: World) -> None:
    """Wait, with a failover, for a lock whose owner is killed; then on a third host."""
    world.oracle.conduct.asked_by = lambda _: _ASKED
    for machine in world.machines:
        world.oracle.silence.declared[machine] = {2.0}
    start_calls(world, failover_functions(), (0, 0.0, 9.0), (1, 1.0, 2.0), (2, 20.0, 1.0), kind=_name("ship", 2.0))
    world.later(3.0, world.crash, 0)


def start_small_touches(world: World) -> None:
    """Keep a lock with a failover for some touches, while another host waits."""
    world.oracle.conduct.asked_by = lambda _: _ASKED
    for machine in world.machines:
        world.oracle.silence.declared[machine] = {5.0}
    start_calls(world, failover_functions(), (0, 0.0, 4.0), (1, 1.0, 0.5), kind=_name("ship", 5.0))


def start_small_leader(world: World) -> None:
    """Wait for a leadership whose leader is killed: with a failover, without an interval, and denied once before."""
    world.oracle.conduct.asked_by = lambda _: _ASKED
    options = SingletonOptions(listener_lock_period=15, listener_lock_recovery_polling_interval=None)
    election = Election(world, "poller", failovers=dict.fromkeys(world.machines, 2.0), options=options)
    world.oracle.silence.wanting.append(election.want)
    for machine in world.machines:
        world.oracle.silence.declared[machine] = {2.0}
        election.stand_once(machine, 0.3 * machine.index, 13.0)
    reads = count(1)

    def deny(request: NetworkRequest, passage: Passage) -> None:
        if request.call == "read" and next(reads) == 2:
            passage.answer = StoreFailure(403, None, "simulated")

    world.network.rules.append(deny)
    world.later(5.0, world.crash, 0)


def _let_clocks_drift(world: World) -> None:
    rng = world.rng_work
    for machine in world.machines:
        if machine.rate == 1.0:
            machine.rate = 1 + rng.choice((0.0, -_MOST_DRIFT, _MOST_DRIFT, rng.uniform(-_MOST_DRIFT, _MOST_DRIFT)))


def functions_of(world: World) -> dict[str, Callable[..., Any]]:
    """Return the functions of a world, whose draws stay as they were: the rates of its clocks decide."""
    rates = repr([each.rate for each in world.machines])
    return failover_functions(long=random.Random(rates).random() < 0.5)


@cache
def failover_functions(*, long: bool = False) -> dict[str, Callable[..., Any]]:
    """Declare each function with each value: all of one key share a lock."""

    async def work(msg: str, job: Job) -> None:
        await job.run()

    def work_sync(msg: str, job: Job) -> None:
        job.run_sync()

    made: dict[str, Callable[..., Any]] = {}
    for value in _ALL:
        # With a longer lease only the failover frees a dead holder's lock in time.
        period = _LONG_PERIOD if long and value == max(_VALUES) else None
        guarded = partial(singleton, scope="Order:Id", level="host", failover=value, lock_period=period)
        with without_options():
            made |= {
                _name("ship", value): guarded()(work),
                _name("soon", value): guarded(timeout=20)(work),
                _name("sync", value): guarded()(work_sync),
                _name("tick", value): guarded(on_contention="skip")(work),
                _name("insist", value): guarded(on_contention="raise")(work),
            }
    return made


def _name(kind: str, failover: float | None) -> str:
    return f"{kind}_{'off' if failover is None else f'{failover:g}'}"


def _start_worker(
    world: World,
    machine: Machine,
    worker: int,
    failover: float | None,
    keys: int,
    functions: dict[str, Callable[..., Any]],
) -> None:
    """Start a worker that calls functions one after another; now and then one with another value."""
    rng = world.rng_work
    plan = []
    work = 0.0
    used = world.oracle.silence.declared.setdefault(machine, {failover})
    for _ in range(rng.randint(1, 4)):
        steps, seconds = rng.randint(1, 4), rng.choice((0.05, 2.0, 7.0, 18.0)) * rng.uniform(0.5, 1.0)
        job = Job(world.resource, steps, seconds / steps, careful=rng.random() < 0.5, fails=rng.random() < 0.05)
        value = rng.choice(_ALL) if rng.random() < 0.1 else failover
        used.add(value)
        plan.append((rng.uniform(0, 4.0), _name(rng.choice(_KINDS), value), f"key-{rng.randrange(keys)}", job))
        work += seconds + 7.0
    world.start(machine, _work(world, machine, worker, plan, functions), seconds=work)


async def _work(
    world: World,
    machine: Machine,
    worker: int,
    plan: list[tuple[float, str, str, Job]],
    functions: dict[str, Callable[..., Any]],
) -> None:
    for number, (pause, kind, key, job) in enumerate(plan):
        await asyncio.sleep(pause)
        invocation = f"{machine.name}/{worker}/{number}"
        outcome = await invoke_one(world, machine, functions, kind, invocation, key=key, msg=message(key), job=job)
        world.oracle.reached[f"invocation: {outcome}"] += 1


# --- versions that know less of failover, and other libraries ---------------------------------------------------------


def _start_stranger(world: World, machine: Machine, keys: int, kind: type[_Stranger]) -> None:
    rng = world.rng_work
    world.oracle.signs.strangers.add(machine)
    lock = f"locks/explored/~key-{rng.randrange(keys)}"
    rounds = [(rng.uniform(0.0, 6.0), rng.choice((1.0, 5.0, 10.0, _DIES))) for _ in range(6)]
    ids = drawn_ids(rng)
    host = kind(world, machine, lock)
    world.start(machine, host.work(rounds, ids), seconds=sum(pause + seconds + 7.0 for pause, seconds in rounds))


class _Stranger(OtherHost):
    """A host that works in rounds under the lock, and dies at the end of some rounds."""

    async def work(self, rounds: list[tuple[float, float]], ids: list[str]) -> None:
        for pause, seconds in rounds:
            await asyncio.sleep(pause)
            for _ in range(12):
                if await self._try(ids.pop(), seconds):
                    break
                await asyncio.sleep(2.0)

    async def _try(self, lease_id: str, seconds: float) -> bool:
        """Ask once for the lock, and work under it; tell whether it was granted."""
        belief = Lease(lease_id, asyncio.get_running_loop().time() + _PERIOD * 14 / 15)
        try:
            token = await self._won(belief)
        except StoreFailure:
            await self._given_back(lease_id)
            return False
        if not belief.overdue():
            await self._inside(belief, token, seconds)
        if seconds == _DIES:
            self._world.crash(self._machine.index)
        await self._given_back(lease_id)
        return True

    async def _won(self, belief: Lease) -> int | None:
        """Acquire the lease, and stamp it; return the token."""
        await self._asked(self._store.acquire(self._lock, belief.id, _PERIOD))
        return None

    async def _inside(self, belief: Lease, token: int | None, seconds: float) -> None:
        oracle, loop = self._world.oracle, asyncio.get_running_loop()
        oracle.reached[f"bodies of {self.whose}"] += 1
        hold, ends = self._begun(belief, "stranger", token), loop.time() + seconds
        keeping = asyncio.create_task(self._keep(belief))
        while (left := min(ends, belief.deadline) - loop.time()) > 0:
            await (asyncio.sleep(left) if keeping.done() else asyncio.wait({keeping}, timeout=left))
        oracle.leave(hold)
        keeping.cancel()
        await asyncio.wait({keeping})

    whose = "another library"

    async def _keep(self, belief: Lease) -> None:
        """Renew the lease in time, until a renewal is refused."""
        while not belief.overdue():
            await asyncio.sleep(_RENEWAL)
            sent = belief.loop.time()
            try:
                await self._asked(self._store.renew(self._lock, belief.id))
                belief.deadline = sent + _PERIOD * 14 / 15
            except StoreFailure as failure:
                if failure.loss is not None:
                    belief.deadline = belief.loop.time()


class _Foreign(_Stranger):
    """A host of another library, which writes nothing on the blob."""


class _Older(_Stranger):
    """A host that renews nothing, and ends in time. It remembers the ETag and the token that it left."""

    whose = "an older version"
    _left: tuple[str, int] = "", 0

    async def _won(self, belief: Lease) -> int:
        etag = await self._asked(self._store.acquire(self._lock, belief.id, _PERIOD))
        if etag != self._left[0]:
            state = await self._asked(self._store.read(self._lock))
            epoch = int(state.metadata.get(EPOCH_KEY, state.modified * 1000)) + 1
            etag = await self._stamped(belief, state, epoch)
            self._left = etag, epoch * 1000
        self._left = self._left[0], self._left[1] + 1
        return self._left[1]

    async def _stamped(self, belief: Lease, state: BlobState, epoch: int) -> str:
        written = {**state.metadata, EPOCH_KEY: str(epoch)}
        return await self._asked(self._store.write(self._lock, belief.id, written, state.etag))

    async def _keep(self, belief: Lease) -> None: ...


class _Touching(_Older):
    """A host whose mark names no lease. It keeps what it does not know, for example the lease id of an earlier mark."""

    whose = "an older version that touches"
    _written: tuple[dict[str, str], str] = {}, ""

    async def _stamped(self, belief: Lease, state: BlobState, epoch: int) -> str:
        mark = {MARK_KEY: f"{_FAILOVER * 1000:.0f}/{epoch}", OWNER_KEY: f"{self._machine.name}/stranger", HELD_KEY: "0"}
        written = {**state.metadata, EPOCH_KEY: str(epoch), **mark}
        return await self._touched(belief, written, state.etag)

    async def _won(self, belief: Lease) -> int:
        self._lapses = belief.deadline
        self._left = "", self._left[1]  # a hold with failover is always stamped
        return await super()._won(belief)

    async def _touched(self, belief: Lease, written: dict[str, str], etag: str) -> str:
        sent = asyncio.get_running_loop().time()
        etag = await self._asked(self._store.write(self._lock, belief.id, written, etag))
        if not belief.overdue():
            belief.deadline = min(self._lapses, sent + _FAILOVER * 14 / 15)
        self._written = written, etag
        return etag

    async def _keep(self, belief: Lease) -> None:
        """Touch the lock, until a touch is not answered: the lease lasts as long as any body."""
        with suppress(StoreFailure):
            while True:
                await asyncio.sleep(_FAILOVER / 3)
                await self._touched(belief, *self._written)
