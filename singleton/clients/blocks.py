"""The blocks of the lock clients: a lock or a slot is held for the length of a block, which is entered once."""

from __future__ import annotations

import asyncio
import functools
import inspect
import weakref
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, cast

from singleton.base.attribute_names import with_explained_attributes
from singleton.base.callables import returns_coroutine
from singleton.base.errors import ConfigurationError, LockNotAcquired
from singleton.base.hold import Hold, holds_in
from singleton.base.invocation import log as _log
from singleton.base.words import NO_CLASS, called, quoted
from singleton.locking.section import claims
from singleton.runtime.calls import SyncLocks, at_once
from singleton.runtime.cancellation import LossWatch, fail, unless_lost
from singleton.runtime.late_work import declared_late_work, settled
from singleton.runtime.lock_thread import runtime
from singleton.runtime.reentry import BodyContext, SharedBlock, enter, enter_again, leave, leave_out

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable
    from typing import Self

    from singleton.base.kinds import OnLoss
    from singleton.runtime.calls import Locks, Work
    from singleton.runtime.reentry import Joined, Nesting
    from singleton.runtime.registry import Registry


def _guarded(block: Block[Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with a block around each call, skipped without a hold. Raise the errors of ``_check``."""
    _check(block.name, function, is_async=False)
    settling = _settling(block.name, function, waits=False)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with (entered := block.another()) as got:
            if got is None:
                return _skip(function, entered)
            with BodyContext(*holds_in(got)):
                return at_once(settling(function(*args, **kwargs), (*args, *kwargs.values())))

    return call


def _guarded_async(block: AsyncBlock[Any], function: Callable[..., Any]) -> Callable[..., Any]:
    _check(block.name, function, is_async=True)
    settling = _settling(block.name, function, waits=True)

    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        async with (entered := block.another()) as got:
            if got is None:
                return _skip(function, entered)
            with BodyContext(*holds_in(got)):
                return await settling(await function(*args, **kwargs), (*args, *kwargs.values()))

    return call


def _settling(lock: str, function: Callable[..., Any], *, waits: bool) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return ``settled`` for the results of a function."""
    who = str(_refused(lock, function, "")).rstrip()
    return functools.partial(
        settled, who=who, decorator="the lock", of=inspect.unwrap(function), waits=waits, lock=lock
    )


def _skip(function: Callable[..., Any], block: _BaseBlock[Any]) -> None:
    who, whose = block.refusal.who_has if block.refusal else ("somebody else", "")
    _log.info("%s skipped: %s has lock %s%s", called(function), who, block.name, whose, extra={"lock": block.name})
    leave_out(inspect.unwrap(function))


def _check(lock: str, function: object, *, is_async: bool) -> None:
    if isinstance(function, (staticmethod, classmethod)):
        raise _refused(lock, function.__func__, f"is a {type(function).__name__}: put the lock below that decorator")
    if inspect.isclass(function):
        raise _refused(lock, function, NO_CLASS)
    if not inspect.isroutine(function) and not isinstance(function, functools.partial):
        raise ConfigurationError(
            f"lock {lock!r} decorates {quoted(function)}, which is no function: give it a function. Put it below "
            "decorators that make something else of a function, such as a trigger of Azure Functions"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise _refused(
            lock, function, "is a generator, whose body runs after the call has ended: take the lock inside it"
        )
    if (late := declared_late_work(function)) is not None:
        raise _refused(lock, function, late)
    if is_async and not returns_coroutine(function):
        raise _refused(lock, function, "is no coroutine function: make it `async def`, or use LockClient")
    if not is_async and returns_coroutine(function):
        raise _refused(lock, function, "is a coroutine function: use AsyncLockClient")


def _refused(lock: str, function: object, why: str) -> ConfigurationError:
    return ConfigurationError(f"lock {lock!r} can't decorate {called(function)}: it {why}", lock=lock)


_T = TypeVar("_T")
_R = TypeVar("_R")
_P = ParamSpec("_P")
_ExitT = TypeVar("_ExitT", bound="Callable[..., Any]")


class Again(NamedTuple):
    """A lock whose hold a block shares with a block around it, and for how many seconds from then the lock is kept.

    ``find_lock`` returns the lock's place and name, when the block is entered.
    """

    find_lock: Callable[[], Hashable]
    at_least: float


class Entered(Protocol):
    """A block which a ``with`` statement enters."""

    def begins_with(self, leaving: Exit) -> None:
        """Note the exit of the statement which is about to enter the block; a later look-up enters nothing."""


class Exit:
    """The ``__exit__`` of a block, as a ``with`` statement looks it up before the block begins.

    The exit has the claims of the block. The statement drops its exit at its end, however it ends: an interrupt may
    come before the first line of ``__exit__``, and a variable may keep the hold.
    """

    __slots__ = ("__weakref__", "_block", "_function", "claims")

    def __init__(self, block: Entered, function: Callable[..., Any]) -> None:
        self._block = block
        self._function = function
        self.claims: list[object] = []

    def __call__(self, *how: Any) -> Any:
        """Leave the block."""
        try:
            return self._function(self._block, *how)
        finally:  # the trace of an interrupt has this frame
            self.claims.clear()


class _AsyncExit(Exit):
    """As ``Exit``, for ``async with``: the coroutine keeps the claims to its end."""

    __slots__ = ()

    async def __call__(self, *how: Any) -> Any:
        try:
            return await self._function(self._block, *how)
        finally:
            self.claims.clear()


class _ExitMethod:
    """A method that is looked up as ``Exit``, of the class as a plain function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._exit = _AsyncExit if returns_coroutine(function) else Exit

    def __get__(self, block: Entered | None, _: object = None) -> Callable[..., Any]:
        if block is None:
            return self._function
        leaving = self._exit(block, self._function)
        block.begins_with(leaving)
        return leaving


def dropped_at_the_end(function: _ExitT) -> _ExitT:
    """Have a ``with`` statement drop the claims of its block at its end. See ``Exit``."""
    return cast("_ExitT", _ExitMethod(function))


@with_explained_attributes
class _BaseBlock(Generic[_T]):
    """The state of a block.

    Args:
        name: what is asked for, in words.
        on_loss: whether the block fails at its end if a hold was lost, or only ``hold.lost`` tells of the loss.
        asks: makes the work that acquires, and checks its arguments.
        again: how the block shares the hold of a block of the same lock around it; None: it does not.
    """

    def __init__(self, name: str, on_loss: OnLoss, asks: Callable[[], Work[_T]], again: Again | None = None) -> None:
        self.name = name
        self.on_loss = on_loss
        self._asks = asks
        self._again = again
        self._entry: SharedBlock | None = None
        self._work: Work[_T] | None = asks()
        self._watch: LossWatch | None = None
        self._locks: Locks
        self._holds: tuple[Hold, ...] = ()
        self._entered: tuple[Nesting, ...] = ()
        self._leaving: weakref.ref[Exit] | None = None
        self.refusal: LockNotAcquired | None = None

    def begins_with(self, leaving: Exit) -> None:
        if self._work is not None:
            self._leaving = weakref.ref(leaving)

    def another(self) -> Self:
        return type(self)(self.name, self.on_loss, lambda: unless_lost(self._asks()), self._again)

    async def _acquired(self, locks: Locks) -> _T:
        """Begin the block: acquire, or share the hold of a block around this block."""
        work, self._work = self._work, None
        if work is None:
            raise RuntimeError("this block was entered before: ask the client for a new one")
        self._locks = locks
        outer = None if self._again is None else enter_again(self._again.find_lock())
        try:
            answer: Any = await locks.call_async(work) if outer is None else outer[0]
            if isinstance(answer, LockNotAcquired):
                self.refusal, answer = answer, None
            got = self._got(answer, outer)
            if outer is not None:
                await self._keep(outer[0])
            if self.on_loss == "raise":  # this process may have stood still since it got the lock
                for hold in self._holds:
                    hold.own_lost.raise_if_over()
        except BaseException:
            await self._released()
            raise
        return got

    async def _keep(self, hold: Hold) -> None:
        at_least = 0.0 if self._again is None else self._again.at_least

        async def keep(registry: Registry) -> None:
            registry.keep(hold, at_least)

        if at_least:
            await self._locks.call_async(keep)

    async def _left(self, error: BaseException | None) -> None:
        """End the block after its body: release, then fail if a hold was lost before. ``error``: from the body."""
        cancelled = self._watch is not None and self._watch.end(error)
        lost = [hold for hold in self._holds if self.on_loss == "raise" and hold.own_lost.is_set()]
        await self._released()
        fail(lost, error, cancelled=cancelled)

    async def _released(self) -> None:
        """Release each hold, the last first. A failure keeps no other hold from its release."""
        failure: BaseException | None = None
        try:
            for hold in reversed(self._end()):
                try:
                    await self._locks.release_async(hold)
                except BaseException as error:  # noqa: BLE001 - raised after the last release
                    if failure is None or isinstance(failure, Exception):  # an interrupt comes before an error
                        failure = error
            if failure is not None:
                raise failure
        finally:
            del failure  # a circle of references would keep a hold whose release was interrupted (so does ExitStack)

    def _got(self, got: _T, outer: Joined | None) -> _T:
        holds = holds_in(got)
        leaving = None if self._leaving is None else self._leaving()
        if leaving is not None:
            leaving.claims += [outer[1]] if outer else [claim for hold in holds for claim in claims(hold)]
        elif outer is not None:  # entered by hand: the hold keeps its claim
            outer[0].claim = outer[1]
        self._holds = holds  # after the claims: the block may be in a variable
        if holds and self._again is not None:
            blocks = set() if outer is None else outer[2]
            self._entry = SharedBlock(self._again.find_lock(), blocks, None if leaving is None else self._leaving)
            blocks.add(self._entry)
        self._entered = enter(*holds, shared=self._entry)
        return got

    def _end(self) -> tuple[Hold, ...]:
        leave(self._entered)
        holds, self._holds = self._holds, ()
        if self._entry is not None:
            self._entry.blocks.discard(self._entry)
            if any(each.leaving is None or each.leaving() for each in self._entry.blocks):  # a block shares the hold
                return ()
        return holds


class Block(_BaseBlock[_T]):
    """A ``with`` block, on every thread; as a decorator of a function, a block around every call.

    A block whose hold was lost ends with ``LockLost``, after its release, if the body returned. An error of the body
    goes on, with a note. With ``on_loss="tell"`` only ``hold.lost`` tells of the loss.
    """

    def __enter__(self) -> _T:
        return at_once(self._acquired(SyncLocks(runtime())))

    @dropped_at_the_end
    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        at_once(self._left(error))

    def __call__(self, function: Callable[_P, _R], /) -> Callable[_P, _R]:
        """Acquire anew for each call of the function, and give back at its end.

        The call ends as the block does: with ``LockLost`` after a loss. ``current_hold()`` is its hold.

        Raises:
            ConfigurationError: it is no function, or a coroutine function, a generator, or a class.
        """
        return _guarded(self, function)


class TryBlock(Block["Hold | None"]):
    """A ``with`` block, entered with None while another caller has the lock; as a decorator, the call is skipped."""

    def __call__(self, function: Callable[_P, _R], /) -> Callable[_P, _R | None]:  # type: ignore[override]
        """Try for each call of the function. While another caller has the lock, skip the call, which returns None then.

        Raises:
            ConfigurationError: as for ``Block``.
        """
        return _guarded(self, function)


class AsyncBlock(_BaseBlock[_T]):
    """An ``async with`` block, on every event loop; as a decorator of a coroutine function, around every call.

    At a loss of the hold the task that entered the block is cancelled, by the rules of ``asyncio.timeout``, and the
    block ends with ``LockLost``. A block that another task leaves only raises, as a ``Block`` does.
    """

    async def __aenter__(self) -> _T:
        got = await self._acquired(runtime())
        if self._holds and self.on_loss == "raise" and (task := asyncio.current_task()) is not None:
            self._watch = LossWatch(self._holds, task)
        return got

    @dropped_at_the_end
    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._left(error)

    def __call__(self, function: Callable[_P, Coroutine[Any, Any, _R]], /) -> Callable[_P, Coroutine[Any, Any, _R]]:
        """Acquire anew for each call of the coroutine function, and give back at its end.

        The call ends as the block does: cancelled, with ``LockLost``, at a loss. ``current_hold()`` is its hold.

        Raises:
            ConfigurationError: it is no coroutine function.
        """
        return _guarded_async(self, function)


class AsyncTryBlock(AsyncBlock["Hold | None"]):
    """As ``TryBlock``, with ``async with`` and for coroutine functions."""

    def __call__(  # type: ignore[override]
        self, function: Callable[_P, Coroutine[Any, Any, _R]], /
    ) -> Callable[_P, Coroutine[Any, Any, _R | None]]:
        """Try for each call of the coroutine function. While another caller has the lock, skip the call: None.

        Raises:
            ConfigurationError: it is no coroutine function.
        """
        return _guarded_async(self, function)
