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
    from singleton.patterns.once.names import GivenKey

_F = TypeVar("_F", bound="Callable[..., Any]")

_WEEK: Final = timedelta(days=7)
OnRepeat: TypeAlias = Literal["wait", "raise", "conflict"]
"""What to do while another call with the same key runs: wait for it, raise ``LockNotAcquired``, or answer 409."""


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
    """Do an operation once for each idempotency key: the first does it, a repeat gets the result that is kept.

    On a function it stands where ``@singleton`` does, and may stand beside it. With a client it makes a block, or with
    ``run`` a call. While one is at it, another with the same key waits, or is refused. A body that raises has not done
    it: the next may. When a process dies at it, the next does it again, once its lease is over. A result is written
    under the lease: one whose lease is gone raises ``LockLost`` instead, and never replaces another's.

    Args:
        client: a ``LockClient`` for ``with``, or an ``AsyncLockClient`` for ``async with``; none for the decorator.
        key: of the operation. In the decorator a property's path (``"Id"``, ``"Order:Id"``); a template as of
            ``scope_id`` (``"{headers.Idempotency-Key}"``, ``"{Tenant}/{Order.Id}"``); or a function that is given the
            trigger's argument. A key that is null or blank is a ``ScopeError``.
        name: what is done, such as ``"charge"``: equal keys of other names are other operations. Only with a client; in
            the decorator it is the function.
        keep: how long the result is kept, seconds or a ``timedelta`` above 0. After that the operation is done again.
        on_contention: while another invocation does it: ``"wait"``; ``"raise"`` ``LockNotAcquired``; or ``"conflict"``,
            with which an HTTP function answers 409. Only in the decorator: a block with ``timeout=0`` asks once.
        timeout: seconds to wait for it. Default: as for ``@singleton``; with a client, no limit.
        connection: see ``@singleton``. Only in the decorator.
        owner: who asks, as for ``lock``. Only with a client.

    Raises:
        ConfigurationError: an argument is wrong, or the function can't be guarded.
        ScopeError: the key is none.

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
        from singleton.patterns.once.wrapping import declaring

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
