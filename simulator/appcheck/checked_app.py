"""What is checked: an app's functions as the Functions host will know them, with their guards and settings."""

from __future__ import annotations

import inspect
import os
import sys
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from simulator.appcheck.finding import Place
from simulator.appcheck.source_lines import (
    is_decorated,
    names_used_in,
    place_of_class,
    place_of_function,
    place_of_guard,
    place_of_name,
)
from singleton.base.errors import ConfigurationError
from singleton.baseclient import BaseClient
from singleton.client import AsyncLockClient, LockClient
from singleton.clients import blocks
from singleton.decorator import guards_of
from singleton.functions.misdeclaration import error_of
from singleton.functions.triggers import ONCE_MARK, ORDERED_MARK, is_builder, trigger_of_function, user_function
from singleton.settings.hostjson import function_timeout
from singleton.settings.options import load_options, sources_of_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType

    from singleton.base.kinds import Mode
    from singleton.functions.guard import Guard
    from singleton.functions.triggers import Trigger
    from singleton.settings.hostjson import FunctionTimeout
    from singleton.settings.options import SingletonOptions

_DEEPEST: Final = 4
"""How many decorators without ``functools.wraps`` are looked through."""


_OF_THIS_MACHINE: Final = (
    *("CI", "CODESPACES", "DOTNET_RUNNING_IN_CONTAINER", "REMOTE_CONTAINERS"),
    *("CONTAINER_NAME", "KUBERNETES_SERVICE_HOST", "LEGION_SERVICE_HOST", "MANAGED_ENVIRONMENT", "POD_NAMESPACE"),
    "WEBSITE_POD_NAME",
)
"""Settings by which a platform says where a process runs. Containers of CI have some of them as well."""


def without_this_machine(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings without what the environment says of where the check runs: the app will run elsewhere."""
    here = {name: os.environ[name] for name in _OF_THIS_MACHINE if name in os.environ}
    return {name: value for name, value in settings.items() if name not in here or value != here[name]}


@dataclass(frozen=True, kw_only=True)
class AppSettings:
    """What configures the app.

    Attributes:
        folder: has host.json; None: there is no folder.
        values: the app settings.
        known: whether the settings are the app's; False: only settings of the checking machine are known.
        file: the file with the settings; None: no file, or not known.
    """

    folder: Path | None
    values: Mapping[str, str] = field(repr=False)
    known: bool
    file: Path | None = None

    @cached_property
    def options(self) -> SingletonOptions:
        """The options of the whole app; the defaults where they are wrong, which is a finding of its own."""
        try:
            return load_options(self.folder, self.values)
        except ConfigurationError:
            return load_options(None, {})

    @cached_property
    def sources(self) -> dict[str, str]:
        """Where the options of the whole app are set, by their names."""
        try:
            found = sources_of_options(self.folder, self.values)
        except ConfigurationError:
            return {}
        return {name: label.replace(f"{self.folder}/", "") for name, label in found.items()}

    @cached_property
    def function_timeout(self) -> FunctionTimeout | None:
        """How long an invocation may last; None: for ever, or host.json can't be read."""
        try:
            return function_timeout(self.folder, self.values)
        except ConfigurationError:
            return None


class Binding(NamedTuple):
    """A binding: the parameter's name, the type, whether an output, and the fields in function.json."""

    name: str
    type: str
    is_output: bool
    settings: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One function of the app.

    Attributes:
        name: to the Functions host.
        function: as ``azure.functions`` has built it.
        call: what the worker calls.
        trigger: as the host knows it.
        bindings: all of them.
        guards: with the options that apply under the app's settings; the listener's first, ``@once`` last.
        inbox: the inbox of ``@ordered``; None: the function has no such decorator.
        is_locked: whether a lock client decorates it: ``@locks.lock("total")``.
        hidden: whether another decorator hides the guards.
        refused: why its declaration is wrong; no guard is known then.
        written: the user's own function, below all decorators; None: what the worker calls is no function.
        place: of its ``def``.
        app: the app's settings.
    """

    name: str
    function: Any
    call: Callable[..., Any]
    trigger: Trigger
    bindings: tuple[Binding, ...]
    guards: tuple[Guard, ...]
    inbox: Any
    is_locked: bool
    hidden: bool
    refused: ConfigurationError | None
    written: FunctionType | None
    place: Place
    app: AppSettings

    @property
    def is_async(self) -> bool:
        """Whether the worker awaits it, rather than running it in a thread."""
        return inspect.iscoroutinefunction(self.call)

    @property
    def code(self) -> CodeType | None:
        """The code that the user wrote; None: what the worker calls is no function."""
        return None if self.written is None else self.written.__code__

    def place_of(self, guard: Guard) -> Place:
        """Return the line of the guard's decorator."""
        return self.place_of_decorator(guard.decorator, guard.mode)

    def place_of_decorator(self, decorator: str, mode: Mode = "function") -> Place:
        """Return the line of a decorator of ours; the line of the ``def``, if the decorator is not written there."""
        if self.code is None:
            return self.place
        return place_of_guard(self.code, decorator, mode, self.app.folder)


class Unbuilt(NamedTuple):
    """A function of the app that can't be built: the reason, and the file and line."""

    name: str
    why: str
    place: Place


def subjects(app: Any, settings: AppSettings) -> tuple[list[Subject], list[Unbuilt]]:
    """Return the app's functions, and those that can't be built.

    Args:
        app: a function app or blueprint of ``azure.functions``, in any of its versions.
        settings: of the app.

    Raises:
        TypeError: it is no app.
    """
    built: list[Subject] = []
    failed: list[Unbuilt] = []
    for builder in _builders(app):
        try:
            function = builder.build(getattr(app, "auth_level", None))
        except (TypeError, ValueError) as error:
            inner = builder._function  # noqa: SLF001 - there is no public way
            place = place_of(inner.get_user_function(), settings.folder)
            failed.append(Unbuilt(str(inner.get_function_name()), str(error), place))
        else:
            built.append(_subject(function, settings, app))
    return built, failed


def unregistered(app: Any, folder: Path | None) -> list[tuple[str, Place]]:
    """Return the functions that modules below a folder declare on blueprints, and that the app does not have."""
    registered = {id(each) for each in _builders(app)}
    found: dict[int, tuple[str, Place]] = {}
    for _, _, value in named_values(folder):
        for builder in filter(is_builder, _listed(inspect.getattr_static(value, "_function_builders", None))):
            inner = builder._function  # noqa: SLF001 - there is no public way
            if id(builder) not in registered:
                found[id(builder)] = str(inner.get_function_name()), place_of(inner.get_user_function(), folder)
    return [*found.values()]


def named_values(folder: Path | None) -> Iterator[tuple[str, str, object]]:
    """Yield file, name and value of every global of the modules below a folder."""
    for module in [*sys.modules.values()]:
        file = getattr(module, "__file__", None)
        if folder is not None and isinstance(file, str) and is_the_apps(file, folder):
            for name, value in [*vars(module).items()]:
                yield file, name, value


def written_in(function: object, folder: Path | None) -> FunctionType | None:
    """Return the function that the user wrote, also below a decorator that leaves no trace; None: there is none.

    Of the functions that may be meant, the user's own is in the app's files, has decorators, and stands in no other
    function.
    """

    def likely(function: FunctionType) -> tuple[bool, ...]:
        code = function.__code__
        return is_the_apps(code.co_filename, folder), is_decorated(code), "<locals>" not in code.co_qualname

    found = [*_inside(function)]
    return max(found, key=likely) if len(found) > 1 else next(iter(found), None)


def code_of(function: object, folder: Path | None) -> CodeType | None:
    """Return the code that the user wrote; None: there is none."""
    written = written_in(function, folder)
    return None if written is None else written.__code__


def place_of(function: object, folder: Path | None) -> Place:
    """Return the line of the ``def`` that the user wrote; of a class or an object, the line of the class."""
    code = code_of(function, folder)
    if code is not None:
        return place_of_function(code, folder)
    return place_of_class(function, folder) or Place("function_app.py", 1)


def _place_of_value(value: object, folder: Path | None) -> Place | None:
    """Return the line of the app's modules that gives a name this value; None: no module has the value."""
    found = (place_of_name(file, name, folder) for file, name, given in named_values(folder) if given is value)
    return next(found, None)


def _inside(call: Any, depth: int = 0) -> Iterator[FunctionType]:
    """Yield what the user may have written: the function below all decorators, and the functions in its closure."""
    while isinstance(call, partial):
        call = call.func
    call = inspect.unwrap(call)
    call = getattr(call, "__func__", call)
    if isinstance(call, FunctionType):
        yield call
    elif not isinstance(call, type | ModuleType):  # an object of a decorator that is a class
        for kept in [*getattr(call, "__dict__", {}).values()] if depth < _DEEPEST else ():
            if inspect.isroutine(kept):
                yield from _inside(kept, depth + 1)
    if depth < _DEEPEST:
        for cell in getattr(call, "__closure__", None) or ():
            if _is_filled(cell):
                yield from _inside(cell.cell_contents, depth + 1)


@lru_cache(maxsize=8192)  # each look asks for the file of every module
def is_the_apps(file: str, folder: Path | None) -> bool:
    """Tell whether a file is the app's own, and not one of a package that is installed in its folder."""
    path = Path(file)
    return folder is not None and path.is_relative_to(folder) and "site-packages" not in path.parts


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _builders(app: Any) -> list[Any]:
    """Return the builders of an app: ``get_functions`` can't be called twice, as it takes the names as used."""
    builders = getattr(app, "_function_builders", None)
    if not isinstance(builders, list):
        raise TypeError(f"app is a {type(app).__name__}: give a FunctionApp or Blueprint of azure.functions")
    return [each for each in builders if is_builder(each)]


def built_from(value: object) -> Callable[..., Any] | None:
    """Return the function in a trigger's builder; None: the value is no builder. No code of the value is run."""
    if inspect.getattr_static(value, "_function", None) is None or not is_builder(value):
        return None
    return user_function(value)


class GuardedGlobal(NamedTuple):
    """A guarded function of the app's modules: the code that the user wrote, and its name for callers.

    ``name`` is empty for the builder of a trigger, which nobody calls.
    """

    code: CodeType | None
    name: str


def guarded_functions(folder: Path | None) -> dict[int, GuardedGlobal]:
    """Return the guarded function of each guard of a global of the app's modules, by the guard's ``id``."""
    found: dict[int, GuardedGlobal] = {}
    for _, name, value in named_values(folder):
        inside = built_from(value)
        for carrier in _carriers(inside or value):
            guarded = GuardedGlobal(code_of(carrier, folder), "" if inside else name)
            found.update(dict.fromkeys(map(id, _guards(carrier)), guarded))
    return found


def _subject(function: Any, settings: AppSettings, app: object) -> Subject:
    call = function.get_user_function()
    trigger = trigger_of_function(function)
    assert trigger is not None  # it could be built
    carrier = next(_carriers(call), call)
    name = str(function.get_function_name())
    written, place = written_in(carrier, settings.folder), place_of(carrier, settings.folder)
    if written is not None and written.__module__.startswith("azure.functions."):  # of AsgiFunctionApp, WsgiFunctionApp
        place = _place_of_value(app, settings.folder) or place
    return Subject(
        name=name,
        function=function,
        call=call,
        trigger=trigger,
        bindings=tuple(_binding(each) for each in function.get_bindings()),
        guards=tuple(_effective(guard, settings) for guard in _guards(carrier)),
        inbox=getattr(carrier, ORDERED_MARK, None),
        is_locked=_is_locked(call),
        hidden=carrier is not call,
        refused=error_of(carrier),
        written=written,
        place=place,
        app=settings,
    )


def _binding(binding: Any) -> Binding:
    return Binding(str(binding.name), str(binding.type), int(binding.direction) == 1, dict(binding.get_dict_repr()))


def _guards(call: object) -> tuple[Guard, ...]:
    once = getattr(call, ONCE_MARK, None)
    return (*guards_of(call), *([] if once is None else [once()]))


def _carriers(call: object, depth: int = 0) -> Iterator[Callable[..., Any]]:
    """Yield what has guards, or stands in for what has: the function itself, or what its decorators wrap unseen."""
    if inspect.isfunction(call) and (_guards(call) or hasattr(call, ORDERED_MARK) or error_of(call) is not None):
        yield call
    elif inspect.isfunction(call) and depth < _DEEPEST:
        inside = [cell.cell_contents for cell in call.__closure__ or () if _is_filled(cell)]
        for each in [getattr(call, "__wrapped__", None), *inside]:
            yield from _carriers(each, depth + 1)


def _is_locked(call: object, depth: int = 0) -> bool:
    """Tell whether the decorator of a lock client is among the decorators of a function."""
    if not inspect.isfunction(call) or depth == _DEEPEST:
        return False
    inside = [cell.cell_contents for cell in call.__closure__ or () if _is_filled(cell)]
    around = {id(each): each for each in [getattr(call, "__wrapped__", None), *inside]}
    return vars(blocks) is call.__globals__ or any(_is_locked(each, depth + 1) for each in around.values())


def uses_client(folder: Path | None) -> bool:
    """Tell whether the app's modules make a lock client, or have one."""
    names = {LockClient.__name__, AsyncLockClient.__name__}
    found = [*named_values(folder)]
    return any(isinstance(value, BaseClient) for _, _, value in found) or any(
        not names.isdisjoint(names_used_in(file)) for file in {file for file, _, _ in found}
    )


def _is_filled(cell: Any) -> bool:
    try:
        return inspect.isfunction(cell.cell_contents)
    except ValueError:
        return False


def _effective(guard: Guard, settings: AppSettings) -> Guard:
    """Return the guard with the options that it has under these settings, which need not be those of this process."""
    own = {name: getattr(guard.options, name) for name in guard.own}
    try:
        options = settings.options.replace(**guard.layout.fixed_options).replace(**own)
        return guard if options == guard.options else replace(guard, options=options)
    except ConfigurationError:  # a finding already: of the app's options
        return guard
