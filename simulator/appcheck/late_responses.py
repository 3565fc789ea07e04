"""Responses of guarded functions, with code which would run after the lock is released: read from the source."""

from __future__ import annotations

import ast
import sys
from functools import reduce
from inspect import getattr_static
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from simulator.appcheck.checked_app import is_the_apps
from simulator.appcheck.finding import Place
from simulator.appcheck.rules import RULES
from simulator.appcheck.source_lines import definition, functions_in
from singleton.baseclient import BaseClient
from singleton.clients.blocks import AsyncBlock, Block
from singleton.runtime.late_work import LATE_RESPONSE, STREAMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from simulator.appcheck.checked_app import Subject
    from simulator.appcheck.finding import Finding

_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class _WrittenFunction(NamedTuple):
    """A function as it is written, and the module that has its names."""

    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    file: str
    names: dict[str, Any]


def check_responses(subjects: Iterable[Subject], folder: Path | None) -> Iterator[Finding]:
    """Yield the streamed responses and background tasks of functions with a guard, or a lock client's decorator."""
    seen = set()
    for source in [*_guarded(subjects), *_decorated(folder)]:
        if source.node in seen:
            continue
        seen.add(source.node)
        for call, what in _late_calls(source):
            yield RULES[LATE_RESPONSE].broken(
                f"{source.name} makes a {what}, which would run after the lock is released, so the call fails when "
                "its body has run. Return a response with all its content; or take the lock in the generator or task",
                source.name,
                Place.of(source.file, call.lineno, folder),
            )


def _guarded(subjects: Iterable[Subject]) -> Iterator[_WrittenFunction]:
    for each in subjects:
        node = None if each.code is None or not each.guards else definition(each.code)
        if node is not None and each.code is not None:
            yield _WrittenFunction(each.name, node, each.code.co_filename, _names_in(each.code.co_filename))


def _decorated(folder: Path | None) -> Iterator[_WrittenFunction]:
    """Yield the functions of the app's modules which a lock client decorates."""
    files = {str(getattr(module, "__file__", None) or "") for module in [*sys.modules.values()]}
    for file in sorted(each for each in files if is_the_apps(each, folder)):
        names = _names_in(file)
        for node in functions_in(file):
            if any(_is_of_a_client(each, names) for each in node.decorator_list):
                yield _WrittenFunction(node.name, node, file, names)


def _names_in(file: str) -> dict[str, Any]:
    found = (vars(module) for module in [*sys.modules.values()] if getattr(module, "__file__", None) == file)
    return dict(next(found, {}))


def _is_of_a_client(decorator: ast.expr, names: dict[str, Any]) -> bool:
    if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Attribute):
        return isinstance(_value(decorator.func.value, names), BaseClient)
    return isinstance(_value(decorator, names), Block | AsyncBlock)


def _value(named: ast.expr, names: dict[str, Any]) -> Any:
    """Return the value of a global name, or of an attribute of it; None: another expression."""
    first, *rest = ast.unparse(named).split(".")
    return reduce(lambda found, name: getattr_static(found, name, None), rest, names.get(first))


def _late_calls(source: _WrittenFunction) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls in a function's own code that make a late response, with its kind in words."""
    unread: list[ast.AST] = [*source.node.body]
    while unread:
        node = unread.pop()
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            called = _value(node.func, source.names)
            classes = [each.__name__ for each in called.__mro__] if isinstance(called, type) else []
            if not STREAMS.isdisjoint([name, *classes]):
                yield node, name
            elif any(each.endswith("Response") for each in [name, *classes]) and any(map(_is_task, node.keywords)):
                yield node, f"{name} with a background task"
        if not isinstance(node, _SCOPES):
            unread += ast.iter_child_nodes(node)


def _is_task(keyword: ast.keyword) -> bool:
    return keyword.arg == "background" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is None)
