"""The configuration of one fake host, as the fleet writes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from simulator.host.app.errors import SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConfig:
    """What the fleet tells a host that it starts.

    Attributes:
        name: the host's name in the journals.
        app: folder that holds ``function_app.py``.
        journal: file that the host appends to.
        storage: connection string of the only storage account that this host may touch.
        host_id: its Functions host id (H-1).
        lock_host_id: the host id of its locks; equal for all hosts that must exclude each other.
        singleton: False runs the guarded bodies without locking.
        same_app: whether the hosts are instances of one app, so that the platform's own timer lock works among them
            (W-111).
        seed: the seed of the host's random back-off.
        timer_every: the longest wait for a timer's next tick in seconds; 0 keeps the app's own schedules.
        visibility: seconds for which a received message is invisible, renewed at half time (H-35: the real one is 600).
        bus: URL of the run's message broker; empty if no function needs it.
        max_polling_interval: upper bound in seconds of the queues' polling interval (H-43).
        parent: the process with which the host ends; 0 means the one that started it.
    """

    name: str
    app: Path
    journal: Path
    storage: str
    host_id: str
    lock_host_id: str
    singleton: bool = True
    same_app: bool = False
    seed: int = 0
    timer_every: float = 5.0
    visibility: float = 20.0
    max_polling_interval: float = 1.0
    bus: str = ""
    parent: int = 0

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the JSON file at ``path``, which the fleet has written.

        Raises:
            SettingsError: it can't be read, or is no configuration.
        """
        try:
            raw = json.loads(path.read_text("utf-8"))
            return cls(**{**raw, "app": Path(raw["app"]).resolve(), "journal": Path(raw["journal"])})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise SettingsError(f"can't use the host's configuration {path}: {error!r}") from error
