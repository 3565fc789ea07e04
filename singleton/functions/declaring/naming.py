"""The arguments of ``@singleton`` that name a lock, and those that are one of some words: checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from singleton.base.errors import ConfigurationError

if TYPE_CHECKING:
    from singleton.base.kinds import Level
    from singleton.layouts.named import LayoutName


def check_name(name: object, layout: LayoutName, level: Level, dotnet_name: str | None) -> None:
    """Refuse a name of a function that can't stand in the name of its lock.

    Raises:
        ConfigurationError: it is no text, or does not go with the layout or level.
    """
    from singleton.base.words import quoted

    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(
            f"name is {quoted(name)}: give the function's name for the lock's name, such as 'ship'"
        )
    if layout == "dequeueable":
        raise ConfigurationError(
            f"name={name!r}: the locks of layout='dequeueable' have no function's name, the scope is the whole name: "
            "leave it out"
        )
    if level == "host":
        raise ConfigurationError(f"name={name!r}: the locks of level='host' have no function's name: leave it out")
    if dotnet_name is not None:
        raise ConfigurationError(
            f"name={name!r} and dotnet_name={dotnet_name!r} are both given: both name the function. Keep "
            "dotnet_name for a precompiled C# method, or name for any other function"
        )
    if layout == "webjobs" and "." in name:
        raise ConfigurationError(
            f"name={name!r} has a dot, and no function of a Functions host has one in its name: for the full name of a "
            "C# method give dotnet_name"
        )


def check_dotnet_name(name: object, layout: LayoutName, level: Level) -> None:
    """Refuse a full name of a C# method that is none, or does not go with the layout or level.

    Raises:
        ConfigurationError: it is so.
    """
    from singleton.layouts.webjobs import check_dotnet_name as check_full_name

    check_full_name(name)
    if layout != "webjobs":
        raise ConfigurationError(f"dotnet_name={name!r} is for layout='webjobs' only, and layout is {layout!r}")
    if level == "host":
        raise ConfigurationError(
            f"dotnet_name={name!r}: the locks of level='host' have no function's name: leave it out"
        )


def check_scope_hash(value: object, layout: LayoutName, *, scoped: bool) -> None:
    """Refuse what ``scope_hash`` can't be.

    Raises:
        ConfigurationError: it is no switch, there is nothing to hash, or the layout has no hashes.
    """
    if value is not True:
        raise ConfigurationError(f"scope_hash is {value!r}: give True or False")
    if layout != "default":
        raise ConfigurationError(
            f"scope_hash=True is for layout='default' only, and layout is {layout!r}: the locks "
            "of that layout have the value itself in their names"
        )
    if not scoped:
        raise ConfigurationError("scope_hash=True needs a scope or a scope_id: there is nothing to hash")


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse what is not among the words allowed.

    Raises:
        ConfigurationError: it is not.
    """
    if value in allowed:
        return
    from singleton.base.words import did_you_mean, quoted

    hint = did_you_mean(str(value), allowed)
    raise ConfigurationError(f"{name} is {quoted(value)}: it must be one of {', '.join(map(repr, allowed))}{hint}")
