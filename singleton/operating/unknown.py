"""Errors about a lock, a prefix or a function that is not there: the words, and the errors that programs get."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from singleton.base.errors import SingletonError, StorageError
from singleton.base.naming import log as _log
from singleton.base.words import did_you_mean, listed, quoted
from singleton.operating.alike import names_like, prefixes_like

if TYPE_CHECKING:
    from collections.abc import Iterable

    from singleton.operating.listing import Met
    from singleton.stores.lock_keeping import LockKeeping

NO_LOCK: Final = "no such lock"
"""The reason of an error that says so."""
_ANSWER: Final = 10.0
"""Seconds for a look at names that may have been meant: what is said without them is true as well."""


async def no_such_lock(keeping: LockKeeping, container: str, name: str) -> StorageError:
    """Return the error that says that there is no lock of this name, and which may have been meant."""
    like: list[str] = []
    with contextlib.suppress(SingletonError):
        like = await names_like(keeping, container, name, answer=_ANSWER)
    return StorageError(lock_is_missing(container, name, like), lock=name, reason=NO_LOCK, status=404)


async def warn_of_nothing(keeping: LockKeeping, container: str, met: Met, function: str | None, prefix: str) -> None:
    """Log a warning where a listing had no lock with this prefix, or none of this function, though there are others."""
    if not met.locks and prefix:
        like = None
        with contextlib.suppress(SingletonError):
            like = await prefixes_like(keeping, container, prefix, answer=_ANSWER)
        if like is not None:
            _log.warning("%s", prefix_is_missing(container, prefix, like))
    elif met.locks and not met.unsure:
        warn_of_function(container, function, met.functions)


def warn_of_function(container: str, function: str | None, functions: Iterable[str]) -> None:
    """Log a warning where these functions have locks, and this one has none."""
    known = sorted(functions)
    if function is not None and function not in known:
        _log.warning("%s", function_is_missing(container, function, known))


def lock_is_missing(container: str, name: str, like: Iterable[str]) -> str:
    """Say that there is no lock of this name; ``like``: those that may have been meant."""
    return (
        f"there is no lock {name!r} in container {container!r}: its name is wrong, or it was never taken, or "
        f"it was swept{_hint(like)}"
    )


def prefix_is_missing(container: str, prefix: str, like: Iterable[str]) -> str:
    """Say that no lock's name begins so; ``like``: beginnings that may have been meant."""
    return f"no lock in container {container!r} has a name that begins with {prefix!r}{_hint(like)}"


def function_is_missing(container: str, function: str, functions: Iterable[str], prefix: str = "") -> str:
    """Say that no lock is this function's, among those whose names begin so; ``functions``: those that have any."""
    among = f" with a name that begins with {prefix!r}" if prefix else ""
    known = sorted(functions)
    others = f". Those that have any: {listed(known)}" if known else ": no function has a lock there"
    hint = did_you_mean(function, known) or others
    return f"there is no lock of function {function!r}{among} in container {container!r}{hint}"


def _hint(like: Iterable[str]) -> str:
    """Return the question whether one of these was meant; names are whole, so that they can be copied."""
    names = ", ".join(quoted(name, 1024) for name in like)
    return f". Did you mean {names}?" if names else ""
