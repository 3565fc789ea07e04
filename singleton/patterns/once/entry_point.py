"""``once``: the decorator of a function, and blocks of any program."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, overload

from singleton.base.errors import ConfigurationError
from singleton.base.words import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.client import AsyncLockClient, LockClient
    from singleton.patterns.once.block import AsyncOnceBlock, OnceBlock
    from singleton.patterns.once.keys import GivenKey

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
            argument. A null or blank key is a ``ScopeError``.
        name: name of the operation, for example ``"charge"``: an equal key with another name is another operation.
            With a client only; the decorator takes the function's name.
        keep: seconds, or a ``timedelta``, above 0, for which the result is kept. Afterwards the operation is done
            again.
        on_contention: while another invocation does the operation: ``"wait"``, ``"raise"`` ``LockNotAcquired``, or
            ``"conflict"``: an HTTP function answers 409. In the decorator only: a block with ``timeout=0`` asks once.
        timeout: seconds to wait. Default: as for ``@singleton``; with a client, no limit.
        connection: see ``@singleton``. In the decorator only.
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
        from singleton.patterns.once.function_wrapper import declaring

        return declaring(key, keep, on_contention, timeout, connection)
    if key is not None and on_contention == "wait" and connection == "AzureWebJobsStorage":
        from singleton.client import AsyncLockClient, LockClient
        from singleton.patterns.once.block import AsyncOnceBlock, OnceBlock

        block: type[OnceBlock | AsyncOnceBlock] | None = None
        if isinstance(client, LockClient):
            block = OnceBlock
        elif isinstance(client, AsyncLockClient):
            block = AsyncOnceBlock
        if block is not None:
            return block(client, key, name=name, keep=keep, timeout=timeout, owner=owner)
    raise ConfigurationError(
        f"once({type(client).__name__}, key={quoted(key)}): give once(locks, key, timeout=…) with a lock client, or "
        "@once(key=…, on_contention=…) on a function"
    )
