"""The lines to look at: those of the ``@singleton`` decorators, read from the app's source."""

from __future__ import annotations

import ast
import gc
import inspect
import linecache
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simulator.appcheck.finding import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

    from singleton.base.kinds import Mode


_OURS: Final = ("singleton", "once", "ordered")
HOST_FILE: Final = "host.json"


def place_of_function(code: CodeType, folder: Path | None) -> Place:
    """Return the line of a function's ``def``, or of its first decorator where the source can't be read."""
    found = definition(code)
    return Place.of(code.co_filename, found.lineno if found else code.co_firstlineno, folder)


def place_of_guard(code: CodeType, decorator: str, mode: Mode, folder: Path | None) -> Place:
    """Return the line of a decorator of ours (``""``: any) of this mode; else that of the function."""
    names = [decorator.lstrip("@")] if decorator else _OURS
    found = definition(code)
    written = [] if found is None else [each for each in found.decorator_list if _name(each) in names]
    modes = [each for each in written if _mode(each) == mode] or written
    if not modes:
        return place_of_function(code, folder)
    return Place.of(code.co_filename, modes[0].lineno, folder)


def definition(code: CodeType) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the function of this code: its first line, decorators included, is the first line of the code."""
    for each in functions_in(code.co_filename):
        first = min([each.lineno, *(decorator.lineno for decorator in each.decorator_list)])
        if first == code.co_firstlineno and each.name == code.co_name:
            return each
    return None


def is_decorated(code: CodeType) -> bool:
    """Tell whether a function has decorators in its source, beside the one that makes a wrapper look like another."""
    found = definition(code)
    return found is not None and decorators_of(found) - {"wraps"} != set()


def decorators_of(definition: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the names of a function's decorators, without the modules before them."""
    return {_name(each) for each in definition.decorator_list}


def place_of_class(given: object, folder: Path | None) -> Place | None:
    """Return the line of a class, or of an object's class; None: not known."""
    kind = given if isinstance(given, type) else type(given)
    try:
        file, line = inspect.getsourcefile(kind), inspect.getsourcelines(kind)[1]
    except (OSError, TypeError):
        return None
    return None if file is None else Place.of(file, line, folder)


def place_in_host(folder: Path | None, *path: str) -> Place | None:
    """Return the line of host.json with a key, below the keys before it; None: host.json lacks the key."""
    try:
        lines = [] if folder is None else (folder / HOST_FILE).read_text("utf-8-sig", errors="replace").splitlines()
    except OSError:
        return None
    at = 0
    for key in path:
        wanted = f'"{key}"'.casefold()
        at = next((each for each in range(max(at - 1, 0), len(lines)) if wanted in lines[each].casefold()), -1) + 1
        if not at:
            return None
    return Place(HOST_FILE, at) if at else None


def place_of_setting(file: Path | None, folder: Path | None, name: str) -> Place | None:
    """Return the line of a setting in the file with app settings; None: the file is missing, or lacks the setting."""
    try:
        lines = [] if file is None else file.read_text("utf-8-sig", errors="replace").splitlines()
    except OSError:
        return None
    wanted = f'"{name}"'
    return next((Place.of(str(file), at, folder) for at, line in enumerate(lines, 1) if wanted in line), None)


def place_of_name(file: str, name: str, folder: Path | None) -> Place:
    """Return the line of a module that gives a global its value; the first line, if no line begins with the name."""
    lines = linecache.getlines(file)
    at = max((at for at, line in enumerate(lines, 1) if re.match(rf"{name}\s*[:=]", line)), default=1)
    return Place.of(file, at, folder)


@lru_cache(32)
def functions_in(file: str) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
    """Return the functions in a file, also those in others; none where it can't be read."""
    return tuple(each for each in _nodes(file) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


@lru_cache(32)
def names_used_in(file: str) -> frozenset[str]:
    """Return the names of variables and attributes that a module uses."""
    variables = {each.id for each in _nodes(file) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    return frozenset(variables | {each.attr for each in _nodes(file) if isinstance(each, ast.Attribute)})


def _nodes(file: str) -> Iterator[ast.AST]:
    """Yield the nodes of a file's syntax tree; none where it can't be read.

    The collector rests meanwhile: code which it runs amid the parser fails the parser (CPython, gh-106905).
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.walk(ast.parse(Path(file).read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return iter(())
    finally:
        if collects:
            gc.enable()


def _name(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _mode(decorator: ast.expr) -> str:
    given = decorator.keywords if isinstance(decorator, ast.Call) else []
    modes = [each.value.value for each in given if each.arg == "mode" and isinstance(each.value, ast.Constant)]
    return str(modes[0]) if modes else "function"
