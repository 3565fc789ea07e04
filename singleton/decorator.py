"""``@singleton``: one invocation at a time, over all instances that share a storage account.

A worker imports every module of an app at its start, so what only a declaration or an invocation needs is imported
there.
"""

from __future__ import annotations

import inspect
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_overloads, overload

from singleton.base.callables import returns_coroutine
from singleton.base.forks import importing
from singleton.functions.listing import add_rules, declare
from singleton.functions.triggers import GUARDS_MARK, Signature, refuse_replayed

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.kinds import LayoutName, Level, Mode, Seconds, WhenFull
    from singleton.functions.contention import OnContention
    from singleton.functions.declaration import Declaration
    from singleton.functions.guard import Guard
    from singleton.functions.old_lock import OldLock
    from singleton.functions.triggers import Trigger

_F = TypeVar("_F", bound="Callable[..., Any]")

_declared: list[Declaration] = []
_guarded_by_us: weakref.WeakKeyDictionary[Callable[..., Any], Callable[..., Any]] = weakref.WeakKeyDictionary()
"""Wrapper to guarded function."""


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
    """Let one invocation run at a time, over the processes which share the lock's storage account.

    Put ``@singleton`` below the trigger's decorator, or above. Sync functions stay sync, async functions async.

    Args:
        scope: path of a property in the JSON payload, ``:`` between levels (``"Id"``, ``"Order:Customer:Id"``),
            case-sensitive. Equal values exclude one another, different values don't (D-10 to D-17).
        scope_id: WebJobs template: literal text, ``%SETTING%``, ``{property}`` of the binding data (W-35 to W-43).
        level: ``"function"``: the lock belongs to this function. ``"host"``: functions of the app with an equal
            scope share the lock (W-6); needs a scope.
        mode: ``"function"``: a lock around each invocation. ``"listener"``: one process runs the invocations of
            the function until the process ends. Another process skips the invocation of a timer, puts a storage
            queue's messages back, and raises ``LockNotAcquired`` for other triggers. Only with a ``scope_id`` of
            settings, and ``on_contention="raise"``. A function may be declared once in every mode (W-15).
        limit: greatest number of invocations at a time: a semaphore. ``hold.token`` is None then, as a token orders the
            holders of one slot only. A function with another limit has the same slots. Without a limit the function
            has a separate lock, which excludes no holder of a slot. Not with another layout, nor with ``failover``.
        on_contention: when another invocation has the lock: ``"wait"``; ``"skip"`` the invocation, as a success;
            ``"raise"`` ``LockNotAcquired``, which fails the invocation; ``"conflict"``: an HTTP function answers 409
            with ``Retry-After``; or ``"defer"``: a storage queue's message goes back for ``deferDelay``, and no dequeue
            is counted; or ``"coalesce"``: one invocation waits, and further invocations end as a success while it
            waits. Or a function of a ``Contention``, called after the first attempt, which returns a policy.
        timeout: seconds to wait, above 0 (W-3). Default: for ``"wait"`` and ``"coalesce"`` ``lockAcquisitionTimeout``
            (for ever, unless set); for other policies no wait. With ``"defer"`` at most 240.
        max_waiting: greatest number of invocations of one process which wait for one lock, at least 0: a busy scope
            must not take every thread of the worker. Default: no limit. With ``level="host"`` waiting invocations of
            the other functions count, too.
        when_full: policy of a further invocation: ``"raise"`` ``LockNotAcquired``, or ``"defer"`` its message, as
            ``on_contention="defer"`` does. Default: ``on_contention`` if that is one of ``"defer"``,
            ``"conflict"``; else ``"raise"``.
        at_least: seconds from the acquisition for which the lock is kept, also after a shorter or failed body. The
            invocation itself ends at once. For instances whose timers tick at different times: a tick is not run
            twice. ShedLock's ``lockAtLeastFor``.
        max_hold: seconds from the acquisition after which the lock is not renewed. The hold is then lost, with the
            reason ``too long``: an async body is cancelled, a sync body is told, and the invocation fails. Another
            invocation gets the lock at the expiry of the lease, or at an earlier end of the body. Default: no limit.
            ShedLock's ``lockAtMostFor``.
        name: replaces the function's name in the name of the lock: a renamed function keeps its lock. Not with
            ``level="host"``, whose locks have no function's name.
        connection: app setting of the storage account, or prefix of settings such as ``__accountName``.
        layout: place of the lock's blob. ``"default"``: ours. ``"webjobs"``: the place of a .NET host with an equal
            host id, to exclude the host's functions (W-45). ``"dequeueable"``: the scope's value itself, with the
            settings and waiting of Dequeueable (D-18). See layouts.
        dotnet_name: with ``"webjobs"``, the full name of the C# method with the lock, if the method is compiled into
            its app: ``"Contoso.Shop.Orders.Ship"``. Without ``dotnet_name``: the lock of a Functions host's function
            with an equal name, in whichever language (W-32).
        scope_hash: True: the lock's name has a hash of the scope's value in place of the value: names of blobs and
            logs don't show the value. The hash keeps a value from being read, not from being guessed.
        also: ``OldLock(…)`` with the former arguments, for one deployment which gives the lock another name. An
            invocation takes both locks, and the old and new versions exclude one another. Not with ``limit``, nor with
            mode ``"listener"``. Without ``also`` tokens go on only if a key's last use was not under the old name
            alone, or after ``singleton-locks lift-epochs``: ``singleton-locks ahead`` lists the other keys.
        lock_period: whole seconds of a lease around an invocation, from 15 to 60. From here on the arguments override
            the app's option of the name for this function.
        listener_lock_period: whole seconds of a listener's lease, from 15 to 60.
        lock_acquisition_polling_interval: longest pause between two polls for the lock, at least 0.5 seconds.
        lock_acquisition_min_polling_interval: first pause between two polls, at least 0.01 seconds.
        listener_lock_recovery_polling_interval: seconds between two attempts of a process to become the listener, at
            least 15; ``math.inf``: never.
        renewal_interval: seconds from a renewal of the lease to the next, at least 1 and at most five sixths of the
            period.
        handoff_window: seconds for which a process may hand the lock on among its own waiters.
        defer_delay: seconds after which a deferred message comes back, from 1 second to 7 days.
        failover: seconds of a holder's silence after which another process may take the lock, from 2 to 10, without
            waiting for the expiry of the lease; 0: off. Not with the layouts ``"webjobs"`` and ``"dequeueable"``, nor
            without fencing tokens.
        cancel_on_loss: whether an async body is cancelled at the loss of its lock.

    Raises:
        TypeError: the argument does not exist; the message names the right argument or option.
        ConfigurationError: an argument or option is wrong, or the function can't be guarded (an orchestrator). In a
            Functions worker with the option ``fail_fast`` off every call raises the error instead.

    At an invocation the guarded function may raise ``ScopeError``, ``LockNotAcquired``, ``LockLost``,
    ``StorageDenied`` or ``StorageUnavailable``: the invocation fails, and its message is delivered again.

    Example:
        >>> @singleton(scope="Id", on_contention="skip")
        ... def ship(msg: bytes) -> None: ...
    """
    unknown = next((name for name in given if name not in DEFAULTS), None)
    if unknown is not None:
        with importing:
            import singleton.settings.options  # noqa: F401 - the message names options, too
            from singleton.settings.argument_names import no_such_argument

        raise TypeError(no_such_argument("@singleton", unknown, [*DEFAULTS]))
    unnamed = function if isinstance(function, str) else None

    def guarded(inner: Callable[..., Any], find: Callable[[], Trigger | None], _: Trigger | None) -> Any:
        with importing:
            from singleton.functions.arguments import Arguments, guard_by

        arguments = Arguments(**{**DEFAULTS, **given}, unnamed=unnamed)
        policies = {each.mode: each.on_contention for each in _declared_on(inner)}
        return _guarded(inner, guard_by(arguments, inner, find, policies))

    if function is None or unnamed is not None:
        return lambda target: declare(target, guarded)
    return declare(function, guarded)


_, _with_arguments = get_overloads(singleton)
DEFAULTS: Final[dict[str, Any]] = dict(_with_arguments.__kwdefaults__ or ())
"""The arguments of ``singleton`` and their defaults."""


def _show_arguments(function: Any, declared: Callable[..., Any]) -> None:
    """Have ``help`` and ``inspect.signature`` show the arguments of ``declared``."""
    signature = inspect.signature(declared)
    target = inspect.Parameter("function", inspect.Parameter.POSITIONAL_ONLY, default=None, annotation="Any")
    unknown = inspect.Parameter("unknown", inspect.Parameter.VAR_KEYWORD, annotation="Any")
    parameters = [target, *signature.parameters.values(), unknown]
    function.__signature__ = signature.replace(parameters=parameters, return_annotation="Any")
    function.__kwdefaults__ = DEFAULTS


_show_arguments(singleton, _with_arguments)


def declared_guards() -> list[Guard]:
    """Return the guards declared in this process, in order."""
    return [*map(_guard_of, _declared)]


def guards_of(function: object) -> tuple[Guard, ...]:
    """Return the guards of a function, outermost first: a listener's guard comes first; () without guards."""
    return tuple(map(_guard_of, _declared_on(function)))


def _declared_on(function: object) -> tuple[Declaration, ...]:
    found: tuple[Declaration, ...] = getattr(function, GUARDS_MARK, ())
    return found


def _guard_of(declaration: Declaration) -> Guard:
    """Return the guard of a declaration. An invocation needs its modules, and the start of a worker does not."""
    with importing:
        from singleton.functions.guard import Guard

    return Guard.of(declaration)


def is_wrapper(function: object) -> bool:
    """Tell whether ``@singleton`` has made this function, and no other decorator."""
    return inspect.isfunction(function) and function in _guarded_by_us


def _guarded(target: Callable[..., Any], declaration: Declaration) -> Callable[..., Any]:
    _declared.append(declaration)
    declared = (declaration, *_declared_on(target))
    declared = tuple(sorted(declared, key=lambda each: each.mode, reverse=True))
    # Of two declarations in a row, whichever comes first, the one wrapper asks who listens before it takes a lock.
    function = _guarded_by_us.get(target, target)
    asked = declared if function is not target else (declaration,)
    signature = Signature(function)
    is_async = returns_coroutine(function)

    def invocation(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any]:
        named, context = signature.split(args, kwargs)
        refuse_replayed(declaration.decorator, declaration.function, named)
        body: Callable[[], Any] = partial(function, *args, **kwargs)
        for guard in map(_guard_of, reversed(asked)):
            body = partial(guard.run_async if is_async else guard.run, guard.call(named, context), body)
        return body

    wrapper = signature.wrapper(function, invocation)
    setattr(wrapper, GUARDS_MARK, declared)
    add_rules(wrapper, target, declaration.rules)
    _guarded_by_us[wrapper] = function
    return wrapper
