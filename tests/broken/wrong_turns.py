"""Listeners that are several or none, and messages that are put back wrongly."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from singleton.base.errors import LockNotAcquired
from singleton.base.events import tell
from singleton.base.hold import Hold
from singleton.defer import deferral
from singleton.defer.failure_count import FailureCount
from singleton.functions import candidacy, message_deferral
from singleton.functions.listener import ListenerGuard
from singleton.functions.message_deferral import Deferring
from tests.broken.breaking import Now, around, broken, entries, this_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.broken.breaking import Patch


@broken("several locks", app="listeners")
def each_host_has_a_listener_of_its_own(patch: Patch) -> None:
    around(
        patch,
        ListenerGuard,
        "call",
        lambda real: lambda self, *args: _renamed(real(self, *args)),
    )


def _renamed(call: Any) -> Any:
    return replace(call, lock=f"{call.lock}.{this_host()}")


@broken("two leaders", app="listeners")
def all_hosts_listen(patch: Patch) -> None:
    patch.setattr(candidacy, "Candidacy", _Listens)


class _Listens:
    """A candidacy that leads at once, in each process."""

    def __init__(self, _: Any, address: Any, about: Any, *__: Any, **___: Any) -> None:
        self._lock = address.name
        tell("waiting", about)
        tell("acquired", about, Hold(self._lock, token=1))

    async def seat(self, owner: str, _: Any) -> Hold:
        return Hold(self._lock, owner=owner, token=1)

    async def end(self) -> None: ...


class _Refuses(_Listens):
    """A candidacy that never leads."""

    def __init__(self, _: Any, address: Any, *__: Any, **___: Any) -> None:
        self._lock = address.name

    async def seat(self, owner: str, _: Any) -> Hold:
        raise LockNotAcquired("no", lock=self._lock, owner=owner)


@broken("nobody had it", app="listeners")
def nobody_listens(patch: Patch) -> None:
    patch.setattr(candidacy, "Candidacy", _Refuses)


@broken("nobody had it", "defer", app="defers")
def one_in_three_is_put_back_though_the_lock_is_free(patch: Patch) -> None:
    now = Now(3)

    def made(real: Any) -> Any:
        async def enter(self: Any, call: Any, locks: Any) -> Any:
            if self.on_contention != "defer" or not now():
                return await real(self, call, locks)
            tell("waiting", call)
            tell("contended", call, reason="defer")
            await self._deferring.put_back(call, LockNotAcquired("no"), locks)
            return None

        return enter

    entries(patch, made)


@broken("lost: gone from the queue, never processed", "defer", app="defers")
def messages_that_are_put_back_are_not(patch: Patch) -> None:
    async def put_back(self: Any, call: Any, *_: Any) -> None:
        tell("deferred", call, message_id="x", copy_id=f"copy of {call.owner}")

    patch.setattr(Deferring, "put_back", put_back)


@broken("lost: gone from the queue, never processed", "defer", app="defers")
def messages_that_are_put_back_are_not_and_nothing_is_told(patch: Patch) -> None:
    async def put_back(self: Any, call: Any, *_: Any) -> None: ...

    patch.setattr(Deferring, "put_back", put_back)


@broken("copies of what was put back once", "defer", app="defers", seed=29)
def a_message_that_is_put_back_is_two(patch: Patch) -> None:
    _put_back_as_two(patch, every=3)


@broken("copies of what was put back once", app="defers")
def messages_that_are_put_back_multiply(patch: Patch) -> None:
    _put_back_as_two(patch, every=1)


def _put_back_as_two(patch: Patch, *, every: int) -> None:
    real, now = deferral.put_back, Now(every)

    async def twice(queue: Any, message: Any, *, delay: int, **more: Any) -> Any:
        if now():
            await queue.send(message.text, delay=delay, life=None)
        return await real(queue, message, delay=delay, **more)

    patch.setattr(message_deferral, "put_back", twice)


def _put_back_for(patch: Patch, times: float) -> None:
    def made(real: Any) -> Any:
        async def put_back(queue: Any, message: Any, *, delay: int, **more: Any) -> Any:
            return await real(queue, message, delay=max(1, round(delay * times)), **more)

        return put_back

    around(patch, message_deferral, "put_back", made)


@broken("back for another time than its defer_delay", app="defers")
def messages_stay_away_twice_as_long_as_declared(patch: Patch) -> None:
    _put_back_for(patch, 2)


@broken("back for another time than its defer_delay", app="defers")
def messages_stay_away_half_as_long_as_declared(patch: Patch) -> None:
    _put_back_for(patch, 0.5)


def _failures_are_noted(patch: Patch, change: Callable[[FailureCount], FailureCount]) -> None:
    """Note other failures than there were before a message was put back."""

    def made(real: Any) -> Any:
        async def note(store: Any, queue: str, key: str, failures: FailureCount) -> None:
            await real(store, queue, key, change(failures))

        return note

    around(patch, message_deferral, "note_failures", made)


@broken("once too often on", app="returns")
def the_failures_of_a_message_are_forgotten_when_it_is_put_back(patch: Patch) -> None:
    _failures_are_noted(patch, lambda _: FailureCount())


@broken("of 5 failures", app="returns")
def each_failure_before_a_message_was_put_back_counts_twice(patch: Patch) -> None:
    _failures_are_noted(patch, lambda noted: replace(noted, before=2 * noted.before))


@broken("with another body than before", "defer", app="defers")
def a_message_comes_back_with_another_body(patch: Patch) -> None:
    real = deferral.put_back

    async def changed(queue: Any, message: Any, **more: Any) -> Any:
        try:
            body = json.loads(base64.b64decode(message.text, validate=True)) | {"Changed": True}
            text = base64.b64encode(json.dumps(body).encode()).decode()
        except ValueError:  # its queue has plain text
            text = json.dumps(json.loads(message.text) | {"Changed": True})
        return await real(queue, replace(message, text=text), **more)

    patch.setattr(message_deferral, "put_back", changed)


@broken("-poison' with another body than before", app="returns")
def a_message_comes_to_the_poison_queue_without_its_body(patch: Patch) -> None:
    real = deferral.move

    async def emptied(queue: Any, to: Any, message: Any, **more: Any) -> Any:
        return await real(queue, to, replace(message, text=""), **more)

    patch.setattr(message_deferral, "move", emptied)


@broken("gave up (raise), though", app="listeners")
def listeners_put_no_message_back(patch: Patch) -> None:
    patch.setattr(ListenerGuard, "_puts_back", lambda *_: False)


@broken("gave up (skip), though", app="listeners")
def listeners_skip_messages(patch: Patch) -> None:
    patch.setattr(ListenerGuard, "_way", lambda *_: "skip")
