"""The workload ``ordered``: hosts send to an inbox and handle its messages, as apps and as workers, until none is left.

refused in peace       a send failed, and all was well with storage and host
"""

from __future__ import annotations

import asyncio
import math
import weakref
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from simulator.host.app.hostjson import QueueOptions
from simulator.virtual.hosts.jobs import able, ended, inside
from simulator.virtual.hosts.queue_host import QueueWorld, run_function
from simulator.virtual.oracle.callers import NO_ANSWER, STALE
from simulator.virtual.storage.network import both
from simulator.virtual.time.machine import Baton, here
from simulator.virtual.worlds.outcome import Refused
from singleton import Inbox, InboxMessage, LockClosed, ordered
from singleton.base.errors import SingletonError
from singleton.base.hold import current_hold
from tests.worlds.inboxes.bellwatch import BellWatch
from tests.worlds.inboxes.messages import Plan, drawn, number_in
from tests.worlds.inboxes.postbook import Postbook

if TYPE_CHECKING:
    from simulator.host.triggers.queue import QueueMessage
    from simulator.virtual.storage.service import Tenure
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.base.hold import Hold
    from singleton.patterns.ordered.aside_messages import AsideMessage
    from tests.worlds.inboxes.messages import Send

_NAME: Final = "orders"
_OPTIONS: Final = QueueOptions(max_polling_interval=5.0, max_dequeue_count=10_000, visibility_timeout=2.0)
_VISIBILITY: Final = 120.0
"""Seconds for which a host has a bell; it renews that. The real host takes ten minutes."""
_MOST_KEYS: Final = 3


class _Fails(Exception):
    """A handler fails."""


def start_ordered(world: World) -> None:
    """Each host sends messages of some keys, and handles messages of all hosts: as a Functions app, or as a worker."""
    rng = world.rng_work
    world.service.most_blocks = rng.choice((2, 3, 5, 12, 50_000))
    rules: dict[str, Any] = {"attempts": rng.choice((1, 2, 3)), "on_poison": rng.choice(("skip", "skip", "stop"))}
    office = _Office(world, rules, look_every=rng.choice((10.0, 60.0, 150.0)))
    keys, number = rng.choice((1, 1, 2, _MOST_KEYS)), 0
    manner = {"heavy": rng.random() < 0.3, "in_bursts": rng.random() < 0.3}
    for machine in world.machines:
        machine.ahead += rng.choice((0.0, 0.0, 3.0)) * rng.uniform(-1.0, 1.0)
        for _ in range(rng.choice((1, 1, 2))):
            plans = [drawn(rng, number + each, keys, rules["attempts"], **manner) for each in range(rng.randint(1, 6))]
            number += len(plans)
            office.plans.update({plan.number: plan for plan in plans})
            seconds = sum(plan.pause + (plan.takes + 2.0) * (plan.fails + 1) + 5.0 for plan in plans) * 2
            world.start(machine, office.sends(machine, plans), seconds=seconds)
        if rng.random() < 0.5:
            world.start(
                machine,
                office.works(machine, rng.randint(_MOST_KEYS, 8), stays=rng.choice((5.0, 20.0, math.inf, math.inf))),
                seconds=60.0,
            )
        else:
            office.listens(machine, is_async=rng.random() < 0.5)
        world.start(machine, office.operates(machine, pace=rng.uniform(10.0, 20.0)), seconds=60.0)
    world.watch(office.watch.look)
    world.oracle.last_checks.append(office.book.must_be_settled)
    office.impatient = rng.random() < 0.5


def start_small_ordered(world: World) -> None:
    """Send two messages of one key, and handle the messages on two hosts."""
    office = _Office(world, {"attempts": 3, "on_poison": "skip"}, look_every=10.0, apart=True)
    office.plans = {number: _calm(number) for number in range(2)}
    sender = world.machines[0]
    world.start(sender, office.sends(sender, list(office.plans.values())), seconds=60.0)
    for machine in world.machines:
        office.listens(machine, is_async=True)
    world.watch(office.watch.look)
    world.oracle.last_checks.append(office.book.must_be_settled)


def _calm(number: int) -> Plan:
    return Plan(
        number=number,
        pause=4.0 * number,
        key="customer 0",
        fails=0,
        takes=0.5,
        careful=True,
        heavy=False,
        sync=False,
        cancel_after=None,
    )


@dataclass(slots=True)
class _Bell:
    """A bell as the worker of a Functions host hands it on."""

    id: str
    pop_receipt: str
    body: bytes

    def get_body(self) -> bytes:
        """Return its body."""
        return self.body


@dataclass(slots=True)
class _Office:
    """The inbox, who sends and who handles."""

    world: World
    rules: dict[str, Any]
    look_every: float
    apart: bool = False
    """Whether each call of a handler is a task of its own, which can be cancelled."""
    impatient: bool = False
    """Whether operators also resume keys that wait for their next attempt."""
    plans: dict[int, Plan] = field(default_factory=dict)
    inbox: Inbox = field(init=False)
    book: Postbook = field(init=False)
    watch: BellWatch = field(init=False)
    _hosting: QueueWorld = field(init=False)
    _sending: Counter[Machine] = field(default_factory=Counter)
    _seen: weakref.WeakSet[Hold] = field(default_factory=weakref.WeakSet)
    _tried: Counter[int] = field(default_factory=Counter)
    _resent: dict[str, Send] = field(default_factory=dict)
    _over: bool = False

    def __post_init__(self) -> None:
        world = self.world
        self.inbox = Inbox(_NAME)
        self._hosting = QueueWorld(world, _OPTIONS)
        self.book = Postbook(world, self.inbox.service.names, self.rules["attempts"])
        self.watch = BellWatch(world, self.book, self._hosting.queues, _NAME)
        world.network.on_answer = both(world.network.on_answer, self.book.answered)
        world.service.on_end = both(self.watch.ended, world.service.on_end)
        world.oracle.conduct.keeps = self._keeps
        world.oracle.conduct.asked_by = self.watch.bells

    def _keeps(self, tenure: Tenure) -> bool:
        """Tell whether a visit goes on under a lease, or a look, or what an operator does."""
        assert tenure.machine is not None
        holds = self.world.runtimes[tenure.machine].registry.acquired
        return any(hold.lease_id == tenure.lease_id and not hold.lost._ended for hold in holds)

    # --- senders ------------------------------------------------------------------------------------------------------

    async def sends(self, machine: Machine, plans: list[Plan]) -> None:
        """Send one message after the other."""
        self._sending[machine] += 1
        for plan in plans:
            await asyncio.sleep(plan.pause)
            send = self.book.sends(machine, plan.key, plan.number)
            after = None if plan.sync else plan.cancel_after
            self.book.sent(send, ok=bool(await ended(self._send(send, plan), repr(send), cancel_after=after)))
        self._sending[machine] -= 1

    async def _send(self, send: Send, plan: Plan) -> bool:
        machine = send.machine
        try:
            if plan.sync:
                await Baton.run(lambda: self.inbox.send(plan.key, plan.body))
            else:
                await self.inbox.asend(plan.key, plan.body)
        except LockClosed:
            return False
        except SingletonError as error:
            if able(self.world, machine, self.world.loop.now - send.since + STALE + NO_ANSWER):
                self.world.oracle.blame("refused in peace", f"{machine.name} was told: {error}")
            return False
        return True

    # --- handlers -----------------------------------------------------------------------------------------------------

    async def works(self, machine: Machine, keys: int, stays: float) -> None:
        """Run a worker until nothing is left; another one after ``stays`` seconds."""
        handling = {"keys": keys, "look_every": self.look_every, **self.rules}
        with suppress(LockClosed):
            while not self._ends_on(machine):
                async with self.inbox.worker(self._handle, **handling):
                    ends = self.world.loop.now + stays
                    while not self._ends_on(machine) and self.world.loop.now < ends:  # noqa: ASYNC110 - nobody tells
                        await asyncio.sleep(1.0)

    def listens(self, machine: Machine, *, is_async: bool) -> None:
        """Run an app with a queue function and a timer."""

        async def ship(message: InboxMessage) -> None:
            await self._handle(message)

        def ship_sync(message: InboxMessage) -> None:
            self._handle_sync(message)

        function = ordered(self.inbox, **self.rules)(ship if is_async else ship_sync)

        async def run(received: QueueMessage) -> bool:
            bell = _Bell(received.id, received.pop_receipt, received.body)
            outcome = "ok"

            async def handle() -> bool:
                await run_function(function, {"message": bell})
                return True

            try:
                called = ended(handle(), f"{machine.name}/{bell.id}", cancel_after=None) if self.apart else handle()
                if not await called:
                    outcome = "cancelled"
            except (SingletonError, _Fails, Refused) as error:
                outcome = type(error).__name__
            self.world.oracle.reached[f"invocation: {outcome}"] += 1
            return outcome == "ok"

        self._hosting.listen(machine, function.__name__, _NAME, run, visibility=_VISIBILITY)
        self.world.start(machine, self._looks(machine))

    async def _looks(self, machine: Machine) -> None:
        while not self._ends_on(machine):
            await asyncio.sleep(self.look_every)
            with suppress(SingletonError):
                await self.inbox.alook()
        if self._is_over():
            self._hosting.stop()

    async def _handle(self, message: InboxMessage) -> None:
        machine, hold = here(), current_hold()
        send, plan = self.book.begins(machine, hold, message), self.plans[number_in(message.body)]
        with inside(self.world, machine, hold, is_first=self._is_first(hold)):
            await asyncio.sleep(plan.takes)
            self._ends(machine, hold, send, message, plan)

    def _handle_sync(self, message: InboxMessage) -> None:
        machine, hold = here(), current_hold()
        send, plan = self.book.begins(machine, hold, message), self.plans[number_in(message.body)]
        with inside(self.world, machine, hold, sync=True, is_first=self._is_first(hold)):
            Baton.wait(asyncio.sleep(plan.takes))
            self._ends(machine, hold, send, message, plan)

    def _is_first(self, hold: Hold) -> bool:
        if hold in self._seen:
            return False
        self._seen.add(hold)
        return True

    def _ends(self, machine: Machine, hold: Hold, send: Send | None, message: InboxMessage, plan: Plan) -> None:
        if plan.careful:
            hold.raise_if_lost()
        if send is None:
            return
        self._tried[send.number] += 1
        try:
            self._work(hold, fails=self._tried[send.number] <= plan.fails)
        except (_Fails, Refused):
            self.book.fails(machine, send, message.attempt)
            raise
        self.book.done(send)

    def _work(self, hold: Hold, *, fails: bool) -> None:
        self.world.resource.write(hold)
        if fails:
            raise _Fails

    # --- operators ----------------------------------------------------------------------------------------------------

    async def operates(self, machine: Machine, *, pace: float) -> None:
        """Resume stopped keys, and handle what was put aside: some of it is sent again, the rest is discarded."""
        while not self._ends_on(machine):
            await asyncio.sleep(pace)
            with suppress(SingletonError):
                await self._resumes()
                for message in await self.inbox.aaside():
                    if number_in(message.body) % 2:
                        await self.inbox.adiscard(message)
                    else:
                        await self._resends(machine, message)

    async def _resumes(self) -> None:
        stopped = [each.key for each in await self.inbox.astopped()]
        waiting = [key.sends[0].key for key in self.book.keys.values() if self.impatient and key.kept.until]
        for name in dict.fromkeys((*stopped, *waiting)):
            spot, since = self.book.names.spot(name), self.world.loop.now
            skip = name in stopped and len(self.book.keys[spot].sends) % 2 == 0
            self.book.keys[spot].skips |= skip
            await self.inbox.aresume(name, skip=skip)
            self.book.resumed(spot, since)

    async def _resends(self, machine: Machine, message: AsideMessage) -> None:
        if message.name not in self._resent:
            self._resent[message.name] = self.book.sends(machine, message.key, number_in(message.body), again=True)
        send = self._resent[message.name]
        try:
            await self.inbox.aresend(message)
        except SingletonError:
            if not send.ok:
                self.book.sent(send, ok=False)
            raise
        if not send.ok:
            self.book.sent(send, ok=True)

    def _ends_on(self, machine: Machine) -> bool:
        return machine.leaving or self._is_over()

    def _is_over(self) -> bool:
        """Tell whether all was sent and handled, and nothing is put aside: then nobody does anything more."""
        self._over = self._over or self._is_settled()
        return self._over

    def _is_settled(self) -> bool:
        if any(number for machine, number in self._sending.items() if not machine.leaving):
            return False
        if any(key.kept.stopped for key in self.book.keys.values()) or self.book.waiting:
            return False
        service, names = self.world.service, self.book.names
        # A request to put something aside that arrives a second time may leave an empty log.
        aside = [name for name in service.logs(names.asides) if service.content(name)]
        return not (self.book.with_logs() or aside)
