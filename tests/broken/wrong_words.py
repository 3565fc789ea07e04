"""Locks that tell a body, a callback or a policy of the app's own what is not so, or that ask more than they need."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from singleton.base.hold import Hold, LossSignal
from singleton.base.state import State
from singleton.functions import contention
from singleton.functions.guard import Guard
from singleton.locking.lease import Lease
from singleton.locking.phase import Timing
from singleton.locking.section_state import SectionState
from tests.broken.breaking import around, broken

if TYPE_CHECKING:
    from singleton.base.state import Kept
    from tests.broken.breaking import Patch


@broken("what was kept can't be read", app="keeping")
def writes_of_state_are_cut(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def write(self: SectionState, kept: Kept) -> None:
            known = kept.marks.get("SingletonState") == "once"
            await real(self, kept if known else replace(kept, body=kept.body[:-1]))

        return write

    around(patch, SectionState, "write", made)


@broken("what was kept can't be read", app="keeping")
def writes_of_state_keep_their_marks_only(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def write(self: SectionState, kept: Kept) -> None:
            known = kept.marks.get("SingletonState") == "once"
            await real(self, kept if known else replace(kept, body=b""))

        return write

    around(patch, SectionState, "write", made)


@broken("had removed it", app="forgets")
def removals_of_state_are_dropped(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def write(self: SectionState, kept: Kept) -> None:
            if kept.marks:
                await real(self, kept)

        return write

    around(patch, SectionState, "write", made)


@broken("gave the state of another lock", app="keeping")
def bodies_get_the_state_of_the_invocation_before(patch: Patch) -> None:
    before: list[tuple[Any, ...]] = []

    def made(real: Any) -> Any:
        def init(self: State, *given: Any) -> None:
            before.append(given)
            real(self, *before[max(len(before) - 2, 0)])

        return init

    around(patch, State, "__init__", made)


@broken("had a fencing token, though the token of a slot", app="slots")
def holds_of_semaphores_have_tokens(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def inside(self: Any, call: Any, hold: Hold, *args: Any, **more: Any) -> Any:
            if self.limit is not None:
                hold.token = 7
            return await real(self, call, hold, *args, **more)

        return inside

    around(patch, Guard, "_inside", made)


@broken("said that they were lost, and were not")
def holds_say_that_they_are_lost(patch: Patch) -> None:
    patch.setattr(Hold, "owned", property(lambda _: False))


@broken("said that they were lost, and were not")
def loss_signals_are_set_from_the_start(patch: Patch) -> None:
    patch.setattr(LossSignal, "is_set", lambda _: True)


@broken("told another reason of their loss", app="heeds")
def every_loss_is_told_as_stolen(patch: Patch) -> None:
    def made(real: Any) -> Any:
        return lambda self, _: real(self, "stolen")

    around(patch, LossSignal, "fire", made)


@broken("told another reason of their loss than the storage", app="heeds")
def every_lease_is_lost_by_expiry(patch: Patch) -> None:
    def made(real: Any) -> Any:
        return lambda self, _, *args, **more: real(self, "expired", *args, **more)

    around(patch, Lease, "lose", made)


@broken("called a callback on their loss twice", app="heeds")
def callbacks_on_a_loss_are_called_twice(patch: Patch) -> None:
    def made(real: Any) -> Any:
        def fire(self: Any, reason: Any) -> None:
            again = [] if self._reason else self._callbacks[1:]  # the first is the guard's
            real(self, reason)
            for callback in again:
                callback(reason)

        return fire

    around(patch, LossSignal, "fire", made)


@broken("told of a loss that did not happen", app="heeds")
def callbacks_on_a_loss_are_called_at_the_end(patch: Patch) -> None:
    def made(real: Any) -> Any:
        def finish(self: Any, **how: Any) -> None:
            called = [*self._callbacks]
            real(self, **how)
            for callback in called:
                callback("expired")

        return finish

    around(patch, LossSignal, "finish", made)


@broken("told another time in waited")
def holds_say_that_nobody_waited(patch: Patch) -> None:
    patch.setattr(Hold, "waited", property(lambda _: 0.0, lambda *_: None))


@broken("had another lease_id than the lease that was granted")
def holds_have_another_lease_id(patch: Patch) -> None:
    patch.setattr(Hold, "lease_id", property(lambda _: "00000000-0000-4000-8000-000000000000", lambda *_: None))


@broken("had another owner than their invocations")
def holds_have_another_owner(patch: Patch) -> None:
    patch.setattr(Hold, "owner", property(lambda _: "somebody", lambda *_: None))


def _told(patch: Patch, **otherwise: Any) -> None:
    real = contention.Contention.over
    patch.setattr(contention.Contention, "over", lambda *given: replace(real(*given), **otherwise))


@broken("what is not so: the first lock", app="asks")
def policies_are_told_another_lock(patch: Patch) -> None:
    _told(patch, lock="locks/another")


@broken("what is not so: the first function", app="asks")
def policies_are_told_another_function(patch: Patch) -> None:
    _told(patch, function="another")


@broken("asked again for the lock of", app="long", options="--same-app")
def who_waits_asks_twice_as_often(patch: Patch) -> None:
    patch.setattr(Timing, "longest_pause", property(lambda timing: timing.poll_max / 2))
