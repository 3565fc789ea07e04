"""``also=OldLock(…)``: under which name the versions of an app that still run know a function's lock."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import ConfigurationError
from singleton.functions.arguments import Arguments, guard_by

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from singleton.base.kinds import Mode
    from singleton.functions.guard import Guard
    from singleton.functions.triggers import Trigger
    from singleton.layouts.named import LayoutName

_NAMES: Final = {"default": ("name",), "webjobs": ("name", "dotnet_name"), "dequeueable": ()}
"""What names the function in a lock's name, by the layout."""
_SOME_HOST: Final = "0"
"""Stands for a host id that is not known before an invocation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldLock:
    """The lock of a function as those versions of the app know it that still run while this one starts.

    Give what was different before. What is left out is as in the new declaration, or as the old layout has it.

    Attributes:
        name: the function's name in the lock's name, where the function was renamed; ``""``: ``name`` was not given.
        scope_hash: whether a hash of the scope stood in the lock's name.
        host_id: the host id of the app, which stands in the lock's name.
        layout: where the lock's blob was: ``"default"``, ``"webjobs"`` or ``"dequeueable"``.
        container: the container of the lock's blob, in the same storage account.
        dotnet_name: the full name of the C# method, with ``"webjobs"``; ``""``: ``dotnet_name`` was not given.

    Example:
        >>> from singleton import OldLock, singleton
        >>> @singleton(scope="Id", scope_hash=True, also=OldLock(scope_hash=False))
        ... def ship(msg: bytes) -> None: ...
    """

    name: str | None = None
    scope_hash: bool | None = None
    host_id: str | None = None
    layout: LayoutName | None = None
    container: str | None = None
    dotnet_name: str | None = None

    def __str__(self) -> str:
        given = ((each.name, getattr(self, each.name)) for each in fields(self))
        return f"OldLock({', '.join(f'{key}={value!r}' for key, value in given if value is not None)})"


def guard_with_old_lock(
    given: Arguments,
    target: Any,
    trigger: Callable[[], Trigger | None],
    known: Trigger | None,
    modes: Collection[Mode],
) -> Guard:
    """Return the guard of a function that takes its lock under the old name, too. The arguments are ``guard_by``'s.

    Raises:
        ConfigurationError: as ``guard_by``; or ``also`` is wrong, does not go with another argument, or names the
            same lock.
    """
    guard = guard_by(given, target, trigger, known, modes)
    also = given.also
    if not isinstance(also, OldLock):
        raise ConfigurationError(f"also is {also!r}: give what was different before, such as OldLock(scope_hash=False)")
    _refuse(given)
    try:
        older = _older(given, also)
        old = guard_by(older, target, trigger, known, ())
        old = replace(old, options=old.options.replace(**_options(also, older.layout)))
    except ConfigurationError as error:
        raise ConfigurationError(f"also={also}: {error}") from None
    if _known_name(old) == _known_name(guard):
        raise ConfigurationError(
            f"also={also} on {guard.function} names the lock that the function has anyway. Say what was different "
            "before, or leave also= out",
            reason="old-lock-is-the-same",
        )
    return replace(guard, also=old)


def _refuse(given: Arguments) -> None:
    """Refuse ``also`` where no two locks can be held around an invocation."""
    if given.mode == "listener":
        raise ConfigurationError(
            "also= goes with mode='function' only: a listener keeps its lock until its process ends. Stop the old "
            "version before the new one starts, and leave also= out"
        )
    if given.limit is not None:
        raise ConfigurationError(
            f"also= does not go with limit={given.limit}: stop the old version before the new one starts, and leave "
            "also= out"
        )
    if given.layout == "dequeueable":
        raise ConfigurationError(
            "also= does not go with layout='dequeueable', which waits by attempts for one lock: stop the old version "
            "before the new one starts, and leave also= out. OldLock(layout='dequeueable') does go"
        )


def _older(given: Arguments, also: OldLock) -> Arguments:
    """Return the arguments that the old version had, as far as they name its lock."""
    layout = also.layout or given.layout
    named = {key: value for key in ("name", "dotnet_name") if (value := getattr(also, key)) is not None}
    if not named:
        named = {key: getattr(given, key) for key in _NAMES.get(layout, ())}
    hashed = given.scope_hash and layout == "default"
    return replace(
        given,
        also=None,
        layout=layout,
        name=named.get("name") or None,
        dotnet_name=named.get("dotnet_name") or None,
        scope_hash=hashed if also.scope_hash is None else also.scope_hash,
        options=dict.fromkeys(given.options) if layout == "dequeueable" else given.options,
    )


def _options(also: OldLock, layout: LayoutName) -> Mapping[str, str]:
    """Return the options that differ for the old lock.

    Raises:
        ConfigurationError: one has no effect with its layout.
    """
    if also.host_id is not None and layout == "dequeueable":
        raise ConfigurationError("the locks of layout='dequeueable' have no host id in their names: leave host_id out")
    if also.container is not None and layout == "webjobs":
        raise ConfigurationError(
            "the locks of layout='webjobs' are always in the container of the Functions host: leave container out"
        )
    given = {"host_id": also.host_id, "container": also.container}
    return {key: value for key, value in given.items() if value is not None}


def _known_name(guard: Guard) -> tuple[str, str]:
    """Return container and name of a lock of this guard, as far as they are known before an invocation."""
    from singleton.layouts.naming import hashed_scope

    scopes = ["1" for given in (guard.scope, guard.scope_id) if given]
    if guard.scope_hash:
        scopes = [*map(hashed_scope, scopes)]
    host, function = guard.options.host_id or _SOME_HOST, guard.name or guard.function
    return guard.options.container, guard.layout.lock(host, function, scopes, guard.level)
