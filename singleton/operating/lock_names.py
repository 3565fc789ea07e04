"""Names of functions' locks for callers outside of the functions, and errors with suggestions for unknown names."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from singleton.base.errors import ConfigurationError, SingletonError, StorageError
from singleton.base.invocation import log as _log
from singleton.base.invocation import warn_once
from singleton.base.words import did_you_mean, listed, quoted
from singleton.dotnet.webjobs import CONTAINER as WEBJOBS
from singleton.dotnet.webjobs import WebJobsLayout
from singleton.layouts.blob_name import hashed_scope, semaphore_name
from singleton.layouts.layout import Layout
from singleton.locking.semaphore import checked_limit, slot_name
from singleton.operating.container import next_page
from singleton.operating.locks import lock_info
from singleton.operating.name_parts import MOST_SCOPES
from singleton.settings.hostid import host_id, in_development, is_machine_bound
from singleton.settings.options import find_app_dir, load_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from singleton.base.kinds import Level
    from singleton.operating.locks import LockInfo, Met
    from singleton.settings.options import SingletonOptions
    from singleton.stores.lock_keeping import BlobStore


def scope_values(scope: object) -> tuple[str, ...]:
    """Return the values of a scope, a text or a list of texts. ``ConfigurationError``: ``scope`` is of another type."""
    if isinstance(scope, str):
        return (scope,)
    if isinstance(scope, bytes) or not isinstance(scope, Iterable):
        raise ConfigurationError(
            f"scope is {quoted(scope)}: give the text of the value, such as '5' for the number 5, or a list of texts"
        )
    return tuple(scope)


def app_id(options: SingletonOptions) -> str:
    """Return the host id in the names of the app's locks: the option, else the id that the host would make here."""
    if options.host_id is not None:
        return options.host_id
    app_dir = find_app_dir(Path.cwd(), os.environ)
    return load_options(app_dir, os.environ).host_id or host_id(os.environ, app_dir)


def warn_of_machine(app: str, options: SingletonOptions) -> None:
    """Log a warning, once, for a host id made of this machine where the Functions host does not run."""
    if options.host_id is not None or in_development(os.environ) or not is_machine_bound(os.environ):
        return
    app_dir = find_app_dir(Path.cwd(), os.environ)
    if load_options(app_dir, os.environ).host_id is None:
        warn_once(
            "host id %r is made of this machine and folder, so no lock of an app in Azure has it in its name. In Azure "
            "it is made of the app's name: give SingletonOptions(host_id=...)",
            app,
        )


def layout_in(container: str) -> Layout:
    """Return the layout of functions' locks in this container."""
    return WebJobsLayout() if container == WEBJOBS else Layout()


def name_in(
    container: str,
    app: str,
    function: str,
    scopes: Sequence[str],
    level: Level,
    *,
    listener: bool,
    scope_hash: bool,
    limit: int | None = None,
) -> str:
    """Return the name of a function's lock in this container. See ``LockClient.lock_name``."""
    if not isinstance(function, str):
        raise ConfigurationError(f"function is {quoted(function)}: give its name, a text")
    for scope in scopes:
        if not isinstance(scope, str):
            raise ConfigurationError(
                f"scope has {quoted(scope)}: give the text of the value, such as '5' for the number 5"
            )
    if len(scopes) > MOST_SCOPES:
        raise ConfigurationError(
            f"scope has {len(scopes)} values, and a function's lock has two at most: that of scope_id, then that of "
            "scope"
        )
    if scope_hash and container == WEBJOBS:
        raise ConfigurationError(
            "scope_hash is for layout='default' only: "
            f"the locks in {WEBJOBS!r} have the scope's value itself in their names"
        )
    if scope_hash and not scopes:
        raise ConfigurationError("scope_hash needs a scope: there is nothing to hash")
    if listener and level == "host":
        raise ConfigurationError(
            "level='host' and listener=True: no declaration has such a lock, as each function has its own listener. "
            "Leave one of them out"
        )
    values = [hashed_scope(scope) for scope in scopes] if scope_hash else scopes
    name = layout_in(container).lock(app, function, values, level, listener=listener)
    if limit is None:
        return name
    if listener or container == WEBJOBS:
        raise ConfigurationError(
            f"limit={limit!r} is for layout='default' and mode='function' only: no other lock is a semaphore"
        )
    checked_limit(limit)
    return semaphore_name(name)


NO_LOCK: Final = "no such lock"
"""Reason of the error for a lock that does not exist."""
_ANSWER: Final = 10.0
"""Seconds for the search for suggestions: the error is true without suggestions, too."""


async def no_such_lock(store: BlobStore, container: str, name: str) -> StorageError:
    """Return the error for a lock that does not exist."""
    like: list[str] = []
    with contextlib.suppress(SingletonError):
        like = await names_like(store, container, name, answer=_ANSWER)
    return StorageError(lock_is_missing(container, name, like), lock=name, reason=NO_LOCK, status=404)


def lock_is_missing(container: str, name: str, like: Iterable[str]) -> str:
    """Return the error text for a lock that does not exist; ``like``: suggested names."""
    return (
        f"there is no lock {name!r} in container {container!r}: its name is wrong, or it was never taken, or "
        f"it was swept{_hint(like)}"
    )


async def warn_of_nothing(store: BlobStore, container: str, met: Met, function: str | None, prefix: str) -> None:
    """Log a warning where a listing has nothing of what was asked for. See ``nothing_listed``."""
    with contextlib.suppress(SingletonError):
        if (said := await nothing_listed(store, container, met, function, prefix, answer=_ANSWER)) is not None:
            _log.warning("%s", said)


async def nothing_listed(
    store: BlobStore, container: str, met: Met, function: str | None, prefix: str, *, answer: float
) -> str | None:
    """Say what is wrong with a function or a prefix that no lock has; None: nothing, or there is no lock at all yet."""
    if not met.locks:
        return await prefix_is_missing(store, container, prefix, answer=answer) if prefix else None
    if function is None or function in met.functions or met.unsure:
        return None
    among = f" with a name that begins with {prefix!r}" if prefix else ""
    known = sorted(met.functions)
    others = f". Those that have any: {listed(known)}" if known else ": no function has a lock there"
    hint = did_you_mean(function, known) or others
    return f"there is no lock of function {function!r}{among} in container {container!r}{hint}"


async def prefix_is_missing(store: BlobStore, container: str, prefix: str, *, answer: float) -> str | None:
    """Return the error text for a prefix without locks; None: the container has no lock yet."""
    like = await prefixes_like(store, container, prefix, answer=answer)
    if like is None:
        return None
    return f"no lock in container {container!r} has a name that begins with {prefix!r}{_hint(like)}"


def _hint(like: Iterable[str]) -> str:
    """Return the question with the suggested names, in full, so that a user can copy a name."""
    names = ", ".join(quoted(name, 1024) for name in like)
    return f". Did you mean {names}?" if names else ""


_READ: Final = 1000
"""Names read in search of suggestions."""
_SHOWN: Final = 3
_WORD: Final = re.compile(r"\w+")
_PART: Final = re.compile(r"(?<=[/.])")


async def names_like(store: BlobStore, container: str, name: str, *, answer: float) -> list[str]:
    """Return a few names of locks as suggestions for a name without a blob.

    First the locks of the function of this name, and names with this end; else names with a similar spelling; else
    names that end alike, or have the words of the given name in this order, such as a function and a scope's value.
    """
    typed = _WORD.findall(unquote(name).casefold())
    names: set[str] = set()
    exact: list[str] = []
    close: list[str] = []
    parts: list[str] = []
    for prefix in _beginnings(name):
        locks = await _some(store, container, prefix, answer)
        names.update(lock.name for lock in locks)
        exact += [lock.name for lock in locks if name in (lock.function, lock.name.rpartition("/")[2])]
        parts += [lock.name for lock in locks if typed and _has_words(lock.name, typed)]
        close = close or difflib.get_close_matches(name, names, n=_SHOWN, cutoff=0.75)
        if close and "/" in name:
            return close
    if found := exact or close:
        return list(dict.fromkeys(found))[:_SHOWN]
    ends = {known.rpartition("/")[2]: known for known in names}
    parts += [ends[end] for end in difflib.get_close_matches(name, ends, n=_SHOWN, cutoff=0.75)]
    return list(dict.fromkeys(parts))[:_SHOWN]


def _has_words(name: str, typed: Iterable[str]) -> bool:
    """Tell whether the words of a lock's name have these beginnings, in this order."""
    words = iter(_WORD.findall(unquote(name).casefold()))
    return all(any(word.startswith(begin) for word in words) for begin in typed)


async def prefixes_like(store: BlobStore, container: str, prefix: str, *, answer: float) -> list[str] | None:
    """Return a few beginnings of names as suggestions for a prefix without locks.

    None: the container has no lock at all, so the prefix may be right.
    """
    found: set[str] = set()
    for start in _beginnings(prefix):
        for lock in await _some(store, container, start, answer):
            ends = [match.start() for match in _PART.finditer(lock.name)]
            found.update(lock.name[:end] for end in (*ends, len(lock.name)))
        if close := difflib.get_close_matches(prefix, found, n=_SHOWN):
            return close
    holding = sorted((text for text in found if prefix.casefold() in text.casefold()), key=len)
    return holding[:1] if found else None


async def slots_of(store: BlobStore, container: str, name: str, *, answer: float) -> list[LockInfo]:
    """Return the slots of the semaphore of this name, in the order of their numbers."""
    slots = [lock for lock in await _some(store, container, slot_name(name, 0)[:-1], answer) if is_slot(lock, name)]
    return sorted(slots, key=lambda lock: int(lock.name.rpartition("-")[2]))


def is_slot(lock: LockInfo, name: str) -> bool:
    """Tell whether this lock is a slot of the semaphore of this name."""
    number = lock.name.rpartition("-")[2]
    return number.isascii() and number.isdigit() and lock.name == slot_name(name, int(number))


def _beginnings(text: str) -> list[str]:
    """Return the prefixes to search for suggestions for a text: the nearest first."""
    folder = text[: text.rfind("/") + 1]
    return list(dict.fromkeys((text[: len(folder) + 3], folder, "")))


async def _some(store: BlobStore, container: str, prefix: str, answer: float) -> list[LockInfo]:
    page = await next_page(store, container, prefix, None, _READ, answer=answer)
    return [lock for blob in page.entries if (lock := lock_info(blob, container)) is not None]
