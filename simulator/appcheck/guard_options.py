"""Which options apply to a guard, with their values, and where each comes from."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final

from simulator.appcheck.check_report import OptionReport
from singleton.base.errors import ConfigurationError
from singleton.dotnet.dequeueable import DequeueableLayout
from singleton.dotnet.webjobs import WebJobsLayout
from singleton.settings.hostid import in_development
from singleton.settings.options import SingletonOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.appcheck.checked_app import AppSettings
    from singleton.functions.guard import Guard

ARGUMENT: Final = "argument"
DEFAULT: Final = "default"
_OF_GUARDS: Final = {
    "timeout": None,
    "max_waiting": None,
    "when_full": "raise",
    "at_least": 0.0,
    "max_hold": None,
    "limit": None,
    "scope_hash": False,
}
"""Arguments that are no options of the app, with their defaults."""


def layout_name(guard: Guard) -> str:
    """Return the name of the guard's layout."""
    if isinstance(guard.layout, WebJobsLayout):
        return "webjobs"
    return "dequeueable" if isinstance(guard.layout, DequeueableLayout) else "default"


def options_of(guard: Guard, app: AppSettings) -> Iterator[OptionReport]:
    """Yield the options of a guard: first the options of declarations only, then the options that an app may set."""
    for name, default in _OF_GUARDS.items():
        value = getattr(guard, name)
        yield OptionReport(name, value, DEFAULT if value == default else ARGUMENT)
    laid = _laid_down(guard, app)
    for each in fields(SingletonOptions):
        if each.name in guard.own:
            source = ARGUMENT
        elif each.name in laid:
            source = f"layout {layout_name(guard)}"
        elif each.name in app.sources:
            source = app.sources[each.name]
        elif each.name == "listener_lock_period" and in_development(app.values):
            source = "default in development"
        else:
            source = DEFAULT
        yield OptionReport(each.name, getattr(guard.options, each.name), source)


def _laid_down(guard: Guard, app: AppSettings) -> set[str]:
    """Return the names of the options whose values the layout lays down."""
    try:
        adapted = app.options.replace(**guard.layout.fixed_options)
    except ConfigurationError:
        return set()
    names = (each.name for each in fields(SingletonOptions))
    return {name for name in names if getattr(adapted, name) != getattr(app.options, name)}
