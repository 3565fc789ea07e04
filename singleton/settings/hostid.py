"""The host id of this app, derived the way the Functions host does: the id under which its locks are kept."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from singleton.base.appsettings import filled
from singleton.base.errors import ConfigurationError
from singleton.base.forks import importing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LONGEST = 32


def host_id(settings: Mapping[str, str], app_dir: Path | None, *, machine: str | None = None) -> str:
    """Return the Functions host's id for this app.

    In order: ``AzureFunctionsWebHost__hostid`` unchanged (H-1); a hash of site and slot on Flex Consumption (H-4); site
    and slot on App Service and Kubernetes (H-2); the host name on Linux Consumption (H-3); else this machine's name and
    a hash of the app's folder, which other machines don't share (H-5).

    Without the app's folder the current folder counts. The machine's name is asked from the system by default.

    Raises:
        ConfigurationError: the app runs on Azure or Kubernetes and its settings don't tell its name (H-7).
    """
    explicit = filled(settings, "AzureFunctionsWebHost__hostid")
    if explicit:
        return explicit
    if on_flex_consumption(settings):
        return _hashed(_site_and_slot(settings))
    if _on_app_service(settings) or _on_kubernetes(settings):
        return _fitted(_site_and_slot(settings))
    if _on_linux_consumption(settings):
        return _fitted(_known(settings, "WEBSITE_HOSTNAME").replace(".azurewebsites.net", ""))
    return _fitted(_local_id(app_dir, machine))


def is_machine_bound(settings: Mapping[str, str]) -> bool:
    """Tell whether `host_id` comes from this machine's name: apps on other machines then don't share locks (B24)."""
    return filled(settings, "AzureFunctionsWebHost__hostid") is None and runs_locally(settings)


def runs_locally(settings: Mapping[str, str]) -> bool:
    """Tell whether the settings are of a machine outside of Azure and of Kubernetes."""
    platforms = (on_flex_consumption, _on_app_service, _on_kubernetes, _on_linux_consumption)
    return not any(runs_on(settings) for runs_on in platforms)


def in_development(settings: Mapping[str, str]) -> bool:
    """Tell whether the Functions host reports a developer's machine, as ``func start`` does."""
    return (filled(settings, "AZURE_FUNCTIONS_ENVIRONMENT") or "").lower() == "development"


def _on_app_service(settings: Mapping[str, str]) -> bool:
    return filled(settings, "WEBSITE_INSTANCE_ID") is not None


def on_flex_consumption(settings: Mapping[str, str]) -> bool:
    """Tell whether the host takes this for the Flex Consumption plan."""
    if (filled(settings, "WEBSITE_SKU") or "").lower() == "flexconsumption":
        return True
    container = filled(settings, "CONTAINER_NAME") or filled(settings, "WEBSITE_POD_NAME")
    on_legion = container is not None and filled(settings, "LEGION_SERVICE_HOST") is not None
    return on_legion and not _on_app_service(settings)


def _on_kubernetes(settings: Mapping[str, str]) -> bool:
    if filled(settings, "MANAGED_ENVIRONMENT"):
        return True
    return filled(settings, "KUBERNETES_SERVICE_HOST") is not None and filled(settings, "POD_NAMESPACE") is not None


def _on_linux_consumption(settings: Mapping[str, str]) -> bool:
    """The platform sets both; a CONTAINER_NAME alone may be of any container."""
    return filled(settings, "CONTAINER_NAME") is not None and filled(settings, "WEBSITE_HOSTNAME") is not None


def _site_and_slot(settings: Mapping[str, str]) -> str:
    site = _known(settings, "WEBSITE_SITE_NAME")
    slot = filled(settings, "WEBSITE_SLOT_NAME")
    named = site if slot is None or slot.lower() == "production" else f"{site}-{slot}"
    return named.lower()


def _known(settings: Mapping[str, str], name: str) -> str:
    value = filled(settings, name)
    if value is None:
        raise ConfigurationError(
            f"the host id is unknown: this app runs on Azure or Kubernetes, but {name} is not set; "
            "set hostId in the section singleton of host.json (AzureFunctionsJobHost__singleton__hostId) to an id of "
            "from 1 to 32 lower-case letters, digits and dashes"
        )
    return value


def _hashed(name: str) -> str:
    """Return the MD5 as .NET writes it when read as a GUID: the first three groups little-endian (H-4)."""
    with importing:
        from hashlib import md5

    digest = md5(name.encode(), usedforsecurity=False).digest()
    return (digest[3::-1] + digest[5:3:-1] + digest[7:5:-1] + digest[8:]).hex()


def _fitted(name: str) -> str:
    """Return the name cut to 32 characters, lower-case, without dashes at its end (H-6)."""
    fitted = name[:_LONGEST].lower().rstrip("-")
    if not fitted:
        raise ConfigurationError(f"{name!r} gives an empty host id: set hostId in the section singleton of host.json")
    return fitted


def _local_id(app_dir: Path | None, machine: str | None) -> str:
    with importing:
        import platform

    name = platform.node().partition(".")[0] if machine is None else machine
    letters = "".join(char for char in name if char.isalpha() or char.isdecimal())
    return f"{letters}-{abs(_stable_hash(str(app_dir or os.getcwd())))}"  # noqa: PTH109 - imported already, unlike pathlib


def _stable_hash(text: str) -> int:
    """Hash as the host does, the same in every process: signed 32-bit arithmetic over UTF-16 units (H-5)."""
    with importing:  # of the codec
        units = text.encode("utf-16-le", "surrogatepass")
    value = 23
    for (unit,) in struct.iter_unpack("<H", units):
        value = (value * 31 + unit) & 0xFFFF_FFFF
    return value - (1 << 32) if value & 0x8000_0000 else value
