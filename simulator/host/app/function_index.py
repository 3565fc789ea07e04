"""Index one function by the rules of the Python worker, with messages at least as clear as the worker's.

The rules were read in azure-functions-runtime 1.3 and hold for the classic worker as well: names of parameters equal
those of the bindings; ``context`` or a client that settles messages may be there too; annotations fit the binding; and
only outputs may be ``func.Out``. If the worker refuses one function, all functions of the app are lost.

After the worker the Functions host refuses names of functions and of bindings (H-86): only that function is lost. The
exception are two names that differ only in case: they keep the host from starting.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simulator.host.app.app_model import AppError, IndexedFunction, Parameter

if TYPE_CHECKING:
    from collections.abc import Iterable


_FUNCTION: Final = re.compile(r"[A-Za-z][A-Za-z0-9_\-]{0,127}")
# The rule of hosts from 4.1038 on; older hosts accept no underscore.
_BINDING: Final = re.compile(r"(?!.*__)[A-Za-z_][A-Za-z0-9_]{0,127}|\$return")


def refused(name: str, bindings: Iterable[str]) -> str | None:
    """Return why the host refuses a function of this name with bindings of these names, or None."""
    if name.lower() == "host":
        return "the host takes no function of this name"
    if not _FUNCTION.fullmatch(name):
        return "its name must be a letter, followed by at most 127 letters, digits, _ or - (ASCII)"
    seen = set()
    for binding in bindings:
        if not _BINDING.fullmatch(binding):
            return f"the host takes no binding called {binding!r}: letters, digits and single _ (ASCII), at most 128"
        if binding.lower() in seen:
            return f"two of its bindings are called {binding!r}; to the host case makes no difference"
        seen.add(binding.lower())
    return None


def check_names(names: Iterable[str]) -> None:
    """Check that no two functions have names that are the same to the host.

    Raises:
        AppError: two names differ by case only.
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise AppError(f"functions {other!r} and {name!r} differ by case only: the host does not start; rename one")


_IN: Final = 0
_OUT: Final = 1
_RETURN: Final = "$return"
_CONTEXT: Final = "context"
_SETTLES: Final = "client that settles messages"
# Classes of `List[int]` and of the bare `List`; `list[int]` and `X | None` are no generics to the worker.
_ALIASES: Final = (type(typing.List[int]), type(typing.List))  # noqa: UP006


def index_function(function: Any, app: Path) -> IndexedFunction:
    """Return one function of the app as the worker reads it.

    Raises:
        AppError: the worker would refuse to index it.
    """
    call = function.get_user_function()
    name, place = function.get_function_name(), _place_of(call, app)
    if not isinstance(name, str):
        raise AppError(f"a function ({place}) has the name {name!r}: give @app.function_name() a text")
    return _Indexer(name, f"function {name!r} ({place})", call, function).index(place)


class _Indexer:
    def __init__(self, name: str, label: str, call: Callable[..., Any], function: Any) -> None:
        self.name = name
        self.label = label
        self.call = call
        self.function = function
        try:
            self.parameters = dict(inspect.signature(call).parameters)
            self.annotations = typing.get_type_hints(call)
            self.directory = str(Path(inspect.getfile(call)).parent)
        except Exception as error:
            raise self.refuse(
                f"its signature can't be read ({type(error).__name__}: {error}); a function must be a plain def or "
                "async def whose annotations can be resolved"
            ) from error

    def refuse(self, why: str) -> AppError:
        return AppError(f"{self.label}: {why}")

    def index(self, place: str) -> IndexedFunction:
        bindings, returning, implicit = self._bindings()
        wants_context = self._takes_context(bindings)
        settling = self._takes_settlement(bindings)
        self._check_names(bindings)
        parameters = {name: self._parameter(name, binding) for name, binding in bindings.items()}
        trigger = self.function.get_trigger()
        retry = self.function.get_settings_dict("retry_policy")
        return IndexedFunction(
            name=self.name,
            call=self.call,
            place=place,
            directory=self.directory,
            is_async=inspect.iscoroutinefunction(self.call),
            wants_context=wants_context,
            trigger=parameters[trigger.name],
            inputs=settling
            | {
                name: parameters[name]
                for name, binding in bindings.items()
                if binding.direction == _IN and binding is not trigger
            },
            outputs={name: parameters[name] for name, binding in bindings.items() if binding.direction == _OUT},
            returns=self._return(returning),
            may_return=returning is not None or implicit,
            retry=dict(retry) if retry else None,
            refused=refused(self.name, [binding.name for binding in self.function.get_bindings()]),
        )

    def _bindings(self) -> tuple[dict[str, Any], Any, bool]:
        """Return the bindings of parameters, that of the return value, and whether one implies a return value."""
        bindings: dict[str, Any] = {}
        returning, implicit = None, False
        try:
            self.function.get_raw_bindings()
        except (TypeError, ValueError) as error:
            raise self.refuse(f"its bindings can't be written as JSON: {error}") from error
        for binding in self.function.get_bindings():
            if binding.direction not in (_IN, _OUT):
                raise self.refuse(f'the binding {binding.name!r} is "inout", which the worker does not support')
            if binding.name == _RETURN:
                if binding.direction != _OUT:
                    raise self.refuse('the "$return" binding must have the direction "out"')
                returning = returning or binding
            else:
                implicit = implicit or _implies_return(binding.type)
                bindings[binding.name] = binding
        return bindings, returning, implicit

    def _takes_context(self, bindings: Mapping[str, Any]) -> bool:
        if _CONTEXT not in self.parameters or _CONTEXT in bindings:
            return False
        del self.parameters[_CONTEXT]
        annotation = self.annotations.get(_CONTEXT)
        is_context = isinstance(annotation, type) and annotation.__name__ == "Context"
        if _CONTEXT in self.annotations and not is_context:
            raise self.refuse(f'its parameter "context" must be azure.functions.Context, not {_shown(annotation)}')
        return True

    def _takes_settlement(self, bindings: Mapping[str, Any]) -> dict[str, Parameter]:
        """Take the one parameter without a binding, if the extension base package provides it."""
        unbound = [name for name in self.parameters if name not in bindings]
        annotation = self.annotations.get(unbound[0]) if len(unbound) == 1 else None
        check = getattr(_deferred_registry(), "check_supported_grpc_client_type", None)
        if annotation is None or check is None or not check(annotation):
            return {}
        del self.parameters[unbound[0]]
        return {unbound[0]: Parameter(name=unbound[0], binding=_SETTLES, converter=_SETTLES, deferred=True)}

    def _check_names(self, bindings: Mapping[str, Any]) -> None:
        unbound = sorted(set(self.parameters) - set(bindings))
        if unbound:
            raise self.refuse(
                f"it declares {_names(unbound)}, which no decorator binds; bound are {_names(bindings) or 'none'}: a "
                "parameter's name must equal the arg_name of its trigger or binding"
            )
        missing = sorted(set(bindings) - set(self.parameters))
        if missing:
            raise self.refuse(
                f"its decorators bind {_names(missing)}, which it does not declare; it declares "
                f"{_names(self.parameters) or 'no parameter'}"
            )

    def _parameter(self, name: str, binding: Any) -> Parameter:
        annotation = self.annotations.get(name)
        annotated = name in self.annotations
        deferred = annotated and _is_deferred(annotation)
        is_out = annotated and _is_out(annotation)
        kind = annotation
        if is_out:
            arguments = typing.get_args(annotation)
            if len(arguments) != 1:
                raise self.refuse(f"the output {name!r} needs one type: func.Out[str], not {_shown(annotation)}")
            kind = arguments[0]
        if annotated and not (isinstance(kind, type) or _is_generic(kind)):
            remedy = ": write typing.List[…]" if typing.get_origin(kind) is list else ""
            raise self.refuse(
                f"the annotation of {name!r} is {_shown(annotation)}, which is no type to the worker{remedy}"
            )
        if binding.direction == _OUT and annotated and not is_out:
            raise self.refuse(f"{name!r} is an output, so it must be func.Out[...], not {_shown(annotation)}")
        if binding.direction != _OUT and is_out:
            raise self.refuse(f"{name!r} is an input, but its annotation is func.Out")
        plain = annotated and kind in (str, bytes) and not _implies_return(binding.type)
        converter = "generic" if plain else binding.type
        if annotated and not deferred:
            self._check_type(name, converter, binding.type, kind, output=is_out)
        return Parameter(
            name=name,
            binding=str(binding.type),
            converter=str(converter),
            annotation=kind,
            settings=dict(binding.get_dict_repr()),
            data_type=binding.data_type,
            deferred=deferred or (annotated and _http_check(str(converter), output=is_out) is not None),
        )

    def _check_type(self, name: str, converter: str, binding: str, kind: Any, *, output: bool) -> None:
        direction = "output" if output else "input"
        check = _http_check(converter, output=output)
        if check is None:
            check = getattr(binding_class(converter), f"check_{direction}_type_annotation", None)
        try:
            generic = (str, bytes, bytearray) if output else (str, bytes)
            fits = bool(check(kind)) if check is not None else issubclass(kind, generic)
        except TypeError:
            fits = False
        if not fits:
            raise self.refuse(f"the annotation {_shown(kind)} of {name!r} does not fit its binding {binding!r}")

    def _return(self, binding: Any) -> Parameter | None:
        if binding is None:
            return None
        kind = self.annotations.get("return")
        if "return" in self.annotations:
            if _is_out(kind):
                raise self.refuse("the return annotation must not be func.Out")
            if not isinstance(kind, type):
                raise self.refuse(f"its return annotation is {_shown(kind)}, which is no type to the worker")
            self._check_type(_RETURN, binding.type, binding.type, kind, output=True)
        return Parameter(
            name=_RETURN,
            binding=str(binding.type),
            converter=str(binding.type),
            annotation=kind,
            settings=dict(binding.get_dict_repr()),
            data_type=binding.data_type,
        )


def binding_class(name: str) -> Any:
    """Return azure-functions' converter of a binding type, or None if it has none ("generic" to the worker)."""
    # Imported when needed, and untyped in some of its versions.
    functions: Any = importlib.import_module("azure.functions")
    return functions.get_binding_registry().get(name)


def _implies_return(binding: str) -> bool:
    converter = binding_class(binding)
    if converter is None:
        # A generic binding. In the worker all except the Durable client may have a return value.
        return binding != "durableClient"
    return bool(getattr(converter, "has_implicit_output", lambda: False)())


def _is_generic(kind: Any) -> bool:
    if isinstance(kind, type):
        return issubclass(kind, typing.Generic)
    special = (typing.Union, tuple, typing.ClassVar, typing.get_origin(Callable[..., Any]))
    return isinstance(kind, _ALIASES) and typing.get_origin(kind) not in special


def _is_out(kind: Any) -> bool:
    origin = typing.get_origin(kind) if _is_generic(kind) else None
    return getattr(origin if origin is not None else kind, "__name__", None) == "Out"


def _extension_base() -> Any:
    """Return the base package of the worker's extensions, if the app has imported one: the worker decides by that."""
    return sys.modules.get("azurefunctions.extensions.base")


def _deferred_registry() -> Any:
    base = _extension_base()
    return None if base is None else base.get_binding_registry()


def _is_deferred(annotation: Any) -> bool:
    """Tell whether the annotation is an SDK type, which the extension base package (if imported) converts."""
    registry = _deferred_registry()
    return registry is not None and bool(registry.check_supported_type(annotation))


def _http_check(converter: str, *, output: bool) -> Callable[[Any], bool] | None:
    """Return the check of an HTTP function's types if an HTTP v2 extension has types of its own."""
    base = _extension_base()
    if converter != ("http" if output else "httpTrigger") or base is None:
        return None
    if not base.HttpV2FeatureChecker.http_v2_enabled():
        return None
    tracker = base.ResponseTrackerMeta if output else base.RequestTrackerMeta
    check: Callable[[Any], bool] = tracker.check_type
    return check


def _place_of(call: Any, app: Path) -> str:
    code = getattr(inspect.unwrap(call), "__code__", None)
    if code is None:
        return "no plain function"
    path = Path(code.co_filename)
    try:
        path = path.resolve().relative_to(app.resolve())
    except ValueError:
        path = Path(path.name)
    return f"{path}, line {code.co_firstlineno}"


def _names(names: typing.Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _shown(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else repr(annotation)
