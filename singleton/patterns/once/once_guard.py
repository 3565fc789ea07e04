"""A guard that keeps results: the work of a ``@once`` declaration around each invocation of its function."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from singleton.base.errors import LockLost
from singleton.base.hold import current_hold
from singleton.base.invocation import log as _log
from singleton.functions.bindings import is_output
from singleton.functions.guard import Guard
from singleton.patterns.once.once_declaration import OnceDeclaration
from singleton.patterns.once.results import kept_as, look
from singleton.runtime.cancellation import cancelled_when_lost, unless_lost
from singleton.runtime.reentry import left_out

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from singleton.base.events import Call
    from singleton.patterns.once.results import Look, Outcome
    from singleton.runtime.calls import Locks
    from singleton.runtime.registry import Registry

_TAKEN: Final = (
    "@once keeps its result there. For your own state put @singleton below @once: then this is the hold of @singleton"
)


class OnceGuard(Guard, OnceDeclaration):
    """The lock is held around each invocation that finds no outcome."""

    _conflict: ClassVar[str] = "another request with this key is under way: send it again later"

    async def _run(
        self, call: Call, body: Callable[[], Coroutine[Any, Any, Any]], locks: Locks | None, *, cancel: bool
    ) -> Any:
        if locks is None:
            return await super()._run(call, body, None, cancel=cancel)
        place = self._place

        async def looked(registry: Registry) -> Look:  # the store is opened where locks live, and not by who asks
            return await look(registry.store(place), call.lock)

        found = await locks.call_async(unless_lost(looked))
        if found.outcome is not None:
            return _replayed(call, self._repeated(found.outcome))

        results: list[Any] = []

        async def unless_done() -> Any:
            results.append(await self._unless_done(call, body, locks, found, cancel=cancel))
            return results[0]

        try:
            return await super()._run(call, unless_done, locks, cancel=False)
        except LockLost:
            if not results:
                raise
            return results[0]  # the operation is done: a loss after that changes nothing

    def _repeated(self, outcome: Outcome) -> Outcome:
        """Return what a repeat gets: no outputs, if only the first invocation sends them."""
        return replace(outcome, outputs={}) if self.outputs == "first" else outcome

    async def _unless_done(
        self,
        call: Call,
        body: Callable[[], Coroutine[Any, Any, Any]],
        locks: Locks,
        found: Look,
        *,
        cancel: bool,
    ) -> Any:
        """Run the body, and keep its outcome, unless another invocation did so before this one had the lock.

        A loss cancels the body, and not the write of its outcome: that write says whether the outcome counts.
        """
        hold = current_hold()
        hold.stateless = _TAKEN
        keeper = hold.keeper()
        outcome = found.outcome_in(call.lock, await locks.call_async(unless_lost(lambda _: keeper.glance())))
        if outcome is not None:
            return _replayed(call, self._repeated(outcome))
        hold.raise_if_lost()  # the look may have taken long
        undone: list[object] = []
        refused: Exception | None = None
        above = left_out.set(undone)
        try:
            with cancelled_when_lost(hold) if cancel else contextlib.nullcontext():
                result = await body()
        except Exception as error:
            result = next((each for each in _chain(error) if (self.written, each) in undone), None)
            if result is None:
                raise
            refused = error  # the body ran until it returned, and a repeat must not run it again
        finally:
            left_out.reset(above)
        if refused is None and self.written in undone:  # a lock below skipped the call, or put its message back
            return result
        outputs = {name: output.get() for name, output in _outputs(call.arguments) if output.get() is not None}
        sent_again = outputs if self.outputs == "always" else {}
        kept, outcome = kept_as(result, sent_again, found.service_time + self.keep)
        await locks.call_async(lambda _: keeper.write(kept))
        if outcome.unkept is None:
            return outcome.result  # what a repeat will get
        # Raised now, its outputs would be lost with it.
        _log.error(
            "%s is done, but its result can't be kept, and a repeat will fail: %s",
            *(call.function, outcome.unkept),
            extra=call.fields,
        )
        if refused is not None:
            raise refused
        return result


def _replayed(call: Call, outcome: Outcome) -> Any:
    result = outcome.given(call.lock)
    for name, output in _outputs(call.arguments):
        if name in outcome.outputs:
            output.set(outcome.outputs[name])
    _log.info("%s was done before: its result is kept with lock %s", call.function, call.lock, extra=call.fields)
    return result


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and the errors from which other decorators made it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _outputs(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the output bindings among an invocation's arguments, by name."""
    for name, value in arguments.items():
        if is_output(value):
            yield name, value
