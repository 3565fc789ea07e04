"""App settings, read by the rules of the Functions host."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from singleton.base.forks import cached_property

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@lru_cache(maxsize=2048)  # a setting that is missing is looked for among all, once for each guard
def normalised(name: str) -> str:
    """Return a form in which two spellings of one setting are equal: case is ignored, ``:`` is ``__``."""
    return name.replace(":", "__").casefold()


class Environment(dict[str, str]):
    """The app settings of this process at a moment. It equals no other one, so it may be the key of a cache."""

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__
    __ne__ = object.__ne__

    @cached_property
    def normalised(self) -> dict[str, str]:
        """The settings by their names in normalised form. Of two spellings, the first counts."""
        return {normalised(name): self[name] for name in reversed(self)}


_last: Final[list[tuple[dict[Any, Any], Environment]]] = [({}, Environment())]


def environment() -> Environment:
    """Return the app settings of this process: the same object, until one of them changes."""
    raw = getattr(os.environ, "_data", os.environ)  # os.environ itself decodes each name and value at every look
    if raw != _last[0][0]:
        _last[0] = dict(raw), Environment(os.environ)
    return _last[0][1]


def setting(settings: Mapping[str, str], name: str) -> str | None:
    """Return the value of the setting, or None; the exact spelling wins.

    >>> setting({"azurewebjobsstorage:accountname": "orders"}, "AzureWebJobsStorage__accountName")
    'orders'
    """
    exact = settings.get(name)
    if exact is not None:
        return exact
    wanted = normalised(name)
    if isinstance(settings, Environment):
        return settings.normalised.get(wanted)
    # os.environ decodes a value at every read, and another thread may delete the variable meanwhile.
    values = (settings.get(spelt) for spelt in settings if normalised(spelt) == wanted)
    return next((value for value in values if value is not None), None)


def filled(settings: Mapping[str, str], name: str) -> str | None:
    """Return the value of the setting without edge blanks; None for a missing or blank setting."""
    return (setting(settings, name) or "").strip() or None


def is_disabled(function: str, settings: Mapping[str, str]) -> bool:
    """Tell whether an app setting switches the function off (``AzureWebJobs.<name>.Disabled``); blanks count."""
    names = f"AzureWebJobs.{function}.Disabled", f"AzureWebJobs_{function}_Disabled"
    return any((setting(settings, name) or "").lower() in ("true", "1") for name in names)


def section(settings: Mapping[str, str], prefix: str) -> Iterator[tuple[str, str, str]]:
    """Yield ``(spelling, key, value)`` of every setting ``prefix__key``; the key is normalised."""
    start = normalised(prefix) + "__"
    for spelt in settings:
        name = normalised(spelt)
        if name.startswith(start) and (value := settings.get(spelt)) is not None:
            yield spelt, name.removeprefix(start), value
