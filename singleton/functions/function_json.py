"""The trigger of a function of the v1 model: a binding in a ``function.json`` of the app, whose entry point it is.

The worker imports ``scriptFile``, and runs what its module has under the name ``entryPoint``. While a module is
imported, the script's source tells what that will be: a ``def``, a call with a function, or an import from another
module of the app. At an invocation the module itself tells.
"""

from __future__ import annotations

import ast
import inspect
import os.path
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from singleton.base.appsettings import environment
from singleton.base.errors import ConfigurationError
from singleton.functions.triggers import KNOWN, RETURN, Trigger, users_code
from singleton.settings.hostjson import read_object
from singleton.settings.options import app_dir_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FILE: Final = "function.json"
_SCRIPTS: Final = ("__init__.py", "run.py")
_SPELT: Final = {each.lower(): each for each in ("dataType", "queueName", *KNOWN)}
"""Keys and types of bindings in the case of the v2 model. The host ignores the case."""


class _EntryPoint(NamedTuple):
    """The ``entryPoint`` of a ``function.json``; an error in place of the trigger: the file can't be read."""

    script: Path
    point: str
    trigger: Trigger | ConfigurationError


def triggers_in_json(function: Callable[..., Any], *, loaded: bool = False) -> list[Trigger]:
    """Return the triggers of an entry point of the v1 model: those of each ``function.json`` that names the function.

    ``loaded``: the modules of the app are complete. ``ConfigurationError``: a file can't be read.
    """
    if not inspect.isfunction(function):
        return []
    users, code = inspect.unwrap(function), users_code(function)
    app, found = app_dir_of(code.co_filename, environment()), []
    if app is None or not (entries := _entries(app)):
        return []
    app, at = app.resolve(), (Path(code.co_filename).resolve(), code.co_firstlineno)
    for script, point, trigger in entries:
        if users in _loaded(script, point) if loaded else at == _written(script, point, app):
            if isinstance(trigger, ConfigurationError):
                raise trigger
            found.append(trigger)
    return found


def common_trigger(found: list[Trigger]) -> Trigger | None:
    """Return the trigger of a function with these triggers; of several, what they have in common; None: they differ."""
    if len(found) > 1:
        found = [each._replace(function="") for each in found]
    return found[0] if found and found.count(found[0]) == len(found) else None


@cache
def _entries(app: Path) -> tuple[_EntryPoint, ...]:
    files = sorted(each / _FILE for each in app.resolve().iterdir())
    return tuple(entry for file in files if os.path.isfile(file) and (entry := _entry(file)) is not None)  # noqa: PTH113 - raises nothing


def _entry(file: Path) -> _EntryPoint | None:
    """Return the entry point of a function; None: it has no trigger, and the host does not run it."""
    folder = file.parent
    try:
        found = read_object(file)
    except ConfigurationError as error:
        return _EntryPoint(folder / _SCRIPTS[0], "main", error)
    if found.get("scriptFile"):
        script = Path(os.path.normpath(folder / str(found["scriptFile"])))
    else:
        files = sorted(each for each in folder.iterdir() if each.is_file() and each.name.lower() != _FILE)
        script = next((each for each in files if len(files) == 1 or each.name in _SCRIPTS), folder / _SCRIPTS[0])
    listed = found.get("bindings")
    bindings = [
        {_SPELT.get(key.lower(), key.lower()): value for key, value in each.items()}
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict)
    ]
    for each in bindings:
        kind = str(each.get("type"))
        each["type"] = _SPELT.get(kind.lower(), kind[:1].lower() + kind[1:])
    returns = next((each["type"] for each in bindings if each.get("name") == RETURN), None)
    for each in bindings:
        if each["type"].lower().endswith("trigger"):
            trigger = Trigger(each["type"], str(each.get("name") or ""), each, folder.name, returns)
            return _EntryPoint(script, str(found.get("entryPoint") or "main"), trigger)
    return None


def _loaded(script: Path, point: str) -> Iterator[object]:
    """Yield what the modules of the script have as the entry point, below all decorators."""
    for names in [getattr(module, "__dict__", {}) for module in [*sys.modules.values()]]:
        file = str(names.get("__file__"))
        if file.endswith(script.name) and Path(file).resolve() == script and callable(names.get(point)):
            yield inspect.unwrap(names[point])


@cache
def _written(script: Path, name: str, app: Path) -> tuple[Path, int] | None:
    """Return file and first line of the ``def`` that is the entry point by the source; None: it does not tell."""
    seen, nodes = {script}, _statements(script)
    while nodes:
        match nodes.pop():  # the last one counts
            case ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound) as found if bound == name:
                return script, min(each.lineno for each in (found, *found.decorator_list))
            case ast.Assign(targets=[ast.Name(id=bound)], value=value) if bound == name:
                while isinstance(value, ast.Call) and len(value.args) == 1 and not value.keywords:  # as a decorator
                    value = value.args[0]
                if not isinstance(value, ast.Name):
                    return None
                name = value.id
            case ast.ImportFrom(module=module, level=level, names=names):
                imported = [each.name for each in names if (each.asname or each.name) == name]
                if not imported:
                    continue
                folder = script.parents[level - 1] if level else app
                path = folder.joinpath(*(module or "").removeprefix("__app__.").split("."))
                file = next(filter(Path.is_file, (path.with_suffix(".py"), path / _SCRIPTS[0])), None)
                if file is None or file in seen:
                    return None
                script, name = file, imported[-1]
                seen.add(script)
                nodes = _statements(script)
    return None


def _statements(script: Path) -> list[ast.stmt]:
    try:
        return ast.parse(script.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return []
