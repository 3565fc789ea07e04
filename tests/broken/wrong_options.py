"""Guards that are not as the app has declared them, and say of themselves that they are as they should be."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import azure.functions as func

from singleton import ConfigurationError, Contention, decorator
from singleton.functions import acquirers, arguments, http_answers
from singleton.functions.guard import Guard
from singleton.locking.acquisition import Acquisition
from singleton.locking.phase import Timing
from singleton.patterns.once import entry_point, results
from singleton.patterns.once.keys import Key
from singleton.runtime import address
from singleton.runtime.registry import Registry
from singleton.runtime.waiter_count import WaiterCount
from singleton.stores.direct_blob import DirectBlobStore
from singleton.stores.protocol import StoreFailure
from tests.broken.breaking import Now, around, broken, entries
from tests.broken.wrong_turns import all_hosts_listen

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.broken.breaking import Patch


def _declare_otherwise(patch: Patch, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Make guards of other arguments than the app's."""
    real = arguments.guard_by

    def guard_by(given: arguments.Arguments, *args: Any) -> Any:
        return real(arguments.Arguments(**{**vars(given), **change(vars(given))}), *args)

    patch.setattr(arguments, "guard_by", guard_by)


@broken("more than 3 bodies of one semaphore", app="options")
def one_more_is_let_in_than_the_limit(patch: Patch) -> None:
    _declare_otherwise(patch, lambda given: {"limit": given["limit"] and given["limit"] + 1})


@broken("gave up (timeout), though on_contention='wait'", app="options")
def waits_end_after_a_fifth_of_a_second(patch: Patch) -> None:
    _declare_otherwise(patch, lambda given: {"timeout": 0.2} if given["on_contention"] == "wait" else {})


@broken("gave up (skip), though on_contention='wait'", app="options")
def who_should_wait_skips(patch: Patch) -> None:
    _declare_otherwise(patch, lambda given: {"on_contention": "skip"} if given["on_contention"] == "wait" else {})


@broken("gave up (conflict), though on_contention='raise'", app="refuses")
def operations_are_refused_by_another_policy_than_the_declared_one(patch: Patch) -> None:
    _operations(patch, lambda _: {"on_contention": "conflict"})


@broken("ran without holding the lock", app="options")
def the_decorator_does_nothing(patch: Patch) -> None:
    patch.setattr(decorator, "_guarded", lambda target, _: target)


@broken("another blob was asked for", app="options")
def levels_are_ignored(patch: Patch) -> None:
    _declare_otherwise(patch, lambda _: {"level": "function"})


@broken("another blob was asked for")
def one_lock_is_taken_for_all_scopes(patch: Patch) -> None:
    _declare_otherwise(patch, lambda _: {"scope": None})


@broken("another blob was asked for", app="options")
def scopes_are_not_hashed(patch: Patch) -> None:
    _declare_otherwise(patch, lambda _: {"scope_hash": False})


@broken("another blob was asked for")
def locks_are_in_another_container_than_they_say(patch: Patch) -> None:
    def made(real: Any) -> Any:
        def of(options: Any, *args: Any) -> Any:
            make = real(options, *args)
            return lambda place, name: make(replace(place, container="elsewhere"), name)

        return of

    around(patch, address, "address_maker", made)


@broken("asked for with 60 s")
def leases_are_longer_than_declared(patch: Patch) -> None:
    around(
        patch,
        DirectBlobStore,
        "acquire",
        lambda real: lambda self, name, lease_id, _: real(self, name, lease_id, 60),
    )


@broken("nobody had asked the storage for the lock")
def who_was_refused_believes_so_for_twenty_seconds(patch: Patch) -> None:
    refused: dict[str, tuple[float, StoreFailure]] = {}

    def made(real: Any) -> Any:
        async def ask(self: Any, owner: str) -> Any:
            since, failure = refused.get(self._name, (0.0, None))
            if failure is not None and time.monotonic() - since < 20:
                raise failure
            try:
                return await real(self, owner)
            except StoreFailure as error:
                if error.meaning == "held":
                    refused[self._name] = time.monotonic(), error
                raise

        return ask

    around(patch, Acquisition, "ask", made)


@broken("reads for the lock")
def a_lock_is_read_twenty_times(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def ask(self: Any, owner: str) -> Any:
            lease = await real(self, owner)
            for _ in range(20):
                await self._store.read(self._name)
            return lease

        return ask

    around(patch, Acquisition, "ask", made)


@broken("reads for the lock", app="longest", options="--timer-every 1")
def the_holder_is_read_anew_for_each_refused_caller(patch: Patch) -> None:
    async def read(registry: Any, where: Any) -> None:
        await registry.who_has(where)._ask()

    def made(real: Any) -> Any:
        async def named(self: Any, call: Any, error: Any, locks: Any, *more: Any) -> None:
            for where in self._addresses(call):
                await locks.call_async(partial(read, where=where))
            await real(self, call, error, locks, *more)

        return named

    around(patch, Guard, "_name_holder", made)


@broken("reads for the lock", options="--faults all --fault-every 4 --duration 24")
def a_lock_is_read_twenty_times_beside_faults(patch: Patch) -> None:
    a_lock_is_read_twenty_times(patch)


@broken("nobody had asked the storage for the lock", options="--faults all --fault-every 4 --duration 24")
def who_was_refused_believes_so_beside_faults(patch: Patch) -> None:
    who_was_refused_believes_so_for_twenty_seconds(patch)


@broken("requests for the lock")
def who_waits_asks_twenty_times_a_second(patch: Patch) -> None:
    patch.setattr(address, "_timing", lambda **given: Timing(**{**given, "poll_min": 0.05, "poll_max": 0.05}))


@broken("two leaders of", app="leaders")
def all_hosts_listen_in_turn(patch: Patch) -> None:
    all_hosts_listen(patch)


def _operations(patch: Patch, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Make guards of other arguments of ``@once`` than the app's."""
    around(patch, entry_point, "OnceGuard", lambda real: lambda **given: real(**given | change(given)))


@broken("written to end at another time than after keep=86400 s", app="expiries")
def results_are_kept_for_so_many_minutes(patch: Patch) -> None:
    _operations(patch, lambda given: {"keep": given["keep"] * 60 if given["keep"] > 60 else given["keep"]})


@broken("at another time than after keep=", app="expiries")
def results_are_kept_for_a_second(patch: Patch) -> None:
    _operations(patch, lambda _: {"keep": 1.0})


@broken("a result was still there after its end", app="expiries")
def results_are_answered_after_their_end(patch: Patch) -> None:
    patch.setattr(results, "expired", lambda *_: False)


@broken("@once of 'bill': a value of another key was read", app="expiries")
def keys_end_behind_their_first_name(patch: Patch) -> None:
    def change(given: dict[str, Any]) -> dict[str, Any]:
        key = given["key"].given
        return {"key": Key(key[: key.index("}") + 1])} if "}" in key else {}

    _operations(patch, change)


@broken("where the declaration names webjobshost/locks/fleet/send.", app="renames")
def the_older_name_of_a_lock_is_not_asked_for(patch: Patch) -> None:
    async def acquire_new(registry: Any, new: Any, _: Any, **more: Any) -> Any:
        return await registry.acquire(new, **more)

    patch.setattr(acquirers, "acquire_both", acquire_new)


@broken("that fewer others wait than did", app="lines")
def policies_are_told_that_nobody_waits(patch: Patch) -> None:
    real = Contention.over
    patch.setattr(Contention, "over", lambda call, trigger, *_: real(call, trigger, 0))


@broken("of one process waited for bill at a time, though max_waiting is 2", app="lines")
def one_more_waits_than_max_waiting(patch: Patch) -> None:
    def made(real: Any) -> Any:
        return lambda self, blob, who, owner, most: real(self, blob, who, owner, None if most is None else most + 1)

    around(patch, WaiterCount, "come", made)


@broken("without an answer of 409 and Retry-After", app="lines")
def conflicts_are_answered_without_retry_after(patch: Patch) -> None:
    patch.setattr(http_answers, "conflict_answer", lambda *_: func.HttpResponse(status_code=409))


@broken("asked for its lock", app="lines")
def guards_sleep_before_their_wait_begins(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def run(self: Any, *args: Any, **more: Any) -> Any:
            await asyncio.sleep(4)
            return await real(self, *args, **more)

        return run

    around(patch, Guard, "run_async", made)


@broken("asked for its lock", app="lines")
def waits_begin_with_a_sleep(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def acquire(self: Any, address: Any, **more: Any) -> Any:
            await asyncio.sleep(4)
            return await real(self, address, **more)

        return acquire

    around(patch, Registry, "acquire", made)


@broken("failed with ConfigurationError, which nothing in this run caused")
def every_tenth_declaration_is_refused(patch: Patch) -> None:
    now = Now(10)

    def made(real: Any) -> Any:
        async def enter(self: Any, *args: Any) -> Any:
            if now():
                raise ConfigurationError("scope is no scope")
            return await real(self, *args)

        return enter

    entries(patch, made)
