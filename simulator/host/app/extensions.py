"""What host.json says of other extensions: ``extensions.http.routePrefix`` and ``extensions.serviceBus``.

Sources: https://learn.microsoft.com/azure/azure-functions/functions-bindings-http-webhook and
https://learn.microsoft.com/azure/azure-functions/functions-bindings-service-bus (host.json settings).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from singleton.base.appsettings import section
from singleton.base.errors import ConfigurationError
from singleton.base.timespan import parse_timespan
from singleton.base.words import as_json
from singleton.settings.hostjson import as_text, section_entries, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PREFIX: Final = "api"


@dataclass(frozen=True, slots=True, kw_only=True)
class BusOptions:
    """How Service Bus triggers receive.

    Attributes:
        max_concurrent_calls: how many messages one host processes at a time, for each function.
        max_renewal: seconds for which the lock of a message is renewed at most while its function runs.
    """

    max_concurrent_calls: int = 16
    max_renewal: float = 300.0


def route_prefix(app: Path, settings: Mapping[str, str]) -> str:
    """Return what comes before the routes of HTTP triggers: ``api`` unless host.json says something else."""
    where, value = _values(app, settings, "http").get("routeprefix", ("", _PREFIX))
    text = as_text(value)
    if text is None:
        raise ConfigurationError(f"{where} is {as_json(value)}: give a text, such as {_PREFIX!r}, or an empty one")
    return text.strip("/")


def bus_options(app: Path, settings: Mapping[str, str]) -> BusOptions:
    """Return the options of ``extensions.serviceBus``; app settings of the same names win (H-31).

    Raises:
        ConfigurationError: a value can't be used.
    """
    values = _values(app, settings, "servicebus")
    defaults = BusOptions()
    where, calls = values.get("maxconcurrentcalls", ("", defaults.max_concurrent_calls))
    number = whole_number(calls)
    if number is None or number < 1:
        raise ConfigurationError(f"{where} is {as_json(calls)}: give a whole number, 1 or more")
    where, span = values.get("maxautolockrenewalduration", ("", None))
    try:
        renewal = defaults.max_renewal if span is None else parse_timespan(span if isinstance(span, str) else "")
    except ValueError as error:
        raise ConfigurationError(f'{where} is {as_json(span)}: give a time span "hh:mm:ss"') from error
    return BusOptions(max_concurrent_calls=number, max_renewal=renewal)


def _values(app: Path, settings: Mapping[str, str], extension: str) -> dict[str, tuple[str, object]]:
    """Return where each option of an extension stands, and its value, by its name in lower case."""
    found: dict[str, tuple[str, object]] = {}
    for name, options in section_entries(app / "host.json", "extensions"):
        if name.casefold() == extension and isinstance(options, dict):
            given = {key: value for key, value in options.items() if value is not None}
            found |= {key.casefold(): (f"host.json: extensions.{name}.{key}", value) for key, value in given.items()}
    for spelt, key, text in section(settings, f"AzureFunctionsJobHost__extensions__{extension}"):
        found[key] = f"app setting {spelt}", text
    return found
