"""The bindings that the Functions host of an app knows: of itself only HTTP and timers, all others by extensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from singleton.base.appsettings import section
from singleton.base.errors import ConfigurationError
from singleton.settings.hostjson import as_text, read_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_INSTALLED: Final = (
    "extensions.csproj",
    "bin/extensions.json",
    "extensions.json",
    ".azurefunctions/extensions.json",
)
"""Files of an app whose extensions are installed without a bundle."""
_BUILT_IN: Final = frozenset({"http", "httptrigger", "timertrigger", "warmuptrigger"})


def unknown_bindings(app: Path, settings: Mapping[str, str], bindings: Iterable[str]) -> list[str]:
    """Return which of these kinds of bindings the host does not know: it runs no function with one of them.

    Raises:
        ConfigurationError: the host does not start with this bundle, or host.json can't be read.
    """
    path = app / "host.json"
    if _has_bundle(path, settings) or any((app / each).exists() for each in _INSTALLED):
        return []
    return sorted({each for each in bindings if each.lower() not in _BUILT_IN})


def _has_bundle(path: Path, settings: Mapping[str, str]) -> bool:
    if not path.is_file():  # the host writes one, with a bundle
        return True
    given: Any = next(reversed(read_object(path).named("extensionBundle")), {})
    found = {key.casefold(): as_text(value) for key, value in given.items()} if isinstance(given, dict) else {}
    found |= {key: text for _, key, text in section(settings, "AzureFunctionsJobHost__extensionBundle")}
    if not found and given in ({}, []):
        return False
    if lacking := [key for key in ("id", "version") if not (found.get(key) or "").strip()]:
        raise ConfigurationError(
            f"host.json: extensionBundle has no {' and no '.join(lacking)}, so the host does not start: write "
            '{"id": "Microsoft.Azure.Functions.ExtensionBundle", "version": "[4.*, 5.0.0)"}'
        )
    return True
