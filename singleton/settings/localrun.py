"""Where locks are not shared as their users expect: on a developer's machine, and in containers.

A developer's machine that uses a cloud account may share the locks of a production app. Containers outside of Azure's
plans have machine names of their own, so the host id differs from container to container, and no lock is shared.
"""

from __future__ import annotations

import re
from pathlib import Path
from platform import node
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from singleton.base.appsettings import filled
from singleton.base.errors import ConfigurationError
from singleton.base.invocation import warn_once
from singleton.settings.hostid import in_development, is_machine_bound, runs_locally

if TYPE_CHECKING:
    from collections.abc import Mapping

    from singleton.settings.options import SingletonOptions

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_EMULATORS_ACCOUNT: Final = "devstoreaccount1"

_CONTAINER_FILES: Final = ("/.dockerenv", "/run/.containerenv")
_CONTAINER_SETTINGS: Final = ("KUBERNETES_SERVICE_HOST", "DOTNET_RUNNING_IN_CONTAINER")
"""Kubernetes sets the first, and the base images of the Functions host set the second."""
_DEVELOPERS: Final = ("CI", "CODESPACES", "REMOTE_CONTAINERS")

_LOCAL: Final = "this process does not run in Azure, but uses the storage account at %s: "
_OFF: Final = (
    ". To turn this warning off, set localRunWarning to false (AzureFunctionsJobHost__singleton__localRunWarning)"
)
_SHARED: Final = (
    "it takes the locks of host id '%s', and an app with that id in Azure has to wait for them. Give it its own "
    "hostId, or use the emulator (UseDevelopmentStorage=true)"
)
_OWN: Final = (
    "its locks have the host id '%s', which names this machine, so they exclude nobody elsewhere. Set hostId to share "
    "locks, or use the emulator (UseDevelopmentStorage=true)"
)
_NAMED: Final = (
    "everybody who uses the same names in container '%s' has to wait for its locks. Use the emulator "
    "(UseDevelopmentStorage=true), or its own container"
)
_CONTAINER: Final = (
    "this process runs in a container, and its locks at %s have the host id '%s', which is made of the container's own "
    "name. Other containers of this app have other locks, and other keys of @once: they exclude nobody. Set hostId in "
    "the section singleton of host.json (AzureFunctionsJobHost__singleton__hostId), the same in all containers"
)


def warn_of_local_run(
    settings: Mapping[str, str], endpoint: str, options: SingletonOptions, host_id: str | None = None
) -> None:
    """Warn, once for each account and host id, of locks that are shared with too many or with nobody (B24).

    Args:
        endpoint: the blob service's URL; "": not known. An emulator's is of interest in a container only.
        options: ``local_run_warning`` turns warnings about a developer's machine off; only ``host_id`` those about a
            container.
        host_id: the host id of a guard's lock. None: the lock is a client's, which any server may use. Then only a
            Functions host that reports development gets the warning.

    Raises:
        ConfigurationError: see ``refuse_host_id_of_pod``.
    """
    if not endpoint or not runs_locally(settings):
        return
    own = options.host_id is None and is_machine_bound(settings)
    if host_id is not None and own and _in_container(settings):
        refuse_host_id_of_pod(settings, endpoint, host_id)
        warn_once(_CONTAINER, endpoint, host_id)
    elif not options.local_run_warning or is_emulator(endpoint):
        return
    elif host_id is not None:
        warn_once(_LOCAL + (_OWN if own else _SHARED) + _OFF, endpoint, host_id)
    elif in_development(settings):
        warn_once(_LOCAL + _NAMED + _OFF, endpoint, options.container)


def refuse_host_id_of_pod(settings: Mapping[str, str], endpoint: str, host_id: str) -> None:
    """Raise ``ConfigurationError`` if the host id is a pod's own, so no pod of this app would wait for another one."""
    if excludes_nobody(settings, endpoint):
        raise ConfigurationError(_CONTAINER % (endpoint, host_id))


def excludes_nobody(settings: Mapping[str, str], endpoint: str) -> bool:
    """Tell whether these are the settings of a pod whose locks exclude no other pod of the app.

    With an emulator, or where a setting says development, a single pod may be meant.
    """
    said = (filled(settings, name) or "0" for name in _DEVELOPERS)
    developers = in_development(settings) or any(text.lower() not in ("0", "false") for text in said)
    in_pod = filled(settings, "KUBERNETES_SERVICE_HOST") is not None
    return in_pod and is_machine_bound(settings) and not developers and not is_emulator(endpoint)


def _in_container(settings: Mapping[str, str]) -> bool:
    """Tell whether this process runs in a container: by a setting, a file, or a machine's name as Docker gives it."""
    if any(filled(settings, name) for name in _CONTAINER_SETTINGS) or re.fullmatch("[0-9a-f]{12}", node()):
        return True
    return any(Path(mark).exists() for mark in _CONTAINER_FILES)


def is_emulator(endpoint: str) -> bool:
    """Tell whether this is the URL of a storage emulator's blob service, on whichever host, with whichever account.

    Azure's have the account in the host's name: a path without TLS is an emulator's.

    >>> is_emulator("http://azurite:10000/devstoreaccount1"), is_emulator("https://orders.blob.core.windows.net")
    (True, False)
    """
    url = urlsplit(endpoint)
    host = url.hostname or ""
    path = url.path.strip("/")
    if path and url.scheme == "http":
        return True
    names = (host.partition(".")[0], path.partition("/")[0])
    return host in _LOOPBACK or host.endswith(".localhost") or _EMULATORS_ACCOUNT in names
