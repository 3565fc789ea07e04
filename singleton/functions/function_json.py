"""The trigger of a function of the v1 model: a binding in a ``function.json`` of the app, whose entry point it is.

The worker imports ``scriptFile``, and runs what its module has under the name ``entryPoint``. While a module is
imported, the sources of the app tell what that may be. At an invocation the module itself tells.
"""

from __future__ import annotations

import ast
import inspect
import os.path
import sys
from functools import cache
from importlib.machinery import PathFinder
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


_ALL: Final = "*"
_DEF: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_OURS: Final = Path(__file__).resolve().parents[1]


class _Step(NamedTuple):
    """A name in a module, with dots: whether its value is called, and before which statement of the module."""

    file: Path
    path: str
    called: bool = False
    before: int | None = None


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
        if users in _loaded(script, point) if loaded else at in _written(script, point, app):
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
def _written(script: Path, point: str, app: Path) -> set[tuple[Path, int]]:
    """Return file and first line of each ``def`` that may be the entry point by the sources of the app.

    A name leads to a ``def``, to another module, or to all names in its value. The name of a called function leads to
    the functions that are defined in it.
    """
    todo, seen, found = [_Step(script, point)], set[_Step](), set[tuple[Path, int]]()
    while todo:
        step = todo.pop()
        if step in seen or not step.file.is_relative_to(app) or step.file.is_relative_to(_OURS):
            continue
        seen.add(step)
        name, _, rest = step.path.partition(".")
        for index, node in _bindings(step, name):
            if isinstance(node, _DEF):
                made = [each for each in ast.walk(node) if isinstance(each, _DEF)] if step.called else [node]
                found |= {(step.file, min(part.lineno for part in (each, *each.decorator_list))) for each in made}
            elif isinstance(node, ast.Import | ast.ImportFrom):
                folder = step.file.parents[level - 1] if (level := getattr(node, "level", 0)) else None
                places = [_place(f"{whole}.{rest}".strip("."), folder) for whole in _imported(node, name)]
                todo += [_Step(file, path, step.called) for file, path in places if file is not None]
            else:
                called = {each.func for each in ast.walk(node) if isinstance(each, ast.Call)}
                named = [(each, _dotted(each)) for each in ast.walk(node)]
                todo += [_Step(step.file, path, each in called, index) for each, path in named if path is not None]
    return found


def _bindings(step: _Step, name: str) -> Iterator[tuple[int, ast.AST]]:
    """Yield the places and the parts of statements that may bind a name: the last one, and those before an ``if``."""
    body = _statements(step.file)
    for index in reversed(range(len(body[: step.before]))):
        found = [each for each in _parts(body[index]) if not {name, _ALL}.isdisjoint(_bound(each))]
        yield from ((index, each) for each in found)
        if name in _bound(body[index]):
            return


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it, but for the bodies of functions and classes."""
    todo = [node]  # a long sum is nested too deeply for a recursion
    while todo:
        yield (found := todo.pop())
        if not isinstance(found, (*_DEF, ast.ClassDef, ast.Lambda)):
            todo += ast.iter_child_nodes(found)


def _bound(node: ast.AST) -> list[str]:
    """Return the names that a statement binds by itself."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [each.asname or each.name.partition(".")[0] for each in names]
        case ast.Assign() | ast.AnnAssign() | ast.NamedExpr():
            named = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
            return [each.id for each in named if isinstance(each.ctx, ast.Store)]
    return []


def _dotted(node: ast.AST) -> str | None:
    """Return a name, with the attributes that are asked of it; None: it is no name."""
    rest = ""
    while isinstance(node, ast.Attribute):
        rest = f".{node.attr}{rest}"
        node = node.value
    return f"{node.id}{rest}" if isinstance(node, ast.Name) else None


def _imported(node: ast.Import | ast.ImportFrom, name: str) -> Iterator[str]:
    """Yield the whole names to which an import leads from a name."""
    for each, bound in zip(node.names, _bound(node), strict=True):
        if isinstance(node, ast.Import):
            yield from [each.name if each.asname else bound] * (bound == name)
        elif bound in (name, _ALL):
            yield f"{node.module or ''}.{name if bound == _ALL else each.name}"


def _place(whole: str, folder: Path | None) -> tuple[Path | None, str]:
    """Return the file of the module in a whole name, and the rest of the name. ``folder``: of a relative import."""
    file, places, parts = folder and folder / _SCRIPTS[0], None if folder is None else [str(folder)], whole.split(".")
    while parts:
        package = sys.modules.get(parts[0]) if places is None else None  # the worker's __app__ is in no folder
        spec = getattr(package, "__spec__", None) or PathFinder.find_spec(parts[0], places)
        if spec is None:
            break
        file, places = Path(spec.origin or "").resolve(), [*(spec.submodule_search_locations or [])]
        del parts[0]
    return file, ".".join(parts)


@cache
def _statements(script: Path) -> list[ast.stmt]:
    try:
        return ast.parse(script.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return []
