"""Locks that refuse whom they should not, wait though they should refuse, fail, or number their holds wrongly."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from singleton.base import hold as base_hold
from singleton.base.errors import LockLost, LockNotAcquired, StorageUnavailable
from singleton.base.events import tell
from singleton.base.hold import Hold, shown_hold
from singleton.functions import contention, guard
from singleton.functions.guard import Guard
from singleton.runtime.registry import Registry
from tests.broken.breaking import Now, around, broken, entries

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.broken.breaking import Patch


@broken("does not allow that", "mutex")
def who_waits_skips_after_a_second(patch: Patch) -> None:
    def made(_: Any) -> Any:
        async def enter(self: Any, call: Any, locks: Any) -> Hold | None:
            tell("waiting", call)
            try:
                hold: Hold = await locks.call_async(self._acquisition(call, 1.0))
            except LockNotAcquired:
                tell("contended", call, reason="skip")
                return None
            return hold

        return enter

    entries(patch, made)


@broken("nobody had it", "skip")
def every_other_is_told_that_the_lock_is_taken(patch: Patch) -> None:
    now = Now(2)

    def made(real: Any) -> Any:
        async def enter(self: Any, call: Any, locks: Any) -> Hold | None:
            if now():
                return await real(self, call, locks)  # type: ignore[no-any-return]
            tell("waiting", call)
            tell("contended", call, reason=self.on_contention)
            return None

        return enter

    entries(patch, made)


@broken("did not count", app="policies", options="--duration 14")
def policies_of_the_app_are_asked_and_all_wait(patch: Patch) -> None:
    def made(real: Any) -> Any:
        def decided(policy: Any, *args: Any) -> Any:
            answer = real(policy, *args)
            return "wait" if callable(policy) else answer

        return decided

    around(patch, contention, "decide", made)


@broken("ended without an answer of its policy", app="policies", options="--duration 14")
def policies_of_the_app_are_asked_once_in_a_process(patch: Patch) -> None:
    def made(real: Any) -> Any:
        answers: dict[Any, Any] = {}

        def decided(policy: Any, *args: Any) -> Any:
            if policy not in answers:
                answers[policy] = real(policy, *args)
            return answers[policy]

        return decided

    around(patch, contention, "decide", made)


@broken("ended without an answer of its policy", app="brief")
def policies_of_the_app_are_asked_once_for_a_lock(patch: Patch) -> None:
    def made(real: Any) -> Any:
        answers: dict[Any, Any] = {}

        def decided(policy: Any, told: Any) -> Any:
            if (policy, told.lock) not in answers:
                answers[policy, told.lock] = real(policy, told)
            return answers[policy, told.lock]

        return decided

    around(patch, contention, "decide", made)


def _told(patch: Patch, **otherwise: Any) -> None:
    """Tell policies of the app's own something else."""
    real = contention.Contention.over
    patch.setattr(contention.Contention, "over", lambda *given: replace(real(*given), **otherwise))


@broken("what is not so: the first dequeue_count 0 in place of 1", app="asks")
def policies_are_told_no_number_of_deliveries(patch: Patch) -> None:
    _told(patch, dequeue_count=0)


@broken("what is not so: the first message_id None in place of", app="asks")
def policies_are_told_no_message(patch: Patch) -> None:
    _told(patch, message_id=None)


def _patience(patch: Patch, change: Callable[[float | None], float | None]) -> None:
    real = Guard._waits
    patch.setattr(
        Guard,
        "_waits",
        lambda guard, policy: change(real(guard, policy)) if callable(guard.on_contention) else real(guard, policy),
    )


@broken("gave up after 0", app="asks")
def who_waits_by_a_policy_of_the_app_does_so_for_a_quarter_of_the_time(patch: Patch) -> None:
    _patience(patch, lambda seconds: seconds and seconds / 4)


@broken("despite on_contention='custom', timeout=2", app="asks")
def who_waits_by_a_policy_of_the_app_waits_without_end(patch: Patch) -> None:
    _patience(patch, lambda seconds: None if seconds else seconds)


@broken("succeeded without its body", app="asks")
def who_raises_by_a_policy_of_the_app_succeeds(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def enter(self: Any, *args: Any) -> Any:
            try:
                return await real(self, *args)
            except LockNotAcquired:
                return None

        return enter

    entries(patch, made)


@broken("succeeded without", "keys")
def one_in_ten_ends_well_and_nobody_hears_of_it(patch: Patch) -> None:
    now = Now(10)

    def made(real: Any) -> Any:
        async def run(self: Any, *args: Any, **more: Any) -> Any:
            return None if now() else await real(self, *args, **more)

        return run

    around(patch, Guard, "_run", made)


def _fails(patch: Patch, error: Callable[[], Exception], every: int) -> None:
    now = Now(every)

    def made(real: Any) -> Any:
        async def enter(self: Any, call: Any, locks: Any) -> Hold | None:
            if now():
                tell("waiting", call)
                raise error()
            return await real(self, call, locks)  # type: ignore[no-any-return]

        return enter

    entries(patch, made)


@broken("failed with StorageUnavailable, which nothing in this run caused", "mutex")
def one_in_four_fails_as_if_the_storage_did(patch: Patch) -> None:
    _fails(patch, lambda: StorageUnavailable("no"), 4)


@broken("failed with LockLost, which nothing in this run caused", "mutex")
def one_in_four_fails_as_if_its_lock_were_lost(patch: Patch) -> None:
    _fails(patch, lambda: LockLost("no"), 4)


@broken("failed without its body", "mutex")
def one_in_four_fails_with_an_error_of_no_class_of_the_locks(patch: Patch) -> None:
    _fails(patch, lambda: RuntimeError("no"), 4)


@broken("failed with LockNotAcquired", "mutex")
def one_in_four_that_waits_fails_for_contention_and_nobody_hears_of_it(patch: Patch) -> None:
    _fails(patch, lambda: LockNotAcquired("no"), 4)


@broken("waited for", "skip")
def who_should_skip_waits(patch: Patch) -> None:
    # A property stands before what a guard of an earlier test keeps of itself.
    patch.setattr(Guard, "wait", property(lambda _: None))


@broken("waited for", "keys", app="timeouts")
def timeouts_are_ignored(patch: Patch) -> None:
    def made(real: Any) -> Any:
        return lambda self, call, timeout, *others: real(self, call, None if timeout else timeout, *others)

    around(patch, Guard, "_acquisition", made)


@broken("no fencing token", "mutex")
def holds_have_no_tokens(patch: Patch) -> None:
    _tokens(patch, lambda: None)


@broken("out of order", "mutex")
def tokens_are_the_same_each_time(patch: Patch) -> None:
    _tokens(patch, lambda: 7)


@broken("out of order", "mutex")
def tokens_fall(patch: Patch) -> None:
    tokens = count(10**9, -1)
    _tokens(patch, lambda: next(tokens))


@broken("out of order", "mutex")
def tokens_are_drawn_by_lot(patch: Patch) -> None:
    _tokens(patch, lambda: random.randrange(10**9))


@broken("out of order")
def tokens_are_counted_in_each_host_by_itself(patch: Patch) -> None:
    tokens = count(1)
    _tokens(patch, lambda: next(tokens))


@broken("another fencing token", "mutex")
def the_first_token_is_shown_to_all_bodies(patch: Patch) -> None:
    first: list[Hold] = []

    def made(real: Any) -> Any:
        def current(hold: Hold) -> Any:
            first.append(hold)
            return real(Hold(hold.lock, owner=hold.owner, token=first[0].token))

        return current

    around(patch, guard, "BodyContext", made)


@broken("saw another hold at their end", app="states", options="--kill 1")
def all_bodies_see_the_hold_of_the_latest(patch: Patch) -> None:
    latest: list[Hold] = []

    class Shown:
        def get(self) -> Hold | None:
            return shown_hold.get() and latest[-1]

    def made(real: Any) -> Any:
        def current(hold: Hold) -> Any:
            latest.append(hold)
            return real(hold)

        return current

    around(patch, guard, "BodyContext", made)
    patch.setattr(base_hold, "shown_hold", Shown())


def _tokens(patch: Patch, token: Callable[[], int | None]) -> None:
    def made(real: Any) -> Any:
        async def enter(self: Any, call: Any, locks: Any) -> Hold | None:
            hold = await real(self, call, locks)
            if hold is not None:
                hold.token = token()
            return hold  # type: ignore[no-any-return]

        return enter

    entries(patch, made)


@broken("beside a fault, though nobody had the lock", app="payloads")
def trouble_of_the_storage_is_told_as_contention(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def acquire(self: Any, address: Any, **more: Any) -> Any:
            try:
                return await real(self, address, **more)
            except StorageUnavailable as error:
                raise LockNotAcquired(str(error), lock=error.lock) from None

        return acquire

    around(patch, Registry, "acquire", made)


@broken("passed the guard without the body", app="payloads")
def who_should_raise_below_a_decorator_skips(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def enter(self: Any, *args: Any) -> Any:
            try:
                return await real(self, *args)
            except LockNotAcquired:
                return None

        return enter

    entries(patch, made)
