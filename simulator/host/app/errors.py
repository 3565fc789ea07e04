"""Errors that keep a fake host from starting. Each message is one line that says what to do."""

from __future__ import annotations

from typing import Final

STOPPED: Final = 0
FAILED: Final = 1
REFUSED: Final = 3
"""Exit codes of a host's process; 3: a `HostError`."""


class HostError(Exception):
    """The host can't run this app or this configuration. The message names what is wrong and the remedy."""


class AppError(HostError):
    """The app doesn't import, has no functions, or breaks a rule of the Python worker."""


class SettingsError(HostError):
    """An app setting, ``host.json`` or ``local.settings.json`` is missing, malformed or out of range."""
