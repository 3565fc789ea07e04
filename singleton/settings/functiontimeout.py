"""``functionTimeout``: how long the Functions host lets an invocation run (H-32, H-85).

When it is over, the host restarts the worker, and every body in it ends. It is read as the host reads it: an app
setting wins over host.json (H-31), and without either the plan decides. With a value that is no time the host doesn't
start at all, so here such a value means no limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from singleton.base.appsettings import filled, setting
from singleton.base.errors import ConfigurationError
from singleton.base.timespan import FOREVER, parse_timespan
from singleton.base.words import as_json
from singleton.settings.hostid import on_flex_consumption
from singleton.settings.hostjson import read_object

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SETTING: Final = "AzureFunctionsJobHost__functionTimeout"
_KEY: Final = "functionTimeout"
_ON_CONSUMPTION: Final = 300.0
_ELSEWHERE: Final = 1800.0
_MOST_ON_CONSUMPTION: Final = 600.0


class FunctionTimeout(NamedTuple):
    """The limit in seconds, and where it comes from, in words."""

    seconds: float
    source: str


def function_timeout(app_dir: Path | None, settings: Mapping[str, str]) -> FunctionTimeout | None:
    """Return the limit of the app's invocations; None: no limit.

    Args:
        app_dir: the folder that has host.json.
        settings: the app settings, as a rule ``os.environ``.

    Raises:
        ConfigurationError: host.json can't be read.
    """
    given, source = _given(app_dir, settings)
    if given is None or not str(given).strip():
        return FunctionTimeout(_ON_CONSUMPTION if _on_consumption(settings) else _ELSEWHERE, "the default of its plan")
    try:
        seconds = parse_timespan(str(given))
    except ConfigurationError:  # "-1", which is no limit, or what keeps the host from starting
        return None
    return FunctionTimeout(seconds, source) if seconds > 0 else None


def _given(app_dir: Path | None, settings: Mapping[str, str]) -> tuple[object, str]:
    if (text := setting(settings, _SETTING)) is not None:
        return text, f"app setting {_SETTING}"
    entries = [] if app_dir is None else read_object(app_dir / "host.json").entries
    found = [value for key, value in entries if key.casefold() == _KEY.casefold()]
    return (found[-1] if found else None), "host.json"


def _on_consumption(settings: Mapping[str, str]) -> bool:
    """Tell whether the host takes this for the Consumption plan; Flex Consumption has the default of other plans."""
    if on_flex_consumption(settings):
        return False
    if (filled(settings, "WEBSITE_SKU") or "").lower() == "dynamic":
        return True
    elsewhere = filled(settings, "WEBSITE_INSTANCE_ID") or filled(settings, "MANAGED_ENVIRONMENT")
    return filled(settings, "CONTAINER_NAME") is not None and elsewhere is None


def check_function_timeout(app_dir: Path | None, settings: Mapping[str, str]) -> None:
    """Refuse a value with which the host does not start (H-85).

    Raises:
        ConfigurationError: the value stops the host, or host.json can't be read.
    """
    given, source = _given(app_dir, settings)
    if given is None:
        return
    consumption = _on_consumption(settings)
    if str(given).strip() == "-1" and not consumption:
        return
    most = _MOST_ON_CONSUMPTION if consumption else FOREVER
    try:
        seconds = parse_timespan(given) if isinstance(given, str) else 0.0
    except ConfigurationError:
        seconds = 0.0
    if not 1.0 <= seconds <= most:
        allowed = "from 1 second to 10 minutes" if consumption else "of at least 1 second, or -1 for no limit"
        raise ConfigurationError(
            f'{source}: functionTimeout is {as_json(given)}: give a time span "hh:mm:ss", {allowed}. The host does '
            "not start"
        )
