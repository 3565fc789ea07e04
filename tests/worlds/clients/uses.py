"""How those in the workload ``clients`` use a client: each kind of use as users write it, sync and async, cut anywhere.

waits for itself          a caller asked again for the lock that it is inside of, and was not told at once
worked after its stop     a periodic worker was stopped, and did its work once more
stopped late              a periodic worker was stopped, and went on to wait
success without its lock  the body of a block returned under a lost hold, and the block ended well
raised to be told         a block was to tell of its loss only, and failed for the loss
another hold within       an inner block of a reentrant lock got another hold than the outer block, or was refused
held beyond its limit     a hold with ``max_hold`` was not lost at the limit
another lock listed       a list of locks has a lock with another beginning than asked for
lost before its limit     a hold with ``max_hold`` was lost for its length before the limit
begun after its loss      the body of a block that raises at a loss began under a lost hold
"""

from __future__ import annotations

import asyncio
import math
import traceback
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.hosts.jobs import inside, under_way
from simulator.virtual.oracle.callers import AT_ONCE, QUIET
from simulator.virtual.time.machine import Baton
from simulator.virtual.workloads.leaders import LeaderWaiter
from simulator.virtual.worlds.outcome import Refused
from singleton import LockClient, holds
from singleton.base.errors import LockLost, LockNotAcquired, SingletonError, StorageUnavailable
from singleton.base.hold import holds_in

if TYPE_CHECKING:
    from simulator.virtual.worlds.world import World
    from singleton import AsyncLockClient
    from singleton.base.hold import Hold, LossSignal
    from singleton.base.kinds import LossReason, OnLoss
    from tests.worlds.clients.book import Book, Calls, Customer, Kind, Use

_ALONE: Final = frozenset({"holder", "leader", "worker", "hold", "hold slot"})
_ROUNDING: Final = 1e-3
STANDS: Final = 21.0
"""Seconds for which a machine stands still: longer than most leases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One use, after a ``pause``.

    ``way``: lock, try, set, slot, try slot, hold and hold slot (acquired without a block), holder, leader, worker.
    ``then``: what becomes of a hold without a block: released, released elsewhere, twice, dropped; of a block: again.
    ``patience``: seconds to wait of a try.
    Of a worker: long, if its work takes most of the time and looks at no loss by itself.
    ``closes``: how many callbacks after its beginning the client is closed; ``stands``: its machine stands still.
    ``blind``: its body looks at no loss by itself, and is to be cancelled.
    ``cut``: the phase in which it is cancelled, and how many callbacks of its machine after that begins.
    """

    pause: float
    way: str
    names: tuple[str, ...]
    timeout: float | None = None
    seconds: float = 1.0
    steps: int = 1
    at_least: float = 0.0
    max_hold: float | None = None
    on_loss: OnLoss | None = None
    reentrant: bool = False
    blind: bool = field(default=False, repr=False)
    patience: float = 0.0
    then: str = ""
    cut: tuple[str, int] | None = None
    closes: int | None = None
    stands: int | None = field(default=None, repr=False)


@dataclass(slots=True)
class User:
    """Somebody on a machine with a client."""

    world: World
    book: Book
    calls: Calls
    customer: Customer
    client: AsyncLockClient | LockClient
    name: str
    sync: bool
    on_loss: OnLoss = "raise"

    def close(self) -> None:
        """Close the client, once."""
        if self.customer.closed is None:
            self.client.close()
            self.book.closed(self.customer)

    def blame_itself(self, use: Use) -> None:
        """Judge a second request by a caller that is inside the lock already, if it was not refused."""
        text = f"{use.owner} asked again for {use.locks[0]}, and was not told at once"
        self.world.oracle.blame("waits for itself", text)

    def must_have_failed(self, use: Use, plan: Plan, error: BaseException | None) -> None:
        """Judge the end of a block whose body returned under a lost hold."""
        if not use.lost:
            return
        if (plan.on_loss or self.on_loss) == "tell":
            if isinstance(error, LockLost):
                self.world.oracle.blame("raised to be told", f"{use.owner} was to be told only, and got: {error}")
        elif error is None:
            self.world.oracle.blame("success without its lock", f"{use.owner} ended well, and its hold was lost")

    def blame_stopped(self, use: Use) -> None:
        """Judge the work of a worker that was stopped."""
        self.world.oracle.blame("worked after its stop", f"{use.owner} was stopped, and works once more")

    def must_have_stopped(self, use: Use, asked: float, bound: float) -> None:
        """Judge the end of a worker that was asked to stop: its work may end, and its lock be released."""
        took = self.world.loop.now - asked
        if took > bound and self.world.oracle.conduct.well(use.machine, took + QUIET):
            self.world.oracle.blame("stopped late", f"{use.owner} was stopped, and ended {took:.1f} s later")

    async def use(self, plan: Plan, number: int) -> None:
        """Use the client once; every result is judged."""
        await asyncio.sleep(plan.pause)
        if plan.way == "holder":
            await self._look(plan)
            return
        use = self.book.begin(self.customer, f"{self.name}/{number}", *self._of(plan))
        cutter = _Cutter(self, use, plan)
        cutter.reach("begin")
        work = self._sync_work(use, plan, cutter) if self.sync else self._work(use, plan, cutter)
        cutter.task = task = asyncio.create_task(work, name=use.owner)
        use.machine.clients[use.owner] = self.close
        with under_way(task):
            error = await _ended(task)
        use.cut |= use.owner in self.world.cancelled
        if plan.then == "dropped":
            self.world.loop.leftover_tasks()  # the loop drops tasks that have ended, and the holds that they returned
        kept = use.doing != "waits" or use.kind == "worker"
        rest = plan.at_least * self.world.oracle.bounds.drift if kept else 0.0
        self.world.oracle.reached[f"use: {'ok' if error is None else type(error).__name__}"] += 1
        self.must_have_failed(use, plan, error)
        if task.cancelled() and not use.cut:
            self.world.oracle.blame("cancelled by nobody", f"{use.owner} ended with a cancellation")
        self.book.over(use, error, rest=rest)

    def _of(self, plan: Plan) -> tuple[Kind, tuple[str, ...], float | None]:
        match plan.way:
            case "try":
                return "lock", plan.names, plan.patience
            case "slot" | "try slot" | "hold slot":
                return "slot", self.book.slots(plan.names[0]), plan.patience if plan.way == "try slot" else plan.timeout
            case "set":
                return "set", plan.names, plan.timeout
            case "leader" | "worker":
                return plan.way, plan.names, None
            case _:
                return "lock", plan.names, plan.timeout

    # --- the ways -----------------------------------------------------------------------------------------------------

    async def _work(self, use: Use, plan: Plan, cutter: _Cutter) -> None:
        match plan.way:
            case "leader":
                await self._lead(use, plan, cutter)
            case "worker":
                await self._work_at_times(use, plan, cutter)
            case "hold" | "hold slot":
                await self._hold(use, plan, cutter)
            case _:
                async with self._block(use, plan) as got:
                    await self._inside(use, holds_in(got), plan, cutter)
                    if plan.then == "twice" and holds_in(got):
                        await self._async_client().release(holds_in(got)[0])
                    cutter.reach("leave")
                self._released(use, plan, holds_in(got))

    async def _sync_work(self, use: Use, plan: Plan, cutter: _Cutter) -> None:
        def work() -> None:
            if plan.way in _ALONE:
                self._sync_hold(use, plan, cutter)
                return
            with self._block(use, plan) as got:
                Baton.wait(self._inside(use, holds_in(got), plan, cutter))
            self._released(use, plan, holds_in(got))

        await Baton.run(work)

    def _block(self, use: Use, plan: Plan) -> Any:
        client, name = self.client, plan.names[0] if plan.names else ""
        common: dict[str, Any] = {"owner": use.owner, "on_loss": plan.on_loss}
        if plan.way == "set":
            return client.lock_all(list(plan.names), timeout=plan.timeout, **common)
        common |= {"at_least": plan.at_least, "max_hold": plan.max_hold}
        match plan.way:
            case "lock":
                return client.lock(name, timeout=plan.timeout, reentrant=plan.reentrant, **common)
            case "try":
                return client.try_lock(name, timeout=plan.patience, **common)
            case "slot":
                return client.semaphore(name, self.book.limits[name], timeout=plan.timeout, **common)
            case _:
                return client.try_lock(name, limit=self.book.limits[name], timeout=plan.patience, **common)

    async def _hold(self, use: Use, plan: Plan, cutter: _Cutter) -> None:
        client = self._async_client()
        hold: Hold | None = await client.acquire(plan.names[0], **self._terms(use, plan))
        assert hold is not None
        try:
            await self._inside(use, (hold,), plan, cutter)
        finally:
            if plan.then == "dropped":
                hold = None
            elif plan.then == "elsewhere":
                cutter.reach("leave")
                await asyncio.shield(asyncio.create_task(client.release(hold)))
            else:
                cutter.reach("leave")
                await client.release(hold)
                if plan.then == "twice":
                    await client.release(hold)
            if hold is not None:
                self._released(use, plan, (hold,))

    def _sync_hold(self, use: Use, plan: Plan, cutter: _Cutter) -> None:
        assert isinstance(self.client, LockClient)
        hold = self.client.acquire(plan.names[0], **self._terms(use, plan))
        try:
            Baton.wait(self._inside(use, (hold,), plan, cutter))
        finally:
            self.client.release(hold)
            if plan.then == "twice":
                self.client.release(hold)
        self._released(use, plan, (hold,))

    def _terms(self, use: Use, plan: Plan) -> dict[str, Any]:
        """Return the arguments of ``acquire``."""
        limit = self.book.limits[plan.names[0]] if use.kind == "slot" else None
        return {
            "limit": limit,
            "timeout": plan.timeout,
            "at_least": plan.at_least,
            "max_hold": plan.max_hold,
            "owner": use.owner,
        }

    def _released(self, use: Use, plan: Plan, holds: tuple[Hold, ...]) -> None:
        if use.waiter is None and holds and not self.sync:
            use.waiter = asyncio.ensure_future(_over(holds[0].lost))  # of a hold that has ended already
        self.calls.released(use, holds, kept=bool(plan.at_least))

    async def _lead(self, use: Use, plan: Plan, cutter: _Cutter) -> None:
        witness = LeaderWaiter(self.world, use.machine)
        try:
            async with self._async_client().leadership(plan.names[0], owner=use.owner) as leadership:
                witness.wait_for(leadership)
                cutter.reach("inside")
                with suppress(TimeoutError):
                    async with asyncio.timeout(plan.seconds):
                        while True:
                            hold = await leadership
                            if not hold.lost.is_set():
                                await self._lead_once(use, hold)
                cutter.reach("leave")
        finally:
            await witness.must_know(excused=use.cut)

    async def _lead_once(self, use: Use, hold: Hold) -> None:
        with suppress(Refused), inside(self.world, use.machine, hold, guarded=False):
            while await self._step((hold,), 2.0):
                pass

    async def _work_at_times(self, use: Use, plan: Plan, cutter: _Cutter) -> None:
        stopped = False
        long = plan.then == "long"
        lasts = plan.seconds * 0.7 if long else plan.seconds / 8
        every, began = plan.seconds / 3.3, asyncio.get_running_loop().time()

        async def work(hold: Hold) -> None:
            if stopped:
                self.blame_stopped(use)
            self.calls.must_be_on_time(use, asyncio.get_running_loop().time() - began, every)
            has_left: list[bool] = []
            if plan.max_hold is not None:
                self.must_end(use, hold, plan.max_hold, has_left)
            with suppress(Refused), inside(self.world, use.machine, hold), ExitStack() as body:
                body.callback(has_left.append, True)
                await (asyncio.sleep(lasts) if long else self._step((hold,), lasts))

        client = self._async_client()
        worker = client.periodic(
            plan.names[0],
            work,
            every=every,
            at_least=plan.at_least,
            max_hold=plan.max_hold,
            owner=use.owner,
        )
        if plan.timeout is None:
            async with worker:
                cutter.reach("inside")
                await asyncio.sleep(plan.seconds)
                cutter.reach("leave")
                asked = self.world.loop.now
            self.must_have_stopped(use, asked, lasts * self.world.oracle.bounds.drift + AT_ONCE)
        else:
            timer = asyncio.get_running_loop().call_later(plan.seconds, worker.stop)
            try:
                await worker.run()
            finally:
                timer.cancel()
        stopped = True

    async def _look(self, plan: Plan) -> None:
        for number in range(3 * plan.steps):
            asked = self.world.loop.now
            try:
                await self._read(plan, number)
            except StorageUnavailable as error:
                self.calls.not_answered(self.customer.machine, asked, error)
            except (SingletonError, ValueError):
                return
            await asyncio.sleep(plan.seconds / 2)

    async def _read(self, plan: Plan, number: int) -> None:
        """Ask for the holder of a lock, whether it is held, or for all locks, in turn."""
        client, name = self._async_client(), plan.names[0]
        match number % 3:
            case 0:
                await client.holder(name)
            case 1:
                await client.locked(name)
            case _:
                prefix, held = name[:number] if plan.steps > 1 else "", plan.steps == 2
                found = [each async for each in client.locks(prefix, held=held, older_than=None if held else 1.0)]
                self.must_begin_with(prefix, [each.name for each in found])
        holds()

    def must_begin_with(self, prefix: str, names: list[str]) -> None:
        """Judge a list of locks."""
        if wrong := [name for name in names if not name.startswith(prefix)]:
            self.world.oracle.blame("another lock listed", f"{wrong[0]} is listed, and not below {prefix!r}")

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _inside(self, use: Use, holds: tuple[Hold, ...], plan: Plan, cutter: _Cutter) -> None:
        """Work in steps under all these holds, as long as none is lost. A try may have no hold at all."""
        if not holds:
            if plan.way in ("try", "try slot"):
                raise LockNotAcquired("it got None")
            return
        self.calls.got(use, holds)
        self.book.got(use, tuple(hold.lock for hold in holds))
        if plan.way not in _ALONE and not self.sync and (plan.on_loss or self.on_loss) == "raise":
            self.calls.must_begin_well(use, holds)
        for hold in holds:
            hold.raise_if_lost()
        cutter.reach("inside")
        if plan.at_least:
            self.book.must_last(use, holds[0], plan.at_least)
            use.waiter = asyncio.ensure_future(_over(holds[0].lost))
        has_left: list[bool] = []
        if plan.max_hold is not None:
            self.must_end(use, holds[0], plan.max_hold, has_left)
        semaphore = plan.names[0] if use.kind == "slot" else ""
        with ExitStack() as bodies:
            bodies.callback(has_left.append, True)
            for hold in holds:
                body = bodies.enter_context(inside(self.world, use.machine, hold, sync=self.sync))
                if semaphore:
                    self.book.enter(semaphore, body)
                    bodies.callback(self.book.leave, semaphore, body)
            if plan.then == "again" and use.kind == "lock" and not self.sync:
                await (self._enter_again(use, plan, holds[0]) if plan.reentrant else self._ask_again(use, plan))
            blind = plan.blind and (plan.on_loss or self.on_loss) == "raise"
            for _ in range(plan.steps):
                if not await self._step(holds, plan.seconds, blind=blind):
                    break
        use.lost = plan.way not in _ALONE and any(hold.lost.is_set() for hold in holds)

    async def _ask_again(self, use: Use, plan: Plan) -> None:
        """Ask for the lock that this code is inside of: a caller that waits for itself is told so."""
        asked = self.world.loop.now
        with suppress(TimeoutError):
            try:
                async with asyncio.timeout(3.0), self._async_client().lock(plan.names[0], owner=f"{use.owner} again"):
                    pass
            except LockNotAcquired as error:
                if error.reason != "reentry":
                    self.blame_itself(use)
                return
            except (SingletonError, ValueError):
                return
        if not use.machine.stopped_since(self.world.loop.now - asked):
            self.blame_itself(use)

    async def _enter_again(self, use: Use, plan: Plan, outer: Hold) -> None:
        """Ask for the reentrant lock that this code is inside of: an inner block has the hold of the outer block."""
        try:
            within: dict[str, Any] = {"at_least": plan.at_least / 4, "owner": f"{use.owner} again"}
            async with self._async_client().lock(plan.names[0], reentrant=True, **within) as inner:
                self.must_share(use, outer, inner)
        except LockNotAcquired:
            self.must_share(use, outer, None)

    def must_share(self, use: Use, outer: Hold, inner: Hold | None) -> None:
        """Judge what an inner block of a reentrant lock got; None: a refusal."""
        if inner is None or inner.lease_id != outer.lease_id:
            got = "was refused within" if inner is None else "got another hold within"
            self.world.oracle.blame("another hold within", f"{use.owner} {got} {outer.lock}")

    def must_end(self, use: Use, hold: Hold, seconds: float, has_left: list[bool]) -> None:
        """Take a hold that is lost after so many seconds by its machine's clock, if its body goes on."""
        world, drift, began = self.world, self.world.oracle.bounds.drift, self.world.loop.now
        lost, lock = hold.lost, hold.lock  # not the hold, which may be dropped

        def look() -> None:
            excused = bool(has_left) or use.machine.leaving or use.machine.stopped_since(seconds * drift + 0.5)
            if not excused and not use.machine.context().run(lost.is_set):
                text = f"{use.owner} has {lock} for {world.loop.now - began:.1f} s, and max_hold is {seconds:g} s"
                world.oracle.blame("held beyond its limit", text)

        limit = world.oracle.book.limit(hold)
        granted = began if limit == math.inf else limit - seconds

        def tell(reason: LossReason) -> None:
            held = world.loop.now - granted
            if reason == "too long" and held < seconds / drift - _ROUNDING:
                text = f"{use.owner} lost {lock} as {reason} after {held:.1f} s, and max_hold is {seconds:g} s"
                world.oracle.blame("lost before its limit", text)

        lost.add_callback(tell)
        world.later(seconds * drift + 0.5, look)

    async def _step(self, holds: tuple[Hold, ...], seconds: float, *, blind: bool = False) -> bool:
        """Work for some seconds, and write the result; False as soon as a hold is lost."""
        losses = [] if blind else [asyncio.ensure_future(_over(hold.lost)) for hold in holds]
        try:
            if blind:
                await asyncio.sleep(seconds)
            else:
                await asyncio.wait(losses, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for loss in losses:
                loss.cancel()
        if any(hold.lost.is_set() for hold in holds):
            return False
        for hold in holds:
            self.world.resource.write(hold)
        return True

    def _async_client(self) -> AsyncLockClient:
        return self.client  # type: ignore[return-value]  # sync callers don't need it


@dataclass(slots=True)
class _Cutter:
    """Cancels a use so many callbacks of its machine after a phase of it began."""

    user: User
    book_use: Use
    plan: Plan
    task: asyncio.Task[None] | None = None

    def reach(self, phase: str) -> None:
        """Take the beginning of a phase."""
        machine = self.user.customer.machine
        if phase == "begin" and self.plan.closes is not None:
            machine.at_step(self.plan.closes, lambda: machine.context().run(self.user.close))
        if phase == "begin" and self.plan.stands is not None:
            machine.stop_at_step(self.plan.stands, STANDS)
        if self.plan.cut is not None and self.plan.cut[0] == phase and not self.user.sync:
            self.user.customer.machine.at_step(self.plan.cut[1], self._cut)

    def _cut(self) -> None:
        if self.task is not None and not self.task.done():
            self.book_use.cut = True
            self.task.cancel()


async def _ended(task: asyncio.Task[None]) -> BaseException | None:
    """Wait for a task, and return its error without the objects of its frames, for example a dropped hold."""
    await asyncio.wait({task})
    try:
        await task
    except BaseException as error:  # noqa: BLE001 - it is judged
        traceback.clear_frames(error.__traceback__)
        return error.with_traceback(None)
    return None


async def _over(lost: LossSignal) -> None:
    """Wait for the loss of a hold without a reference to the hold, so that the hold can be dropped."""
    await lost
