"""In the process of its own: import the app as the worker does, check it, and write down the result."""

from __future__ import annotations

import contextlib
import json
import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

import singleton
from simulator.appcheck.check_report import CheckReport
from simulator.appcheck.checked_app import AppSettings, is_the_apps, subjects, unregistered, without_this_machine
from simulator.appcheck.command.child import UNWRITTEN
from simulator.appcheck.command.settings_file import app_settings
from simulator.appcheck.engine import check
from simulator.appcheck.finding import Place
from simulator.appcheck.rules import RULES
from simulator.host.app.app_loader import import_app
from simulator.host.app.app_model import AppError, HostError, SettingsError
from simulator.host.app.function_index import index_function
from simulator.host.app.settings import FILES, local_settings, resolve
from simulator.host.triggers.outputs import queue_name
from simulator.host.triggers.schedule import Schedule, ScheduleError
from singleton.base.appsettings import setting
from singleton.base.errors import ConfigurationError
from singleton.functions.misdeclaration import collecting
from singleton.settings.connection import DEFAULT_CONNECTION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simulator.appcheck.checked_app import Subject
    from simulator.appcheck.finding import Finding
    from simulator.host.app.app_model import IndexedFunction

_REFUSING: Final = (("singleton", "decorator.py"), ("settings", "argument_names.py"))
"""Where a call of this package with an unknown argument is refused."""
_OURS: Final = Path(singleton.__file__).parent


def main(arguments: list[Path]) -> None:
    """Check the app that is named second, and write what was found, as JSON, into the file that is named first."""
    result, app, *more = arguments
    found: dict[str, object]
    try:
        found = {"report": checked(app, more[0] if more else None).to_json()}
    except (HostError, ConfigurationError) as error:
        found = {"refused": str(error)}
    except Exception as error:  # noqa: BLE001 - a defect of ours, and nobody would see it
        where = traceback.extract_tb(error.__traceback__)[-1]
        found = {"failed": f"{type(error).__name__}: {error} ({Path(where.filename).name}, line {where.lineno})"}
    try:
        result.write_text(json.dumps(found, default=str), "utf-8")
    except OSError:
        with contextlib.suppress(OSError):
            result.unlink()  # a half
        os._exit(UNWRITTEN)


def checked(app: Path, settings_file: Path | None) -> CheckReport:
    """Import an app and check it.

    Args:
        app: its folder.
        settings_file: has its app settings; None: they are in its ``local.settings.json``, and in the environment.

    Raises:
        HostError: it can't be imported, or its settings can't be read.
        ConfigurationError: the same.
    """
    settings = _settings(app, settings_file)
    try:
        with collecting() as misdeclared:
            found = import_app(app, os.environ)
    except AppError as error:
        refused = _refused_at_import(error, app)
        if refused is None and isinstance(error.__cause__, KeyError) and "no app setting" in str(error):
            raise AppError(f"{error}, or give --settings FILE") from error.__cause__
        if refused is None:
            raise
        return CheckReport(functions=(), findings=(refused,))
    built, unbuilt = subjects(found, settings)
    if not built and not unbuilt and not unregistered(found, app):
        raise AppError("the app has no functions: decorate at least one with a trigger of its FunctionApp")
    return check(found, settings, misdeclared=misdeclared, more=_not_indexed(built, app), everywhere=True)


def _settings(app: Path, settings_file: Path | None) -> AppSettings:
    """Put the app's settings into the environment, where the app and ``@singleton`` read them."""
    for name in set(os.environ) - set(without_this_machine(os.environ)):
        del os.environ[name]
    if settings_file is not None:
        given = app_settings(settings_file)
        os.environ.update(given)
    else:
        given = local_settings(app)
        os.environ.update({name: value for name, value in given.items() if setting(os.environ, name) is None})
    os.environ["AzureWebJobsScriptRoot"] = str(app)
    known = bool(given) or settings_file is not None or setting(os.environ, DEFAULT_CONNECTION) is not None
    if not known:  # an app may read it as it is imported
        os.environ[DEFAULT_CONNECTION] = "UseDevelopmentStorage=true"
    file = settings_file or next((app / name for name in FILES if (app / name).is_file()), None)
    return AppSettings(folder=app, values=os.environ, known=known, file=file)


def _not_indexed(built: Iterable[Subject], app: Path) -> Iterator[Finding]:
    """Yield what the worker or the host refuses of the functions."""
    for subject in built:
        try:
            why = _refused_by_host(index_function(subject.function, app))
        except AppError as error:
            _, _, why = str(error).partition("): ")
        if why:
            yield RULES["function-refused"].broken(why, subject.name, subject.place)


def _refused_by_host(function: IndexedFunction) -> str | None:
    """Return why the host does not run a function that the worker has indexed; None: it does, or a setting is unset."""
    trigger = function.trigger
    try:
        if function.kind == "queue":
            queue_name(trigger, os.environ, "its queue")
        if function.kind == "timer":
            Schedule.parse(resolve(str(trigger.settings.get("schedule") or ""), os.environ, "its schedule"), pace=0)
    except ScheduleError as error:
        return f"its schedule is wrong: {error}. The host does not run the function"
    except SettingsError as error:
        return None if "does not resolve" in str(error) else str(error)
    return function.refused


def _refused_at_import(error: AppError, app: Path) -> Finding | None:
    """Return the finding for an import that failed at a call of this package with an argument that is not allowed."""
    cause = error.__cause__
    frames = [] if cause is None else [*traceback.extract_tb(cause.__traceback__)]
    if isinstance(cause, ConfigurationError):
        rule = RULES.get(cause.reason or "", RULES["declaration-refused"])
    elif isinstance(cause, TypeError) and Path(frames[-1].filename).parts[-2:] in _REFUSING:
        rule = RULES["unknown-argument"]
    else:
        return None
    places = [each for each in reversed(frames) if not _is_ours(each.filename)]
    places.sort(key=lambda each: not is_the_apps(each.filename, app))  # a library may have passed the argument on
    place = next((Place.of(each.filename, each.lineno or 1, app) for each in places), Place("function_app.py", 1))
    said = str(cause)
    said += "" if said.endswith(("?", ".")) else "."
    return rule.broken(f"{said} The app does not import, so nothing else was checked", "", place)


def _is_ours(file: str) -> bool:
    return file.startswith("<") or Path(file).is_relative_to(_OURS)
