"""``@singleton``: one invocation at a time, over all instances that share a storage account.

A worker imports every module of an app at its start, so what only a declaration or an invocation needs is imported
there.
"""

from __future__ import annotations

import inspect
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_overloads, overload

from singleton.base.errors import ConfigurationError
from singleton.functions.misdeclaration import always_fails, no_such_argument, stand_in
from singleton.functions.triggers import (
    Signature,
    find_trigger,
    is_builder,
    refuse_replayed,
    replace_user_function,
    trigger_of,
    user_function,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.kinds import LayoutName, Level, Mode, Seconds, WhenFull
    from singleton.functions.arguments import OldLock
    from singleton.functions.contention import OnContention
    from singleton.functions.guard import Guard
    from singleton.functions.triggers import Trigger

_F = TypeVar("_F", bound="Callable[..., Any]")

_MARK = "__singleton__"
_declared: list[Guard] = []
_guarded_by_us: weakref.WeakKeyDictionary[Callable[..., Any], Callable[..., Any]] = weakref.WeakKeyDictionary()
"""Our wrappers, each with the function that it guards."""


@overload
def singleton(function: _F, /) -> _F: ...


@overload
def singleton(
    *,
    scope: str | None = None,
    scope_id: str = "",
    level: Level = "function",
    mode: Mode = "function",
    limit: int | None = None,
    on_contention: OnContention = "wait",
    timeout: Seconds | None = None,
    max_waiting: int | None = None,
    when_full: WhenFull | None = None,
    at_least: Seconds = 0.0,
    max_hold: Seconds | None = None,
    name: str | None = None,
    connection: str = "AzureWebJobsStorage",
    layout: LayoutName = "default",
    dotnet_name: str | None = None,
    scope_hash: bool = False,
    also: OldLock | None = None,
    lock_period: Seconds | None = None,
    listener_lock_period: Seconds | None = None,
    lock_acquisition_polling_interval: Seconds | None = None,
    lock_acquisition_min_polling_interval: Seconds | None = None,
    listener_lock_recovery_polling_interval: Seconds | None = None,
    renewal_interval: Seconds | None = None,
    handoff_window: Seconds | None = None,
    defer_delay: Seconds | None = None,
    failover: Seconds | None = None,
    cancel_on_loss: bool | None = None,
) -> Callable[[_F], _F]: ...


def singleton(function: Any = None, /, **given: Any) -> Any:
    """Let one invocation run at a time, in all processes that share the lock's storage account.

    Put it below the trigger's decorator, or above it. Sync functions stay sync, async ones async.

    Args:
        scope: path of a property in the JSON payload, ``:`` between levels (``"Id"``, ``"Order:Customer:Id"``),
            case-sensitive; its value scopes the lock: equal values exclude one another, others don't (D-10 to D-17).
        scope_id: WebJobs template: literal text, ``%SETTING%``, ``{property}`` of the binding data (W-35 to W-43).
        level: ``"function"``: the lock belongs to this function. ``"host"``: all functions of the app that name the
            same scope share it (W-6); needs a scope.
        mode: ``"function"``: a lock around each invocation. ``"listener"``: one process runs all invocations of the
            function until it ends. Another process skips a timer's, puts a storage queue's messages back, and raises
            ``LockNotAcquired`` for any other. It goes with ``scope_id`` of settings only, and
            ``on_contention="raise"``. A function may be declared once in each mode (W-15).
        limit: at most so many invocations at a time, instead of one: a semaphore. ``hold.token`` is None then, as a
            token orders the holders of one slot only. A function with another limit has the same slots. One without a
            limit has a lock of its own, and excludes none of them. Not with another layout, nor with ``failover``.
        on_contention: when another invocation has the lock: ``"wait"`` for it; ``"skip"`` this invocation, as a
            success; ``"raise"`` ``LockNotAcquired``, which fails the invocation; or ``"defer"``: a storage queue's
            message goes back for ``deferDelay``, and no dequeue is counted. Or a function that is given a
            ``Contention`` after the first attempt, and returns one of these.
        timeout: seconds to wait, above 0 (W-3). Default: for ``"wait"`` the option ``lockAcquisitionTimeout``
            (for ever, unless set); for the others not at all. With ``"defer"`` at most 240.
        max_waiting: how many invocations of one process may wait for one lock, at least 0, so that one busy scope does
            not take all threads of the worker. Default: as many as come. With ``level="host"`` those of the other
            functions count, too.
        when_full: what a further invocation does: ``"raise"`` ``LockNotAcquired``, or ``"defer"`` its message, as
            ``on_contention="defer"`` does. Default: ``"defer"`` where ``on_contention`` is that, else ``"raise"``.
        at_least: seconds for which the lock is kept from its acquisition on, however short the body is and also if it
            fails. The invocation itself ends at once. So instances whose timers tick at different times don't run the
            same twice. ShedLock calls it ``lockAtLeastFor``.
        max_hold: seconds after which the lock is not renewed any more, counted from its acquisition. The hold is lost
            then, with the reason ``too long``: an async body is cancelled, a sync one is told, and the invocation
            fails. Others get the lock when the lease has run out, or when the body ends before that. Default: no
            limit. ShedLock calls it ``lockAtMostFor``.
        name: the function's name in the name of its lock, in place of its own: a function that is renamed keeps its
            lock so. Not with ``level="host"``, whose locks have no function's name.
        connection: app setting, or prefix of ``__accountName`` and such settings, of the storage account.
        layout: where the lock's blob is. ``"default"``: ours. ``"webjobs"``: that of a .NET host with the same host id,
            so that both exclude one another (W-45). ``"dequeueable"``: the scope's value itself, as Dequeueable has it,
            with its settings and its way to wait (D-18). See layouts.
        dotnet_name: with ``"webjobs"``, the full name of the C# method whose locks these are, where that is compiled
            into its app: ``"Contoso.Shop.Orders.Ship"``. Without it they are those of a Functions host's function of
            the same name, in whichever language (W-32).
        scope_hash: True: a hash of the scope stands in the lock's name, and not its value, which names of blobs and
            logs would show. It keeps a value from being read, not from being guessed.
        also: ``OldLock(…)`` with what was different before, for one deployment that gives the lock another name. Each
            invocation takes both locks, so that old and new versions exclude one another. Not with ``limit``, nor with
            mode ``"listener"``.
        lock_period: seconds of one lease around an invocation, whole seconds from 15 to 60. This argument and those
            below have the value for this function; default: that of the app's option of the same name.
        listener_lock_period: the same of a listener's lease.
        lock_acquisition_polling_interval: the longest wait between two polls for the lock, at least 0.5 seconds.
        lock_acquisition_min_polling_interval: the first such wait, at least 0.01 seconds.
        listener_lock_recovery_polling_interval: how often a process that isn't the listener tries to become it, at
            least 15 seconds; ``math.inf``: never.
        renewal_interval: how long after each renewal the lease is renewed again, at least 1 second and at most five
            sixths of its period.
        handoff_window: for how many seconds one process may hand the lock on among its own waiters.
        defer_delay: for how many seconds a deferred message stays away, from 1 second to 7 days.
        failover: after how many seconds of a holder's silence another process may take the lock, from 2 to 10, instead
            of waiting for its lease to run out; 0: off. Not with the layouts ``"webjobs"`` and ``"dequeueable"``, nor
            without fencing tokens.
        cancel_on_loss: whether an async body is cancelled when its lock is lost.

    Raises:
        TypeError: there is no such argument; the message says what is meant, or where it is set.
        ConfigurationError: an argument or option is wrong, or the function can't be guarded (an orchestrator). In a
            Functions worker each call raises it instead, unless it concerns the whole app.

    At an invocation the guarded function may raise ``ScopeError``, ``LockNotAcquired``, ``LockLost``,
    ``StorageDenied`` or ``StorageUnavailable``: the invocation fails, and its message is tried again.

    Example:
        >>> @singleton(scope="Id", on_contention="skip")
        ... def ship(msg: bytes) -> None: ...
    """
    unknown = next((name for name in given if name not in DEFAULTS), None)
    if unknown is not None:
        raise TypeError(no_such_argument(unknown, [*DEFAULTS]))
    unnamed = function if isinstance(function, str) else None

    def declare(target: Any) -> Any:
        above = is_builder(target)
        inner = user_function(target) if above else target
        if always_fails(inner):
            return target

        def find() -> Trigger | None:
            return trigger_of(target) if above else find_trigger(_guarded_by_us.get(target, target))

        try:
            from singleton.functions.arguments import Arguments, guard_by

            arguments = Arguments(**{**DEFAULTS, **given}, unnamed=unnamed)
            known = trigger_of(target) if above else None
            guard = guard_by(arguments, inner, find, known, [guard.mode for guard in guards_of(inner)])
            declared = _guarded(inner, guard)
        except ConfigurationError as error:
            declared = stand_in(inner, error)
        if not above:
            return declared
        replace_user_function(target, declared)
        return target

    return declare if function is None or unnamed is not None else declare(function)


_, _with_arguments = get_overloads(singleton)
DEFAULTS: Final[dict[str, Any]] = dict(_with_arguments.__kwdefaults__ or ())
"""The arguments of ``singleton``, each with its default."""


def _show_arguments(function: Any, declared: Callable[..., Any]) -> None:
    """Have ``help`` and ``inspect.signature`` show the arguments that ``declared`` spells out."""
    signature = inspect.signature(declared)
    target = inspect.Parameter("function", inspect.Parameter.POSITIONAL_ONLY, default=None, annotation="Any")
    unknown = inspect.Parameter("unknown", inspect.Parameter.VAR_KEYWORD, annotation="Any")
    parameters = [target, *signature.parameters.values(), unknown]
    function.__signature__ = signature.replace(parameters=parameters, return_annotation="Any")
    function.__kwdefaults__ = DEFAULTS


_show_arguments(singleton, _with_arguments)


def declared_guards() -> list[Guard]:
    """Return all guards that were declared in this process, in order."""
    return list(_declared)


def guards_of(function: object) -> tuple[Guard, ...]:
    """Return the guards of a function in the order in which they are asked, a listener's first; none if it has none."""
    found: tuple[Guard, ...] = getattr(function, _MARK, ())
    return found


def _guarded(target: Callable[..., Any], guard: Guard) -> Callable[..., Any]:
    _declared.append(guard)
    guards = tuple(sorted((guard, *guards_of(target)), key=lambda each: each.mode, reverse=True))
    # Of two declarations in a row, whichever comes first, the one wrapper asks who listens before it takes a lock.
    function = _guarded_by_us.get(target, target)
    asked = guards if function is not target else (guard,)
    signature = Signature(function)
    is_async = inspect.iscoroutinefunction(function)

    def invocation(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any]:
        named, context = signature.split(args, kwargs)
        refuse_replayed(guard.function, named)
        body: Callable[[], Any] = partial(function, *args, **kwargs)
        for each in reversed(asked):
            body = partial(each.run_async if is_async else each.run, each.call(named, context), body)
        return body

    async def guarded_async(*args: Any, **kwargs: Any) -> Any:
        return await invocation(args, kwargs)()

    def guarded(*args: Any, **kwargs: Any) -> Any:
        return invocation(args, kwargs)()

    wrapper = guarded_async if is_async else guarded
    signature.dress(wrapper, function)
    setattr(wrapper, _MARK, guards)
    _guarded_by_us[wrapper] = function
    return wrapper
