"""The scenario of a run: the checked options of ``singleton-sim``."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, fields
from pathlib import Path
from shlex import quote
from typing import Final

from singleton.settings.durations import Limits

MOST_HOSTS: Final = 64
MOST_PAUSES: Final = 100
LOAD: Final = 30.0
SCRIPT: Final = "function_app.py"


class ScenarioError(ValueError):
    """An option is wrong; the message names it, its value, what is allowed, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A checked run.

    Attributes:
        app: folder of the app that every host runs.
        hosts: how many hosts.
        kill: how many of them are killed, each while it holds a lock.
        pause: how many times one is stopped while it holds a lock, and goes on when its lease is over.
        duration: seconds for which work is offered. The run then goes on until all work is done, and others have
            acquired the locks of all victims.
        seed: the seed of the fleet's choices: messages, keys, moments of the kills.
        singleton: False runs the guarded bodies without their locks.
        same_app: the hosts are instances of one app. Otherwise they are apps that share one lock scope.
        timer_every: the longest wait for a timer's next tick in seconds; 0 keeps the app's own schedules.
        visibility: seconds after which a message that a dead host had received is delivered again.
        messages: file with messages of the user's own, or None.
        storage: connection string of a storage account that exists already, or None for an Azurite of its own.
        cloud: that account may be on another machine.
        keep: the journals stay.
    """

    app: Path
    hosts: int = 5
    kill: int = 0
    pause: int = 0
    duration: float = LOAD
    seed: int = 0
    singleton: bool = True
    same_app: bool = False
    timer_every: float = 5.0
    visibility: float = 20.0
    messages: Path | None = None
    storage: str | None = None
    cloud: bool = False
    keep: bool = False

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            ScenarioError: one of them is out of range.
        """
        if not 1 <= self.hosts <= MOST_HOSTS:
            raise ScenarioError(f"--hosts {self.hosts}: give a number of hosts from 1 to {MOST_HOSTS}")
        if self.kill < 0:
            raise ScenarioError(f"--kill {self.kill}: give a number of hosts from 0 to {self.hosts - 1}")
        if self.kill >= self.hosts:
            raise ScenarioError(
                f"--kill {self.kill} --hosts {self.hosts}: one host must survive to take over: "
                f"give --kill 0 to {self.hosts - 1}, or --hosts {self.kill + 1} or more"
            )
        if not 0 <= self.pause <= MOST_PAUSES:
            raise ScenarioError(f"--pause {self.pause}: give a number of pauses from 0 to {MOST_PAUSES}")
        if self.pause and self.hosts - self.kill < 2:
            raise ScenarioError(
                f"--pause {self.pause} --hosts {self.hosts} --kill {self.kill}: while one is stopped another must "
                f"work: give --hosts {self.kill + 2} or more"
            )
        _check("--duration", self.duration, 1, 3600)
        _check("--visibility", self.visibility, 2, 600)
        if self.timer_every:
            _check("--timer-every", self.timer_every, 0.5, 3600, "; 0 keeps the app's own schedules")
        if not 0 <= self.seed < 2**32:
            raise ScenarioError(f"--seed {self.seed}: give a whole number from 0 to {2**32 - 1}")
        if not self.app.is_dir():
            what = f"give the folder that holds {SCRIPT}"
            raise ScenarioError(
                f"--app {self.app}: {'not a folder' if self.app.exists() else 'no such folder'}: {what}"
            )

    def options(self) -> str:
        """Return the options that repeat this run from this folder, without the storage: it may be a secret."""
        words = [] if self._is_default_app() else [f"--app {quote(_nearest(self.app))}"]
        defaults = {field.name: field.default for field in fields(self)}
        for name in ("hosts", "kill", "pause", "duration", "seed", "timer_every", "visibility"):
            value = getattr(self, name)
            if value != defaults[name] or name in {"hosts", "seed"}:
                words.append(f"--{name.replace('_', '-')} {value:g}" if name != "seed" else f"--seed {value}")
        words += ["--no-singleton"] * (not self.singleton) + ["--same-app"] * self.same_app
        if self.messages is not None:
            words.append(f"--messages {quote(_nearest(self.messages))}")
        return " ".join(words)

    def _is_default_app(self) -> bool:
        try:
            return default_app(Path.cwd()).resolve() == self.app.resolve()
        except ScenarioError:
            return False


def default_app(folder: Path) -> Path:
    """Return `folder` if it is a Functions app, else the sample that comes with the simulator.

    Raises:
        ScenarioError: neither is there.
    """
    if (folder / SCRIPT).is_file():
        return folder
    here = Path(__file__).resolve().parents[1]
    for sample in (here / "sample", here.parent):
        if (sample / SCRIPT).is_file() and (sample / "host.json").is_file():
            return sample
    raise ScenarioError(f"no {SCRIPT} in {folder}, and no sample app is installed: name an app's folder with --app")


def _nearest(path: Path) -> str:
    """Return the shorter way to a path: from here, or from the root."""
    near = os.path.relpath(path)
    return near if len(near) < len(str(path)) else str(path)


def _check(option: str, value: float, least: float, most: float, more: str = "") -> None:
    if not (math.isfinite(value) and least <= value <= most):
        raise ScenarioError(f"{option} {value:g}: it must be {Limits(least, most)}{more}")
