"""Locks that do all that they should, and later than the options allow."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import LockNotAcquired
from singleton.functions.candidacy import Candidacy
from singleton.functions.guard import Guard
from singleton.functions.wait_limit import WaitLimit
from singleton.locking import acquisition
from singleton.locking.failover import Suspicion, Takeover
from singleton.locking.lease import Lease
from singleton.locking.line import Line
from singleton.locking.phase import PhaseMachine, Timing
from singleton.locking.semaphore import Slots
from singleton.runtime.registry import Registry
from tests.broken.breaking import around, broken

if TYPE_CHECKING:
    from tests.broken.breaking import Patch

_CUT_OFF: Final = "--faults partition --duration 40"


@broken("was taken over after", app="turns")
def silent_holders_are_waited_for_until_their_leases_expire(patch: Patch) -> None:
    patch.setattr(Takeover, "ask", lambda self, owner: self._acquisition.ask(owner))


@broken("taken over", app="ticks", options="--kill 1 --timer-every 3")
def a_reading_is_of_no_use_half_a_second_later(patch: Patch) -> None:
    def made(real: Any) -> Any:
        def read(self: Any, state: Any, *, sent: float, **more: Any) -> str | None:
            found: str | None = real(self, state, sent=sent, **more)
            return found if sent < self.due + 0.5 else None

        return read

    around(patch, Suspicion, "read", made)


@broken("(listener), which", app="listeners", options="--same-app --kill 1 --seed 2")
def who_stands_by_asks_once_a_minute(patch: Patch) -> None:
    around(patch, Candidacy, "_pause", lambda real: lambda self, seconds: real(self, 4 * seconds))


@broken("one section after another, while", app="turns", options="--same-app")
def a_process_keeps_the_lock_as_long_as_its_own_callers_wait(patch: Patch) -> None:
    patch.setattr(PhaseMachine, "had_its_run", False)


@broken("a slot of", app="slots", options="--same-app")
def a_semaphore_gives_out_one_slot(patch: Patch) -> None:
    patch.setattr(Slots, "all", lambda _: iter([0]))


@broken("found all slots of a semaphore taken, and fewer were in use", app="slots", options="--same-app")
def a_semaphore_gives_out_one_slot_and_messages_go_back_again_and_again(patch: Patch) -> None:
    a_semaphore_gives_out_one_slot(patch)


@broken("was not renewed in time", app="long", options="--same-app")
def renewals_come_three_seconds_late(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def renew(self: Any) -> float:
            await asyncio.sleep(3)
            due: float = await real(self)
            return due

        return renew

    around(patch, Lease, "renew", made)


@broken("was not renewed in time", app="long", options="--same-app")
def renewals_block_the_loop_of_all_locks_for_three_seconds(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def renew(self: Any) -> float:
            time.sleep(3)  # noqa: ASYNC251 - the fault
            due: float = await real(self)
            return due

        return renew

    around(patch, Lease, "renew", made)


@broken("was renewed", app="long", options="--same-app")
def leases_are_renewed_each_second(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def renew(self: Any) -> float:
            await real(self)
            return asyncio.get_running_loop().time() + 1

        return renew

    around(patch, Lease, "renew", made)


@broken("was free for", app="polls", options="--same-app")
def who_waits_asks_each_three_seconds_though_each_second_is_declared(patch: Patch) -> None:
    def made(real: Any) -> Any:
        return lambda self, **given: real(self, **{**given, "poll_min": 3.0, "poll_max": 3.0})

    around(patch, Timing, "__init__", made)


@broken("before its deadline", app="long", options=_CUT_OFF)
def holds_end_after_three_fifths_of_a_lease_without_a_renewal(patch: Patch) -> None:
    def extend(lease: Any, sent: float) -> None:
        lease._granted = sent
        lease._deadline = lease.deadline = sent + lease._period * 3 / 5

    patch.setattr(Lease, "_extend", extend)


@broken("despite on_contention='raise'", app="policies", options="--same-app")
def who_is_refused_hears_so_five_seconds_later(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def wait(self: Any, timeout: float | None, *args: Any) -> Any:
            try:
                return await real(self, timeout, *args)
            except LockNotAcquired:
                if timeout == 0:
                    await asyncio.sleep(5)
                raise

        return wait

    around(patch, Line, "wait", made)


@broken("and its answer came", app="policies", options="--same-app")
def who_is_refused_is_answered_four_seconds_later(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def name_holder(self: Any, *args: Any) -> None:
            await asyncio.sleep(4)
            await real(self, *args)

        return name_holder

    around(patch, Guard, "_name_holder", made)


@broken("gave up after", app="impatient")
def waits_end_after_a_quarter_of_their_time(patch: Patch) -> None:
    def made(real: Any) -> Any:
        return lambda self, registry, wait, *args: real(self, registry, wait and wait / 4, *args)

    around(patch, WaitLimit, "within", made)


@broken("despite functionTimeout=12", app="limited", options="--duration 20")
def waits_without_end_go_on_past_the_function_timeout(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def within(self: Any, registry: Any, wait: Any, invocation: Any, acquire: Any) -> Any:
            return await (acquire(registry, None) if wait is None else real(self, registry, wait, invocation, acquire))

        return within

    around(patch, WaitLimit, "within", made)


@broken("of 'note_down' gave up (timeout)", app="limited", options="--duration 20")
def waits_without_end_end_after_a_quarter_of_the_function_timeout(patch: Patch) -> None:
    patch.setattr(WaitLimit, "seconds", property(lambda self: self.timeout.seconds / 4))


@broken("after its body had ended", app="many", options=f"{_CUT_OFF} --seed 2")
def releases_are_tried_for_a_minute(patch: Patch) -> None:
    patch.setattr(acquisition, "_RELEASE", 60.0)


@broken("did not try again to release", app="throttled")
def a_release_that_failed_is_not_tried_again(patch: Patch) -> None:
    async def release(self: Any, lease_id: str) -> bool:
        with suppress(Exception):
            await self._store.release(self._name, lease_id)
            return True
        return False

    patch.setattr(acquisition.Acquisition, "_release", release)


@broken("after another that had asked", app="turns", options="--same-app")
def the_last_to_come_is_the_first_to_get_the_lock(patch: Patch) -> None:
    def first(line: Any) -> Any:
        while (last := next(reversed(line._waiters), None)) is not None and last.granted.done():
            del line._waiters[last]
        return last

    patch.setattr(Line, "first", first)


@broken("a body of 'ship' began", app="polls", options="--same-app")
def bodies_begin_five_seconds_after_their_locks_are_granted(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def inside(self: Any, *args: Any, **more: Any) -> Any:
            await asyncio.sleep(5)
            return await real(self, *args, **more)

        return inside

    around(patch, Guard, "_inside", made)


@broken("1 of the 2 slots", app="slots")
def a_semaphore_has_a_slot_less(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def acquire(self: Any, address: Any, *, limit: int | None = None, **more: Any) -> Any:
            return await real(self, address, limit=limit and max(1, limit - 1), **more)

        return acquire

    around(patch, Registry, "acquire", made)
