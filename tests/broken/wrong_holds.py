"""Locks that admit several, that keep or lose what they have, or that don't let go."""

from __future__ import annotations

import asyncio
import contextlib
import math
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import LockNotAcquired
from singleton.base.events import tell
from singleton.base.hold import Hold, LossSignal, shown_hold
from singleton.functions import guard
from singleton.functions.guard import Guard
from singleton.locking.acquisition import Acquisition
from singleton.locking.lease import Lease
from singleton.locking.line import Line
from singleton.locking.lock import Lock
from singleton.runtime import hold_end
from singleton.runtime.registry import Registry
from singleton.stores.protocol import StoreFailure
from tests.broken.breaking import Now, around, bodies, broken, entries

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.broken.breaking import Patch


def _nobody_looks_at_the_clock(patch: Patch) -> None:
    patch.setattr(Lease, "overdue", lambda _: False)
    patch.setattr(Lease, "alive", lambda lease: lease.lost is None)
    patch.setattr(LossSignal, "reason", property(lambda signal: signal._reason))


class _Keeps:
    """Gives nothing back, and says nothing."""

    async def release_async(self, hold: Hold) -> None: ...


@broken("overlap", "mutex")
def nothing_is_locked(patch: Patch) -> None:
    _some_get_in(patch, Now(1))


@broken("overlap", "keys")
def one_in_ten_gets_in_as_well(patch: Patch) -> None:
    _some_get_in(patch, Now(10))


def _some_get_in(patch: Patch, now: Now) -> None:
    """Let some in without asking, and tell all that there is to tell."""
    tokens = count(1)

    def made(real: Any) -> Any:
        async def enter(self: Any, call: Any, locks: Any) -> Any:
            if not now():
                return await real(self, call, locks)
            tell("waiting", call)
            return Hold(call.lock, owner=call.owner, token=next(tokens) + 2**52)

        return enter

    entries(patch, made)


@broken("overlap", "mutex")
def all_hosts_have_one_lease_id(patch: Patch) -> None:
    patch.setattr(Acquisition, "_new_id", lambda _: "00000000-0000-4000-8000-000000000000")


@broken("overlap", "mutex")
def each_invocation_has_a_lock_object_of_its_own(patch: Patch) -> None:
    patch.setattr(Acquisition, "_new_id", lambda _: "00000000-0000-4000-8000-000000000000")

    def lock(self: Any, address: Any) -> Lock:
        return Lock(self.store(address.place), address.name, timing=address.timing, rng=self.rng, stamp=address.stamp)

    patch.setattr(Registry, "_lock", lock)


@broken("overlap", "mutex")
def who_is_refused_breaks_the_lease(patch: Patch) -> None:
    _when_refused(patch, lambda acquisition: acquisition._store.break_(acquisition._name))


@broken("overlap", "mutex")
def leases_are_given_back_as_soon_as_they_are_got(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def ask(self: Any, owner: str) -> Any:
            lease = await real(self, owner)
            await self._store.release(self._name, lease.id)
            lease.due = math.inf
            return lease

        return ask

    around(patch, Acquisition, "ask", made)


@broken("LockLost", "mutex", app="long")
def leases_are_never_renewed(patch: Patch) -> None:
    async def never(self: Any) -> float:
        return math.inf

    patch.setattr(Lease, "renew", never)


@broken("not renewed in time", options="--kill 1")
def leases_are_never_renewed_which_no_body_is_long_enough_to_see(patch: Patch) -> None:
    leases_are_never_renewed(patch)


@broken("overlap", "mutex", app="long")
def leases_are_never_renewed_and_nobody_is_told(patch: Patch) -> None:
    leases_are_never_renewed(patch)
    patch.setattr(Lease, "lose", lambda *_: None)
    _nobody_looks_at_the_clock(patch)


@broken("overlap", "mutex", app="long")
def leases_are_renewed_once(patch: Patch) -> None:
    def once(real: Any) -> Any:
        async def renew(self: Any) -> float:
            await real(self)
            return math.inf

        return renew

    around(patch, Lease, "renew", once)
    patch.setattr(Lease, "lose", lambda *_: None)
    _nobody_looks_at_the_clock(patch)


@broken("which nothing in this run caused", "mutex")
def one_hold_in_ten_is_told_to_be_lost(patch: Patch) -> None:
    now = Now(10)

    def made(real: Any) -> Any:
        async def held(self: Any, locks: Any, hold: Any, *args: Any, **more: Any) -> Any:
            if now():
                hold.lost.fire("stolen")
            return await real(self, locks, hold, *args, **more)

        return held

    around(patch, Guard, "_held", made)


@broken("overlap", options="--pause 1")
def losses_are_never_told(patch: Patch) -> None:
    patch.setattr(LossSignal, "fire", lambda *_: None)
    _nobody_looks_at_the_clock(patch)


@broken("nobody had asked for an end", app="patient", options="--pause 1")
def bodies_are_not_cancelled_when_their_lock_is_lost(patch: Patch) -> None:
    patch.setattr(guard, "cancelled_when_lost", lambda *_, **__: contextlib.nullcontext())


@broken("could not see that the lock was lost", app="patient", options="--pause 1")
def losses_are_told_to_everybody_but_the_body(patch: Patch) -> None:
    class Deaf:
        def __init__(self, hold: Hold) -> None:
            self._hold = hold

        def raise_if_lost(self) -> None: ...

        def __getattr__(self, name: str) -> Any:
            return getattr(self._hold, name)

    around(patch, guard, "BodyContext", lambda real: lambda hold: real(Deaf(hold)))


@broken("could not see that the lock was lost", app="patient", options="--pause 1")
def a_lost_hold_says_that_it_is_owned(patch: Patch) -> None:
    patch.setattr(Hold, "owned", property(lambda _: True))


@broken("overlap", app="overstays", options="--hosts 3")
def a_lock_is_given_back_under_a_body_that_has_it_for_too_long(patch: Patch) -> None:
    def changed(real: Any) -> Any:
        def too_long(record: Any, lease: Any) -> None:
            real(record, lease)
            record.end()

        return too_long

    around(patch, hold_end, "_too_long", changed)


@broken("of 'write_ledger' could not see their hold: current_hold() failed", app="helpers", options="--hosts 2")
def a_body_does_not_see_its_hold(patch: Patch) -> None:
    def changed(body: Callable[[], Any]) -> Callable[[], Any]:
        def unseen() -> Any:
            shown_hold.set(None)
            return body()

        return unseen

    bodies(patch, changed)


_UNDER_FAULTS: Final = "--faults break,error,pause --fault-every 3 --duration 30"
"""Most of the faults end a lease: so an async body loses its lock, whatever the machine's load."""


@broken("after the lease had run out, and the lock did not say so", app="long", options=_UNDER_FAULTS)
def losses_are_never_told_under_faults(patch: Patch) -> None:
    losses_are_never_told(patch)


@broken("nobody had asked for an end", app="long", options=_UNDER_FAULTS)
def bodies_are_not_cancelled_under_faults(patch: Patch) -> None:
    bodies_are_not_cancelled_when_their_lock_is_lost(patch)


@broken("could not see that the lock was lost", app="long", options=_UNDER_FAULTS)
def losses_are_told_to_everybody_but_the_body_under_faults(patch: Patch) -> None:
    losses_are_told_to_everybody_but_the_body(patch)


@broken("was kept by", "mutex")
def locks_are_kept_for_a_while_after_their_bodies(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def held(self: Any, locks: Any, *args: Any, **more: Any) -> Any:
            class Slow:
                async def release_async(self, hold: Hold) -> None:
                    await asyncio.sleep(7.0)
                    await locks.release_async(hold)

            return await real(self, Slow(), *args, **more)

        return held

    around(patch, Guard, "_held", made)


@broken("was kept by", "mutex")
def locks_are_never_given_back(patch: Patch) -> None:
    around(patch, Guard, "_held", lambda real: lambda self, _, *args, **more: real(self, _Keeps(), *args, **more))
    around(
        patch,
        Guard,
        "_report",
        lambda real: staticmethod(lambda kind, *args: None if kind == "released" else real(kind, *args)),
    )


@broken("was free for", "keys")
def locks_are_given_back_eight_seconds_after_they_say_so(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def give_back(self: Any, lease: Any) -> Any:
            await asyncio.sleep(8)
            return await real(self, lease)

        return give_back

    around(patch, Acquisition, "give_back", made)
    around(patch, Guard, "_held", _told_at_once)


def _told_at_once(real: Any) -> Any:
    async def held(self: Any, locks: Any, *args: Any, **more: Any) -> Any:
        class Later:
            async def release_async(self, hold: Hold) -> None:
                asyncio.ensure_future(locks.release_async(hold))  # noqa: RUF006 - it ends by itself
                await asyncio.sleep(0)

        return await real(self, Later(), *args, **more)

    return held


@broken("was free for", "mutex")
def who_waits_asks_twice_a_minute(patch: Patch) -> None:
    def made(_: Any) -> Any:
        async def enter(self: Any, call: Any, locks: Any) -> Hold:
            tell("waiting", call)
            while True:
                try:
                    hold: Hold = await locks.call_async(self._acquisition(call, 0))
                except LockNotAcquired:
                    await asyncio.sleep(30)
                else:
                    return hold

        return enter

    entries(patch, made)


@broken("never taken over", options="--kill 1")
def who_waits_gives_up_asking_after_six_seconds(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def sleep_until(self: Any, due: float) -> None:
            first = self.first()
            if first is not None and asyncio.get_running_loop().time() - first.since > 6:
                await asyncio.sleep(3600)
            await real(self, due)

        return sleep_until

    around(patch, Line, "sleep_until", made)


@broken("overlap", options="--kill 1 --duration 30")
def a_lock_that_was_held_for_ten_seconds_is_everybodys(patch: Patch) -> None:
    """It is right until somebody dies."""

    async def break_after_ten_seconds(acquisition: Any) -> None:
        first = acquisition.__dict__.setdefault("_refused", asyncio.get_running_loop().time())
        if asyncio.get_running_loop().time() - first > 10:
            with contextlib.suppress(StoreFailure):
                await acquisition._store.break_(acquisition._name)

    _when_refused(patch, break_after_ten_seconds)


def _when_refused(patch: Patch, does: Callable[[Any], Awaitable[object]]) -> None:
    """Have who is refused a lease do something before it hears of that."""

    def made(real: Any) -> Any:
        async def acquire(self: Any, owner: str) -> Any:
            try:
                return await real(self, owner)
            except StoreFailure as failure:
                if failure.meaning == "held":
                    await does(self)
                raise

        return acquire

    around(patch, Acquisition, "ask", made)
