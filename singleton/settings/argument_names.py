"""Unknown arguments: the message names the argument that does the job, also for names of other libraries."""

from __future__ import annotations

import re
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from singleton.base.callables import returns_coroutine
from singleton.base.words import did_you_mean, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_T = TypeVar("_T")
_F = TypeVar("_F", bound="Callable[..., Any]")

_MEANINGS: Final = {
    "scope": "path of a property in the message, as in @singleton(scope='Id')",
    "scope_id": "template, as in @singleton(scope_id='{Tenant}')",
    "name": "name of the lock, as in locks.lock(name)",
    "timeout": "seconds of waiting, however many requests, as in locks.lock(name, timeout=…)",
    "lock_acquisition_timeout": "seconds of waiting, however many requests",
    "on_contention": "'raise' or @singleton's 'skip' does not wait; for a client timeout=0, or locks.try_lock(name)",
    "lock_period": "seconds of a lease, which is renewed while the holder lives",
    "max_hold": "seconds after which the lock is lost though the body runs, as in locks.lock(name, max_hold=…)",
    "at_least": "seconds for which the lock is kept after short work, too, as in locks.lock(name, at_least=…)",
    "limit": "greatest number at a time, as in locks.semaphore(name, limit)",
    "lock_acquisition_polling_interval": "longest pause between two requests for a held lock",
    "every": "seconds from tick to tick, as in locks.periodic(name, work, every=…)",
    "renewal_interval": "seconds between two renewals; every lease is renewed",
    "connection": "app setting of the storage account, as in LockClient('AzureWebJobsStorage')",
    "key": "key of an operation, as in @once(key='Id') and once(locks, key)",
    "keep": "seconds for which a result is kept, as in @once(key='Id', keep=3600)",
}
"""Arguments that strangers look for, in the order in which a message names the arguments."""
_ELSEWHERE: Final = {
    "id key keys lock_id lock_key lock_name lockname resource": ("scope", "scope_id", "name", "key"),
    "acquire_timeout attempts blocking_timeout lock_acquisition_timeout max_retries max_wait retries retry retry_count "
    "timeout wait wait_timeout": ("timeout", "lock_acquisition_timeout"),
    "block blocking coalesce fail_when_locked graceful nowait": ("on_contention",),
    "auto_release_time duration expiration expire expires expiry lease lease_duration lease_time lifetime lock_timeout "
    "lock_ttl ttl": ("lock_period", "max_hold", "keep"),
    "at_most lock_at_most_for max_duration": ("max_hold", "limit"),
    "lock_at_least_for min_duration misfire_grace_time": ("at_least",),
    "concurrency max_concurrency max_concurrent max_count max_instances permits slots value": ("limit",),
    "interval": ("lock_acquisition_polling_interval", "every"),
    "busy_wait_sleep_time check_interval poll_interval retry_delay retry_interval sleep": (
        "lock_acquisition_polling_interval",
    ),
    "auto_renew auto_renewal heartbeat keep_alive renew renewal_cadence": ("renewal_interval",),
    "idempotency_key once": ("key",),
    "account account_name storage": ("connection",),
}
"""Names in other libraries, with the arguments here."""
OPTIONS: Final[dict[str, str]] = {}
"""How the options of the whole app are set. ``options.py`` fills the table."""


def no_such_argument(of: str, keyword: str, names: Collection[str]) -> str:
    """Return an error message for an unknown ``keyword`` of a function with the arguments ``names``."""
    said, meant = f"{of} has no argument {quoted(keyword)}", meant_by(keyword)
    if meant[0] in names:
        return f"{said}: write {meant[0]}"
    if here := [f"{name} ({_MEANINGS[name]})" for name in _MEANINGS if name in names and name in meant]:
        return f"{said}: give {' or '.join(here)}"
    if option := next((name for name in meant[:2] if name in OPTIONS), None):
        return f"{said}: {option} is an option of the whole app. {OPTIONS[option]}"
    if found := next((name for name in (*meant[1:], meant[0]) if name in _MEANINGS), None):
        return f"{said}: another call has {found} ({_MEANINGS[found]})"
    return f"{said}{did_you_mean(keyword, names) or '.'} Its arguments are {', '.join(names)}"


def meant_by(word: str) -> list[str]:
    """Return this word in snake case, and the arguments here for the word of another library."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower()
    return [snake, *(name for words, found in _ELSEWHERE.items() if snake in words.split() for name in found)]


def explained(function: _F) -> _F:
    """Have a call with an unknown argument say which argument does the job."""
    code = function.__code__
    names = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    known = dict.fromkeys(name for name in names if name != "self").keys()

    def refuse(args: tuple[Any, ...], given: Collection[str]) -> NoReturn:
        unknown = next(name for name in given if name not in known)
        of = f"{type(args[0]).__name__}.{function.__name__}" if "self" in names else function.__name__
        raise TypeError(no_such_argument(of.removesuffix(".__init__"), unknown, known))

    @wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        if not known >= given.keys():
            refuse(args, given)
        return function(*args, **given)

    @wraps(function)
    async def call_async(*args: Any, **given: Any) -> Any:
        if not known >= given.keys():
            refuse(args, given)
        return await function(*args, **given)

    return call_async if returns_coroutine(function) else call  # type: ignore[return-value]


def with_explained_arguments(owner: type[_T]) -> type[_T]:
    """Have each public method of a class that takes arguments by name say which argument does the job."""
    for name, method in [*vars(owner).items()]:
        if isinstance(method, FunctionType) and method.__kwdefaults__ and (name == "__init__" or name[:1] != "_"):
            setattr(owner, name, explained(method))
    return owner
