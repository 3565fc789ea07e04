"""The app settings of a fake host: ``local.settings.json``, the environment, and what the simulator replaces.

The process environment is what the user's code, the triggers and `singleton` read, as in the real worker, so it is
prepared before the app is imported. Every setting that names a storage account is pointed at the simulator's own: a
user's cloud account is never touched.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from simulator.host.app.app_model import SettingsError
from singleton.base.appsettings import normalised, setting
from singleton.base.words import as_json, did_you_mean, quoted
from singleton.settings.connection import ADDRESSES, DEFAULT_CONNECTION, service_at
from singleton.settings.hostjson import read_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping
    from pathlib import Path

    from simulator.host.app.app_model import HostConfig

_STORAGE_STRING: Final = re.compile(
    r"(?i)(^|;)\s*(UseDevelopmentStorage|DefaultEndpointsProtocol|AccountName|(Blob|Queue|Table|File)Endpoint)\s*="
)
_PERCENT_NAME: Final = re.compile(r"%([^%]*)%")
_PREFIX: Final = "AzureWebJobs"
_PLACES: Final = ("ConnectionStrings__", "CUSTOMCONNSTR_", "")
_IDENTITY_KEYS: Final = {key.lower() for keys in ADDRESSES.values() for key in keys} - {"serviceuri"}
FILES: Final = ("local.settings.json", "local.settings.example.json")


def local_settings(app: Path) -> dict[str, str]:
    """Return the ``Values`` and ``ConnectionStrings`` of the app's local settings, or of its example, or nothing.

    Raises:
        ConfigurationError: the file is no JSON object.
        SettingsError: it is encrypted, or its values are no texts, numbers or booleans.
    """
    path = next((app / name for name in FILES if (app / name).is_file()), None)
    if path is None:
        return {}
    raw = read_object(path)
    if raw.get("IsEncrypted"):
        raise SettingsError(f"{path.name} is encrypted: run `func settings decrypt` first")
    values = _section(raw, "Values", path.name)
    for name, value in _section(raw, "ConnectionStrings", path.name).items():
        values[f"ConnectionStrings:{name}"] = value.get("ConnectionString") if isinstance(value, dict) else value
    return {name: _text(path.name, name, value) for name, value in values.items() if value is not None}


def _section(raw: Mapping[str, object], name: str, file: str) -> dict[str, object]:
    found = raw.get(name, {})
    if not isinstance(found, dict):
        raise SettingsError(f"{file}: {quoted(name)} must be an object of settings")
    return dict(found)


def prepare(environment: MutableMapping[str, str], config: HostConfig) -> None:
    """Put the settings of a host's app into ``environment``: local settings first, what is there already wins.

    Raises:
        ConfigurationError, SettingsError: the app's local settings can't be used.
    """
    for name, value in local_settings(config.app).items():
        if setting(environment, name) is None:
            environment[name] = value
    for name, value in list(environment.items()):
        if _STORAGE_STRING.search(value):
            _point(environment, name, config.settings)
    redirect(environment, {name for name in map(_identity_of, environment.items()) if name}, config.settings)
    redirect(environment, [DEFAULT_CONNECTION], config.settings)
    fixed = {
        "AzureFunctionsWebHost__hostid": config.host_id,
        "AzureFunctionsJobHost__singleton__hostId": config.lock_host_id,
        "AzureWebJobsScriptRoot": str(config.app),
        "FUNCTIONS_WORKER_RUNTIME": "python",
    }
    if not config.singleton:
        fixed["AzureFunctionsJobHost__singleton__enabled"] = "false"
    if config.site:
        fixed["WEBSITE_SITE_NAME"] = config.site
    for name, value in fixed.items():
        for spelt in [spelt for spelt in environment if normalised(spelt) == normalised(name)]:
            del environment[spelt]
        environment[name] = value


def _identity_of(item: tuple[str, str]) -> str:
    """Return the connection of which this setting names the storage account, or "". Other services have URIs, too."""
    name, _, key = normalised(item[0]).rpartition("__")
    return name if key in _IDENTITY_KEYS or (key == "serviceuri" and service_at(item[1])) else ""


def redirect(environment: MutableMapping[str, str], connections: Iterable[str], account: Mapping[str, str]) -> None:
    """Point every spelling of each connection at the account (H-21), and remove its identity settings (H-23)."""
    for connection in connections:
        wanted = _spellings(connection)
        for spelt in list(environment):
            known = normalised(spelt)
            if known.startswith(tuple(f"{spelling}__" for spelling in wanted)):
                del environment[spelt]
            elif known in wanted:
                _point(environment, spelt, account)
        _point(environment, connection.strip() or DEFAULT_CONNECTION, account)


def _point(environment: MutableMapping[str, str], connection: str, account: Mapping[str, str]) -> None:
    environment.pop(connection, None)
    environment.update({f"{connection}{ending}": value for ending, value in account.items()})


def is_set(settings: Mapping[str, str], connection: str) -> bool:
    """Tell whether the host finds settings for a connection of this name (H-21, H-22)."""
    wanted = _spellings(connection)
    sections = tuple(f"{spelling}__" for spelling in wanted)
    known = {normalised(spelt) for spelt, value in settings.items() if value.strip()}
    return any(name in wanted or name.startswith(sections) for name in known)


def not_set(connection: str, settings: Mapping[str, str]) -> str:
    """Say that the host finds no settings for a connection of this name."""
    names, hint = quoted(connection or DEFAULT_CONNECTION), did_you_mean(connection, settings)
    return f"there is no setting for its connection {names}: add it to local.settings.json or to the environment{hint}"


def _spellings(connection: str) -> set[str]:
    name = connection.strip() or DEFAULT_CONNECTION
    return {normalised(place + base) for place in _PLACES for base in (name, _PREFIX + name)}


def resolve(text: str, settings: Mapping[str, str], where: str) -> str:
    """Replace each ``%NAME%`` by the app setting of that name (W-41).

    Raises:
        SettingsError: a ``%`` is not closed, or there is no such setting.
    """
    if text.count("%") % 2:
        raise SettingsError(f"{where}: the last % of {quoted(text)} is not closed")

    def value(match: re.Match[str]) -> str:
        name = match[1]
        found = setting(settings, name) if name else None
        if found is None:
            raise SettingsError(
                f"{where}: %{name}% does not resolve to a value: add {quoted(name)} to the Values of "
                f"local.settings.json or to the environment{did_you_mean(name, settings)}"
            )
        return found

    return _PERCENT_NAME.sub(value, text)


def is_connection_string(text: str) -> bool:
    """Tell whether ``text`` is a storage connection string rather than the name of a setting."""
    return _STORAGE_STRING.search(text) is not None


def _text(file: str, name: str, value: object) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, bool | int | float):
        text = str(value)
    else:
        raise SettingsError(f"{file}: the value of {quoted(name)} must be a text, not {as_json(value)}")
    if "\0" in text or "\0" in name or "=" in name or not name:
        raise SettingsError(f"{file}: {quoted(name)} has a character that an app setting can't have")
    return text
