"""A module of the app's own that has the name of the package ``singleton``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.appcheck.finding import Place
from simulator.appcheck.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.appcheck.checked_app import AppSettings
    from simulator.appcheck.finding import Finding


def check_own_module(app: AppSettings) -> Iterator[Finding]:
    """Yield the module of the app which the package hides in Azure, and which may hide the package elsewhere."""
    if app.folder is None or (app.folder / "singleton" / "locking").is_dir():  # the package itself
        return
    package = app.folder / "singleton"
    files = [app.folder / "singleton.py", package / "__init__.py", *sorted(package.glob("*.py"))]
    own = next((file for file in files if file.is_file()), None)
    if own is not None:
        yield RULES["own-module-singleton"].broken(
            f"{own.relative_to(app.folder).as_posix()} is a module of the app's own with the name of the package "
            "singleton. In Azure the package is imported, and the module can't be; where the app's folder comes first, "
            "as in pytest, @singleton is that of the module, which is no lock. Give the module another name",
            place=Place.of(str(own), 1, app.folder),
        )
