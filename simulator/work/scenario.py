"""The scenario of a run: the checked options of ``singleton-sim``. Durations: ``30``, ``30s``, ``2m``, ``500ms``."""

from __future__ import annotations

import math
import os
import re
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

from simulator.faults.real import ALL
from simulator.nemesis.aims import lane_of
from simulator.nemesis.fault_plan import NOT_ON_WINDOWS, PlanError, chosen, draw_plan, read_plan
from singleton.settings.durations import Limits

if TYPE_CHECKING:
    from simulator.faults.real import RealFault


MOST_HOSTS: Final = 100
MOST_PAUSES: Final = 100
LEAST_HOSTS: Final = 3  # with faults: one is struck, and two go on
LOAD: Final = 30.0
EVERY: Final = 5.0
SCRIPT: Final = "function_app.py"


class ScenarioError(ValueError):
    """An option is wrong; the message has the option, its value, the allowed values, and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A checked run.

    The help of the options explains the options. The help does not say:

    Attributes:
        duration: seconds for which work is offered. The run then goes on until the work is done, and other hosts have
            acquired the locks of every victim.
        more: further folders with apps; the hosts run all folders in turn.
        sites: the names under which one folder is deployed; the hosts have them in turn.
        same_app: the hosts are instances of one app. Otherwise the hosts are apps that share one lock scope.
        timer_every: the longest wait for a timer's next tick in seconds; 0 keeps the app's own schedules.
        faults: the kinds of faults that strike, with commas; "" for none.
        fault_plan: file with a plan of faults, in place of their kinds; or None.
    """

    app: Path
    more: tuple[Path, ...] = ()
    sites: tuple[str, ...] = ()
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
    faults: str = ""
    fault_every: float = EVERY
    fault_plan: Path | None = None

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            ScenarioError: a value is out of range.
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
        if self.pause and os.name == "nt":
            raise ScenarioError(f"--pause {self.pause}: {NOT_ON_WINDOWS['pause']}: leave it out, or use WSL")
        if self.pause and self.hosts - self.kill < 2:
            raise ScenarioError(
                f"--pause {self.pause} --hosts {self.hosts} --kill {self.kill}: while one is stopped another must "
                f"work: give --hosts {self.kill + 2} or more"
            )
        _check("--duration", self.duration, 1, 3600)
        _check("--visibility", self.visibility, 2, 600)
        if self.timer_every:
            _check("--timer-every", self.timer_every, 0.5, 3600, "; 0 keeps the app's own schedules")
        self._check_faults()
        if not 0 <= self.seed < 2**32:
            raise ScenarioError(f"--seed {self.seed}: give a whole number from 0 to {2**32 - 1}")
        for folder in self.folders:
            if not folder.is_dir():
                what = f"give the folder that holds {SCRIPT}"
                raise ScenarioError(
                    f"--app {folder}: {'not a folder' if folder.exists() else 'no such folder'}: {what}"
                )
        self._check_sites()

    @property
    def folders(self) -> tuple[Path, ...]:
        """All folders with apps."""
        return (self.app, *self.more)

    def _check_sites(self) -> None:
        """See whether the apps can be told apart, and each has a host."""
        if len({folder.resolve() for folder in self.folders}) < len(self.folders):
            raise ScenarioError(f"--app {self.app}: a folder is given twice: for one app under two names give --site")
        if self.sites and self.more:
            raise ScenarioError(
                f"--site {self.sites[0]}: with several folders each one's name is WEBSITE_SITE_NAME of its "
                "local.settings.json: set it there, or give one --app"
            )
        if not all(self.sites) or len(set(self.sites)) < len(self.sites):
            raise ScenarioError(f"--site {', '.join(map(repr, self.sites))}: give each app a name of its own")
        if self.hosts < (many := max(len(self.folders), len(self.sites))):
            raise ScenarioError(f"--hosts {self.hosts}: there are {many} apps: give --hosts {many} or more")

    def _check_faults(self) -> None:
        if not (self.faults or self.fault_plan):
            if self.fault_every != EVERY:
                raise ScenarioError(
                    f"--fault-every {self.fault_every:g}: there are no faults: add --faults all, or name some kinds"
                )
            return
        option = "--faults" if self.faults else "--fault-plan"
        if self.faults and self.fault_plan:
            raise ScenarioError(
                f"--faults {self.faults} --fault-plan {self.fault_plan}: a plan says itself what happens: "
                "leave one of them out"
            )
        if self.kill or self.pause:
            raise ScenarioError(
                f"{option} with --kill {self.kill} --pause {self.pause}: faults kill and pause themselves: "
                "leave --kill and --pause out, and name the kinds kill and pause"
            )
        if self.hosts < LEAST_HOSTS:
            raise ScenarioError(
                f"{option} with --hosts {self.hosts}: while one host is struck two others must work: "
                f"give --hosts {LEAST_HOSTS} or more"
            )
        _check("--fault-every", self.fault_every, 0.5, 600)
        self.nemesis()

    @property
    def struck(self) -> bool:
        """Whether faults strike the hosts."""
        return bool(self.faults or self.fault_plan)

    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of faults that may strike.

        Raises:
            ScenarioError: a kind is unknown, or can't happen in this run.
        """
        if self.fault_plan is not None:
            planned = {fault.kind for fault in self.nemesis()}
            return tuple(kind for kind in ALL if kind in planned)
        if not self.faults:
            return ()
        try:
            named = chosen(self.faults)
        except PlanError as error:
            raise ScenarioError(f"--faults {self.faults}: {error}") from error
        possible = tuple(kind for kind in named if kind not in self._impossible())
        if not possible:
            why = "; ".join(f"{kind}: {self._impossible()[kind]}" for kind in named)
            raise ScenarioError(f"--faults {self.faults}: nothing of it can happen ({why}): name other kinds")
        return possible

    def _impossible(self) -> dict[str, str]:
        """Return the kinds that can't happen in this run, and the reasons."""
        kinds = {} if self.singleton else {"break": "without locks there is no lease to break"}
        if os.name == "nt":
            kinds |= NOT_ON_WINDOWS
        return kinds

    def nemesis(self) -> list[RealFault]:
        """Return the plan of the faults: the user's, or the one that the seed draws.

        Raises:
            ScenarioError: it can't be used.
        """
        if self.fault_plan is None:
            kinds = self.kinds()
            return draw_plan(kinds, every=self.fault_every, duration=self.duration, seed=self.seed) if kinds else []
        try:
            plan = read_plan(self.fault_plan)
        except PlanError as error:
            raise ScenarioError(f"--fault-plan {self.fault_plan}: {error}") from error
        for fault in plan:
            if fault.kind in self._impossible():
                why = self._impossible()[fault.kind]
                raise ScenarioError(f"--fault-plan {self.fault_plan}: {why}: leave {fault.kind} out")
            if fault.at >= self.duration:
                raise ScenarioError(
                    f"--fault-plan {self.fault_plan}: {fault.kind} at {fault.at:g} s: there is work for "
                    f"{self.duration:g} s only: give --duration {fault.at + 10:g} or more"
                )
            self._check_names(fault)
        return plan

    def _check_names(self, fault: RealFault) -> None:
        names = [f"host-{number}" for number in range(1, self.hosts + 1)]
        if fault.host and lane_of(fault.host) not in names:
            raise ScenarioError(
                f"--fault-plan {self.fault_plan}: {fault.kind} at {fault.at:g} s: there is no {fault.host!r}: "
                f"the hosts are {names[0]} to {names[-1]}"
            )

    def runs_without_locks(self) -> bool:
        """Tell whether the same run is possible without the locks: then no lease can be broken."""
        try:
            replace(self, singleton=False)
        except ScenarioError:
            return False
        return True

    def options(self) -> str:
        """Return the options that repeat this run from this folder, without the storage: it may be a secret."""
        folders = () if self._is_default_app() and not self.more else self.folders
        words = [f"--app {quote(_nearest(folder))}" for folder in folders]
        words += [f"--site {quote(site)}" for site in self.sites]
        defaults = {field.name: field.default for field in fields(self)}
        for name in ("hosts", "kill", "pause", "duration", "seed", "timer_every", "visibility"):
            value = getattr(self, name)
            if value != defaults[name] or name in {"hosts", "seed"}:
                words.append(f"--{name.replace('_', '-')} {value:g}" if name != "seed" else f"--seed {value}")
        if self.fault_plan is not None:
            words.append(f"--fault-plan {quote(_nearest(self.fault_plan))}")
            words += [f"--fault-every {self.fault_every:g}"] * (self.fault_every != EVERY)
        elif self.faults:
            kinds = ",".join(chosen(self.faults))
            words.append(f"--faults {'all' if kinds == ','.join(ALL) else kinds} --fault-every {self.fault_every:g}")
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


_SPAN: Final = re.compile(r"\s*(-?[0-9]*\.?[0-9]+)\s*(ms|s|sec|seconds?|m|min|minutes?|h)\s*", re.IGNORECASE)
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def in_seconds(text: str) -> float:
    """Return a duration in seconds; a number without a unit has seconds.

    >>> in_seconds("5"), in_seconds("5s"), in_seconds("2m"), in_seconds("500ms")
    (5.0, 5.0, 120.0, 0.5)

    Raises:
        ValueError: it is no duration; the message says what one looks like.
    """
    with suppress(ValueError):
        return float(text)  # what is out of range is refused by the option, in its own words
    found = _SPAN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no duration: write seconds, as in 30 or 30s, or 2m, or 500ms")
    number, unit = float(found[1]), found[2].lower()
    return number * _UNITS["ms" if unit == "ms" else unit[0]]
