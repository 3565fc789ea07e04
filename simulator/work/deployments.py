"""The apps of a run of several: whose code each runs, under which site name, and which host id Azure gives its locks.

A run of one folder under one name has none of these: its hosts share the lock id that the simulator makes up.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simulator.host.app.app_model import SettingsError
from simulator.host.app.settings import local_settings
from simulator.work.scenario import ScenarioError
from singleton.base.appsettings import filled, normalised
from singleton.base.errors import ConfigurationError
from singleton.settings.hostid import host_id
from singleton.settings.options import load_options

if TYPE_CHECKING:
    from pathlib import Path

    from simulator.work.scenario import Scenario

_SITE: Final = "WEBSITE_SITE_NAME"
_EXPLICIT: Final = "AzureFunctionsWebHost__hostid"
_IN_AZURE: Final = {"WEBSITE_INSTANCE_ID": "simulated"}
"""What an App Service plan sets besides the site's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One app of a run of several.

    Attributes:
        host_id: the id that the Functions host would have in Azure.
        lock_id: the id of its locks: ``hostId`` of the section ``singleton``, or else the host id.
        cause: the setting from which the lock id comes, in words.
    """

    name: str
    folder: Path
    host_id: str
    lock_id: str
    cause: str


def deployments_of(scenario: Scenario) -> tuple[Deployment, ...]:
    """Return the apps of a run of several folders or sites; nothing for a run of one folder under one name.

    Raises:
        ScenarioError: the settings of a folder can't be used.
    """
    if scenario.sites:
        return tuple(_site(scenario.app, name) for name in scenario.sites)
    return tuple(_site(folder) for folder in scenario.folders) if scenario.more else ()


def shares_by_itself(folder: Path) -> bool:
    """Tell whether the app in `folder` has an id for its locks that all its deployments share."""
    settings = {**local_settings(folder), **os.environ}
    return bool(load_options(folder, settings).host_id or filled(settings, _EXPLICIT))


def _site(folder: Path, name: str = "") -> Deployment:
    try:
        settings = {**local_settings(folder), **os.environ}
        known = name or filled(settings, _SITE)
        named = {spelt: value for spelt, value in settings.items() if normalised(spelt) != normalised(_SITE)}
        own = host_id({**_IN_AZURE, **named, _SITE: known or folder.name}, folder)
        shared = load_options(folder, settings).host_id
    except (SettingsError, ConfigurationError) as error:
        raise ScenarioError(f"--app {folder}: {error}") from error
    cause = f"{_SITE} {known!r}" if known else f"the folder's name, as no {_SITE} is set"
    if filled(settings, _EXPLICIT):
        cause = _EXPLICIT
    if shared:
        cause = "hostId of the section singleton"
    return Deployment(name=known or folder.name, folder=folder, host_id=own, lock_id=shared or own, cause=cause)
