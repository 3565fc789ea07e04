"""Responses of guarded functions, with code which would run after the lock is released: read from the source."""

from __future__ import annotations

import ast
import builtins
import sys
from collections import ChainMap
from typing import TYPE_CHECKING, Final, NamedTuple

from simulator.appcheck.checked_app import is_the_apps
from simulator.appcheck.finding import Place
from simulator.appcheck.rules import RULES
from simulator.appcheck.source_calls import Instance, NamesInside, names_around
from simulator.appcheck.source_lines import definition, functions_in
from singleton.base.words import with_article
from singleton.baseclient import BaseClient
from singleton.clients.blocks import AsyncBlock, Block
from singleton.runtime.late_work import LATE_RESPONSE, STREAMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from simulator.appcheck.checked_app import Subject
    from simulator.appcheck.finding import Finding

_LIBRARIES: Final = frozenset({"django", "fastapi", "sse_starlette", "starlette"})
"""The packages with the classes of late responses. A class of the same name of another package is no response."""
_LEAVES: Final = (ast.Break, ast.Continue, ast.Raise, ast.Return)


class _WrittenFunction(NamedTuple):
    """A function as it is written, and the names around it."""

    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    file: str
    names: Mapping[str, object]


def check_responses(subjects: Iterable[Subject], folder: Path | None) -> Iterator[Finding]:
    """Yield the streamed responses and background tasks of functions with a guard, or a lock client's decorator."""
    seen = set()
    for source in [*_guarded(subjects), *_decorated(folder)]:
        if source.node in seen:
            continue
        seen.add(source.node)
        for call, what in _late_responses(source):
            yield RULES[LATE_RESPONSE].broken(
                f"{source.name} makes {with_article(what)}, which would run after the lock is released, so the call "
                "fails when its body has run. Return a response with all its content; or take the lock in the "
                "generator or task",
                source.name,
                Place.of(source.file, call.lineno, folder),
            )


def _guarded(subjects: Iterable[Subject]) -> Iterator[_WrittenFunction]:
    for each in subjects:
        node = None if each.code is None or not each.guards else definition(each.code)
        if node is not None and each.written is not None:
            yield _WrittenFunction(each.name, node, each.written.__code__.co_filename, names_around(each.written))


def _decorated(folder: Path | None) -> Iterator[_WrittenFunction]:
    """Yield the functions of the app's modules which a lock client decorates."""
    modules = {str(getattr(each, "__file__", None) or ""): vars(each) for each in [*sys.modules.values()]}
    for file in sorted(each for each in modules if is_the_apps(each, folder)):
        names = ChainMap(modules[file], vars(builtins))
        for node in functions_in(file):
            if any(_is_of_a_client(each, NamesInside(node, names)) for each in node.decorator_list):
                yield _WrittenFunction(node.name, node, file, names)


def _is_of_a_client(decorator: ast.expr, values: NamesInside) -> bool:
    if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Attribute):
        return isinstance(values.of(decorator.func.value), BaseClient)
    return isinstance(values.of(decorator), Block | AsyncBlock)


def _late_responses(source: _WrittenFunction) -> Iterator[tuple[ast.expr, str]]:
    """Yield the expressions whose late response a function returns, with its kind in words."""
    values = NamesInside(source.node, source.names)
    for made in dict.fromkeys(_returned(source.node.body, {})):
        value = values.of(made)
        if not isinstance(value, Instance):
            continue
        classes = {each.__name__ for each in value.of.__mro__ if each.__module__.partition(".")[0] in _LIBRARIES}
        if classes & STREAMS:
            yield made, value.of.__name__
        elif any(each.endswith("Response") for each in classes) and _has_task(made):
            yield made, f"{value.of.__name__} with a background task"


def _has_task(made: ast.expr) -> bool:
    given = [each.value for each in getattr(made, "keywords", ()) if each.arg == "background"]
    return not all(isinstance(each, ast.Constant) and each.value is None for each in given)


def _returned(body: list[ast.stmt], made: dict[str, list[ast.expr]]) -> Iterator[ast.expr]:
    """Yield the calls whose results the statements may return. ``made``: the calls whose results the names may have."""
    for node in body:
        ways: list[list[ast.stmt]] = []
        match node:
            case ast.Return(value=ast.expr() as value):
                yield from _meant(value, made)
            case ast.Assign(value=value, targets=targets):
                for target in targets:
                    _assign(target, value, made)
            case ast.AnnAssign(value=ast.expr() as value, target=target):
                _assign(target, value, made)
            case ast.With(body=inner) | ast.AsyncWith(body=inner):
                yield from _returned(inner, made)
            case ast.If() | ast.For() | ast.AsyncFor() | ast.While():
                ways = [node.body, node.orelse]
            case ast.Try() | ast.TryStar():
                ways = [[*node.body, *node.orelse], *(each.body for each in node.handlers)]
            case ast.Match():
                ways = [[], *(each.body for each in node.cases)]
        after: dict[str, list[ast.expr]] = {}
        for way in ways:
            inside = dict(made)
            yield from _returned(way, inside)
            if not (way and isinstance(way[-1], _LEAVES)):
                for name, calls in inside.items():
                    after[name] = [*dict.fromkeys([*after.get(name, []), *calls])]
        if ways:
            made.clear()
            made.update(after)
        if isinstance(node, ast.Try | ast.TryStar):
            yield from _returned(node.finalbody, made)


def _assign(target: ast.expr, value: ast.expr, made: dict[str, list[ast.expr]]) -> None:
    match target:
        case ast.Name(id=name):
            made[name] = _meant(value, made)
        case ast.Attribute(value=ast.Name(id=name), attr="background"):
            task = ast.keyword("background", value)
            calls = [each for each in made.get(name, []) if isinstance(each, ast.Call)]
            made[name] = [ast.copy_location(ast.Call(each.func, each.args, [task]), target) for each in calls]


def _meant(value: ast.expr, made: dict[str, list[ast.expr]]) -> list[ast.expr]:
    """Return the calls whose results an expression may have."""
    match value:
        case ast.Name(id=name):
            return made.get(name, [])
        case ast.IfExp(body=one, orelse=other):
            return [*_meant(one, made), *_meant(other, made)]
        case ast.BoolOp(values=values):
            return [call for each in values for call in _meant(each, made)]
        case ast.Call() | ast.Await():
            return [value]
    return []
