"""Unknown arguments: the message names the argument that does the job, also for names of other libraries."""

from __future__ import annotations

import inspect
import re
import sys
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
    "key": "key of an operation, as in @once with a key, and in once(locks, key)",
    "name": "name of the lock, as in locks.lock(name)",
    "timeout": "seconds of waiting, however many requests, as in locks.lock(name, timeout=…)",
    "lock_acquisition_timeout": "seconds of waiting, however many requests",
    "on_contention": "'raise' or @singleton's 'skip' does not wait",
    "lock_period": "seconds of a lease, which is renewed while the holder lives",
    "max_hold": "seconds after which the lock is lost though the body runs, as in locks.lock(name, max_hold=…)",
    "at_least": "seconds for which the lock is kept after short work, too, as in locks.lock(name, at_least=…)",
    "limit": "greatest number at a time, as in locks.semaphore(name, limit)",
    "lock_acquisition_polling_interval": "longest pause between two requests for a held lock",
    "every": "seconds from tick to tick, as in locks.periodic(name, work, every=…)",
    "renewal_interval": "seconds between two renewals; every lease is renewed",
    "connection": "app setting of the storage account, as in LockClient('AzureWebJobsStorage')",
    "keep": "seconds for which a result is kept, as in once(locks, key, keep=3600)",
}
"""Arguments that strangers look for, in the order in which a message names the arguments."""
_ELSEWHERE: Final = {
    "id key keys lock_id lock_key lock_name lockname resource scope scope_id": ("scope", "scope_id", "name", "key"),
    "acquire_timeout attempts blocking_timeout lock_acquisition_timeout max_retries max_wait retries retry retry_count "
    "timeout wait wait_timeout": ("timeout", "lock_acquisition_timeout"),
    "block blocking fail_when_locked graceful nowait": ("on_contention",),
    "lease lease_duration lease_time lock_timeout lock_ttl": ("lock_period", "max_hold"),
    "auto_release_time duration expiration expire expires expiry lifetime ttl": ("lock_period", "max_hold", "keep"),
    "at_most lock_at_most_for max_duration": ("max_hold", "limit"),
    "lock_at_least_for min_duration": ("at_least",),
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
_NO_ARGUMENT: Final = {
    "block blocking fail_when_locked graceful nowait": "timeout=0 does not wait, and locks.try_lock(name) gives None",
    "coalesce": "leave it out, because a timer trigger fires once for all ticks that were missed; or, for one more run "
    "after the last change, give on_contention='coalesce'",
    "fair fairness fifo": "leave it out. Waiters of one process take turns; @ordered handles messages in their order",
    "misfire_grace_time": "ask timer.past_due in the body; at_least=30 is for instances whose clocks differ",
}
"""What to do for names in other libraries where no argument here does the job."""
_IN_LEADERSHIP: Final = {
    "lock_period": "listener_lock_period",
    "lock_acquisition_polling_interval": "listener_lock_recovery_polling_interval",
}
"""Options for a leadership, where other locks have the first ones."""
OPTIONS: Final[dict[str, str]] = {}
"""How the options of the whole app are set. ``options.py`` fills the table."""


def no_such_argument(of: str, keyword: str, names: Collection[str]) -> str:
    """Return an error message for an unknown ``keyword`` of a function with the arguments ``names``."""
    said, meant = f"{of} has no argument {quoted(keyword)}", meant_by(keyword)
    if meant[0] in names:
        return f"{said}: write {meant[0]}"
    if here := [f"{name} ({_MEANINGS[name]})" for name in _MEANINGS if name in names and name in meant]:
        return f"{said}: give {' or '.join(here)}"
    if instead := next((said for words, said in _NO_ARGUMENT.items() if meant[0] in words.split()), None):
        return f"{said}: {instead}"
    if option := next((name for name in meant[:2] if name in OPTIONS), None):
        option = _IN_LEADERSHIP.get(option, option) if of.endswith(".leadership") else option
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
    bounded = code.co_kwonlyargcount and not code.co_flags & inspect.CO_VARARGS
    most = code.co_argcount if bounded else sys.maxsize

    def refuse(args: tuple[Any, ...], given: Collection[str]) -> NoReturn:
        of = f"{type(args[0]).__name__}.{function.__name__}" if "self" in names and args else function.__qualname__
        of = of.removesuffix(".__init__")
        if len(args) > most:
            first = ", ".join(name for name in code.co_varnames[:most] if name != "self")
            left, by_name = quoted(args[most]), code.co_varnames[most]
            takes = f"takes {f'only {first}' if first else 'nothing'} without a name"
            raise TypeError(f"{of} {takes}: give {left} by name, such as {by_name}")
        raise TypeError(no_such_argument(of, next(name for name in given if name not in known), known))

    @wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        if len(args) > most or not known >= given.keys():
            refuse(args, given)
        return function(*args, **given)

    @wraps(function)
    async def call_async(*args: Any, **given: Any) -> Any:
        if len(args) > most or not known >= given.keys():
            refuse(args, given)
        return await function(*args, **given)

    return call_async if returns_coroutine(function) else call  # type: ignore[return-value]


def with_explained_arguments(owner: type[_T]) -> type[_T]:
    """Have each public method of a class that takes arguments by name say which argument does the job."""
    for name, method in [*vars(owner).items()]:
        if isinstance(method, FunctionType) and method.__kwdefaults__ and (name == "__init__" or name[:1] != "_"):
            setattr(owner, name, explained(method))
    return owner
