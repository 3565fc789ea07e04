"""Locks that do wrong with the bodies: run outside the hold, twice, not at all, or what they say is not heard."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from typing import TYPE_CHECKING, Any

from singleton.base.events import tell
from singleton.functions.guard import Guard
from singleton.patterns.once.once_guard import OnceGuard
from tests.broken.breaking import Now, around, bodies, broken, entries

if TYPE_CHECKING:
    from singleton.base.hold import Hold
    from tests.broken.breaking import Patch

_RUNNING: list[object] = []


@broken("went on after the lock was given back", "mutex")
def bodies_run_on_after_the_release(patch: Patch) -> None:
    def later(body: Any) -> Any:
        async def run() -> None:
            _RUNNING.append(asyncio.ensure_future(body()))

        return run

    bodies(patch, later)


@broken("went on after the lock was given back")
def bodies_run_on_in_threads_of_their_own(patch: Patch) -> None:
    def later(body: Any) -> Any:
        async def run() -> None:
            own = contextvars.copy_context()
            threading.Thread(target=lambda: own.run(asyncio.run, body())).start()

        return run

    bodies(patch, later)


@broken("went on after the lock was given back", "mutex")
def locks_are_given_back_as_bodies_begin(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def held(self: Any, locks: Any, hold: Any, call: Any, body: Any, **more: Any) -> Any:
            async def without() -> Any:
                tell("released", call, hold)
                return await body()

            return await real(self, locks, hold, call, without, **more)

        return held

    around(patch, Guard, "_held", made)


@broken("more than once", "mutex")
def bodies_run_twice(patch: Patch) -> None:
    _sometimes_twice(patch, Now(1))


@broken("more than once", "keys")
def one_body_in_ten_runs_twice(patch: Patch) -> None:
    _sometimes_twice(patch, Now(10))


def _sometimes_twice(patch: Patch, now: Now) -> None:
    def twice(body: Any) -> Any:
        async def run() -> None:
            await body()
            if now():
                await body()

        return run

    bodies(patch, twice)


@broken("succeeded without its body", "mutex")
def every_other_body_is_dropped(patch: Patch) -> None:
    _dropped(patch, Now(2))


@broken("succeeded without its body", "keys")
def one_body_in_ten_is_dropped(patch: Patch) -> None:
    _dropped(patch, Now(10))


def _dropped(patch: Patch, now: Now) -> None:
    def dropped(body: Any) -> Any:
        async def run() -> None:
            if not now():
                await body()

        return run

    bodies(patch, dropped)


@broken("although its body had failed", "mutex", app="fails")
def errors_are_swallowed(patch: Patch) -> None:
    def quiet(body: Any) -> Any:
        async def run() -> None:
            with contextlib.suppress(Exception):  # that is the bug
                await body()

        return run

    bodies(patch, quiet)


@broken("failed though its body had succeeded", "mutex")
def bodies_that_succeeded_fail(patch: Patch) -> None:
    now = Now(4)

    def fails(body: Any) -> Any:
        async def run() -> None:
            await body()
            if now():
                raise RuntimeError("no")

        return run

    bodies(patch, fails)


@broken("with another error than its body", app="fails")
def bodies_errors_get_another_class(patch: Patch) -> None:
    def other(body: Any) -> Any:
        async def run() -> None:
            try:
                await body()
            except Exception as error:
                raise KeyError("no") from error

        return run

    bodies(patch, other)


@broken("began before the lock was got", "mutex")
def bodies_begin_before_the_lock_is_got(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def run(self: Any, call: Any, body: Any, *args: Any, **more: Any) -> Any:
            early = asyncio.ensure_future(body())

            async def wait() -> Any:
                return await early

            return await real(self, call, wait, *args, **more)

        return run

    around(patch, Guard, "_run", made)


@broken("ran without holding the lock", "mutex")
def one_in_five_passes_by_the_guard(patch: Patch) -> None:
    now = Now(5)

    def made(real: Any) -> Any:
        async def run(self: Any, call: Any, body: Any, *args: Any, **more: Any) -> Any:
            return await (body() if now() else real(self, call, body, *args, **more))

        return run

    around(patch, Guard, "_run", made)


@broken("ran without holding the lock", app="helpers")
def helpers_pass_by_their_guards(patch: Patch) -> None:
    _passed_by(patch, "write_ledger")


@broken("ran without holding the lock", app="helpers")
def functions_below_a_decorator_that_hides_them_pass_by_their_guards(patch: Patch) -> None:
    _passed_by(patch, "mail")


def _passed_by(patch: Patch, function: str) -> None:
    now = Now(5)

    def made(real: Any) -> Any:
        async def run(self: Any, call: Any, body: Any, *args: Any, **more: Any) -> Any:
            return await (body() if call.function == function and now() else real(self, call, body, *args, **more))

        return run

    around(patch, Guard, "_run", made)


@broken("succeeded without passing through its guard", app="helpers")
def once_answers_what_nobody_has_done(patch: Patch) -> None:
    now = Now(5)

    def made(real: Any) -> Any:
        async def run(self: Any, *args: Any, **more: Any) -> Any:
            return None if now() else await real(self, *args, **more)

        return run

    around(patch, OnceGuard, "_run", made)


@broken("ran without holding the lock", "mutex")
def the_lock_is_got_and_nobody_hears_of_it(patch: Patch) -> None:
    around(
        patch,
        Guard,
        "_report",
        lambda real: staticmethod(lambda kind, *args: None if kind == "acquired" else real(kind, *args)),
    )


@broken("succeeded without its body")
def bodies_never_run_and_all_is_told_as_if_they_did(patch: Patch) -> None:
    def made(_: Any) -> Any:
        async def held(self: Any, locks: Any, hold: Hold, call: Any, *_: Any, **__: Any) -> None:
            for kind in ("acquired", "body_started"):
                tell(kind, call, hold)
            await asyncio.sleep(0.5)
            tell("body_ended", call, hold, "ok")
            await locks.release_async(hold)
            tell("released", call, hold)

        return held

    around(patch, Guard, "_held", made)


@broken("succeeded without its body", "skip")
def timers_run_once_and_never_again(patch: Patch) -> None:
    known: set[str] = set()

    def made(real: Any) -> Any:
        async def run(self: Any, call: Any, *args: Any, **more: Any) -> Any:
            if self.on_contention == "skip" and call.function in known:
                return None
            known.add(call.function)
            return await real(self, call, *args, **more)

        return run

    around(patch, Guard, "_run", made)


@broken("nobody had it", "skip")
def timers_run_once_and_then_hear_that_the_lock_is_taken(patch: Patch) -> None:
    known: set[str] = set()

    def made(real: Any) -> Any:
        async def enter(self: Any, call: Any, locks: Any) -> Any:
            if self.on_contention == "skip" and call.function in known:
                tell("waiting", call)
                tell("contended", call, reason="skip")
                return None
            known.add(call.function)
            return await real(self, call, locks)

        return enter

    entries(patch, made)


@broken("ran its body more than once", app="long")
def bodies_of_two_invocations_are_mixed_up(patch: Patch) -> None:
    before: list[Any] = []

    def another(body: Any) -> Any:
        before.append(body)
        return before[0] if len(before) % 5 == 0 else body

    bodies(patch, another)


@broken("returned something else than its body", app="answers")
def what_bodies_return_is_dropped(patch: Patch) -> None:
    def changed(body: Any) -> Any:
        async def run(*args: Any, **more: Any) -> None:
            await body(*args, **more)

        return run

    bodies(patch, changed)
