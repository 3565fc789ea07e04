"""A guard: the work of a ``@singleton`` declaration around every invocation of the function.

The order is that of WebJobs (W-82): find the scope, acquire, run the body, release. A failure to acquire fails the
invocation, so that its message is kept and tried again (W-84); only ``skip`` under contention ends it as a success.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import weakref
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from singleton.base.errors import LockNotAcquired, SingletonError, StorageUnavailable
from singleton.base.events import no_longer_going, still_going, tell, tell_failed
from singleton.base.forks import cached_property, importing
from singleton.base.hold import Hold, single_holds
from singleton.base.holder_record import fields_of
from singleton.base.invocation import Invocation, current, warn_unlocked
from singleton.base.invocation import log as _log
from singleton.functions.acquirers import acquire_both, acquire_by_attempts
from singleton.functions.body_result import refuse_unanswered
from singleton.functions.coalescing import Arrival, acquire_or_leave, may_be_repeated
from singleton.functions.contention import Contention, decide
from singleton.functions.declaration import Declaration
from singleton.functions.http_answers import conflict_answer
from singleton.functions.trigger_rules import refuse_policy
from singleton.functions.triggers import WRITTEN_ONE_BY_ONE
from singleton.functions.wait_limit import WaitLimit
from singleton.locking.section import Section, claims
from singleton.runtime import holders
from singleton.runtime.calls import SyncLocks, at_once
from singleton.runtime.cancellation import cancelled_when_lost, unless_lost
from singleton.runtime.late_work import settled
from singleton.runtime.lock_thread import runtime
from singleton.runtime.reentry import BodyContext, leave_out
from singleton.runtime.waiter_count import WaitReport, is_full
from singleton.settings.hostjson import wants_opentelemetry
from singleton.settings.misspelt import warn_of_misspelt_sections

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from singleton.base.events import Call
    from singleton.base.kinds import Policy
    from singleton.functions.coalescing import Attempt
    from singleton.functions.message_deferral import Deferring
    from singleton.functions.triggers import Trigger
    from singleton.runtime.address import Address
    from singleton.runtime.calls import Locks, Work
    from singleton.runtime.registry import Registry


class Guard(Declaration):
    """A declaration with mode ``function``: the lock is held around each invocation."""

    _report: ClassVar[Callable[..., None]] = staticmethod(tell)
    """Tells of acquisition, loss and release."""
    _conflict: ClassVar[str] = "another request has the lock: send this request again later"

    @classmethod
    def of(cls, declaration: Declaration) -> Self:
        """Return the guard of a declaration, one for all threads. The declaration of a listener is a guard itself."""
        if isinstance(declaration, cls):
            return declaration
        if (made := vars(declaration).get("_guard")) is None:
            values = {each.name: getattr(declaration, each.name) for each in fields(declaration)}
            made = vars(declaration).setdefault("_guard", cls(**values))
        return cast("Self", made)

    @cached_property
    def wait(self) -> float | None:
        """Seconds of the first wait for the lock; 0 asks once; None waits for as long as it takes (W-26)."""
        if callable(self.on_contention):
            return 0
        return self.waits if self.max_waiting is None else 0  # the first attempt tells whether a wait is needed

    @cached_property
    def waits(self) -> float | None:
        """Seconds for which an invocation waits in all; 0 where a policy of the user's own decides (W-26)."""
        return 0 if callable(self.on_contention) else self._waits(self.on_contention)

    def _waits(self, policy: Policy) -> float | None:
        """Return the seconds for which an invocation waits by this policy before the policy's last word."""
        if self.timeout is not None and not callable(self.on_contention):
            return self.timeout
        return self._patience if policy in ("wait", "coalesce") else 0

    @property
    def _patience(self) -> float | None:
        """Seconds for which ``wait`` waits."""
        return self.options.lock_acquisition_timeout if self.timeout is None else self.timeout

    def run(self, call: Call, body: Callable[[], Any]) -> Any:
        """Run a sync body under the lock, on the caller's thread."""
        with Invocation(call.owner, call.storage, call.function, call.scope):
            locks = SyncLocks(runtime()) if self.enabled else None
            return at_once(self._run(call, partial(self._answered, call, body, is_async=False), locks, cancel=False))

    async def run_async(self, call: Call, body: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run an async body under the lock, on the caller's task; cancel it when the hold is lost."""
        with Invocation(call.owner, call.storage, call.function, call.scope):
            answered = partial(self._answered, call, body, is_async=True)
            locks = runtime() if self.enabled else None
            return await self._run(call, answered, locks, cancel=self.options.cancel_on_loss)

    async def _answered(self, call: Call, body: Callable[[], Any], *, is_async: bool) -> Any:
        trigger = self.trigger  # a wrong declaration is refused here at the latest: no body runs
        many = trigger is not None and trigger.returns in WRITTEN_ONE_BY_ONE
        try:
            result = await body() if is_async else body()
            who, given = f"{self.decorator} on {call.function}: its body", call.arguments.values()
            return await settled(result, given, who, self.decorator, of=self.written, waits=is_async, iterated=many)
        except BaseException as error:  # here, as no coroutine lets a StopIteration through
            refuse_unanswered(call.function, error, is_async=is_async)
            raise

    async def _run(
        self, call: Call, body: Callable[[], Coroutine[Any, Any, Any]], locks: Locks | None, *, cancel: bool
    ) -> Any:
        """Run the body under the lock; without ``locks`` the guard is switched off, and nothing is locked."""
        _ = self._observed
        if locks is None:
            if not self.switched_off:
                warn_unlocked()
            return await self._inside(call, Hold(call.lock, owner=call.owner), body, cancel=False)
        try:
            hold = await self._enter(call, locks)
        except BaseException as error:
            tell_failed(call, error)
            raise
        if not isinstance(hold, Hold):
            leave_out(self.written)
            return hold
        try:
            return await self._held(locks, hold, call, body, cancel=cancel)
        except Exception as error:
            # The host does not count for messages that were put back. The lock is given back by now.
            if self._puts_back(self.trigger) and await self._deferring.failed(call, error, locks):
                return leave_out(self.written)
            raise

    async def _held(
        self, locks: Locks, hold: Hold, call: Call, body: Callable[[], Coroutine[Any, Any, Any]], *, cancel: bool
    ) -> Any:
        if self.limit is not None:  # a slot's token fences no holder of another slot
            hold.token, hold.stateless = None, f"with limit={self.limit}, several have it at a time"
        kept = claims(hold)  # by this frame, which an interrupt ends, and not by a variable that has the hold
        known = weakref.ref(hold)  # the lock keeps its callbacks, and must not keep the hold (M-37)
        remove: Callable[[], None] | None = None
        try:
            self._report("acquired", call, hold)
            remove = hold.lost.add_callback(lambda reason: self._report("lost", call, known(), reason))
            hold.raise_if_lost()
            result = await self._inside(call, hold, body, cancel=cancel)
            hold.raise_if_lost()
            return result
        finally:
            try:
                await locks.release_async(hold)
                kept.clear()
            finally:  # also after an interrupt or a cancellation, which does not stop the release
                if remove is not None:  # the release may tell of a loss that the body's own look saw first
                    remove()
                self._report("released", call, hold)
                if isinstance(part := single_holds(hold)[0], Section) and not part.record.settled:
                    still_going(call)  # ``holds()`` lists a lock until its lease is released, which takes ``at_least``
                    part.record.when_settled(partial(no_longer_going, call))

    async def _inside(
        self, call: Call, hold: Hold, body: Callable[[], Coroutine[Any, Any, Any]], *, cancel: bool
    ) -> Any:
        """Make the hold current, and bracket the body with events: what a verdict judges."""
        outcome = "error"
        with BodyContext(hold):
            tell("body_started", call, hold)
            try:
                with cancelled_when_lost(hold) if cancel else contextlib.nullcontext():
                    result = await body()
                outcome = "ok"
                return result
            finally:
                tell("body_ended", call, hold, outcome if hold.own_lost.reason is None else "lost")
                if hold.lease_id is None:
                    hold.own_lost.freeze()

    async def _enter(self, call: Call, locks: Locks) -> Hold | Any:
        """Acquire the lock; under contention do as the policy says. No hold: the result, without the body."""
        tell("waiting", call)
        _ = self._told
        if self.on_contention == "coalesce":
            addresses, again = self._addresses(call), may_be_repeated(call, self.trigger)
            arrival = Arrival(addresses, call.owner, self._acquiring(call, addresses, None), again=again)
            return await acquire_or_leave(call, locks, arrival, self._limit, self._patience, self._name_holder)
        # What is kept of an error has no traceback, whose frames would keep it until a collection.
        waited, others, late, trouble = self.wait, WaitReport(), 0.0, None
        try:
            return await locks.call_async(self._acquisition(call, self.wait, others))
        except LockNotAcquired as error:
            contended = error.with_traceback(None)
        except StorageUnavailable as error:
            late, contended = others.seconds, LockNotAcquired(str(error), lock=error.lock)
            if waited != 0 or callable(self.on_contention) or not (self.waits is None or self.waits > late):
                raise  # else it waits for the storage as for the lock: that it asks first is only for max_waiting
            trouble = error.with_traceback(None)
        policy = decide(self.on_contention, Contention.over(call, self.trigger, others.number))
        refuse_policy(f"{self.decorator} on {call.function}", policy, self.trigger, call.arguments)
        if waited == 0 and (patience := self._waits(policy)) != 0:
            try:
                return await locks.call_async(self._acquisition(call, patience and patience - late))
            except LockNotAcquired as error:
                contended = error.with_traceback(None)
            if is_full(contended):
                if trouble is not None:
                    raise trouble  # trouble is never contention
                policy = self.when_full
            else:
                waited = patience
        if policy == "defer":
            tell("contended", call, reason=policy)
            try:
                await self._deferring.put_back(call, contended, locks)
                return None
            except LockNotAcquired:  # if it is still ours, to fail would count as tried
                waited = self.options.lock_acquisition_timeout
            try:
                return await locks.call_async(self._acquisition(call, waited))
            except LockNotAcquired as error:
                contended = error.with_traceback(None)
        else:
            tell("contended", call, reason="timeout" if policy == "wait" else policy)
        if self.limit is None:
            await self._name_holder(call, contended, locks, waited, policy)
        try:
            kept = contended.holder is not None and contended.holder.kept_until is not None
            how = contended.whose.removeprefix("; ") if kept else f"held by another invocation{contended.whose}"
            told = call.function, contended.lock or call.lock, how
            fields = {**call.fields, **fields_of(contended.holder)}
            if policy == "conflict":
                _log.info("%s answered 409: lock %s is %s", *told, extra=fields)
                return conflict_answer(call.arguments, self._conflict)
            if policy != "skip":
                raise contended
            _log.info("%s skipped: lock %s is %s", *told, extra=fields)
            return None
        finally:
            del contended  # of its traceback

    async def _name_holder(
        self,
        call: Call,
        error: LockNotAcquired,
        locks: Locks,
        waited: float | None,
        policy: Policy,
        seat: Address | None = None,
    ) -> None:
        """Put the holder into the error, unless it is known or the answer takes too long: of the lock, or of a seat."""
        seconds = holders.patience(waited, skips=policy in ("skip", "conflict"))
        for address in (self._addresses(call) if seat is None else (seat,)) if error.holder is None else ():
            if address is seat or address.name == error.lock:
                with contextlib.suppress(SingletonError):  # the locks of the process may be closed by now
                    await locks.call_async(partial(holders.name_holder, address=address, error=error, seconds=seconds))

    @cached_property
    def _deferring(self) -> Deferring:
        with importing:
            from singleton.functions.message_deferral import Deferring

        return Deferring(self.trigger, self.app_dir, self.options.defer_delay, notes=lambda: self._place)

    def _puts_back(self, trigger: Trigger | None) -> bool:
        """Tell whether messages may be put back where another invocation has the lock."""
        if "defer" in (self.on_contention, self.when_full):
            return True
        return callable(self.on_contention) and trigger is not None

    def _acquisition(self, call: Call, timeout: float | None, others: WaitReport | None = None) -> Work[Hold]:
        """Acquire the lock, and wait no longer than the invocation may last, nor as one too many.

        ``others`` gets the number of waiters after an attempt in vain.
        """
        addresses, limit = self._addresses(call), self._limit
        acquire = self._acquiring(call, addresses, timeout)
        invocation, blob, waiter = current(), addresses[0].blob, object()

        async def ask(registry: Registry) -> Hold:
            loop, waiters = asyncio.get_running_loop(), registry.waiters
            began = loop.time()
            if timeout != 0:
                waiters.come(blob, waiter, call.owner, self.max_waiting)
            try:
                return await limit.within(registry, timeout, invocation, acquire)
            except BaseException:
                if others is not None:
                    others.number = waiters.of(blob) - (timeout != 0)
                    others.seconds = loop.time() - began
                raise
            finally:
                waiters.go(blob, waiter)

        return unless_lost(ask)

    def _acquiring(self, call: Call, addresses: tuple[Address, ...], timeout: float | None) -> Attempt:
        """Return how the lock is acquired, within so many seconds (None: without end)."""
        (address, *old), owner, at_least, max_hold = addresses, call.owner, self.at_least, self.max_hold
        if old:
            return lambda registry, within, by=math.inf: acquire_both(
                registry, address, *old, timeout=within, owner=owner, at_least=at_least, max_hold=max_hold, by=by
            )
        if (attempts := self.layout.attempts) is None:
            return lambda registry, within, by=math.inf: registry.acquire(
                address, timeout=within, owner=owner, limit=self.limit, at_least=at_least, max_hold=max_hold, by=by
            )
        acquire = partial(acquire_by_attempts, timeout=timeout, owner=owner, at_least=at_least, max_hold=max_hold)
        return lambda registry, within, by=math.inf: acquire(registry, address, attempts, within=within)  # noqa: ARG005

    @cached_property
    def _told(self) -> bool:
        """Whether it was told what is to be said of the declaration: not at import, whose log lines get lost."""
        warn_of_misspelt_sections(self.app_dir, os.environ)
        for notice in self._notices():
            _log.warning("%s on %s: %s", self.decorator, self.function, notice)
        return True

    @cached_property
    def _observed(self) -> bool:
        """Observe its locks at the first invocation, if host.json says so; always true."""
        if wants_opentelemetry(self.app_dir, os.environ):
            with importing:
                from singleton.observing.observe import observe_by_default

            observe_by_default()
        return True

    def _notices(self) -> Iterator[str]:
        longest = self.waits if self.on_contention in ("skip", "raise", "conflict") else self._patience
        if (longer := self._limit.notice(longest)) is not None:
            yield longer

    @cached_property
    def _limit(self) -> WaitLimit:
        return WaitLimit.of(self.app_dir, os.environ)
