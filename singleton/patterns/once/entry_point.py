"""``once``: the decorator of a function, as ``decorator.py`` has ``singleton``, and blocks of any program."""

from __future__ import annotations

import inspect
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, overload

from singleton.base.callables import returns_coroutine
from singleton.base.errors import ConfigurationError
from singleton.base.forks import importing
from singleton.base.words import quoted
from singleton.functions.listing import add_rules, declare
from singleton.functions.misdeclaration import options_of_app
from singleton.functions.triggers import ONCE_MARK, Signature, check_guardable, refuse_coalescing, refuse_replayed
from singleton.patterns.once.keys import Key
from singleton.patterns.once.once_declaration import OnceDeclaration, OnceLayout
from singleton.scopes.template import ScopeTemplate
from singleton.settings.argument_names import explained
from singleton.settings.durations import seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.client import AsyncLockClient, LockClient
    from singleton.functions.triggers import Trigger
    from singleton.patterns.once.block import AsyncOnceBlock, OnceBlock
    from singleton.patterns.once.keys import GivenKey
    from singleton.patterns.once.once_guard import OnceGuard


def declaring(
    key: Any,
    keep: float | timedelta,
    on_contention: Any,
    timeout: float | timedelta | None,
    connection: str,
    outputs: Any,
) -> Callable[[Any], Any]:
    """Return the decorator for these arguments of ``once``."""

    def guarded(target: Any, trigger: Callable[[], Trigger | None], _: Trigger | None) -> Callable[..., Any]:
        _check(target, on_contention, connection, outputs)
        app_dir, options = options_of_app(target)
        declaration = OnceDeclaration(
            function=target.__name__,
            scope=None,
            scope_id="",
            level="function",
            on_contention=on_contention,
            timeout=None if timeout is None else seconds(timeout, "timeout", above=0),
            connection=connection,
            options=options,
            app_dir=app_dir,
            layout=OnceLayout(),
            template=ScopeTemplate(""),
            find_trigger=trigger,
            written=inspect.unwrap(target),
            key=Key(key),
            keep=seconds(keep, "keep", above=0),
            outputs=outputs,
        )
        is_async = returns_coroutine(target)
        signature = Signature(target)

        def find_guard() -> OnceGuard:
            with importing:
                from singleton.patterns.once.once_guard import OnceGuard  # a worker loads an app without it

            return OnceGuard.of(declaration)

        def invocation(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any]:
            guard = find_guard()
            named, context = signature.split(args, kwargs)
            refuse_replayed("@once", guard.function, named)
            call = guard.call(named, context)
            return partial(guard.run_async if is_async else guard.run, call, partial(target, *args, **kwargs))

        wrapper = signature.wrapper(target, invocation)
        setattr(wrapper, ONCE_MARK, find_guard)
        add_rules(wrapper, target, declaration.rules)
        return wrapper

    return lambda target: declare(target, guarded)


def _check(target: Any, on_contention: object, connection: object, outputs: object) -> None:
    check_guardable(target, "@once")
    refuse_coalescing(target, "@once")
    if hasattr(target, ONCE_MARK):
        raise ConfigurationError(f"@once is declared twice on {target.__qualname__}: remove one")
    if on_contention not in ("wait", "raise", "conflict"):
        raise ConfigurationError(
            f"on_contention is {quoted(on_contention)}: give 'wait', 'raise' or 'conflict'. ('skip' would lose the "
            "message if the invocation that does the work fails.)"
        )
    if not isinstance(connection, str) or not connection.strip():
        raise ConfigurationError(f"connection is {connection!r}: name the app setting, such as 'AzureWebJobsStorage'")
    if outputs not in ("always", "first"):
        raise ConfigurationError(
            f"outputs is {quoted(outputs)}: give 'always' or 'first'. With 'first' a repeat sends no output again"
        )


_F = TypeVar("_F", bound="Callable[..., Any]")

_WEEK: Final = timedelta(days=7)
OnRepeat: TypeAlias = Literal["wait", "raise", "conflict"]
"""Policy while another call with the key runs: wait, raise ``LockNotAcquired``, or answer 409."""


@overload
def once(
    *,
    key: GivenKey,
    keep: float | timedelta = _WEEK,
    on_contention: OnRepeat = "wait",
    timeout: float | timedelta | None = None,
    connection: str = "AzureWebJobsStorage",
    outputs: Literal["always", "first"] = "always",
) -> Callable[[_F], _F]: ...


@overload
def once(
    client: LockClient,
    /,
    key: str | int,
    *,
    name: str = "",
    keep: float | timedelta = _WEEK,
    timeout: float | timedelta | None = None,
    owner: str = "",
) -> OnceBlock: ...


@overload
def once(
    client: AsyncLockClient,
    /,
    key: str | int,
    *,
    name: str = "",
    keep: float | timedelta = _WEEK,
    timeout: float | timedelta | None = None,
    owner: str = "",
) -> AsyncOnceBlock: ...


@explained
def once(
    client: Any = None,
    /,
    key: Any = None,
    *,
    name: str = "",
    keep: float | timedelta = _WEEK,
    on_contention: OnRepeat = "wait",
    timeout: float | timedelta | None = None,
    connection: str = "AzureWebJobsStorage",
    outputs: Literal["always", "first"] = "always",
    owner: str = "",
) -> Any:
    """Do an operation once for an idempotency key: the first call does the work, a repeat gets the kept result.

    On a function ``@once`` stands in the place of ``@singleton``, or beside ``@singleton``. With a client ``once``
    makes a block, or with ``run`` a call. During the work another call with the key waits, or is refused. A body which
    raises has not done the operation: the next call may. After the death of a process the next call does the work
    again, at the expiry of the lease. A result is written under the lease: after the loss of the lease the writer gets
    ``LockLost``, and never replaces a later result.

    Args:
        client: a ``LockClient`` for ``with``, an ``AsyncLockClient`` for ``async with``; None for the decorator.
        key: key of the operation. In the decorator a property's path (``"Id"``, ``"Order:Id"``), a template as for
            ``scope_id`` (``"{headers.Idempotency-Key}"``, ``"{Tenant}/{Order.Id}"``), or a function of the trigger's
            argument. A null or blank key is a ``ScopeError``, and so is a key function if several arguments may be
            the trigger's.
        name: name of the operation, for example ``"charge"``: an equal key with another name is another operation.
            With a client only; the decorator takes the function's name.
        keep: seconds, or a ``timedelta``, above 0, for which the result is kept. Afterwards the operation is done
            again.
        on_contention: while another invocation does the operation: ``"wait"``, ``"raise"`` ``LockNotAcquired``, or
            ``"conflict"``: an HTTP function answers 409. In the decorator only: a block with ``timeout=0`` asks once.
        timeout: seconds to wait. Default: as for ``@singleton``; with a client, no limit.
        connection: see ``@singleton``. In the decorator only.
        outputs: ``"always"``: a repeat sets the ``func.Out`` parameters again. ``"first"``: it leaves them unset, and
            they are lost if the host dies after the first invocation, before it sends them. In the decorator only.
        owner: as for ``lock``. With a client only.

    Raises:
        ConfigurationError: an argument is wrong, or the function can't be guarded.
        ScopeError: the key is null, blank, or no plain value.

    Example::

        with once(locks, order.id, name="charge") as operation:
            if not operation.done:
                operation.finish(charge(order))
        return operation.result
    """
    if client is None:
        for given, value in {"name": name, "owner": owner}.items():
            if value:
                raise ConfigurationError(
                    f"{given}={quoted(value)} can only be used with a lock client: once(locks, key, …)"
                )

        return declaring(key, keep, on_contention, timeout, connection, outputs)
    if key is not None and (on_contention, connection, outputs) == ("wait", "AzureWebJobsStorage", "always"):
        for kind, block in _blocks():
            if isinstance(client, kind):
                return block(client, key, name=name, keep=keep, timeout=timeout, owner=owner)
    raise ConfigurationError(
        f"once({type(client).__name__}) with the key {quoted(key)}: give once(locks, key, timeout=…) with a lock "
        "client, or @once with a key, on_contention and outputs on a function"
    )


def _blocks() -> tuple[tuple[type, Any], ...]:
    """Return the blocks of ``once``, each after the client that it is for."""
    with importing:
        from singleton.client import AsyncLockClient, LockClient
        from singleton.patterns.once.block import AsyncOnceBlock, OnceBlock

    return (LockClient, OnceBlock), (AsyncLockClient, AsyncOnceBlock)
