"""``OldLock``, and what it says of the declaration of older versions."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import ConfigurationError
from singleton.base.kinds import LayoutName  # noqa: TC001 - a public type, whose hints may be asked for
from singleton.settings.argument_names import with_explained_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import SimpleNamespace

_NAMES: Final = {"default": ("name",), "webjobs": ("name", "dotnet_name"), "dequeueable": ()}
"""What names the function in a lock's name, by the layout."""


@with_explained_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class OldLock:
    """The lock of a function as known to older versions of the app that still run while a new version starts.

    Give only the differences. An attribute that is left out is as in the new declaration, or as in the old layout.

    Attributes:
        name: the function's name in the lock's name, if the function was renamed; ``""``: ``name`` was not given.
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


def older(given: SimpleNamespace, also: OldLock) -> dict[str, Any]:
    """Return the arguments of the old version, as far as the arguments name the lock."""
    layout = also.layout or given.layout
    named = {key: value for key in ("name", "dotnet_name") if (value := getattr(also, key)) is not None}
    if not named:
        named = {key: getattr(given, key) for key in _NAMES.get(layout, ())}
    hashed = given.scope_hash and layout == "default"
    changes = {
        "also": None,
        "layout": layout,
        "name": named.get("name") or None,
        "dotnet_name": named.get("dotnet_name") or None,
        "scope_hash": hashed if also.scope_hash is None else also.scope_hash,
    }
    if layout == "dequeueable":
        changes |= dict.fromkeys(given.options)
    return {**vars(given), **changes}


def options_of(also: OldLock, layout: LayoutName) -> Mapping[str, str]:
    """Return the options that differ for the old lock. ``ConfigurationError``: one has no effect with the layout."""
    if also.host_id is not None and layout == "dequeueable":
        raise ConfigurationError("the locks of layout='dequeueable' have no host id in their names: leave host_id out")
    if also.container is not None and layout == "webjobs":
        raise ConfigurationError(
            "the locks of layout='webjobs' are always in the container of the Functions host: leave container out"
        )
    given = {"host_id": also.host_id, "container": also.container}
    return {key: value for key, value in given.items() if value is not None}
