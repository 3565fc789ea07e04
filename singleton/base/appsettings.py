"""App settings, read the way the Functions host reads its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def normalised(name: str) -> str:
    """Return the form under which two spellings of one setting are equal: case ignored, ``:`` the same as ``__``."""
    return name.replace(":", "__").casefold()


def setting(settings: Mapping[str, str], name: str) -> str | None:
    """Return the value of the setting, or None; the exact spelling wins over another one.

    >>> setting({"azurewebjobsstorage:accountname": "orders"}, "AzureWebJobsStorage__accountName")
    'orders'
    """
    exact = settings.get(name)
    if exact is not None:
        return exact
    wanted = normalised(name)
    # An environment decodes a value each time, and another thread may take it away meanwhile.
    values = (settings.get(spelt) for spelt in settings if normalised(spelt) == wanted)
    return next((value for value in values if value is not None), None)


def filled(settings: Mapping[str, str], name: str) -> str | None:
    """Return the value of the setting without edge blanks, or None where it is missing or blank."""
    return (setting(settings, name) or "").strip() or None


def section(settings: Mapping[str, str], prefix: str) -> Iterator[tuple[str, str, str]]:
    """Yield ``(spelling, key, value)`` of each setting ``prefix__key``; the key comes normalised."""
    start = normalised(prefix) + "__"
    for spelt in settings:
        name = normalised(spelt)
        if name.startswith(start) and (value := settings.get(spelt)) is not None:
            yield spelt, name.removeprefix(start), value
