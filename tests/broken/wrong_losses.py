"""Locks that lose what they have for no reason, that give up too soon, and that hide what they lost.

Each stands beside a right app and a fault that explain a loss, a failure or a refusal of the same kind.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from singleton.base import holds
from singleton.base.errors import LockLost
from singleton.base.hold import Hold, LossSignal
from singleton.base.holds import HeldLock
from singleton.base.several import JointSignal
from singleton.functions.guard import Guard
from singleton.locking.acquisition import Acquisition
from singleton.locking.lease import Lease
from singleton.locking.line import Line
from singleton.locking.section_state import SectionState
from singleton.runtime import cancellation, reentry
from singleton.runtime.registry import Registry
from singleton.stores.protocol import StoreFailure
from tests.broken.breaking import Now, around, broken

if TYPE_CHECKING:
    from tests.broken.breaking import Patch

_UNCAUSED: Final = "which nothing in this run caused"


@broken("of 'write_report' could not see that the lock was lost", app="blocks_lost", options="--duration 10")
def a_helpers_hold_hides_the_loss_around_it(patch: Patch) -> None:
    around(patch, JointSignal, "__init__", lambda real: lambda self, first, *_: real(self, first))


@broken("of 'annex (lock client, decorator)' could not see that", app="blocks_lost", options="--duration 10")
def the_hold_of_a_decorated_function_hides_the_loss_around_it(patch: Patch) -> None:
    a_helpers_hold_hides_the_loss_around_it(patch)


@broken("the lease of mirror was left to lapse by", app="overrun", options="--duration 12")
def holds_of_a_client_that_max_hold_has_ended_are_not_released(patch: Patch) -> None:
    a_lock_that_max_hold_has_ended_is_not_released(patch)


@broken("was left to lapse by", app="overstays")
def a_lock_that_max_hold_has_ended_is_not_released(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def give_back(self: Any, lease: Any) -> Any:
            if lease.lost != "too long":
                return await real(self, lease)
            await lease.stop()
            return lease.lapses

        return give_back

    around(patch, Acquisition, "give_back", made)


@broken("and its hold says that it is owned still", app="nested", options="--duration 8")
def a_hold_that_was_given_back_says_that_it_is_owned(patch: Patch) -> None:
    patch.setattr(Hold, "owned", property(lambda self: not self.lost.is_set()))


@broken("and its hold tells who waits for a loss that it is lost", app="nested", options="--duration 8")
def who_waits_for_a_loss_hears_of_each_end(patch: Patch) -> None:
    around(patch, LossSignal, "wait", lambda real: lambda self, timeout=None: real(self, timeout) or self.ended)


@broken("were missing in holds() as their bodies ended", app="nested", options="--duration 8")
def holds_lists_no_held_lock(patch: Patch) -> None:
    patch.setattr(holds, "HeldLock", lambda **about: HeldLock(**{**about, "lock": "another"}))


@broken(f"lost (stolen), {_UNCAUSED}", app="listeners")
def a_leadership_is_dropped_once(patch: Patch) -> None:
    dropped: set[str] = set()

    def made(real: Any) -> Any:
        async def ask(self: Any, owner: str) -> Any:
            lease = await real(self, owner)
            if "listener" in lease.name.lower() and lease.name not in dropped:
                dropped.add(lease.name)
                lease.loop.call_later(3.3, lease.lose, "stolen")
            return lease

        return ask

    around(patch, Acquisition, "ask", made)


@broken(f"lost (expired), {_UNCAUSED}", app="dozes")
def a_hold_is_dropped_long_after_a_fault(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def renew(self: Any) -> float:
            due: float = await real(self)
            if self.served > 12:
                self.lose("expired")
            return due

        return renew

    around(patch, Lease, "renew", made)


@broken(f"lost (expired), {_UNCAUSED}", app="dozes")
def a_hold_does_not_outlive_a_short_pause(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def ask(self: Any, owner: str) -> Any:
            lease = await real(self, owner)

            def beat(due: float) -> None:
                if lease.loop.time() - due > 2:
                    lease.lose("expired")
                if lease.alive():
                    lease.loop.call_later(0.5, beat, lease.loop.time() + 0.5)

            beat(lease.loop.time())
            return lease

        return ask

    around(patch, Acquisition, "ask", made)


@broken(_UNCAUSED, app="blocks")
def renewals_wait_for_the_loop_of_the_app(patch: Patch) -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    def entered(real: Any) -> Any:
        async def run(self: Any, *args: Any, **more: Any) -> Any:
            loops.append(asyncio.get_running_loop())
            return await real(self, *args, **more)

        return run

    def renewed(real: Any) -> Any:
        async def renew(self: Any) -> float:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loops[-1]))
            due: float = await real(self)
            return due

        return renew

    around(patch, Guard, "run_async", entered)
    around(patch, Lease, "renew", renewed)


@broken(_UNCAUSED, app="long")
def renewals_name_another_lease(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def renew(self: Any) -> float:
            self.id = "00000000-0000-4000-8000-000000000000"
            due: float = await real(self)
            return due

        return renew

    around(patch, Lease, "renew", made)


@broken(f"failed with StorageUnavailable, {_UNCAUSED}", app="hurried")
def waits_give_the_storage_up_at_once(patch: Patch) -> None:
    def made(real: Any) -> Any:
        def failed(self: Any, trouble: Any) -> None:
            real(self, trouble)
            self.refuse_all(trouble)

        return failed

    around(patch, Line, "failed", made)


@broken("after the storage had answered that its lease of", app="long", options="--faults break --duration 30")
def answers_that_a_lease_is_gone_are_taken_for_trouble(patch: Patch) -> None:
    patch.setattr(StoreFailure, "loss", None)


@broken("succeeded although it had lost its lock", app="again")
def a_try_that_lost_its_lock_is_a_success(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def held(*args: Any, **more: Any) -> Any:
            try:
                return await real(*args, **more)
            except LockLost:
                return None

        return held

    around(patch, Guard, "_held", made)


@broken("'audit' began inside 'ship' on", app="overstays")
def a_lost_lock_around_a_body_does_not_count(patch: Patch) -> None:
    for module in (reentry, cancellation):
        patch.setattr(module, "outer_signals", tuple)


@broken("that its hold had ended, from second", app="heeds")
def nobody_who_waits_for_a_loss_is_woken(patch: Patch) -> None:
    patch.setattr(LossSignal, "_when_over", lambda *_: lambda: None)


@broken("a callback of hold.lost of 'mail' on", app="heeds")
def the_last_callback_on_a_loss_is_not_called(patch: Patch) -> None:
    def made(real: Any) -> Any:
        def fire(self: Any, reason: Any) -> None:
            if len(self._callbacks) > 1:  # the first is the guard's
                del self._callbacks[1:]
            real(self, reason)

        return fire

    around(patch, LossSignal, "fire", made)


@broken("ended by the lock at its loss, though cancel_on_loss=False", app="heeds")
def bodies_are_cancelled_that_only_wanted_to_be_told(patch: Patch) -> None:
    def made(real: Any) -> Any:
        def run(self: Any, *args: Any, cancel: bool, **more: Any) -> Any:
            with contextlib.suppress(RuntimeError):
                cancel = asyncio.get_running_loop() is not None
            return real(self, *args, cancel=cancel, **more)

        return run

    around(patch, Guard, "_run", made)


@broken(_UNCAUSED, app="states")
def a_write_of_state_loses_the_lock_now_and_then(patch: Patch) -> None:
    now = Now(20)

    def made(real: Any) -> Any:
        async def write(self: Any, kept: Any) -> None:
            if now():
                self._lease.lose("broken")
            await real(self, kept)

        return write

    around(patch, SectionState, "write", made)


@broken("by an answer that got lost, and neither asked", app="lossy")
def a_lease_whose_answer_was_lost_is_forgotten(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def ask(self: Any, owner: str) -> Any:
            self._id = self._new_id()
            return await real(self, owner)

        return ask

    around(patch, Acquisition, "ask", made)


@broken("longer than at_least=", app="keeps")
def a_lock_is_kept_for_three_times_as_long_as_declared(patch: Patch) -> None:
    around(patch, Registry, "keep", lambda real: lambda self, hold, seconds: real(self, hold, 3 * seconds))
