"""``@singleton``: one invocation at a time, over all instances that share a storage account.

A worker imports every module of an app at its start, so what only a declaration or an invocation needs is imported
there.
"""

from __future__ import annotations

import inspect
import os
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, get_args, overload

from singleton.base.errors import ConfigurationError
from singleton.base.kinds import Level, Mode
from singleton.functions.guard import Guard
from singleton.functions.misdeclared import always_fails, concerning_the_app, stand_in
from singleton.functions.triggers import (
    Signature,
    check_guardable,
    find_trigger,
    is_builder,
    refuse_policy,
    refuse_replayed,
    replace_user_function,
    trigger_of,
    user_function,
    users_code,
)
from singleton.layouts.named import LayoutName

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from singleton.functions.contention import OnContention
    from singleton.functions.triggers import Trigger
    from singleton.layouts.layout import Layout
    from singleton.settings.options import SingletonOptions

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
    on_contention: OnContention = "wait",
    timeout: float | timedelta | None = None,
    connection: str = "AzureWebJobsStorage",
    layout: LayoutName = "default",
    dotnet_name: str | None = None,
    scope_hash: bool = False,
    failover: float | timedelta | None = None,
) -> Callable[[_F], _F]: ...


def singleton(
    function: Any = None,
    /,
    *,
    scope: str | None = None,
    scope_id: str = "",
    level: Level = "function",
    mode: Mode = "function",
    on_contention: OnContention = "wait",
    timeout: float | timedelta | None = None,
    connection: str = "AzureWebJobsStorage",
    layout: LayoutName = "default",
    dotnet_name: str | None = None,
    scope_hash: bool = False,
    failover: float | timedelta | None = None,
) -> Any:
    """Let one invocation run at a time, in all processes that share the lock's storage account.

    Put it below the trigger's decorator, or above it. Sync functions stay sync, async ones async.

    Args:
        scope: path of a property in the JSON payload, ``:`` between levels (``"Id"``, ``"Order:Customer:Id"``),
            case-sensitive; its value scopes the lock: equal values exclude one another, others don't (D-10 to D-17).
        scope_id: WebJobs template: literal text, ``%SETTING%``, ``{property}`` of the binding data (W-35 to W-43).
        level: ``"function"``: the lock belongs to this function. ``"host"``: all functions of the app that name the
            same scope share it (W-6); needs a scope.
        mode: ``"function"``: a lock around each invocation. ``"listener"``: of all processes one runs the function's
            invocations, as many at once as come, for as long as it lives; the others skip a timer's, put a storage
            queue's messages back for it, and raise ``LockNotAcquired`` for any other. It goes with ``scope_id`` of
            settings only, and ``on_contention="raise"``. A function may be declared once in each mode (W-15).
        on_contention: when another invocation has the lock: ``"wait"`` for it; ``"skip"`` this invocation, as a
            success; ``"raise"`` ``LockNotAcquired``, which fails the invocation; or ``"defer"``: a storage queue's
            message goes back for ``deferDelay``, and no dequeue is counted. Or a function that is given a
            ``Contention`` after the first attempt, and returns one of these.
        timeout: seconds to wait, above 0 (W-3). Default: for ``"wait"`` the option ``lockAcquisitionTimeout``
            (for ever, unless set); for the others not at all. With ``"defer"`` at most 240.
        connection: app setting, or prefix of ``__accountName`` and such settings, of the storage account.
        layout: where the lock's blob is. ``"default"``: ours. ``"webjobs"``: that of a .NET host with the same host id,
            so that both exclude one another (W-45). ``"dequeueable"``: the scope's value itself, as Dequeueable has it,
            with its settings and its way to wait (D-18). See layouts.
        dotnet_name: with ``"webjobs"``, the full name of the C# method whose locks these are, where that is compiled
            into its app: ``"Contoso.Shop.Orders.Ship"``. Without it they are those of a Functions host's function of
            the same name, in whichever language (W-32).
        scope_hash: True: a hash of the scope stands in the lock's name, and not its value, which names of blobs and
            logs would show. It keeps a value from being read, not from being guessed.
        failover: after how many seconds of a holder's silence another process may take the lock, from 2 to 10, instead
            of waiting for its lease to run out; 0: off. Default: the option ``failover``. Not with the layouts
            ``"webjobs"`` and ``"dequeueable"``, nor without fencing tokens.

    Raises:
        ConfigurationError: an argument or option is wrong, or the function can't be guarded (an orchestrator). In a
            Functions worker each call raises it instead, unless it concerns the whole app.

    At an invocation the guarded function may raise ``ScopeError``, ``LockNotAcquired``, ``LockLost``,
    ``StorageDenied`` or ``StorageUnavailable``: the invocation fails, and its message is tried again.

    Example:
        >>> @singleton(scope="Id", on_contention="skip")
        ... def ship(msg: bytes) -> None: ...
    """

    def declare(target: Any) -> Any:
        above = is_builder(target)
        inner = user_function(target) if above else target
        if always_fails(inner):
            return target
        try:
            if above:
                guard = guard_for(inner, lambda: trigger_of(target), trigger_of(target))
            else:
                guard = guard_for(inner, lambda: find_trigger(_guarded_by_us.get(target, target)))
            declared = _guarded(inner, guard)
        except ConfigurationError as error:
            declared = stand_in(inner, error)
        if not above:
            return declared
        replace_user_function(target, declared)
        return target

    def guard_for(target: Any, trigger: Callable[[], Trigger | None], known: Trigger | None = None) -> Guard:
        from pathlib import Path

        from singleton.layouts.named import layout_named
        from singleton.scopes.scope import ScopeTemplate
        from singleton.settings.durations import seconds
        from singleton.settings.options import find_app_dir, load_options

        check_guardable(target, None if known is None else known.type)
        app_dir = find_app_dir(Path(users_code(target).co_filename).parent, os.environ)
        with concerning_the_app():
            options = load_options(app_dir, os.environ)
        if isinstance(function, str):
            raise ConfigurationError(f"@singleton({function!r}): name the argument: @singleton(scope={function!r})")
        _check_arguments(scope, scope_id, level, mode, on_contention, connection, layout)
        if dotnet_name is not None:
            _check_dotnet_name(dotnet_name, layout, level)
        if scope_hash is not False:
            _check_scope_hash(scope_hash, layout, scoped=scope is not None or bool(scope_id))
        refuse_policy(target.__name__, on_contention, known, {})
        patience = None if timeout is None else seconds(timeout, "timeout", above=0)
        if on_contention == "defer":
            from singleton.functions.deferring import check_deferrable

            check_deferrable(target.__name__, patience, known)
        if any(guard.mode == mode for guard in guards_of(target)):
            raise ConfigurationError(
                f"@singleton is declared twice on {target.__qualname__} with mode={mode!r}: one of each mode is allowed"
            )
        with concerning_the_app():
            laid = layout_named(layout, os.environ, dotnet_name)
        if level == "host" and scope is None and not scope_id and laid.by_host:
            raise ConfigurationError("level='host' needs a scope or a scope_id: functions share the lock by naming it")
        return _kind(mode)(
            function=target.__name__,
            scope=laid.path(scope, scope_id, listener=mode == "listener"),
            scope_id=scope_id,
            scope_hash=scope_hash,
            level=level,
            on_contention=on_contention,
            timeout=patience,
            connection=connection,
            options=_with_failover(laid.adapted(options), failover, laid, layout),
            app_dir=app_dir,
            layout=laid,
            template=ScopeTemplate(scope_id, dotnet=laid.dotnet),
            find_trigger=trigger,
        )

    return declare if function is None or isinstance(function, str) else declare(function)


def declared_guards() -> list[Guard]:
    """Return all guards that were declared in this process, in order."""
    return list(_declared)


def guards_of(function: object) -> tuple[Guard, ...]:
    """Return the guards of a function in the order in which they are asked, a listener's first; none if it has none."""
    found: tuple[Guard, ...] = getattr(function, _MARK, ())
    return found


def _kind(mode: Mode) -> type[Guard]:
    if mode == "function":
        return Guard
    from singleton.functions.listener import ListenerGuard

    return ListenerGuard


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


def _check_arguments(
    scope: object,
    scope_id: object,
    level: object,
    mode: object,
    on_contention: object,
    connection: object,
    layout: object,
) -> None:
    if scope is not None:
        from singleton.scopes.scope import check_path

        check_path(scope)  # type: ignore[arg-type] # it refuses what is no text
    if not isinstance(scope_id, str):
        raise ConfigurationError(f"scope_id is {scope_id!r}: give a text such as 'tenant:{{TenantId}}'")
    _check_choice("level", level, get_args(Level))
    _check_choice("mode", mode, get_args(Mode))
    _check_choice("layout", layout, get_args(LayoutName))
    if on_contention not in ("wait", "skip", "raise"):
        from singleton.functions.contention import check_policy

        check_policy(on_contention)
    if not isinstance(connection, str) or not connection.strip():
        raise ConfigurationError(f"connection is {connection!r}: name the app setting, such as 'AzureWebJobsStorage'")


def _check_dotnet_name(name: object, layout: LayoutName, level: Level) -> None:
    from singleton.layouts.webjobs import check_dotnet_name

    check_dotnet_name(name)
    if layout != "webjobs":
        raise ConfigurationError(f"dotnet_name={name!r} goes with layout='webjobs' only, and layout is {layout!r}")
    if level == "host":
        raise ConfigurationError(
            f"dotnet_name={name!r}: the locks of level='host' have no function's name: leave it out"
        )


def _check_scope_hash(value: object, layout: LayoutName, *, scoped: bool) -> None:
    if value is not True:
        raise ConfigurationError(f"scope_hash is {value!r}: give True or False")
    if layout != "default":
        raise ConfigurationError(
            f"scope_hash=True goes with layout='default' only, and layout is {layout!r}: whoever shares that lock has "
            "the value itself in its name"
        )
    if not scoped:
        raise ConfigurationError("scope_hash=True needs a scope or a scope_id: there is nothing to hash")


def _with_failover(
    options: SingletonOptions, failover: float | timedelta | None, laid: Layout, name: str
) -> SingletonOptions:
    from singleton.settings.options import refuse_failover

    if failover is not None:
        options = options.replace(failover=failover or None)
    if laid.foreign:
        refuse_failover(options, f"layout={name!r}, whose locks other libraries take as well")
    return options


def _check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value in allowed:
        return
    from singleton.base.words import did_you_mean, quoted

    hint = did_you_mean(str(value), allowed)
    raise ConfigurationError(f"{name} is {quoted(value)}: it must be one of {', '.join(map(repr, allowed))}{hint}")
