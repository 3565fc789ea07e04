"""A module of the app's own that has the name of the package ``singleton``."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simulator.appcheck.checked_app import is_the_apps
from simulator.appcheck.finding import Place
from simulator.appcheck.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.appcheck.checked_app import AppSettings
    from simulator.appcheck.finding import Finding

_NAME: Final = "singleton"


def check_own_module(app: AppSettings) -> Iterator[Finding]:
    """Yield the module of the app which hides the package, or which the package hides in Azure."""
    if app.folder is None or (app.folder / _NAME / "locking").is_dir():  # the package itself
        return
    rule = RULES["own-module-singleton"]
    first = _imported(app.folder)
    if first is not None:
        yield replace(
            rule.broken(
                f"{_shown(first, app.folder)} is imported in place of the package singleton: the app puts its folder "
                "before the installed packages on sys.path. So @singleton is that of the module, which is no lock. "
                "Give the module another name",
                place=Place.of(str(first), 1, app.folder),
            ),
            severity="error",
        )
        return
    package = app.folder / _NAME
    files = [app.folder / f"{_NAME}.py", package / "__init__.py", *sorted(package.glob("*.py"))]
    own = next((file for file in files if file.is_file()), None)
    if own is not None:
        yield rule.broken(
            f"{_shown(own, app.folder)} is a module of the app's own with the name of the package "
            "singleton. In Azure the package is imported, and the module can't be; where the app's folder comes first, "
            "as in pytest, @singleton is that of the module, which is no lock. Give the module another name",
            place=Place.of(str(own), 1, app.folder),
        )


def _imported(folder: Path) -> Path | None:
    """Return the app's module that ``import singleton`` finds in Azure, once the app is imported; None: the package."""
    places = [*sys.path]
    if str(folder) in places:  # of the worker, which has it last
        del places[-1 - places[::-1].index(str(folder))]
    spec = PathFinder.find_spec(_NAME, places)
    found = None if spec is None or spec.origin is None else Path(spec.origin).absolute()
    if found is None or not is_the_apps(str(found), folder) or (found.parent / "locking").is_dir():
        return None
    return found


def _shown(file: Path, folder: Path) -> str:
    return file.relative_to(folder).as_posix()
