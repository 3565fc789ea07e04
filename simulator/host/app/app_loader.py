"""Import the user's ``function_app.py``, unchanged, and find its functions by the Python worker's rules.

An app may have a module or package `simulator` of its own, while this process has loaded ours under the same name. The
app gets its own at import and at run time, as in Azure. Ours keeps working: the submodules of ours stay under their
names, in packages that the app may have as well.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import threading
import traceback
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from simulator.host.app.app_model import AppError
from simulator.host.app.function_index import index_function
from singleton.base.appsettings import setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from simulator.host.app.app_model import IndexedFunction


_NAME: Final = "simulator"
_OURS: Final = Path(__file__).resolve().parents[2]
_loading: Final = threading.RLock()


@contextmanager
def room_for(app: Path) -> Iterator[None]:
    """Have ``import simulator`` find the app's own, if it has one, while it is imported and from then on.

    Raises:
        AppError: a module of the app's and one of ours, both of which are needed, have the same full name.
    """
    spec = _own(app)
    if spec is None:
        yield
        return
    ours = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == _NAME}
    for name in ours:
        del sys.modules[name]
    finder = _Finder(spec)
    sys.meta_path.insert(0, finder)
    try:
        yield
        _keep(ours, app)
    except BaseException:
        sys.modules.update(ours)
        raise
    finally:
        sys.meta_path.remove(finder)
    # A process that we start, as `explore` does, has this path, and finds our package.
    if str(app) in sys.path:
        sys.path.remove(str(app))
        sys.path.append(str(app))


def _own(app: Path) -> ModuleSpec | None:
    """Find the app's ``simulator``, which may be the very checkout that we run from."""
    spec = PathFinder.find_spec(_NAME, [str(app)])
    places = [] if spec is None else spec.submodule_search_locations or []
    return None if _OURS in [Path(place).resolve() for place in places] else spec


def _keep(ours: dict[str, ModuleType], app: Path) -> None:
    """Put ours back beside the app's, some of which nothing may have imported yet."""
    places = {"": [str(app)]}
    for name in sorted(ours):  # a package comes before what is in it
        module, theirs = ours[name], sys.modules.get(name)
        above = places.get(name.rpartition(".")[0])
        spec = PathFinder.find_spec(name, above) if above else None
        if spec is not None and hasattr(module, "__path__"):
            places[name] = [*(spec.submodule_search_locations or ())]
            theirs = sys.modules.setdefault(name, _untouched(spec, module.__path__))
            if type(theirs) is not _Untouched:
                theirs.__path__ = [*places[name], *module.__path__]
        elif theirs is None:
            sys.modules[name] = module
        else:
            raise AppError(
                f"the app's own module {name} has the full name of one of the simulator's, and both are needed in one "
                "process: give it another name to run the app here; in Azure the simulator is not there"
            )


class _Finder:
    """Finds a single module, before the installed modules."""

    def __init__(self, spec: ModuleSpec) -> None:
        self._spec = spec

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return self._spec if name == _NAME else None


class _Untouched(ModuleType):
    """The app's module before the first look into the module: the code runs at that look."""

    places_of_ours: list[str]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        with _loading:
            if type(self) is _Untouched:
                _run(self)
        return getattr(self, name)


def _run(module: _Untouched) -> None:
    spec = module.__spec__
    assert spec is not None
    assert spec.loader is not None
    if "__path__" in vars(module):
        raise AttributeError("its code runs, and has not come that far")
    module.__path__ = [*(spec.submodule_search_locations or ()), *module.places_of_ours]
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del module.__path__
        raise
    # As importlib's LazyLoader does.
    module.__class__ = ModuleType  # type: ignore[assignment]


def _untouched(spec: ModuleSpec, places: Iterable[str]) -> ModuleType:
    module = _Untouched(spec.name)
    for name, value in vars(module_from_spec(spec)).items():
        if name != "__path__":
            setattr(module, name, value)
    module.places_of_ours = [*places]
    return module


_DEFAULT_SCRIPT: Final = "function_app.py"
_SHOWN: Final = 5
_WORKER: Final = "azure_functions_worker"
_SCRIPT_NAME: Final = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_\-]*\.py\Z")


def load_functions(app: Path, settings: Mapping[str, str]) -> list[IndexedFunction]:
    """Import the app in ``app`` and index its functions, once, as the worker does at its start.

    Raises:
        AppError: there is no app, it doesn't import, or the worker would not index it.
    """
    with _as_worker():
        found, script = import_app(app, settings), script_name(app, settings)
        try:
            functions = found.get_functions()
        except Exception as error:
            raise AppError(f"{script} can't be indexed: {_one_line(error)}") from error
    if not functions:
        raise AppError(f"{script} has no functions: decorate at least one with a trigger of its FunctionApp")
    return [index_function(function, app) for function in functions]


@contextmanager
def _as_worker() -> Iterator[None]:
    """Have ``@singleton`` find itself in a worker, by a package that each worker has loaded."""
    known = sys.modules.setdefault(_WORKER, made := ModuleType(_WORKER))
    try:
        yield
    finally:
        if known is made:
            del sys.modules[_WORKER]


def import_app(app: Path, settings: Mapping[str, str]) -> Any:
    """Import the app in ``app``, and return its ``FunctionApp``.

    The folder becomes the working directory. The app's own modules are searched there, after the installed ones.

    Raises:
        AppError: there is no app, or it doesn't import.
    """
    script = app / script_name(app, settings)
    functions_library = _azure_functions()
    os.chdir(app)
    if str(app) not in sys.path:
        # After the installed packages, as in the worker, but before the simulator's own checkout, if it runs from one.
        root = Path(__file__).resolve().parents[3]
        checkout = str(root) in sys.path and (root / "pyproject.toml").is_file()
        sys.path.insert(sys.path.index(str(root)) if checkout else len(sys.path), str(app))
    packages = app / ".python_packages" / "lib" / "site-packages"  # a pipeline installs the deployed packages there
    if packages.is_dir() and str(packages) not in sys.path:
        sys.path.append(str(packages))
    with room_for(app):
        module = _import(script, app)
    return _app_object(module, functions_library.FunctionRegister, script.name)


def script_name(app: Path, settings: Mapping[str, str]) -> str:
    """Return the name of the app's script, which is there.

    Raises:
        AppError: the script is missing, or its name is not allowed.
    """
    name = setting(settings, "PYTHON_SCRIPT_FILE_NAME") or _DEFAULT_SCRIPT
    if not _SCRIPT_NAME.match(name):
        raise AppError(f"PYTHON_SCRIPT_FILE_NAME is {name!r}: the worker takes a file name such as {_DEFAULT_SCRIPT}")
    if not (app / name).is_file():
        v1 = sorted(path.parent.name for path in app.glob("*/function.json"))
        if v1:
            raise AppError(
                f"no {name} in {app}, but a function.json for each of {_listed(v1)}: this is an app of the v1 "
                "programming model, in which @singleton works, and which is neither checked nor run here; only the v2 "
                "model (decorators) is"
            )
        raise AppError(f"no {name} in {app}: give the folder of a Python v2 Functions app")
    return name


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _azure_functions() -> Any:
    try:
        import azure.functions
    except ImportError as error:
        version = ".".join(map(str, sys.version_info[:3]))
        raise AppError(
            f"azure-functions can't be imported in this Python ({version}): {_one_line(error)}; run: "
            "pip install azure-functions"
        ) from error
    return azure.functions


def _import(script: Path, app: Path) -> ModuleType:
    # By its path, not by its name: another function_app.py may come first on sys.path.
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[script.stem] = module
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        del sys.modules[script.stem]
        raise AppError(_import_failure(error, script, app)) from error
    return module


def _import_failure(error: BaseException, script: Path, app: Path) -> str:
    message = f"{_place(error, app) or script.name} does not import: {_one_line(error)}"
    if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("singleton."):
        message += (
            "; singleton is the package azure-functions-singleton here, as in Azure, and hides a module of the app's "
            "own with this name: give that module another name"
        )
    elif isinstance(error, ModuleNotFoundError) and error.name:
        message += (
            f"; if {error.name.partition('.')[0]!r} is one of the app's requirements, install them "
            "into this environment (pip install -r requirements.txt)"
        )
    elif isinstance(error, KeyError) and _asks_environment(error):
        message += (
            f"; os.environ[…] is read as the app is imported, and there is no app setting {error.args[0]} here. It may "
            "be set in Azure only: set it in local.settings.json or in the environment, too"
        )
    elif isinstance(error, SystemExit):
        message += "; an app must not exit while it is imported"
    return message


def _asks_environment(error: KeyError) -> bool:
    """Tell whether ``os.environ`` itself lacks the name."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return last.filename in ("<frozen os>", os.__file__) and len(error.args) == 1


def _place(error: BaseException, app: Path) -> str | None:
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno))
    for filename, line in reversed(places):
        if filename.startswith("<"):  # no file: a frozen module, or code that was made
            continue
        try:
            relative = Path(filename).resolve().relative_to(app.resolve())
        except (ValueError, OSError):
            continue
        return f"{relative}, line {line}"
    return None


def _one_line(error: BaseException) -> str:
    text = " ".join((error.msg if isinstance(error, SyntaxError) else str(error)).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _app_object(module: ModuleType, kind: type, script: str) -> Any:
    # The worker looks at every name of the module: the same app under two names counts twice.
    names = [name for name in dir(module) if isinstance(getattr(module, name, None), kind)]
    if len(names) > 1:
        raise AppError(
            f"{script} has {len(names)} top-level function apps ({', '.join(names)}): the worker takes exactly one; "
            "use func.Blueprint for the others and register them"
        )
    if not names:
        raise AppError(f"{script} has no function app at its top level: it needs `app = func.FunctionApp()`")
    return getattr(module, names[0])
