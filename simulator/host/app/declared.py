"""What the app of this process declares: the arguments of each ``@singleton`` as written, with the options in force.

The arguments are copied before the product sees them. So what a guard must do need not be asked of the guard.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import singleton
from simulator.expected.declaration import Declaration, options_in_force
from singleton.settings.hostjson import read_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    Arguments = Mapping[str, Any]

_known: Final[list[tuple[Any, tuple[Arguments, ...]]]] = []
"""Every decorated function, with the arguments of all its declarations, the outermost first."""
_options: Final[dict[str, Any]] = {}


@contextmanager
def declarations_copied(app: Path, settings: Mapping[str, str]) -> Iterator[None]:
    """Copy the declarations of the app that is imported meanwhile, from whichever module it imports the decorator.

    ``inspect`` shows the decorator as it is.
    """
    section: dict[str, object] = {}
    for name, value in read_object(app / "host.json").items():
        if name.casefold() == "singleton" and isinstance(value, dict):
            section |= value
    _options.clear()
    _options.update(options_in_force(section, settings))
    decorator: Any = singleton.singleton

    @functools.wraps(decorator)
    def copying(target: Any = None, /, **given: Any) -> Any:
        copy = dict(given)
        if target is None or isinstance(target, str):
            decorate = decorator(target, **given)
            return lambda function: _decorated(function, decorate, copy)
        return _decorated(target, lambda function: decorator(function, **given), copy)

    vars(copying)["__signature__"] = inspect.signature(decorator)
    modules = [getattr(module, "__dict__", {}) for module in list(sys.modules.values())]
    places = [names for names in modules if names.get("singleton") is decorator]
    for names in places:
        names["singleton"] = copying
    try:
        yield
    finally:
        for names in places:
            names["singleton"] = decorator


def _decorated(target: Any, decorate: Callable[[Any], Any], given: Arguments) -> Any:
    below = _arguments_on(_function_of(target))
    made = decorate(target)
    _known.append((_function_of(made), (given, *below)))
    return made


def _function_of(target: Any) -> Any:
    """Return a function, or the one in what the decorator of a trigger returns."""
    get = getattr(getattr(target, "_function", None), "get_user_function", None)
    return target if get is None else get()


def _arguments_on(function: Any) -> tuple[Arguments, ...]:
    """Return the arguments of the declarations on a function, the outermost first; () without any."""
    arguments: tuple[Arguments, ...]
    while function is not None:
        for made, arguments in reversed(_known):
            if made is function:
                return arguments
        function = getattr(function, "__wrapped__", None)
    return ()


def declared_on(function: Callable[..., Any]) -> tuple[Declaration, ...]:
    """Return the declarations on a function of the app, a listener's first."""
    return tuple(sorted(_made(_arguments_on(function)), key=lambda each: str(each["mode"]), reverse=True))


def declared_around(written: Callable[..., Any] | None, mode: str) -> Declaration | None:
    """Return the declaration with this mode somewhere around the user's own function; None: none, or several."""
    around = (arguments[0] for made, arguments in _known if inspect.unwrap(made) is written)
    found = [each for each in _made(around) if each["mode"] == mode]
    return found[0] if len(found) == 1 else None


def _made(given: Iterable[Arguments]) -> list[Declaration]:
    return [Declaration.of(each, _options, os.environ) for each in given]
