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
    return next((value for spelt, value in _items(settings) if normalised(spelt) == wanted), None)


def filled(settings: Mapping[str, str], name: str) -> str | None:
    """Return the value of the setting without edge blanks, or None where it is missing or blank."""
    return (setting(settings, name) or "").strip() or None


def section(settings: Mapping[str, str], prefix: str) -> Iterator[tuple[str, str, str]]:
    """Yield ``(spelling, key, value)`` of each setting ``prefix__key``; the key comes normalised."""
    start = normalised(prefix) + "__"
    for spelt, value in _items(settings):
        name = normalised(spelt)
        if name.startswith(start):
            yield spelt, name.removeprefix(start), value


def _items(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the settings; of an environment, another thread may take some away meanwhile."""
    for spelt in settings:
        value = settings.get(spelt)
        if value is not None:
            yield spelt, value
