"""The app's own module or package `simulator`: in this process the name was taken before, by ours.

The app gets its own, as it does in Azure, where there is no other: when it is imported, and when it runs. Ours are
loaded by then, and keep working: their submodules stay under their names, in packages that the app may have as well.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from simulator.host.app.model import AppError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
    # A process that we start, as `explore` does, has this path, and finds ours there.
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
        spec = _find(name, places.get(name.rpartition(".")[0], []))
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


def _find(name: str, places: list[str]) -> ModuleSpec | None:
    return PathFinder.find_spec(name, places) if places else None


class _Finder:
    """Finds one module, before what is installed."""

    def __init__(self, spec: ModuleSpec) -> None:
        self._spec = spec

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return the module's spec if it is asked for."""
        return self._spec if name == _NAME else None


class _Untouched(ModuleType):
    """The app's module as long as nobody has looked into it: only then its code runs."""

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
