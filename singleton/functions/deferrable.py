"""What `on_contention="defer"` needs of an app. Only an app that puts messages back imports this module.

The lock thread takes that for a sign, and loads the SDK of queues beside its own start.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from singleton.base.errors import ConfigurationError
from singleton.base.forks import importing
from singleton.functions.misdeclaration import OF_THE_APP

_LONGEST_WAIT: Final = 240.0
"""Seconds that an invocation may wait before the deferral: the host changes the receipt after 300 (H-35)."""


def check_deferrable(wait: float | None) -> None:
    """Raise ``ConfigurationError`` if time-out or installation do not allow ``on_contention="defer"``."""
    if wait is not None and wait > _LONGEST_WAIT:
        raise ConfigurationError(
            f"timeout is {wait:g} with on_contention='defer': give at most {_LONGEST_WAIT:g} seconds, because the host "
            "changes a message's receipt soon after that. A deferred message waits in its queue"
        )
    check_installed("on_contention='defer'", OF_THE_APP)


def check_installed(what: str, reason: str | None = None) -> None:
    """Raise ``ConfigurationError`` if the package azure-storage-queue, which ``what`` needs, is missing."""
    try:
        with importing:  # of the packages around it
            found = find_spec("azure.storage.queue")
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise ConfigurationError(
            f"{what} needs the package azure-storage-queue (the extra [defer]): add azure-storage-queue[aio] to "
            "requirements.txt",
            reason=reason,
        )
