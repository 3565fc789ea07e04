"""Lock clients that admit several, give a lock back too soon, or mix up tokens."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import sqlalchemy

from singleton.base.errors import LockNotAcquired
from singleton.base.hold import Hold
from singleton.baseclient import BaseClient
from singleton.clients import blocks, periodic_worker, request_events
from singleton.clients.blocks import AsyncBlock, _BaseBlock
from singleton.clients.leadership import Leadership
from singleton.clients.periodic_worker import PeriodicWorker
from singleton.functions import guard
from singleton.locking import holder
from singleton.locking.line import Line
from singleton.operating import lock_names
from singleton.patterns import durable
from singleton.patterns.sql import rowstates
from singleton.runtime import reentry
from singleton.runtime.cancellation import LossWatch
from singleton.settings.durations import Limits
from tests.broken.breaking import around, broken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from singleton.runtime.registry import Registry
    from tests.broken.breaking import Patch


@broken("bodies went on after the lease was given back", app="sections", options="--duration 8")
def a_block_gives_its_lock_back_as_it_begins(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def acquired(self: Any, locks: Any) -> Any:
            got = await real(self, locks)
            for hold in self._holds:
                await locks.release_async(hold)
            return got

        return acquired

    around(patch, _BaseBlock, "_acquired", made)


@broken("more than 2 bodies of one semaphore", app="sections", options="--duration 30")  # three are seldom inside
def a_semaphore_of_a_client_has_a_slot_more(patch: Patch) -> None:
    def made(real: Any) -> Any:
        def asked(
            self: Any, name: str, timeout: Any, owner: str, limit: int | None = None, *more: Any, **how: Any
        ) -> Any:
            return real(self, name, timeout, owner, None if limit is None else limit + 1, *more, **how)

        return asked

    around(patch, BaseClient, "_asked", made)


@broken("of digest", app="sections", options="--duration 8")
def a_try_that_finds_a_lock_taken_gets_in(patch: Patch) -> None:
    def made(real: Any) -> Any:
        def tried(self: Any, name: str, *args: Any, **more: Any) -> Any:
            work = real(self, name, *args, **more)

            async def attempt(registry: Registry) -> Any:
                got = await work(registry)
                return Hold(name, token=2**52) if isinstance(got, LockNotAcquired) else got

            return attempt

        return tried

    around(patch, BaseClient, "_try", made)


@broken("of poller", app="sections", options="--duration 8")
def each_candidate_leads(patch: Patch) -> None:
    leads = Hold("poller", token=2**52)
    patch.setattr(Leadership, "_future", lambda _: _Answered(leads))


class _Answered:
    def __init__(self, hold: Hold) -> None:
        self._hold = hold

    def done(self) -> bool:
        return True

    def result(self, _: float | None = None) -> Hold:
        return self._hold


@broken("sent no request for its lock for", app="sections", options="--duration 8")
def a_worker_ends_at_its_first_error(patch: Patch) -> None:
    def report(_: object, error: BaseException | None) -> None:
        if error is not None:
            raise error

    patch.setattr(PeriodicWorker, "_report", report)


@broken("made up for ticks that fell into running work", app="sections")
def missed_ticks_are_made_up_for(patch: Patch) -> None:
    patch.setattr(periodic_worker, "math", SimpleNamespace(ceil=lambda _: 1))


@broken("locked() of a lock client told", app="sections", options="--duration 8")
def a_client_takes_held_locks_for_free(patch: Patch) -> None:
    async def nobody(_: Registry) -> None:
        return None

    patch.setattr(BaseClient, "_holder", lambda *_: nobody)


@broken("holder() of a lock client told", app="overrun", options="--duration 12")
def a_client_tells_of_a_holder_that_is_gone(patch: Patch) -> None:
    patch.setattr(holder, "holder_in", holder.recorded)


@broken("went on after the loss of its periodic worker's hold", app="overrun", options="--duration 12")
def work_of_a_periodic_worker_is_not_cancelled(patch: Patch) -> None:
    patch.setattr(periodic_worker, "cancelled_when_lost", nullcontext)


@broken("sets that wait for each other", app="sets")
def sets_are_asked_for_in_the_order_of_the_app(patch: Patch) -> None:
    patch.setattr(request_events, "sorted", lambda addresses, **_: [*addresses])


@broken("though the storage answered each request", app="impatient", options="--duration 20")
def contention_behind_others_is_told_as_trouble(patch: Patch) -> None:
    around(patch, Line, "why_not", lambda real: lambda *args, **more: real(*args, **{**more, "behind": False}))


@broken("'watcher (lock client, every=15, lease=60, poll=15)' on", app="sections", options="--duration 45")
def a_candidate_asks_seldom(patch: Patch) -> None:
    around(patch, Leadership, "_pause", lambda real: lambda self, seconds: real(self, 30 * seconds))


@broken("fencing tokens out of order", app="sections", options="--duration 8")
def a_client_tells_tokens_of_another_lock(patch: Patch) -> None:
    def made(real: Any) -> Any:
        def follow(call: Any, hold: Any) -> None:
            hold.token = None if hold.token is None else 2**52 - hold.token
            real(call, hold)

        return follow

    around(patch, request_events, "_follow", made)


def _waits(patch: Patch, changed: Callable[[float], float]) -> None:
    def made(real: Any) -> Any:
        def asked(self: Any, name: str, timeout: Any, *more: Any, **how: Any) -> Any:
            return real(self, name, changed(timeout) if timeout else timeout, *more, **how)

        return asked

    around(patch, BaseClient, "_asked", made)


@broken("gave up after 2.0 s, though timeout=2.9", app="clients")
def a_duration_loses_its_fraction(patch: Patch) -> None:
    def made(real: Any) -> Any:
        def check(self: Any, value: Any, *more: Any) -> Any:
            return real(self, value.seconds if isinstance(value, timedelta) else value, *more)

        return check

    around(patch, Limits, "check", made)


@broken("despite on_contention='wait', timeout=2", app="clients")
def a_client_waits_past_its_timeout(patch: Patch) -> None:
    _waits(patch, lambda timeout: 4 * timeout)


@broken("gave up after", app="clients")
def a_client_gives_up_before_its_timeout(patch: Patch) -> None:
    _waits(patch, lambda _: 0.1)


@broken("was free for", app="clients")
def a_client_polls_seldom(patch: Patch) -> None:
    def made(real: Any) -> Any:
        return lambda self, name, options=None: real(
            self,
            name,
            (options or self._options).replace(
                lock_acquisition_polling_interval=20.0, lock_acquisition_min_polling_interval=20.0
            ),
        )

    around(patch, BaseClient, "_address", made)


@broken("two bodies of one lock", app="byname")
def a_client_gets_in_beside_a_guard(patch: Patch) -> None:
    def made(real: Any) -> Any:
        def acquired(self: Any, name: str, *args: Any, **more: Any) -> Any:
            async def attempt(_: Registry) -> Hold:
                return Hold(name, token=2**52)

            return attempt if name.endswith("ship") else real(self, name, *args, **more)

        return acquired

    around(patch, BaseClient, "_acquire", made)


@broken("lock_name gave", app="byname", options="--duration 8")
def lock_name_forgets_the_function(patch: Patch) -> None:
    def made(real: Any) -> Any:
        return lambda container, app, _, *args, **more: real(container, app, "function", *args, **more)

    around(patch, lock_names, "name_in", made)


@broken("left a block without LockLost", app="blocks_lost")
def a_block_ends_well_after_its_loss(patch: Patch) -> None:
    patch.setattr(blocks, "fail", lambda *_, **__: None)


@broken("and nobody cancelled its task, though on_loss='raise'", app="blocks_lost")
def an_async_block_goes_on_after_its_loss(patch: Patch) -> None:
    patch.setattr(LossWatch, "cancel_soon", lambda _: None)


@broken("'bill (lock client, decorator)' began inside 'bill' on", app="blocks_lost", options="--duration 10")
def a_decorated_function_begins_after_a_loss_around_it(patch: Patch) -> None:
    patch.setattr(blocks, "unless_lost", lambda work: work)


@broken("'note_down' began inside 'books (lock client, max_hold=2)' on", app="blocks_lost", options="--duration 10")
def a_guarded_helper_begins_in_a_lost_block(patch: Patch) -> None:
    patch.setattr(guard, "unless_lost", lambda work: work)
    patch.setattr(reentry, "raise_the_lost", lambda _: None)


@broken("left a block with LockLost, though on_loss='tell'", app="blocks_lost")
def a_block_that_only_tells_fails(patch: Patch) -> None:
    around(patch, BaseClient, "_on_loss_of", lambda _: lambda *_: "raise")


@broken("was cancelled in a block at the loss of its lock, though on_loss='tell'", app="blocks_lost")
def an_async_block_that_only_tells_is_cancelled(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def enter(self: Any) -> Any:
            got, task = await real(self), asyncio.current_task()
            self._watch = self._watch or (task and LossWatch(self._holds, task))
            return got

        return enter

    around(patch, AsyncBlock, "__aenter__", made)


@broken("had several claimers at a time", app="rows")
def a_claim_does_not_last(patch: Patch) -> None:
    patch.setattr(rowstates, "literal", lambda _: sqlalchemy.literal(0.0))


@broken("was not refused, though another had claimed the row since", app="rows")
def a_stale_claim_writes(patch: Patch) -> None:
    patch.setattr(rowstates, "changed", lambda connection, change: connection.execute(change).rowcount or 1)


@broken("came upon another that began after its caller had looked", app="starts", options="--same-app")
def starts_of_orchestrations_take_no_lock(patch: Patch) -> None:
    @asynccontextmanager
    async def held(instance_id: str, *_: object) -> AsyncIterator[Hold]:
        yield Hold(instance_id)

    patch.setattr(durable, "_held", held)
