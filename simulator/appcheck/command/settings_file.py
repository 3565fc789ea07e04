"""App settings in a file: as ``local.settings.json`` has them, as ``az`` lists them, or as a plain object."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from simulator.host.app.app_model import SettingsError

if TYPE_CHECKING:
    from pathlib import Path


def app_settings(path: Path) -> dict[str, str]:
    """Return the settings of a file: ``{"Values": {…}}``, ``[{"name": …, "value": …}, …]`` or ``{"NAME": "value"}``.

    Raises:
        SettingsError: it can't be read, or is none of these. No value is printed.
    """
    try:
        found = json.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"--settings {path}: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"--settings {path}: it is no JSON ({error})") from error
    if isinstance(found, dict) and isinstance(found.get("Values"), dict):
        found = found["Values"]
    if isinstance(found, list) and all(isinstance(each, dict) and "name" in each for each in found):
        found = {each["name"]: each.get("value") for each in found}
    if not isinstance(found, dict):
        raise SettingsError(
            f'--settings {path}: give an object of settings, as local.settings.json has it in "Values", or the list '
            "that `az functionapp config appsettings list` prints"
        )
    plain = {str(name): value for name, value in found.items() if isinstance(value, str | int | float)}
    return {name: str(value) for name, value in plain.items() if name and "=" not in name and "\0" not in str(value)}
