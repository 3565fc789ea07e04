"""The calls in the source of a function, with the objects behind their names. Names are looked up; nothing is run."""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import sys
from collections import ChainMap, Counter
from functools import partial
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from simulator.appcheck.checked_app import built_from
from simulator.appcheck.source_lines import definition
from singleton.base.callables import annotations_of, returns_coroutine
from singleton.base.hold import Hold
from singleton.base.state import State
from singleton.baseclient import BaseClient

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_INNER: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
"""Parts of a function that run later or elsewhere."""
_MAYBE: Final = (ast.If, ast.IfExp, ast.Match, ast.BoolOp, ast.While, ast.For, ast.AsyncFor)
"""A run of the function may leave the inside of these out."""
_HOLDS: Final = ("lock", "semaphore", "try_lock")
"""The methods of a client that make blocks of one hold."""


class Instance(NamedTuple):
    """An object of which the class is known, and no more."""

    of: type


class Method(NamedTuple):
    """A function that is called on an object of a class."""

    of: type
    function: FunctionType


class Call(NamedTuple):
    """A call in a function.

    Attributes:
        node: the call in the source.
        target: the function, class or ``Method`` that is called; None: not known.
        around: the node around it; of a call whose result a name has for a ``return`` only, that ``return``.
        entered: whether a plain ``with`` enters the result.
        sure: whether each run of the function makes the call.
        caught: whether the function catches an error of the call.
        given: the first argument, as far as known.
    """

    node: ast.Call
    target: object
    around: ast.AST
    entered: bool
    sure: bool
    caught: bool
    given: object

    @property
    def name(self) -> str:
        """The call as it is written, without its arguments."""
        return f"{ast.unparse(self.node.func)}()"

    @property
    def function(self) -> object:
        """The function, without the object on which it is called."""
        target = self.target.function if isinstance(self.target, Method) else self.target
        while isinstance(target, partial):
            target = target.func
        return built_from(target) or target


def calls_in(function: FunctionType) -> Iterator[Call]:
    """Yield the calls of a function, without the calls of functions inside the function."""
    written = definition(function.__code__)
    if written is None:
        return
    values = NamesInside(written, names_around(function))
    todo: list[tuple[ast.AST, ast.AST, bool, bool]] = [(each, written, True, False) for each in written.body]
    while todo:
        node, around, sure, caught = todo.pop(0)
        if isinstance(node, ast.Call):
            given = values.of(node.args[0]) if node.args else None
            yield Call(
                node,
                values.of(node.func),
                values.returns.get(around, around),
                around in values.entered,
                sure,
                caught,
                given,
            )
        if not isinstance(node, _INNER):
            catches = values.catch(node)
            inside = (sure and not catches and not isinstance(node, _MAYBE), caught or catches)
            todo[:0] = [(each, node, *inside) for each in ast.iter_child_nodes(node)]


def makes_coroutine(called: object) -> bool:
    """Tell whether a call of this makes a coroutine, as far as an object of the app's says anything now."""
    try:
        return returns_coroutine(called)
    except Exception:  # noqa: BLE001 - such as a proxy outside of a request
        return False


def names_around(function: FunctionType) -> Mapping[str, object]:
    """Return the names which a function has from outside, with their values."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    outer = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
    return ChainMap(outer, function.__globals__, vars(builtins))


class NamesInside:
    """The values of a function's expressions.

    Attributes:
        entered: the items of plain ``with`` statements.
        returns: the ``return`` of each statement that gives a name its only value, if nothing else uses the name.
    """

    def __init__(self, written: ast.FunctionDef | ast.AsyncFunctionDef, outside: Mapping[str, object]) -> None:
        self._outside = outside
        self._locals: dict[str, object] = dict.fromkeys(_set_in(written))
        self._set: set[str] = set()
        self.entered: set[ast.AST] = set()
        for node in ast.walk(written):
            for name, value in self._learned(node):
                # A name with two values has no known value.
                self._locals[name] = None if name in self._set else value
                self._set.add(name)
        self.returns = _returns_of_names(written)

    def _learned(self, node: ast.AST) -> Iterator[tuple[str, object]]:
        match node:
            case ast.Import(names=names):
                for each in names:
                    yield (
                        each.asname or each.name.partition(".")[0],
                        sys.modules.get(each.name if each.asname else each.name.partition(".")[0]),
                    )
            case ast.ImportFrom(module=str(name), names=names, level=0):
                for each in names:
                    yield each.asname or each.name, _attribute(sys.modules.get(name), each.name)
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                yield name, self.of(value)
            case ast.arg(arg=name, annotation=annotation):
                kind = None if annotation is None else self.of(annotation)
                yield name, Instance(kind) if isinstance(kind, type) else None
            case ast.With(items=items) | ast.AsyncWith(items=items):
                for item in items:
                    if isinstance(node, ast.With):
                        self.entered.add(item)
                    if isinstance(item.optional_vars, ast.Name):
                        yield item.optional_vars.id, self.of(item.context_expr)

    def catch(self, node: ast.AST) -> bool:
        """Tell whether a statement catches errors of its inside."""
        if isinstance(node, ast.Try | ast.TryStar):
            return bool(node.handlers)
        entered = [self.of(each.context_expr) for each in node.items] if isinstance(node, ast.With) else []
        return Instance(contextlib.suppress) in entered

    def of(self, node: ast.expr) -> object:
        """Return the value of an expression, or an ``Instance``; None: not known."""
        match node:
            case ast.Name(id=name):
                return self._locals[name] if name in self._locals else self._outside.get(name)
            case ast.Attribute(value=value, attr=name):
                return _attribute(self.of(value), name)
            case ast.Call(func=called) | ast.Await(value=ast.Call(func=called)):
                target = self.of(called)
                function = target.function if isinstance(target, Method) else target
                is_awaited = isinstance(node, ast.Await)
                return _made_by(target) if is_awaited == makes_coroutine(function) else None
        return None


def _set_in(written: ast.AST) -> Iterator[str]:
    """Yield the names which a function sets, with no value known yet."""
    for node in ast.iter_child_nodes(written):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.alias(name=name, asname=asname):
                yield asname or name.partition(".")[0]
        if not isinstance(node, _INNER):
            yield from _set_in(node)


def _returns_of_names(written: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[ast.AST, ast.Return]:
    nodes = [*ast.walk(written)]
    used = Counter(each.id for each in nodes if isinstance(each, ast.Name))
    returned = {
        each.value.id: each for each in nodes if isinstance(each, ast.Return) and isinstance(each.value, ast.Name)
    }
    found: dict[ast.AST, ast.Return] = {}
    for each in nodes:
        match each:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if name in returned and used[name] == 2:
                    found[each] = returned[name]
    return found


def _made_by(target: object) -> Instance | None:
    """Return what a call of the target gives, by its class or its annotation; None: not known."""
    if isinstance(target, type):
        return Instance(target)
    function = target.function if isinstance(target, Method) else target
    if not isinstance(function, FunctionType):
        return None
    if isinstance(target, Method) and issubclass(target.of, BaseClient) and function.__name__ in _HOLDS:
        return Instance(Hold)  # which its block gives
    kind = annotations_of(function).get("return")
    if kind in ("Self", Self) and isinstance(target, Method):
        return Instance(target.of)
    kind = function.__globals__.get(kind) if isinstance(kind, str) else kind
    return Instance(kind) if isinstance(kind, type) else None


def _attribute(value: object, name: str) -> object:
    if value is None:
        return None
    if isinstance(value, ModuleType):
        return getattr(value, name, None) if value.__name__ == "singleton" else vars(value).get(name)
    if isinstance(value, Instance):
        if issubclass(value.of, Hold) and name == "state":
            return Instance(State)
        value = value.of
    owner = value if isinstance(value, type) else type(value)
    found = inspect.getattr_static(value, name, None)
    found = found.__func__ if isinstance(found, staticmethod | classmethod) else found
    return Method(owner, found) if isinstance(found, FunctionType) else found


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
