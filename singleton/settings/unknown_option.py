"""What is said of an option that there is none of: what was meant, or where it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from singleton.base.words import did_you_mean, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

FOR_ONE_FUNCTION: Final = (
    *("scope", "scope_id", "level", "mode", "limit", "on_contention", "max_waiting", "when_full", "at_least"),
    *("max_hold", "name", "connection", "layout", "dotnet_name", "scope_hash", "also"),
)
"""Arguments of ``@singleton`` that are no options of the app."""


def no_such_option(name: str, known: Iterable[str]) -> str:
    """Say that there is no such option, with the nearest one and all."""
    return f"there is no option {quoted(name)}{did_you_mean(name, known) or '.'} The options are {', '.join(known)}."


def no_such_key(key: str, known: Iterable[str]) -> str:
    """Say what is wrong with a key of host.json, or of an app setting; and where its argument is given instead."""
    folded = key.replace("_", "").casefold()
    if folded == "timeout":
        return f"there is no option {quoted(key)}: write lockAcquisitionTimeout"
    for name in FOR_ONE_FUNCTION:
        if folded == name.replace("_", ""):
            return f"there is no option {quoted(key)} for the whole app: give {name} to each @singleton that needs it"
    return no_such_option(key, known)
