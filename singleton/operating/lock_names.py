"""Names of functions' locks for callers outside of the function: from the host id and the container's layout."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from singleton.base.errors import ConfigurationError, SingletonError
from singleton.base.invocation import log as _log
from singleton.base.words import quoted
from singleton.dotnet.dequeueable import DequeueableLayout, DequeueableOptions
from singleton.dotnet.webjobs import CONTAINER as WEBJOBS
from singleton.dotnet.webjobs import WebJobsLayout
from singleton.layouts.blob_name import hashed_scope, semaphore_name
from singleton.layouts.layout import Layout
from singleton.locking.semaphore import checked_limit
from singleton.settings.hostid import host_id, in_development, is_machine_bound
from singleton.settings.options import find_app_dir, load_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from singleton.base.kinds import Level
    from singleton.settings.options import SingletonOptions


_MOST_SCOPES: Final = 2
"""Values of a lock's scope: those of ``scope_id`` and of ``scope``."""


def scope_values(scope: object) -> tuple[str, ...]:
    """Return the values of a scope, given as a text or as a list of texts.

    Raises:
        ConfigurationError: ``scope`` is of another type.
    """
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
        _warn_of_machine(app)


@cache
def _warn_of_machine(app: str) -> None:
    _log.warning(
        "host id %r is made of this machine and folder, so no lock of an app in Azure has it in its name. In Azure it "
        "is made of the app's name: give SingletonOptions(host_id=...)",
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
    """Return the name of a function's lock in this container. See ``LockClient.lock_name``.

    Raises:
        ConfigurationError, ScopeError: no lock can have the name.
    """
    if not isinstance(function, str):
        raise ConfigurationError(f"function is {quoted(function)}: give its name, a text")
    for scope in scopes:
        if not isinstance(scope, str):
            raise ConfigurationError(
                f"scope has {quoted(scope)}: give the text of the value, such as '5' for the number 5"
            )
    if len(scopes) > _MOST_SCOPES:
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


def dequeueable_name(scopes: Sequence[str]) -> str:
    """Return the name of the lock of this scope with ``layout="dequeueable"``: the scope's value, for any function.

    Raises:
        ConfigurationError, ScopeError: no lock can have the name, or ``scopes`` has not exactly one value.
    """
    return DequeueableLayout(DequeueableOptions()).lock("", "", scopes)


def may_be_dequeueable(name: str) -> bool:
    """Tell whether the name is possible with ``layout="dequeueable"``; no part of the name tells the layout."""
    try:
        return dequeueable_name((name,)) == name
    except SingletonError:
        return False
