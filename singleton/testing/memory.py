"""The storage account of a test: lease stores in memory, a lock thread on these stores, and changes by a test."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import threading
import time
import uuid
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from singleton.base.errors import LockNotAcquired
from singleton.base.hold import Hold, single_holds
from singleton.base.state import MOST_STATE, Kept
from singleton.locking.lease import Lease
from singleton.runtime.calls import Calls, at_once
from singleton.runtime.lock_thread import Runtime
from singleton.runtime.provided import provide_runtime
from singleton.runtime.registry import Registry
from singleton.settings.accounts import GivenClients
from singleton.stores.protocol import StoreFailure
from singleton.stores.stamps import kept_in
from singleton.testing.storage.memory_queue import MemoryMessageStore, StoredMessage
from singleton.testing.storage.memory_store import MemoryLeaseStore
from singleton.testing.virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from singleton.base.kinds import LossReason
    from singleton.base.state import Keeper
    from singleton.runtime.address import Address
    from singleton.settings.accounts import LockContainer

Manner = Literal["as it is", "busy", "off"]
"""The answer to an acquire: what the store says, "in use", or a hold that locks nothing."""

manners: list[Manner] = ["as it is"]
"""Stack of manners: the last manner applies."""


class RecordingRegistry(Registry):
    """A registry with a record of unreleased holds. The current manner decides the answer to an acquire."""

    def __init__(self, open_store: Callable[[LockContainer], MemoryLeaseStore]) -> None:
        # Seeded: the same lease ids and polls in each run.
        self._memory = open_store
        super().__init__(
            open_store,
            random.Random(1),  # noqa: S311
            open_queue=lambda _account, _name: _Queue(),
            wall=lambda: asyncio.get_running_loop().time(),  # the clock jumps under virtual time
        )
        self._out: dict[weakref.ref[Hold], str] = {}

    async def acquire(self, address: Address, *, owner: str, **how: Any) -> Hold:
        """See ``Registry.acquire``."""
        if manners[-1] == "busy":
            raise LockNotAcquired(
                f"lock {address.name!r} was not acquired: under always_busy() somebody else has it",
                lock=address.name,
                owner=owner,
            )
        if manners[-1] == "off":
            if address.stamp != "token" or how.get("limit") is not None:  # it keeps no state
                return Hold(address.name, owner=owner)
            unlocked = _UnlockedHold(address.name, owner=owner)
            unlocked.store = self._memory(address.place)
            return unlocked
        hold = await super().acquire(address, owner=owner, **how)
        if address not in self.keepers:  # a listener keeps it as long as the process lives
            self._out[weakref.ref(hold)] = (
                f"{hold.lock!r}, acquired by {hold.owner!r}" if hold.owner else repr(hold.lock)
            )
        return hold

    def known(self, address: Address) -> None:
        """Return None: nobody runs here, as the manner decides how an acquire is answered."""

    async def release(self, hold: Hold) -> None:
        """See ``Registry.release``."""
        await super().release(hold)
        self._forget(hold)

    def end(self, hold: Hold, then: Callable[[], object]) -> bool:
        """See ``Registry.end``."""

        def ended() -> None:
            self._forget(hold)
            then()

        return super().end(hold, ended)

    async def drop(self, hold: Hold) -> None:
        """See ``Registry.drop``."""
        await super().drop(hold)
        self._forget(hold)

    def _forget(self, hold: Hold) -> None:
        if hold.lease_id is None:
            hold.own_lost.freeze()
        for each in single_holds(hold):
            self._out.pop(weakref.ref(each), None)

    def left(self) -> list[str]:
        """Name the holds that were neither released nor lost; a dropped hold counts as not released."""
        return [name for ref, name in self._out.copy().items() if (hold := ref()) is None or not hold.lost.is_set()]


class _UnlockedHold(Hold):
    """A hold that locks nothing. The ``Keeper`` of its state, too: patterns go on with what they keep."""

    store: MemoryLeaseStore

    def keeper(self) -> Keeper:
        """See ``Hold.keeper``."""
        return self

    async def read(self) -> Kept:
        """See ``Keeper.read``."""
        try:
            return kept_in(await self.store.get(self.lock, None, MOST_STATE))
        except StoreFailure:  # no blob
            return Kept()

    glance = read

    async def write(self, kept: Kept) -> None:
        """See ``Keeper.write``."""
        self.store.fill(self.lock, kept.marks, kept.body)


class _Queue(MemoryMessageStore):
    """A queue that has every invented message of a test, so a test can put the message back."""

    def _owned(self, id: str, receipt: str) -> StoredMessage:  # noqa: A002
        now = self._now()
        self._messages.setdefault(id, StoredMessage(id, "", now, math.inf, now, receipt))
        return super()._owned(id, receipt)


_GRACE = 2.0
"""Real seconds in which the lock thread may release what nobody received."""

_in_use: list[MemoryLocks] = []


class MemoryLocks:
    """Lease stores in memory, one per account and container, and the runtime of the locks on them."""

    def __init__(self, start: Callable[[Registry], Calls], *, grace: float = 0.0) -> None:
        self.registry = RecordingRegistry(self._open)
        self._start = start
        self._grace = grace
        self._stores: dict[LockContainer, MemoryLeaseStore] = {}
        self._elsewhere: dict[str, str] = dict(_in_use[-1]._elsewhere) if _in_use else {}  # noqa: SLF001 - of our own kind
        self.started: Calls | None = None
        self._door = threading.Lock()
        self._process = os.getpid()

    def runtime(self) -> Calls:
        """Return the runtime, started at the first call. ``RuntimeError``: a fork can't use memory of its parent."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "locks in memory exclude within one process only: for several processes use the storage emulator"
            )
        with self._door:
            if self.started is None:
                self.started = self._start(self.registry)
            return self.started

    def forget(self) -> None:
        """Hold nothing, in a forked child: the child has no thread that would answer."""
        self._door = threading.Lock()
        if self.started is not None:
            self.started.forget()

    def do(self, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine that waits for nothing on the loop of the locks, from anywhere."""
        if isinstance(asyncio._get_running_loop(), VirtualLoop):  # noqa: SLF001 - it has none that gives None
            at_once(act())
        else:
            self.runtime().call(lambda _: act())

    def refuse_leftovers(self) -> None:
        """Raise ``AssertionError`` if a hold is left. First wait a moment for releases that are under way."""
        __tracebackhide__ = True
        end = time.monotonic() + self._grace
        while (left := self.registry.left()) and time.monotonic() < end:
            time.sleep(0.01)
        if left:
            raise AssertionError(f"not given back: {'; '.join(f'lock {name}' for name in left)}")

    def _open(self, place: LockContainer) -> MemoryLeaseStore:
        if place in self._stores:  # a client closed it; what is stored stays stored
            return self._stores[place]
        store = self._stores[place] = MemoryLeaseStore()
        for name, lease_id in self._elsewhere.items():
            at_once(_take(store, name, lease_id))
        return store

    # --- on the loop of the locks -------------------------------------------------------------------------------------

    async def take_elsewhere(self, names: Sequence[str]) -> None:
        """Let another instance hold these locks, in any account. ``LockNotAcquired``: a lock is in use."""
        for name in names:
            if name in self._elsewhere or any(name in store.leased() for store in self._stores.values()):
                raise LockNotAcquired(f"lock {name!r} is in use: another instance can't hold it as well", lock=name)
        for name in names:
            self._elsewhere[name] = lease_id = str(uuid.uuid4())
            for store in self._stores.values():
                await _take(store, name, lease_id)

    async def give_back_elsewhere(self, names: Sequence[str]) -> None:
        """Let the other instance release these locks."""
        for name in names:
            lease_id = self._elsewhere.pop(name)
            for store in self._stores.values():
                with contextlib.suppress(StoreFailure):
                    await store.release(name, lease_id)

    async def lose(self, hold: Hold, reason: LossReason) -> None:
        """End the lease of a hold for good, on the service and in this process."""
        one = single_holds(hold)[0]
        lease = one.own_lost._lease  # noqa: SLF001 - nobody but a test may do this
        if not isinstance(lease, Lease):
            raise RuntimeError(f"{hold!r} has no lease: it is over, or locking is switched off")  # noqa: TRY004 - a state, not a type
        for store in self._stores.values():
            if store.leased().get(one.lock) == one.lease_id:
                await store.break_(one.lock)
                if reason == "blob gone":
                    store.delete(one.lock)
        lease.lose(reason)


async def _take(store: MemoryLeaseStore, name: str, lease_id: str) -> None:
    await store.create(name)
    await store.acquire(name, lease_id, -1)


@dataclass(frozen=True, slots=True)
class _NoAccount:
    """An account that is only a name. The name may be a whole connection string, so it is not shown."""

    connection: str = field(repr=False)

    def __call__(self, _: str) -> NoReturn:
        raise RuntimeError("this lock client was made while locks were kept in memory: make a new one for real storage")


def in_use() -> bool:
    """Tell whether locks are kept in memory."""
    return bool(_in_use)


def current() -> MemoryLocks:
    """Return the locks in memory that are in use. ``RuntimeError``: there are none."""
    if not _in_use:
        raise RuntimeError(
            "no locks are kept in memory here: use @virtual_time, `with memory_locks():` or the fixture singleton_locks"
        )
    return _in_use[-1]


@contextlib.contextmanager
def use(locks: MemoryLocks) -> Iterator[None]:
    """Keep all locks of this process in the given stores."""
    _in_use.append(locks)
    _provide()
    try:
        yield
    finally:
        _in_use.remove(locks)
        _provide()


def _provide() -> None:
    if _in_use:
        provide_runtime(_in_use[-1].runtime, lambda connection: GivenClients(_NoAccount(connection.strip())))
    else:
        provide_runtime(None)


@contextlib.contextmanager
def memory_locks() -> Iterator[None]:
    """Keep all locks in memory inside the block: no storage account, no settings, no network.

    Guarded functions and lock clients work as usual, from any thread and event loop. The block has a lock thread and a
    storage account of its own. Time is real; for waits that take no time see ``virtual_time``.

    Raises:
        AssertionError: a hold is left at the end of the block. See ``assert_no_leases_left``.
    """
    locks = MemoryLocks(Runtime, grace=_GRACE)
    try:
        with use(locks):
            yield
            locks.refuse_leftovers()
    finally:
        if isinstance(locks.started, Runtime):
            locks.started.close()


def _after_fork() -> None:
    for locks in _in_use:
        locks.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
