"""Other apps beside the app's folder: a timer of both has a lock in each, unless both have one host id."""

from __future__ import annotations

import ast
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simulator.appcheck.finding import Place
from simulator.appcheck.rules import RULES
from simulator.appcheck.source_lines import HOST_FILE, decorators_of, functions_in
from singleton.base.words import listed
from singleton.functions.triggers import TIMER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NOT_THE_APPS: Final = frozenset({"node_modules", "site-packages", "tests"})
"""Folders of which the host imports nothing as the app's."""


def timers_of_each(report: Mapping[str, Any], app: Path, against: Path | None) -> Iterator[dict[str, Any]]:
    """Yield the guarded timers that another app of the repository has too, where no host id is set.

    A warning if both are the same word for word, else a note: the work of the other may be another one.

    Args:
        report: on the app, in the form of ``CheckReport.to_json``.
        app: its folder.
        against: another version of this app, which is no other app.
    """
    others = {folder.name: _guarded_in(folder) for folder in _beside(app.resolve(), against and against.resolve())}
    for function in report["functions"]:
        guard = next((each for each in function["guards"] if _is_of_one_host(each)), None)
        written = functions_in(str(app / function["file"]))
        source = next((each for each in written if each.lineno == function["line"]), None)
        if function["trigger"] != TIMER or guard is None or source is None:
            continue
        same = [name for name, guarded in others.items() if source.name in guarded]
        if same:
            told = (
                f"{listed(same)}, beside this app, {'has' if len(same) == 1 else 'have'} this timer, too, and hostId "
                "is not set: each app has a lock of its own, so each runs the timer. If one of them is to run it, set "
                "the same hostId in the singleton section of all, with one storage account for the locks"
            )
            place = Place(guard["file"], guard["line"])
            found = RULES["timer-in-each-app"].broken(told, function["name"], place)
            is_equal = any(others[name][source.name] == ast.dump(source) for name in same)
            yield (found if is_equal else replace(found, severity="note")).to_json()


def _beside(app: Path, against: Path | None) -> list[Path]:
    """Return the folders of other apps beside an app, in the same repository: another clone is no other app."""
    folders = [app, *sorted(each.parent for each in app.parent.glob(f"*/{HOST_FILE}"))]
    inside = [each for each in folders if not (each / ".git").exists()]
    return [each for each in inside if app in inside and each not in (app, against)]


def _guarded_in(folder: Path) -> dict[str, str]:
    """Return the guarded functions in the files of a folder by their names: the source, without its lines."""
    found = [each for file in _sources(folder) for each in functions_in(str(file))]
    return {each.name: ast.dump(each) for each in found if "singleton" in decorators_of(each)}


def _sources(folder: Path) -> Iterator[str]:
    """Yield the Python files of an app, also those of blueprints in folders, and not those of installed packages."""
    for where, folders, files in os.walk(folder):
        folders[:] = [
            each
            for each in folders
            if not (each.startswith((".", "__")) or Path(where, each, "pyvenv.cfg").is_file() or each in _NOT_THE_APPS)
        ]
        yield from (str(Path(where, file)) for file in files if file.endswith(".py"))


def _is_of_one_host(guard: Mapping[str, Any]) -> bool:
    return guard["layout"] != "dequeueable" and guard["options"].get("host_id", {"value": ""})["value"] is None
