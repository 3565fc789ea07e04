"""A warning, once, where a developer's machine uses the locks of a cloud account: a production app may use them too."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from singleton.base.invocation import log as _log
from singleton.settings.hostid import in_development, is_machine_bound, runs_locally

if TYPE_CHECKING:
    from collections.abc import Mapping

    from singleton.settings.options import SingletonOptions


_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_EMULATORS_ACCOUNT: Final = "devstoreaccount1"

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


def warn_of_local_run(
    settings: Mapping[str, str], endpoint: str, options: SingletonOptions, host_id: str | None = None
) -> None:
    """Warn, once for each account and host id, that a process on a local machine uses locks in the cloud (B24).

    Args:
        settings: the app settings, as a rule ``os.environ``, which tell where this process runs.
        endpoint: the blob service's URL; nothing is said about an emulator's, or one that is not known ("").
        options: ``local_run_warning`` turns this off.
        host_id: the host id of a guard's lock. None: the lock is a client's, which any server may use. Then only a
            Functions host that reports development gets the warning.
    """
    if not options.local_run_warning or not endpoint or is_emulator(endpoint) or not runs_locally(settings):
        return
    if host_id is not None:
        shared = options.host_id is not None or not is_machine_bound(settings)
        _warn(endpoint, host_id, _SHARED if shared else _OWN)
    elif in_development(settings):
        _warn(endpoint, options.container, _NAMED)


def is_emulator(endpoint: str) -> bool:
    """Tell whether this is the URL of a storage emulator's blob service, on whichever host.

    >>> is_emulator("http://azurite:10000/devstoreaccount1"), is_emulator("https://orders.blob.core.windows.net")
    (True, False)
    """
    url = urlsplit(endpoint)
    host = url.hostname or ""
    names = (host.partition(".")[0], url.path.strip("/").partition("/")[0])
    return host in _LOOPBACK or host.endswith(".localhost") or _EMULATORS_ACCOUNT in names


@cache
def _warn(endpoint: str, name: str, what: str) -> None:
    _log.warning(
        f"this process does not run in Azure, but uses the storage account at %s: {what}. To turn this warning off, "
        "set localRunWarning to false (AzureFunctionsJobHost__singleton__localRunWarning)",
        endpoint,
        name,
    )
