"""Functions of the app's modules that the Functions host does not find, with a guard or without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulator.appcheck.checked_app import code_of, guarded_functions, is_the_apps, named_values, unregistered
from simulator.appcheck.rules import RULES
from simulator.appcheck.source_lines import names_used_in, place_of_function, place_of_guard
from singleton.decorator import declared_guards

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simulator.appcheck.checked_app import AppSettings, Subject
    from simulator.appcheck.finding import Finding, Place


def check_lost(
    app: Any, found: Sequence[Subject], settings: AppSettings, *, everywhere: bool, empty: bool
) -> Iterator[Finding]:
    """Yield each function that the host does not find, once. A function is known by the place of its ``def``.

    Args:
        everywhere: look in all files of the app's folder, rather than in those that have functions.
        empty: whether the app has no function at all.
    """
    told = {subject.place for subject in found}
    others = unregistered(app, settings.folder)
    if empty:
        yield from _unregistered(others, told, "no-function", "the app has no function: this one")
    yield from _guarded(found, told, settings, everywhere=everywhere)
    if everywhere:
        yield from _unregistered(others, told, "function-not-registered", "it")


def _guarded(found: Sequence[Subject], told: set[Place], app: AppSettings, *, everywhere: bool) -> Iterator[Finding]:
    written, used = guarded_functions(app.folder), _names_used(app)
    files = {subject.code.co_filename for subject in found if subject.code is not None}
    for guard in declared_guards():
        code, name = written.get(id(guard), (code_of(guard.written, app.folder), guard.function))
        if code is None or name in used:
            continue
        if code.co_filename not in files and not (everywhere and is_the_apps(code.co_filename, app.folder)):
            continue
        if (place := place_of_function(code, app.folder)) not in told:
            told.add(place)
            yield RULES["guard-without-function"].broken(
                f"{guard.function} is guarded, and it is none of the app's functions: it has no trigger, or its "
                "blueprint is not registered, and nothing calls it. Give it a trigger, or remove @singleton",
                guard.function,
                place_of_guard(code, guard.decorator, guard.mode, app.folder),
            )


def _names_used(app: AppSettings) -> set[str]:
    """Return the names that the app's modules use: a guarded function with one of them may well be called."""
    files = {file for file, _, _ in named_values(app.folder)}
    return {name for file in files for name in names_used_in(file)}


def _unregistered(others: Sequence[tuple[str, Place]], told: set[Place], rule: str, which: str) -> Iterator[Finding]:
    for name, place in others:
        if place not in told:
            told.add(place)
            yield RULES[rule].broken(
                f"{which} belongs to a blueprint that is not registered, so the host does not know it. Call "
                "app.register_functions(blueprint) in function_app.py",
                name,
                place,
            )
