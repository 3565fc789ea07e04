"""Each check of the oracle fires in a situation made for it, and none in one where all is well."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import pytest

from simulator.host.triggers.queue import QueueMessage, encode
from simulator.virtual.faults.point_faults import NumberedRequest
from simulator.virtual.hosts.jobs import Job
from simulator.virtual.hosts.queue_host import Feed, QueueWorld
from simulator.virtual.oracle.evidence import RunningBody
from simulator.virtual.search.story_report import promises
from simulator.virtual.storage.network import NetworkRequest, Passage
from simulator.virtual.storage.service import NetworkStore
from simulator.virtual.time import loop as loops
from simulator.virtual.workloads import guarded_calls, leaders, semaphores
from simulator.virtual.workloads.leaders import LeaderWaiter
from simulator.virtual.worlds.logs import RAISED
from singleton import AsyncLockClient
from singleton.base.errors import LockLost, LockNotAcquired, StorageUnavailable
from singleton.base.hold import Hold, LossSignal
from singleton.locking.record import SectionRecord
from singleton.locking.section import Section
from singleton.settings.accounts import LockContainer
from singleton.settings.connection import StorageAccount
from singleton.stores.protocol import StoreFailure
from singleton.stores.stamps import EPOCH_KEY, HELD_KEY
from tests.simulation.argument_scenes import ARGUMENTS
from tests.simulation.coalescing_scenes import COALESCING
from tests.simulation.inbox_scenes import INBOXES, a_key_without_its_stop, all_is_well, an_empty_log, counted_twice
from tests.simulation.listening import LISTENING
from tests.simulation.looking import LOOKS
from tests.simulation.misdeliveries import LIFE, MISDELIVERIES, Desk
from tests.simulation.nested_scenes import NESTED
from tests.simulation.pattern_scenes import PATTERNS, noted_claimer
from tests.simulation.scenes import IDS, LOCK, PERIOD, Belief, Host, Scene
from tests.simulation.silencing import SILENCING
from tests.simulation.state_scenes import STATES
from tests.simulation.wire_scenes import WIRES
from tests.worlds import once
from tests.worlds.clients import book as clientbook
from tests.worlds.clients import crowd as clientcrowd
from tests.worlds.clients import uses as clientuses
from tests.worlds.deployments import deployed, deployment
from tests.worlds.deployments.deployment import Deed
from tests.worlds.deployments.places import Expected, Places

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from singleton.base.kinds import LossReason
    from singleton.locking.lease import Lease

FOLDERS = (Path(leaders.__file__).parents[1], Path(once.__file__).parent)
"""The simulator's virtual worlds, and those of the tests."""
SITUATIONS: dict[str, Callable[[Scene], None]] = {**LISTENING, **LOOKS, **SILENCING}


def situation(check: str) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    """Name the check that is to fire in a scene."""

    def add(make: Callable[[Scene], None]) -> Callable[[Scene], None]:
        SITUATIONS[check] = make
        return make

    return add


def of(check: str, *, function: str = "ship") -> Callable[[Callable[[Host], object]], None]:
    """Name the check that is to fire when one host plays this part; it has asked for the lock as ``function``."""

    def add(part: Callable[[Host], object]) -> None:
        def make(scene: Scene) -> None:
            async def play(host: Host) -> None:
                host.says("waiting", function=function)
                await part(host)  # type: ignore[misc]

            scene.a.plays(play)

        SITUATIONS[check] = make

    return add


# --- the oracle: who is inside, and what a host believes --------------------------------------------------------------


@situation("two inside")
def _(scene: Scene) -> None:
    async def first(host: Host) -> None:
        hold = host.enter(await host.take())
        await host.until(10.0)
        host.leave(hold)

    async def second(host: Host) -> None:
        await host.until(5.0)
        host.leave(host.enter(await scene.a.take(IDS[0])))

    scene.a.plays(first)
    scene.b.plays(second)


@of("without lease")
async def _(host: Host) -> None:
    belief = await host.take()
    await host.store.release(LOCK, belief.id)
    host.enter(belief)


@of("entered lost")
async def _(host: Host) -> None:
    host.leave(host.enter(await host.take(), lost="expired"))


class _Deaf(LossSignal):
    __slots__ = ()

    def add_callback(self, callback: Callable[[LossReason], None]) -> Callable[[], None]:  # noqa: ARG002
        return lambda: None


@of("callback forgotten")
async def _(host: Host) -> None:
    hold = host.enter(await host.take())
    hold.lost.__class__ = _Deaf
    host.says("lost", hold=hold, reason="stolen")
    await host.until(2.0)
    host.leave(hold)


@of("label wiped")
async def _(host: Host) -> None:
    await host.store.create(LOCK)
    host.scene.world.operate("label", 0)
    etag = await host.store.acquire(LOCK, IDS[0], PERIOD)
    await host.store.write(LOCK, IDS[0], {}, etag)
    await host.store.release(LOCK, IDS[0])


@of("believes")
async def _(host: Host) -> None:
    host.leave(host.enter(await host.take(lasts=15.5)))


@of("inside after end")
async def _(host: Host) -> None:
    hold = host.enter(await host.take())
    await host.until(16.0)
    host.leave(hold)


@of("cancellation ignored")
async def _(host: Host) -> None:
    host.scene.world.oracle.ignoring = lambda body: f"{body.machine.name} was cancelled, and goes on"
    hold = host.enter(await host.take())
    await host.until(16.0)
    host.leave(hold)


@of("not told")
async def _(host: Host) -> None:
    belief = await host.take()
    host.enter(belief)
    belief.deadline += 1000.0
    host.scene.world.operate("break_", 0)
    await host.until(20.0)


@of("released inside")
async def _(host: Host) -> None:
    belief = await host.take()
    hold = host.enter(belief)
    await host.store.release(LOCK, belief.id)
    host.leave(hold)


@of("wrong period")
async def _(host: Host) -> None:
    await host.take(period=30)


@situation("taken away")
def _(scene: Scene) -> None:
    async def first(host: Host) -> None:
        await host.take()

    async def second(host: Host) -> None:
        await host.until(3.0)
        await host.store.release(LOCK, IDS[0])

    scene.a.plays(first)
    scene.b.plays(second)


@of("token order")
async def _(host: Host) -> None:
    belief = await host.take()
    host.leave(host.enter(belief, token=7))
    host.leave(host.enter(belief, token=7))


# --- what stands on a blob --------------------------------------------------------------------------------------------


@of("nobody named")
async def _(host: Host) -> None:
    await host.store.create(LOCK)
    host.leave(host.enter(await host.take(), token=1))


@of("told as older")
async def _(host: Host) -> None:
    long = await host.take()
    await host.store.write(LOCK, long.id, {EPOCH_KEY: "5", HELD_KEY: "8.0"}, (await host.store.read(LOCK)).etag)
    await host.store.release(LOCK, long.id)
    host.leave(host.enter(await host.take(IDS[1]), token=5001))


# --- conduct: what hosts send -----------------------------------------------------------------------------------------


@of("used after release")
async def _(host: Host) -> None:
    belief = await host.take()
    await host.store.release(LOCK, belief.id)
    await host.store.acquire(LOCK, belief.id, 15)


@of("used after closing")
async def _(host: Host) -> None:
    host.scene.world.shut_down(0)
    await host.until(0.5)
    await host.take()


@situation("flood")
def _(scene: Scene) -> None:
    async def holds(host: Host) -> None:
        belief = await host.take()
        await host.until(10.0)
        await host.store.release(LOCK, belief.id)

    async def floods(host: Host) -> None:
        await host.until(1.0)
        for _ in range(50):
            await asyncio.sleep(0.1)
            with pytest.raises(StoreFailure):
                await host.store.acquire(LOCK, IDS[1], 15)

    scene.a.plays(holds)
    scene.b.plays(floods)


@of("left to lapse")
async def _(host: Host) -> None:
    await host.take()
    await host.until(20.0)


@of("lost in peace")
async def _(host: Host) -> None:
    hold = host.enter(await host.take())
    host.says("lost", reason="expired", hold=hold)
    host.leave(hold)


@of("false loss")
async def _(host: Host) -> None:
    hold = host.enter(await host.take())
    host.says("lost", reason="stolen", hold=hold)
    host.leave(hold)


@of("expired too soon")
async def _(host: Host) -> None:
    hold = host.enter(await host.take())
    await host.until(7.0)
    host.says("lost", reason="expired", hold=hold)
    host.leave(hold)


@of("renewed late")
async def _(host: Host) -> None:
    belief = await host.take()
    await host.until(10.0)
    await host.store.renew(LOCK, belief.id)
    await host.store.release(LOCK, belief.id)


@of("released for long")
async def _(host: Host) -> None:
    belief = await host.take()
    for when in (1.0, 3.0, 7.0):
        await host.until(when)
        host.scene.world.network.rules.append(_lose)
        request = asyncio.ensure_future(host.store.release(LOCK, belief.id))
        await asyncio.sleep(0.1)
        host.scene.world.network.rules.remove(_lose)
        request.cancel()


def _lose(_: NetworkRequest, passage: Passage) -> None:
    passage.lost = True


# --- callers: what those who wait may expect --------------------------------------------------------------------------


@of("late answer", function="tick")
async def _(host: Host) -> None:
    await host.until(3.0)


@of("false contention", function="tick")
async def _(host: Host) -> None:
    host.says("contended", reason="skip")


@situation("read too often")
def _(scene: Scene) -> None:
    async def part(host: Host) -> None:
        scene.world.oracle.bounds.forgets = False
        for name in "ab":
            await host.until(10.0 if name == "a" else 30.0)
            host.says("waiting", name, function="insist")
            with pytest.raises(StoreFailure):
                await host.store.acquire(LOCK, IDS[1], PERIOD)
            host.says("contended", name, function="insist", reason="raise")
            await host.store.read(LOCK)
            host.ends("LockNotAcquired", name)

    async def holds(host: Host) -> None:
        belief = await host.take()
        for when in (7.0, 14.0, 21.0, 28.0):
            await host.until(when)
            await host.store.renew(LOCK, belief.id)
        await host.until(35.0)
        await host.store.release(LOCK, belief.id)

    scene.b.plays(holds)
    scene.a.plays(part)


@of("false alarm")
async def _(host: Host) -> None:
    host.ends("StorageUnavailable")


@situation("not told of a refusal")
def _(scene: Scene) -> None:
    def deny(_: NetworkRequest, passage: Passage) -> None:
        passage.answer = StoreFailure(403)

    async def part(host: Host) -> None:
        host.says("waiting")
        await host.until(8.0)
        scene.world.network.rules.append(deny)
        with pytest.raises(StoreFailure):
            await host.store.acquire(LOCK, IDS[0], 15)

    scene.a.plays(part)


@of("out of turn")
async def _(host: Host) -> None:
    await host.until(1.0)
    host.says("waiting", "later")
    host.says("acquired", "later")


@situation("kept from others")
def _(scene: Scene) -> None:
    async def keeps(host: Host) -> None:
        belief = await host.take()
        for number, when in enumerate((0.5, 20.0, 40.0)):
            while scene.world.loop.now < when:
                await asyncio.sleep(min(7.0, when - scene.world.loop.now))
                await host.store.renew(LOCK, belief.id)
            host.says("waiting", f"me {number}")
            host.says("acquired", f"me {number}")
        await host.store.release(LOCK, belief.id)

    async def waits(host: Host) -> None:
        host.says("waiting", "other")

    scene.a.plays(keeps)
    scene.b.plays(waits)


@situation("nobody took it")
def _(scene: Scene) -> None:
    async def takes(host: Host) -> None:
        belief = await host.take()
        await host.until(5.0)
        await host.store.release(LOCK, belief.id)

    async def waits(host: Host) -> None:
        host.says("waiting", "other")

    scene.a.plays(takes)
    scene.b.plays(waits)


@of("handed a lost lease")
async def _(host: Host) -> None:
    host.says("acquired")
    host.says("released")


# --- semaphores, leaders, messages put back ---------------------------------------------------------------------------


@of("too many inside")
async def _(host: Host) -> None:
    pool = semaphores.Pool(host.scene.world, 1)
    for number in range(2):
        hold = Hold(f"reports/slot-{number}", lease=Belief(IDS[number], host.now() + 14.0))
        pool._enter(RunningBody(hold.lock, host.machine, hold, sync=False, since=0.0))


def test_a_slot_may_not_stay_free_while_a_process_waits_that_has_another() -> None:
    scene = Scene()

    async def part(host: Host) -> None:
        pool = semaphores.Pool(scene.world, 2)
        pool._visits += [semaphores._SlotVisit(host.machine, "inside", 0.0, company=False, waits=False)]
        await host.until(30.0)
        pool.must_find_takers()
        assert not scene.world.oracle.violations
        pool._visits += [semaphores._SlotVisit(host.machine, "waits", 0.0, company=True)]
        pool.must_find_takers()

    scene.a.plays(part)
    assert set(scene.found()) == {"nobody took it"}


def _returned(ledger: once.Ledger, call: once.Call, result: object) -> None:
    ledger.returned(call, result)
    assert call.result == result


def _did(ledger: once.Ledger, host: Host, owner: str) -> once.Call:
    call = ledger.begin(host.machine, owner, "key")
    hold = Hold("once/charge/key", lease=Belief(IDS[0], host.now() + 14.0))
    assert ledger.effect(call, hold) == len(ledger.effects["key"])
    return call


@of("two results")
async def _(host: Host) -> None:
    ledger = once.Ledger(host.scene.world)
    calls = [_did(ledger, host, owner) for owner in "ab"]
    for call, result in zip(calls, (1, 2), strict=True):
        _returned(ledger, call, result)


@of("no effect")
async def _(host: Host) -> None:
    ledger = once.Ledger(host.scene.world)
    _returned(ledger, _did(ledger, host, "a"), None)


@of("done again")
async def _(host: Host) -> None:
    ledger = once.Ledger(host.scene.world)
    _returned(ledger, _did(ledger, host, "a"), 1)
    await asyncio.sleep(1.0)
    _did(ledger, host, "b")


@of("another output")
async def _(host: Host) -> None:
    ledger = once.Ledger(host.scene.world)
    call = _did(ledger, host, "me")
    call.out.set(None)
    ledger.sent(call, 1)


@of("another end")
async def _(host: Host) -> None:
    ledger = once.Ledger(host.scene.world)
    args: tuple[Any, ...] = ("id", {"SingletonUntil": "1800000000"}, '"0x1"', b"{}")
    ledger.written(NetworkRequest(host.machine, "put", LOCK, lambda: None, args=args), None, Passage(0.0, 0.0))


@of("two doers")
async def _(host: Host) -> None:
    ledger = once.Ledger(host.scene.world)
    for call in [_did(ledger, host, owner) for owner in "ab"]:
        _returned(ledger, call, 1)


@of("counts after all")
async def _(host: Host) -> None:
    ledger = once.Ledger(host.scene.world)
    ledger.lost(_did(ledger, host, "a"))
    _returned(ledger, ledger.begin(host.machine, "b", "key"), 1)


@of("nobody leads")
async def _(host: Host) -> None:
    election = leaders.Election(host.scene.world, "poller", {host.machine: 0.0})
    await host.until(40.0)
    election.must_have_a_leader()


# --- what was deployed ------------------------------------------------------------------------------------------------


def _deployed(host: Host, *, limit: float | None = None, attempts: int | None = None, **changes: Any) -> Places:
    """Deploy the lock of a scene to a host, which is to ask for it."""
    world = host.scene.world
    judge = Places(world.oracle)
    judge.listen(world.network, world.service)
    expected = Expected(
        **{
            "name": LOCK,
            "endpoint": "https://shop.blob.core.windows.net",
            "way": "identity DefaultAzureCredential",
            "container": "locks",
            "period": 15.0,
            "renewal": 7.5,
            "soonest": 0.5,
            "latest": 5.0,
            "in_line": True,
            "written": "token",
            **changes,
        }
    )
    judge.expect(host.machine, "me", expected, limit=limit, attempts=attempts)
    return judge


@of("wrong lock")
async def _(host: Host) -> None:
    _deployed(host, name="locks/explored/another")
    host.says("waiting")


@of("wrong place")
async def _(host: Host) -> None:
    _deployed(host)
    account = StorageAccount(account_url="https://another.blob.core.windows.net")
    world = host.scene.world
    await NetworkStore(world.network, world.service, host.machine, LockContainer(account, "locks")).create(LOCK)


@of("wrong stamp")
async def _(host: Host) -> None:
    _deployed(host)
    host.says("waiting")
    host.says("acquired")


async def _asked_twice(host: Host, pause: float) -> None:
    other = host.scene.b.store
    await other.create(LOCK)
    await other.acquire(LOCK, IDS[5], 60)
    host.says("waiting")
    for _ in range(2):
        with pytest.raises(StoreFailure):
            await host.store.acquire(LOCK, IDS[0], 15)
        await asyncio.sleep(pause)


@of("asks too soon")
async def _(host: Host) -> None:
    _deployed(host)
    await _asked_twice(host, 0.01)


@of("asks too seldom")
async def _(host: Host) -> None:
    _deployed(host)
    await _asked_twice(host, 8.0)


@of("renewed out of time")
async def _(host: Host) -> None:
    _deployed(host)
    belief = await host.take()
    await asyncio.sleep(3.0)
    await host.store.renew(LOCK, belief.id)


@of("gave up early")
async def _(host: Host) -> None:
    _deployed(host, limit=20.0)
    host.says("waiting")
    await asyncio.sleep(5.0)
    host.says("contended", reason="timeout")


@situation("refused for nothing")
def _(scene: Scene) -> None:
    refused = deployment.Edition(deployment.App(0, [], "app"), {}, refused="its scope")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deployed, "deployment", lambda _: (refused,))
        deployed.start_deployed(scene.world)


@of("wrong answer")
async def _(host: Host) -> None:
    app = deployment.App(0, [], "app")
    judge = deployed._Host(host.scene.world, host.machine, deployment.Edition(app, {}), _deployed(host))
    judge._judge("me", Deed(Job(host.scene.world.resource, 1, 1.0), "sent"), "sent")


# --- lock clients -----------------------------------------------------------------------------------------------------

_HERE = LockContainer(StorageAccount(connection_string="UseDevelopmentStorage=true"), "brought")


def _client(host: Host) -> tuple[clientbook.Book, clientbook.Customer]:
    """Open a client on a host, and look after it."""
    book = clientbook.Book(host.scene.world)
    book.watch()
    return book, book.opened(host.machine, _HERE, brought=True)


def _user(host: Host, kind: Literal["lock", "worker"]) -> tuple[clientuses.User, clientbook.Use]:
    """Let somebody use the client of a host."""
    book, customer = _client(host)
    calls = clientbook.Calls(host.scene.world)
    calls.watch()
    user = clientuses.User(host.scene.world, book, calls, customer, AsyncLockClient(), "me", sync=False)
    return user, book.begin(customer, "me", kind, (LOCK,), None)


class _Endless:
    """A leadership that never comes, and whose end nobody tells."""

    name = "poller"

    def __await__(self) -> Generator[Any, None, Hold]:
        return asyncio.sleep(1000.0).__await__()  # type: ignore[return-value]


@of("not told of closing")
async def _(host: Host) -> None:
    book, customer = _client(host)
    book.begin(customer, "me", "lock", (LOCK,), None)
    book.closed(customer)
    await host.until(3.0)


@of("no without a no")
async def _(host: Host) -> None:
    book, customer = _client(host)
    use = book.begin(customer, "me", "lock", (LOCK,), 5.0)
    await host.until(5.0)
    book.over(use, LockNotAcquired("it is taken"))


@of("waits for nothing")
async def _(host: Host) -> None:
    book, customer = _client(host)
    book.begin(customer, "me", "lock", (LOCK,), None)
    await host.until(60.0)


@of("kept for nobody")
async def _(host: Host) -> None:
    book, customer = _client(host)
    use = book.begin(customer, "me", "lock", (LOCK,), None)
    belief = await host.take()
    book.got(use, (LOCK,))
    book.over(use, None)
    await host.until(7.0)
    await host.store.renew(LOCK, belief.id)
    await host.until(9.0)


@of("asks for nobody")
async def _(host: Host) -> None:
    book, customer = _client(host)
    book.over(book.begin(customer, "me", "lock", (LOCK,), None), None)
    await host.until(8.0)
    await host.take()
    await host.until(9.0)


@of("outlives its client")
async def _(host: Host) -> None:
    book, customer = _client(host)
    host.scene.world.openings.store(host.machine, _HERE)
    book.closed(customer)
    await host.until(30.0)


@of("kept too short")
async def _(host: Host) -> None:
    book, customer = _client(host)
    belief = await host.take()
    book.must_last(book.begin(customer, "me", "lock", (LOCK,), None), Hold(LOCK, lease=belief), 8.0)
    await host.store.release(LOCK, belief.id)
    await host.until(8.0)


def _crowd(host: Host) -> tuple[clientcrowd.Crowd, clientbook.Use, clientbook.Use]:
    """Let two of one process ask for one lock, one well after the other."""
    book, customer = _client(host)
    crowd = clientcrowd.Crowd(host.scene.world, book=book, window=5.0)
    first = book.begin(customer, "first", "lock", (LOCK,), None)
    first.since -= 10.0
    return crowd, first, book.begin(customer, "second", "lock", (LOCK,), None)


@of("overtaken")
async def _(host: Host) -> None:
    crowd, _first, second = _crowd(host)
    crowd.got(second, (Hold(LOCK, token=1, lease=await host.take()),))


@of("handed on too late")
async def _(host: Host) -> None:
    crowd, first, _second = _crowd(host)
    belief = await host.take(lasts=1.0)
    hold = Section.__new__(Section)
    Hold.__init__(hold, LOCK, token=1, lease=belief)
    await host.until(2.0)
    hold.lease, hold.record = cast("Lease", belief), SectionRecord(hold.lost, (LOCK, "me", 1, ""))
    crowd.got(first, (hold,))


@of("handed on for too long")
async def _(host: Host) -> None:
    crowd, first, _second = _crowd(host)
    belief = await host.take()
    crowd.got(first, (Hold(LOCK, token=1, lease=belief),))
    await host.until(10.0)
    crowd.got(first, (Hold(LOCK, token=2, lease=belief),))


@of("handed on when lost")
async def _(host: Host) -> None:
    crowd, first, _second = _crowd(host)
    belief = await host.take()
    hold = Hold(LOCK, token=1, lease=belief)
    crowd.got(first, (hold,))
    hold.lost.fire("stolen")
    crowd.got(first, (Hold(LOCK, token=2, lease=belief),))


@of("older than the last")
async def _(host: Host) -> None:
    crowd, first, _second = _crowd(host)
    belief = await host.take()
    crowd.got(first, (Hold(LOCK, token=2, lease=belief),))
    crowd.got(first, (Hold(LOCK, token=2, lease=belief),))


@of("used after its store")
async def _(host: Host) -> None:
    await host.store.create(LOCK)
    await host.store.aclose()
    await host.store.read(LOCK)


@of("waits for itself")
async def _(host: Host) -> None:
    user, use = _user(host, "lock")
    user.blame_itself(use)


@of("success without its lock")
async def _(host: Host) -> None:
    user, use = _user(host, "lock")
    use.lost = True
    user.must_have_failed(use, clientuses.Plan(pause=0.0, way="lock", names=(LOCK,)), None)


@of("raised to be told")
async def _(host: Host) -> None:
    user, use = _user(host, "lock")
    use.lost = True
    told = clientuses.Plan(pause=0.0, way="lock", names=(LOCK,), on_loss="tell")
    user.must_have_failed(use, told, LockLost("it is lost", lock=LOCK))


@of("another hold within")
async def _(host: Host) -> None:
    user, use = _user(host, "lock")
    belief = await host.take()
    user.must_share(use, Hold(LOCK, lease=belief), None)


@of("held beyond its limit")
async def _(host: Host) -> None:
    user, use = _user(host, "lock")
    hold = Hold(LOCK, lease=await host.take())
    user.must_end(use, hold, 2.0, [])
    await host.until(5.0)


@of("lost before its limit")
async def _(host: Host) -> None:
    user, use = _user(host, "lock")
    hold = Hold(LOCK, lease=await host.take())
    user.must_end(use, hold, 30.0, [])
    hold.lost.fire("too long")


@of("out of step")
async def _(host: Host) -> None:
    user, use = _user(host, "worker")
    await host.until(20.0)
    user.calls.must_be_on_time(use, 14.0, 5.0)


@of("begun after its loss")
async def _(host: Host) -> None:
    user, use = _user(host, "lock")
    hold = Hold(LOCK, lease=await host.take())
    hold.lost.fire("stolen")
    user.calls.must_begin_well(use, (hold,))


@of("another lock listed")
async def _(host: Host) -> None:
    user, _use = _user(host, "lock")
    user.must_begin_with("shop", ["shop/a", "stall"])


@of("worked after its stop")
async def _(host: Host) -> None:
    user, use = _user(host, "worker")
    user.blame_stopped(use)


@of("stopped late")
async def _(host: Host) -> None:
    user, use = _user(host, "worker")
    await host.until(5.0)
    user.must_have_stopped(use, 0.0, 3.0)


@of("another lock")
async def _(host: Host) -> None:
    user, use = _user(host, "lock")
    user.calls.got(use, (Hold("another", lease=None),))


@of("lost after its release")
async def _(host: Host) -> None:
    user, use = _user(host, "lock")
    belief = await host.take()
    hold = Hold(LOCK, lease=belief)
    await host.store.release(LOCK, belief.id)
    user.calls.released(use, (hold,), kept=False)
    await host.until(20.0)


@of("asleep after its end")
async def _(host: Host) -> None:
    user, use = _user(host, "lock")
    use.waiter = asyncio.ensure_future(asyncio.sleep(20.0))
    user.calls.released(use, (), kept=True)
    await host.until(10.0)


@of("gave up too soon")
async def _(host: Host) -> None:
    user, _ = _user(host, "lock")
    asked = host.scene.world.loop.now
    await host.until(1.0)
    user.calls.not_answered(host.machine, asked, StorageUnavailable("no answer"))


@of("left waiting")
async def _(host: Host) -> None:
    witness = LeaderWaiter(host.scene.world, host.machine)
    witness.wait_for(_Endless())  # type: ignore[arg-type]
    await host.until(3.0)
    await witness.must_know()


@of("out of order")
async def _(host: Host) -> None:
    book, customer = _client(host)
    book.begin(customer, "me", "set", (LOCK, "a"), None)
    await host.until(1.0)
    await host.take()
    await host.until(5.0)
    await host.store.create("a")
    await host.store.acquire("a", IDS[1], 15)
    await host.until(6.0)


@of("logged on the lock thread")
async def _(host: Host) -> None:
    host.scene.world.spoil_log(host.machine.index, 5.0, raises=False)
    record = logging.makeLogRecord({"msg": "a line", "levelno": logging.WARNING})
    host.machine.context("locks").run(logging.getLogger("singleton").handle, record)


@of("lock thread ended")
async def _(_: Host) -> None:
    raise SystemExit(RAISED)


# --- the world, at its end --------------------------------------------------------------------------------------------


@of("starved")
async def _(host: Host) -> None:
    await host.until(10_000.0)


@situation("does not close")
def _(scene: Scene) -> None:
    async def never() -> None:
        await asyncio.sleep(10_000.0)

    scene.world.runtimes[scene.a.machine].registry.aclose = never  # type: ignore[method-assign]


@situation("deadlock")
def _(scene: Scene) -> None:
    async def spins(_: Host) -> None:
        while True:  # noqa: ASYNC110 - that is the mistake
            await asyncio.sleep(0)

    scene.a.plays(spins)


@situation("connection left open")
def _(scene: Scene) -> None:
    scene.world.openings.store(scene.a.machine, LockContainer(StorageAccount(), "webjobshost"))


@situation("task left behind")
def _(scene: Scene) -> None:
    async def leaves(host: Host) -> None:
        task = scene.world.loop.create_task(asyncio.sleep(10_000.0), context=host.machine.context("locks"))
        assert not task.done()

    scene.a.plays(leaves)


@situation("unhandled error")
def _(scene: Scene) -> None:
    scene.world.later(1.0, lambda: 1 / 0)


@situation("broken")
def _(scene: Scene) -> None:
    async def raises(_: Host) -> None:
        raise KeyError("x")

    scene.a.plays(raises)


async def _invoke(scene: Scene, outcome: BaseException | None) -> bool:
    """Run one invocation of a function that ends so, after ten seconds."""

    async def function(**_: object) -> None:
        try:
            await asyncio.sleep(10.0)
        except asyncio.CancelledError:
            return
        if outcome is not None:
            raise outcome

    job = Job(scene.world.resource, 1, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guarded_calls, "guarded_jobs", lambda: {"ship": function})
        call = guarded_calls._PlannedCall(0.0, "ship", "key", job)
        call.cancel_after = 1.0 if outcome is None else None
        await guarded_calls._work(scene.world, scene.a.machine, 0, [call])
    return True


@situation("cancellation swallowed")
def _(scene: Scene) -> None:
    async def part(_: Host) -> None:
        await _invoke(scene, None)

    scene.a.plays(part)


@situation("cancelled by nobody")
def _(scene: Scene) -> None:
    async def part(_: Host) -> None:
        await _invoke(scene, asyncio.CancelledError())

    scene.a.plays(part)


@situation("message lost")
def _(scene: Scene) -> None:
    hosting = QueueWorld(scene.world)

    async def deletes(message: QueueMessage) -> bool:
        hosting.queues.delete("orders", message.id, message.pop_receipt)
        return False

    hosting.listen(scene.a.machine, "ship", "orders", deletes)
    hosting.feed([Feed(1.0, "orders", encode(b"{}", "base64"))], seconds=60.0)


@of("verdict")
async def _(host: Host) -> None:
    host.leave(host.enter(await host.take()))  # and nothing ever told of the lock itself


@situation("point not reached")
def _(scene: Scene) -> None:
    scene.world.expect(NumberedRequest(at=0.0, host=0, number=9))


SITUATIONS.update(MISDELIVERIES)
SITUATIONS.update(STATES)
SITUATIONS.update(PATTERNS)
SITUATIONS.update(INBOXES)
SITUATIONS.update(NESTED)
SITUATIONS.update(ARGUMENTS)
SITUATIONS.update(WIRES)
SITUATIONS.update(COALESCING)


# --- the tests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", SITUATIONS)
def test_a_check_fires_in_a_situation_made_for_it(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "_MOST_TURNS", 20_000)
    monkeypatch.setattr(loops, "_TURNS_A_LOOK", 20_000)
    scene = Scene()
    SITUATIONS[check](scene)
    found = scene.found()
    assert check in found, found


def test_an_attempt_that_is_counted_twice_under_one_lease_is_miscounted() -> None:
    scene = Scene()
    scene.a.plays(counted_twice)
    assert set(scene.found()) == {"miscounted"}


def test_a_claim_that_writes_after_its_outcome_is_stale() -> None:
    scene = Scene()
    scene.a.plays(noted_claimer)
    assert set(scene.found()) == {"stale claimer"}


def test_there_is_a_situation_for_every_check_that_the_docstrings_name() -> None:
    assert sorted(SITUATIONS) == sorted(promises())


def test_every_check_that_is_made_is_in_a_docstring() -> None:
    source = "".join(path.read_text(encoding="utf-8") for folder in FOLDERS for path in folder.rglob("*.py"))
    made = re.findall(r"(?:\bblame|_blame)\(\s*\"([^\"]+)\"", source)
    assert len(made) > 40
    assert set(made) == set(promises())


def test_nothing_is_found_where_hosts_do_as_they_should() -> None:
    scene = Scene()

    async def first(host: Host) -> None:
        host.says("waiting")
        belief = await host.take()
        host.says("acquired")
        hold = host.enter(belief, token=1)
        await host.until(6.0)
        sent = host.now()
        await host.store.renew(LOCK, belief.id)
        belief.deadline = sent + 14.0
        await host.until(12.0)
        host.leave(hold)
        await host.store.release(LOCK, belief.id)
        host.says("released")
        host.ends("ok")

    async def second(host: Host) -> None:
        await host.until(1.0)
        host.says("waiting", function="tick")
        with pytest.raises(StoreFailure):
            await host.store.acquire(LOCK, IDS[1], 15)
        host.says("contended", function="tick", reason="skip")
        host.ends("ok")
        await host.until(14.0)
        host.says("waiting", "again")
        belief = await host.take(IDS[2])
        host.says("acquired", "again")
        host.leave(host.enter(belief, owner="again", token=2))
        await host.store.release(LOCK, belief.id)
        host.says("released", "again")
        host.ends("ok", "again")

    scene.a.plays(first)
    scene.b.plays(second)
    assert scene.found() == {}


def test_who_does_not_wait_in_line_has_no_turn_that_could_be_over() -> None:
    scene = Scene()
    SITUATIONS["kept from others"](scene)
    scene.world.oracle.callers.out_of_line = {"ship"}
    assert "kept from others" not in scene.found()


def test_a_read_for_a_stamp_is_no_look_at_who_has_the_lock() -> None:
    scene = Scene()

    async def part(host: Host) -> None:
        scene.world.oracle.bounds.forgets = False
        for name, when in (("a", 4.0), ("b", 20.0)):
            await host.until(when)
            host.says("waiting", name, function="insist")
            if name == "b":
                await host.store.acquire(LOCK, IDS[1], PERIOD)
                await host.store.read(LOCK)
                await host.store.release(LOCK, IDS[1])
                await host.until(22.0)
            with pytest.raises(StoreFailure):
                await host.store.acquire(LOCK, IDS[2], PERIOD)
            host.says("contended", name, function="insist", reason="raise")
            if name == "a":
                await host.store.read(LOCK)
            host.ends("LockNotAcquired", name)

    async def holds(host: Host) -> None:
        for lease_id, since, until in ((IDS[0], 0.0, 6.0), (IDS[3], 21.0, 24.0)):
            await host.until(since)
            belief = await host.take(lease_id)
            await host.until(until)
            await host.store.release(LOCK, belief.id)

    scene.b.plays(holds)
    scene.a.plays(part)
    assert "read too often" not in scene.found()


def test_a_host_that_stood_still_may_put_a_message_back_for_the_life_that_it_had_before() -> None:
    scene = Scene()

    async def part() -> None:
        desk = Desk(scene)
        desk.receives()
        await asyncio.sleep(5.0)
        scene.a.machine.stop(60.0)
        await asyncio.sleep(1.0)
        desk.puts_back(life=LIFE)

    scene.world.start(scene.a.machine, part(), seconds=90.0)
    assert "wrong life" not in scene.found()


def test_a_lease_that_a_late_copy_of_its_acquire_brings_back_is_no_loss_to_be_told() -> None:
    scene = Scene()

    async def part(host: Host) -> None:
        host.says("waiting")
        belief = await host.take()
        host.says("acquired")
        hold = host.enter(belief, token=1)
        await host.until(1.0)
        scene.world.operate("break_", 0)
        await host.until(3.0)
        sent = host.now()
        await host.store.acquire(LOCK, belief.id, PERIOD)
        belief.deadline = sent + 14.0
        await host.until(15.0)
        host.leave(hold)
        await host.store.release(LOCK, belief.id)
        host.says("released")
        host.ends("ok")

    scene.a.plays(part)
    assert scene.found() == {}


def test_a_set_does_not_answer_for_the_lease_of_a_caller_that_left_while_it_asked() -> None:
    scene = Scene()

    async def part(host: Host) -> None:
        book, customer = _client(host)
        await host.store.create(LOCK)
        book.begin(customer, "set", "set", (LOCK, "a"), None)
        alone = book.begin(customer, "alone", "lock", (LOCK,), 0.0)
        taking = asyncio.ensure_future(host.store.acquire(LOCK, IDS[0], 15))
        alone.cut = True
        book.over(alone, asyncio.CancelledError())
        await taking
        await host.until(5.0)
        await host.store.create("a")
        await host.store.acquire("a", IDS[1], 15)
        await host.until(6.0)
        await host.store.release(LOCK, IDS[0])

    scene.a.plays(part)
    assert "out of order" not in scene.found()


@pytest.mark.parametrize("part", [all_is_well, an_empty_log, a_key_without_its_stop])
def test_nothing_is_found_where_an_inbox_does_as_it_should(part: Callable[[Host], Coroutine[Any, Any, None]]) -> None:
    scene = Scene()
    scene.a.plays(part)
    assert scene.found() == {}
