"""What is known of an app before any host runs it: its functions, as a process of their own describes them."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from simulator.host.app.app_loader import script_name
from simulator.host.app.app_model import AppError, SettingsError
from simulator.host.app.settings import local_settings
from simulator.program import HOST
from simulator.work.scenario import SCRIPT, ScenarioError
from singleton.base.errors import ConfigurationError
from singleton.defer.trigger_queue import message_encoding
from singleton.settings.options import load_options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from singleton.defer.trigger_queue import Encoding

PATIENCE: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppFunction:
    """One function of the app, as far as the fleet needs it.

    Attributes:
        queue: the storage queue that it listens to; "" if it has none.
        source: the source of the work: the queue, or ``http/NAME``, ``servicebus/NAME``… "" for no source.
        how, route, methods, many, path, sessions: as of a `Source`.
        prefix: the prefix of the route.
        idle: the reason for which the function is not run, or "".
        wanted: the queue that it would listen to if it were run; "" if it is run, or has none.
        ordered: whether its queue is that of an inbox, whose messages come from the app alone.
        scope: its guard's property path, or None.
        paths: the dotted paths of its guard's scope id.
        declared: its guard and its schedule, as JSON.
        once: the dotted paths of the key of its `@once`.
    """

    name: str
    trigger: str
    queue: str = ""
    source: str = ""
    how: str = "simulated"
    route: str | None = None
    prefix: str = ""
    methods: tuple[str, ...] = ()
    many: bool = False
    path: str = ""
    sessions: bool = False
    idle: str = ""
    wanted: str = ""
    guarded: bool = False
    ordered: bool = False
    scope: str | None = None
    paths: tuple[str, ...] = ()
    declared: str = ""
    once: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", self.source or self.queue)


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """An app that can be run."""

    functions: tuple[AppFunction, ...]
    encoding: Encoding = "base64"
    container: str = "webjobshost"

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that its functions listen to."""
        return tuple(dict.fromkeys(function.queue for function in self.functions if function.queue))

    @property
    def entities(self) -> tuple[AppFunction, ...]:
        """The functions whose messages the run's own broker has, one for each source."""
        functions = [each for each in self.functions if each.source and not each.queue and each.route is None]
        return tuple({each.source: each for each in functions}.values())

    @property
    def fed(self) -> tuple[str, ...]:
        """The sources for which the simulator makes work: all sources with simulated rules."""
        functions = [function for function in self.functions if function.source and function.how == "simulated"]
        return tuple(dict.fromkeys(function.source for function in functions))

    def of(self, source: str) -> tuple[AppFunction, ...]:
        """Return the functions whose work comes from a source."""
        return tuple(function for function in self.functions if function.source == source)


def together(apps: Mapping[Path, App]) -> App:
    """Return the apps of several folders as one app, for the work that they get.

    Raises:
        ScenarioError: two have a function of one name that is not the same, or read queues in different ways.
    """
    (place, first), *others = apps.items()
    known = {function.name: (function, place) for function in first.functions}
    for folder, app in others:
        if (app.encoding, app.container) != (first.encoding, first.container):
            raise ScenarioError(
                f"--app {place} --app {folder}: messageEncoding and the container of the locks must be equal in both"
            )
        for function in app.functions:
            same, where = known.setdefault(function.name, (function, folder))
            if function != same:
                differ = next(
                    each.name for each in fields(same) if getattr(same, each.name) != getattr(function, each.name)
                )
                raise ScenarioError(
                    f"--app {where} --app {folder}: both have a function {function.name!r}, and their {differ} "
                    "differs: make them equal, give one of them another name, or run each folder by itself"
                )
    return App(functions=tuple(each for each, _ in known.values()), encoding=first.encoding, container=first.container)


def check_app(folder: Path) -> None:
    """See whether there is an app in a folder, without importing it.

    Raises:
        ScenarioError: there is none; the message says what was looked for.
    """
    try:
        script_name(folder, {**local_settings(folder), **os.environ})
    except (AppError, SettingsError, ConfigurationError) as error:
        apps = sorted(each.parent for each in folder.glob(f"*/{SCRIPT}"))
        more = f"; for the apps in it give {' '.join(f'--app {each}' for each in apps)}" if apps else ""
        raise ScenarioError(f"--app {folder}: {error}{more}") from error


def describe(folder: Path) -> subprocess.Popen[str]:
    """Start describing the app in `folder`; `described` gets the answer."""
    return subprocess.Popen(
        [*HOST, "--describe", str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )


def described(process: subprocess.Popen[str], folder: Path) -> App:
    """Wait for the description of an app and return it.

    Raises:
        ScenarioError: the app can't be run; the message says why and what to do.
    """
    try:
        output, problems = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise ScenarioError(f"--app {folder}: it was not imported within {PATIENCE:.0f} s") from error
    finally:
        end_describing(process)
    functions = _functions(output) if process.returncode == 0 else None
    if functions is None:
        lines = [line.strip() for line in problems.splitlines() if line.strip()]
        why = lines[-1] if lines else f"it can't be described (exit code {process.returncode})"
        raise ScenarioError(f"--app {folder}: {why}")
    try:
        settings = {**local_settings(folder), **os.environ}
        encoding = message_encoding(folder, settings) if any(each.queue for each in functions) else "base64"
        container = load_options(folder, settings).container
    except (SettingsError, ConfigurationError) as error:
        raise ScenarioError(f"--app {folder}: {error}") from error
    return App(functions=functions, encoding=encoding, container=container)


def end_describing(process: subprocess.Popen[str]) -> None:
    """Make sure that the process is gone."""
    with process:  # at its end the pipes are closed, and the process was waited for
        process.kill()


def _functions(output: str) -> tuple[AppFunction, ...] | None:
    """Read the description, which is the last line of the output: an app may print while it is imported."""
    for line in reversed(output.splitlines()):
        try:
            raw = json.loads(line)
        except ValueError:
            continue
        if isinstance(raw, list):
            return tuple(_function(entry) for entry in raw)
    return None


def _function(raw: Mapping[str, Any]) -> AppFunction:
    """Read the description of one function; the description leaves out what the function has not."""
    known = {each.name for each in fields(AppFunction)}
    told = {name: value for name, value in raw.items() if name in known and value is not None}
    guard = raw["guard"] or {}
    # The queue of another source is no storage queue, and the queue of an idle function is not read.
    queue = "" if raw["idle"] or "source" in raw else raw.get("queue", "")
    return AppFunction(
        **{
            **told,
            "queue": queue,
            "methods": tuple(raw.get("methods", ())),
            "guarded": bool(guard),
            "scope": guard.get("scope"),
            "paths": tuple(guard.get("paths", ())),
            "declared": json.dumps([guard, raw.get("schedule")], sort_keys=True),
            "once": tuple(raw.get("once", ())),
        }
    )
