"""The locks of this process: one ``Lock`` per ``Address``, one store per container. Runs on one event loop."""

from __future__ import annotations

import asyncio
import math
import random
import time
import weakref
from collections import OrderedDict, defaultdict
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from singleton.base.hold import single_holds
from singleton.base.invocation import log as _log
from singleton.base.tasks import Deciding
from singleton.locking.acquisition import Guess
from singleton.locking.lock import Lock, release
from singleton.locking.record import BlobGuards
from singleton.locking.renewals import Renewals
from singleton.locking.seat import Seat, Throttle
from singleton.locking.section import Section, SectionClaim, claims, closed_error
from singleton.locking.semaphore import Semaphore, slot_name
from singleton.runtime.blocked_loops import Contended, unless_endless
from singleton.runtime.hold_end import lose_after, release_dropped, until_lost
from singleton.runtime.holders import LongWait, WhoHas
from singleton.runtime.reentry import refuse_reentry
from singleton.runtime.waiter_count import WaiterCount

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from singleton.base.caller import Caller
    from singleton.base.errors import SingletonError
    from singleton.base.hold import Hold
    from singleton.locking.record import SectionRecord
    from singleton.runtime.address import Address
    from singleton.runtime.closing import Closing
    from singleton.settings.accounts import LockContainer
    from singleton.settings.connection import StorageAccount
    from singleton.stores.lock_keeping import BlobStore
    from singleton.stores.message_store import MessageStore

IDLE_LOCKS: Final = 1024
"""Number of remembered idle locks: a repeated key saves a request."""
_LOOKS: Final = 2
"""Entries checked for removal at an insertion: more than one, or the table would grow."""
_KINDS: Final = 256
"""Number of kinds of names with a remembered guess."""


_KeyT = TypeVar("_KeyT")
_IdlingT = TypeVar("_IdlingT", bound="Lock | Semaphore | Seat")


class Remembered(OrderedDict[_KeyT, _IdlingT]):
    """Entries by key, in the order of their last use: the entries in use, and up to ``keep`` others."""

    def __init__(self, keep: int) -> None:
        super().__init__()
        self._keep = keep

    def known(self, key: _KeyT, make: Callable[[], _IdlingT]) -> _IdlingT:
        """Return the entry of the key, made if missing; the longest unused entries make room."""
        if (found := self.get(key)) is None:
            found = make()
            for _ in range(_LOOKS if len(self) >= self._keep else 0):
                oldest, each = next(iter(self.items()))
                if each.forgettable:
                    del self[oldest]
                else:
                    self.move_to_end(oldest)
            self[key] = found
        self.move_to_end(key)
        return found


class Guesses:
    """Guesses, by kind of name, whether the blob of a new lock exists.

    A function may meet new scopes only, another function known ones. The guess for the first name of a kind comes from
    the first names of earlier kinds: names with a folder each (``order/7/pay``) are learnt as well.
    """

    def __init__(self) -> None:
        self._kinds: OrderedDict[tuple[LockContainer, str], Guess] = OrderedDict()
        self._firsts: defaultdict[LockContainer, Guess] = defaultdict(Guess)

    def of(self, place: LockContainer, name: str) -> Guess:
        """Return the guess for the kind of the name."""
        kind = place, _kind(name)
        guess = self._kinds.pop(kind, None)
        if guess is None:
            firsts = self._firsts[place]
            guess = Guess(firsts.missing, firsts)
            if len(self._kinds) >= _KINDS:
                self._kinds.popitem(last=False)
        self._kinds[kind] = guess
        return guess


def _kind(name: str) -> str:
    """Return the common part of the names of a function's locks; for other names the folder.

    >>> _kind("locks/myapp/ship.42"), _kind("locks/myapp/~north"), _kind("orders/7")
    ('locks/myapp/ship.', 'locks/myapp/~', 'orders/')
    >>> _kind("locks/myapp/ship.42/slot-3")
    'locks/myapp/ship./slot-'
    """
    lock, slot, _ = name.partition("/slot-")
    folder, slash, last = lock.rpartition("/")
    function, mark, _ = last.partition("~" if last.startswith("~") else ".")
    return f"{folder}{slash}{function if mark else ''}{mark}{slot}"


_CLOSING: Final = 2.0
"""Seconds for closing the stores."""


class ListenerLock(Protocol):
    """A lock which the process keeps for life."""

    async def end(self) -> None:
        """Let the bodies under the lock end, and release the lock."""


async def _close(each: BlobStore | MessageStore) -> None:
    with Deciding("the close of a client or credential"):
        await each.aclose()


async def closed(opened: Sequence[BlobStore | MessageStore]) -> None:
    """Close stores and queues in parallel: a hanging or failing one keeps no other open."""
    closing = [asyncio.ensure_future(_close(each)) for each in opened]
    done, hanging = await asyncio.wait(closing, timeout=_CLOSING) if closing else (set(), set())
    for each in hanging:
        each.cancel()
    for each in done:
        if not each.cancelled() and (error := each.exception()) is not None:
            _log.warning("a store or queue did not close: %r", error)


class Registry:
    """Acquires locks by address. Methods run on the loop of the first use.

    Attributes:
        acquired: the holds of callers, leaders' holds included.
        waiters: number of waiting invocations, by lock.
        failure: the error of the death of the loop, or None.
    """

    def __init__(
        self,
        open_store: Callable[[LockContainer], BlobStore],
        rng: random.Random | None = None,
        *,
        open_queue: Callable[[StorageAccount, str], MessageStore] | None = None,
        keep: int = IDLE_LOCKS,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """``keep``: number of remembered idle locks; ``wall``: returns seconds since 1970."""
        self.wall = wall
        self._open_store = open_store
        self._open_queue = open_queue
        self.rng = rng or random.SystemRandom()  # clones of a process must not propose equal lease ids
        self._stores: dict[LockContainer, BlobStore] = {}
        self._renewals: defaultdict[LockContainer, Renewals] = defaultdict(Renewals)
        self._queues: dict[tuple[StorageAccount, str], MessageStore] = {}
        self._locks: Remembered[Address, Lock] = Remembered(keep)
        self._guesses = Guesses()
        self._guards: BlobGuards[tuple[LockContainer, str]] = BlobGuards(keep)
        self._semaphores: Remembered[tuple[Address, int], Semaphore] = Remembered(keep)
        self._seats: Remembered[tuple[LockContainer, str], Seat] = Remembered(keep)
        self.tells = Throttle()  # of invocations that leave
        self._not_before: weakref.WeakKeyDictionary[Hold, float] = weakref.WeakKeyDictionary()
        self.acquired: weakref.WeakSet[Hold] = weakref.WeakSet()
        self._tails: dict[Hold, list[SectionClaim]] = {}
        self.waiters = WaiterCount()
        self._companions: dict[asyncio.Task[None], None] = {}  # in the order of arrival, as in ``Closing``
        self._lent: dict[LockContainer, set[Closing]] = {}
        self.keepers: dict[Address, ListenerLock] = {}
        self._closing = asyncio.Event()
        self.failure: SingletonError | None = None

    def lose_all(self, failure: SingletonError) -> None:
        """Declare every hold lost (``closed``): the loop has died. No call is served from now on."""
        self.failure = failure
        for hold in self._known_holds():
            hold.own_lost.fire("closed")

    def _known_holds(self) -> list[Hold]:
        while True:
            with suppress(RuntimeError):  # a caller has just got a hold: the set changed
                return [*self.acquired]

    def take_over(self, dead: Registry, loop: asyncio.AbstractEventLoop) -> None:
        """Go on, on another loop, with the guards of a lock thread that has died.

        The loop of the dead thread is closed, and the other loop does not run yet: no section ends meanwhile, except by
        ``move``. See ``SectionRecord.end_soon`` for callers who give their holds up at the same time.

        Tokens still increase, and bodies that have not ended exclude later sections. That goes for holds which a caller
        has: a hold that is kept for ``at_least``, or a listener's, has no caller who would end the section.
        """
        self.acquired, self._guards = dead.acquired, dead._guards
        holds = [hold for hold in self._known_holds() if hold.crossing is not None and hold not in dead._tails]
        parts = [part for hold in holds for part in single_holds(hold)]
        running = {part.record for part in parts if isinstance(part, Section)}
        for guard in self._guards:
            guard.asking, guard.watches = None, ()
            if (record := guard.inside) in running:
                record.move(loop)
            else:
                guard.inside = None

    async def acquire(
        self,
        address: Address,
        *,
        timeout: float | None,
        owner: str,
        limit: int | None = None,
        at_least: float = 0.0,
        max_hold: float | None = None,
        by: float = math.inf,
    ) -> Hold:
        """Acquire the lock of the address, or with a limit a slot of the semaphore. See ``Lock.acquire``.

        ``release`` keeps the lock until ``at_least`` seconds after the acquisition. After ``max_hold`` seconds the hold
        is lost.
        """
        if self._closing.is_set():
            raise closed_error("lock", address.name, owner)
        if limit is not None:
            hold = await self._acquire_slot(address, limit, timeout, owner)
        elif timeout == 0:
            hold = await self._lock(address).acquire(timeout=timeout, owner=owner, by=by)
        else:
            lock = self._lock(address)
            if (record := lock.guard.inside) is not None:
                refuse_reentry(address.name, owner, record)
            with LongWait(self, address, owner):
                wait = lock.acquire(timeout=timeout, owner=owner)
                what = Contended(address.name, lock.waiters, lambda: (lock.guard.inside,), lock.guard)
                hold = await unless_endless(wait, what, owner)
        self.acquired.add(hold)
        _log.debug("lock %s: acquired", hold.lock)
        if isinstance(hold, Section):
            hold.claim = SectionClaim(hold.lock, hold.record, partial(release_dropped, copy_context()))
        return self.kept(hold, at_least, max_hold) if at_least or max_hold is not None else hold

    def kept(self, hold: Hold, at_least: float, max_hold: float | None) -> Hold:
        """Return the hold, with ``at_least`` and ``max_hold`` counted from now. See ``acquire``."""
        if at_least:
            self.keep(hold, at_least)
        if max_hold is not None:
            for part in single_holds(hold):
                if isinstance(part, Section):
                    lose_after(max_hold, part)
        return hold

    def keep(self, hold: Hold, seconds: float) -> None:
        """Release the hold ``seconds`` from now at the earliest."""
        due = asyncio.get_running_loop().time() + seconds
        self._not_before[hold] = max(due, self._not_before.get(hold, due))

    async def _acquire_slot(self, address: Address, limit: int, timeout: float | None, owner: str) -> Hold:
        semaphore = self._semaphore(address, limit)
        if timeout == 0:
            return await semaphore.acquire(timeout=timeout, owner=owner)
        with LongWait(self, address, owner, limit):
            wait = semaphore.acquire(timeout=timeout, owner=owner)

            def inside(slot: int) -> SectionRecord | None:  # of a semaphore with any limit
                return self._guards.inside((address.place, slot_name(address.name, slot)))

            what = Contended(address.name, semaphore.waiters, lambda: map(inside, range(limit)), semaphore)
            return await unless_endless(wait, what, owner)

    async def until_led(
        self, candidate: Caller | None, address: Address, wait: Coroutine[Any, Any, object], owner: str
    ) -> None:
        """Wait for the success of a candidate, unless the wait blocks the event loop of the lock's holder."""
        guard = self._guards.of(address.blob)
        await unless_endless(wait, Contended(address.name, (), lambda: (guard.inside,), guard, candidate), owner)

    def who_has(self, address: Address) -> WhoHas:
        """Return the look-up of a lock's holder, which sends at most one request a minute."""
        return WhoHas(self.store(address.place), address, self._guards.of(address.blob), self.accompany)

    def why_not(self, address: Address, since: float, *, elsewhere: bool = False) -> SingletonError:
        """Return the error of a caller who waits in vain since ``since``. See ``Lock.why_not``."""
        return self._lock(address).why_not(since, elsewhere=elsewhere)

    async def sleep(self, seconds: float) -> None:
        """Sleep, but not past the closing of the locks."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    async def pause(self, address: Address, seconds: float) -> None:
        """Sleep before the next attempt, but not past the next look at a silent holder."""
        lock = self._locks.get(address)  # None: the store could not be opened
        due = math.inf if lock is None else lock.next_look
        await asyncio.sleep(min(seconds, due - asyncio.get_running_loop().time()))

    async def release(self, hold: Hold) -> None:
        """Release the hold, now or after ``at_least``. See ``release`` in ``lock.py``."""
        due = self._not_before.get(hold)
        if due is None or due <= asyncio.get_running_loop().time() or hold.own_lost.is_set():
            await release(hold)
        elif hold not in self._tails:
            hold.own_lost.freeze(kept=True)
            for part in single_holds(hold):
                if isinstance(part, Section):
                    part.record.kept_until = due
            self._tails[hold] = claims(hold)
            self.accompany(asyncio.get_running_loop().create_task(self._release_at(due, hold)))

    def end(self, hold: Hold, then: Callable[[], object]) -> bool:
        """End a section without a task, and call ``then`` after the release; False: the caller must use ``release``.

        False for a hold without a running section, or with ``at_least``.
        """
        if not isinstance(hold, Section) or hold in self._not_before or hold.record.over:
            return False
        hold.record.end()
        lock = hold.lock

        def settled() -> None:
            _log.debug("lock %s: released", lock)
            then()

        hold.record.when_settled(settled)
        return True

    async def drop(self, hold: Hold) -> None:
        """Release a hold at once: its caller never got the hold, or ``at_least`` is over."""
        self._not_before.pop(hold, None)
        await release(hold)

    def dropping(self, hold: Hold) -> asyncio.Task[None]:
        """Begin to ``drop`` a hold, in a task that goes on without the caller."""
        task = asyncio.get_running_loop().create_task(self.drop(hold))
        self.accompany(task)
        return task

    async def _release_at(self, due: float, hold: Hold) -> None:
        with suppress(TimeoutError):  # without its lease the kept lock would exclude this process only
            async with asyncio.timeout_at(due):
                await until_lost(hold)
        await self.drop(hold)
        del self._tails[hold]

    def accompany(self, task: asyncio.Task[None]) -> None:
        """Keep a task until its end, or the closing of the registry."""
        self._companions[task] = None
        task.add_done_callback(self._companions.pop)

    async def aclose(self) -> None:
        """Close locks and stores. The lease of a running section is not released: it expires (B10)."""
        self._closing.set()
        # Refuse before the wait for bodies of listeners: a body which began now would be cut off.
        for semaphore in self._semaphores.values():
            semaphore.refuse()
        for lock in self._locks.values():
            lock.refuse()
        await asyncio.gather(*(keeper.end() for keeper in self.keepers.values()))
        await asyncio.gather(*(semaphore.aclose() for semaphore in self._semaphores.values()))
        await asyncio.gather(*(seat.aclose() for seat in self._seats.values()))  # before the locks of their waiters
        await asyncio.gather(*(lock.aclose() for lock in self._locks.values()))
        await self._end_companions()
        await self.close_stores()
        self._locks.clear()

    async def close_stores(self) -> None:
        """Close stores and queues."""
        await closed([*self._stores.values(), *self._queues.values()])
        self._stores.clear()
        self._queues.clear()

    async def _end_companions(self) -> None:
        """End tasks after the locks: a task knows the loss of its lock, and releases nothing under a running body."""
        for task in self._companions:
            task.cancel()
        if self._companions:
            await asyncio.wait(tuple(self._companions))

    def lent_to(self, client: Closing, place: LockContainer) -> Registry:
        """Close a store on a caller's credential or ``ContainerClient`` after the last client with this store."""
        users = self._lent.setdefault(place, set())
        if client not in users:
            users.add(client)
            client.when_closed(lambda: self._returned(client, place))
        return self

    def _returned(self, client: Closing, place: LockContainer) -> None:
        users = self._lent.get(place, set())
        users.discard(client)
        if not users:
            self.accompany(asyncio.get_running_loop().create_task(self._leave(place)))

    async def _leave(self, place: LockContainer) -> None:
        """Close the store of a container as soon as its locks are idle, unless a client uses the container again."""
        while not self._lent.get(place) and (busy := self._busy_at(place)) is not None:
            await busy.at_rest()
            await asyncio.sleep(0)
        if not self._lent.get(place):
            self._lent.pop(place, None)
            for address in [each for each in self._locks if each.place == place]:
                del self._locks[address]
            for key in [each for each in self._semaphores if each[0].place == place]:
                del self._semaphores[key]
            for blob in [each for each in self._seats if each[0] == place]:
                del self._seats[blob]
            self._renewals.pop(place, None)
            if (store := self._stores.pop(place, None)) is not None:
                await closed([store])

    def _busy_at(self, place: LockContainer) -> Semaphore | Lock | None:
        semaphores = (each for key, each in self._semaphores.items() if key[0].place == place and not each.idle)
        locks = (each for address, each in self._locks.items() if address.place == place and not each.idle)
        return next(semaphores, next(locks, None))

    def _lock(self, address: Address) -> Lock:
        def make() -> Lock:
            return Lock(
                self.store(address.place),
                address.name,
                timing=address.timing,
                rng=self.rng,
                stamp=address.stamp,
                guard=self._guards.of(address.blob),
                guess=self._guesses.of(address.place, address.name),
                renewals=self._renewals[address.place],
                wall=self.wall,
            )

        return self._locks.known(address, make)

    def seat(self, address: Address, owner: str) -> Seat:
        """Return the seat of the lock of an address: of who waits for the invocations that leave.

        ``LockClosed``: the locks are closed, and a seat that was forgotten may not be made anew.
        """
        if self._closing.is_set():
            raise closed_error("lock", address.name, owner)

        def make() -> Seat:
            return Seat(self.store(address.place), address.name, timing=address.timing, rng=self.rng)

        return self._seats.known(address.blob, make)

    def _semaphore(self, address: Address, limit: int) -> Semaphore:
        def slot(number: int) -> Lock:
            return self._lock(replace(address, name=slot_name(address.name, number)))

        def make() -> Semaphore:
            return Semaphore(address.name, limit, slot, timing=address.timing, rng=self.rng)

        return self._semaphores.known((address, limit), make)

    def store(self, place: LockContainer) -> BlobStore:
        """Return the store of a container; open it at the first call."""
        if place not in self._stores:
            self._stores[place] = self._open_store(place)
        return self._stores[place]

    def queue(self, account: StorageAccount, name: str) -> MessageStore:
        """Return a queue; open it at the first call."""
        if (account, name) not in self._queues:
            assert self._open_queue is not None, "this registry was made without queues"
            self._queues[account, name] = self._open_queue(account, name)
        return self._queues[account, name]
