"""What the app of this process declares: the arguments of its decorators as written, with options in force.

The arguments of ``@singleton``, ``@once`` and ``@ordered`` are copied before the product sees them. So what a guard
must do need not be asked of the guard.
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
from simulator.witness.witness import RULES, inbox_rules
from singleton.settings.hostjson import read_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    Arguments = Mapping[str, Any]

_known: Final[dict[str, list[tuple[Any, tuple[Arguments, ...]]]]] = {"singleton": [], "once": [], "ordered": []}
"""By decorator each decorated function, with the arguments of all its declarations, the outermost first."""
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
    copied = {name: (getattr(singleton, name), _copying(name)) for name in _known}
    modules = [getattr(module, "__dict__", {}) for module in list(sys.modules.values())]
    places = [
        (names, name) for names in modules for name, (decorator, _) in copied.items() if names.get(name) is decorator
    ]
    for names, name in places:
        names[name] = copied[name][1]
    try:
        yield
    finally:
        for names, name in places:
            names[name] = copied[name][0]


def _copying(name: str) -> Callable[..., Any]:
    """Return the decorator with this name, but copying the arguments of each declaration."""
    decorator: Any = getattr(singleton, name)

    @functools.wraps(decorator)
    def copying(target: Any = None, /, *more: Any, **given: Any) -> Any:
        copy = dict(given)
        if target is None or isinstance(target, str) or name == "ordered":
            decorate = decorator(*() if target is None else (target,), *more, **given)
            return lambda function: _decorated(name, function, decorate, copy)
        if not (callable(target) or hasattr(target, "_function")):  # a lock client: a block declares nothing
            return decorator(target, *more, **given)
        return _decorated(name, target, lambda function: decorator(function, *more, **given), copy)

    vars(copying)["__signature__"] = inspect.signature(decorator)
    return copying


def _decorated(name: str, target: Any, decorate: Callable[[Any], Any], given: Arguments) -> Any:
    below = _arguments_on(_function_of(target), name)
    made = decorate(target)
    _known[name].append((_function_of(made), (given, *below)))
    if name == "ordered":
        setattr(_function_of(made), RULES, inbox_rules(**given))
    return made


def _function_of(target: Any) -> Any:
    """Return a function, or the one in what the decorator of a trigger returns."""
    get = getattr(getattr(target, "_function", None), "get_user_function", None)
    return target if get is None else get()


def _arguments_on(function: Any, name: str) -> tuple[Arguments, ...]:
    """Return the arguments of a decorator's declarations on a function, the outermost first; () without any."""
    arguments: tuple[Arguments, ...]
    while function is not None:
        for made, arguments in reversed(_known[name]):
            if made is function:
                return arguments
        function = getattr(function, "__wrapped__", None)
    return ()


def declared_on(function: Callable[..., Any]) -> tuple[Declaration, ...]:
    """Return the ``@singleton`` declarations on a function of the app, a listener's first."""
    return tuple(sorted(_made(_arguments_on(function, "singleton")), key=lambda each: str(each["mode"]), reverse=True))


def operation_on(function: Callable[..., Any]) -> Declaration | None:
    """Return the ``@once`` declaration on a function of the app; None: there is none."""
    return next(iter(_made(_arguments_on(function, "once")[:1])), None)


def declared_around(written: Callable[..., Any] | None, mode: str, name: str = "singleton") -> Declaration | None:
    """Return a decorator's declaration with this mode around the user's own function; None: none, or several."""
    around = (arguments[0] for made, arguments in _known[name] if inspect.unwrap(made) is written)
    found = [each for each in _made(around) if each["mode"] == mode]
    return found[0] if len(found) == 1 else None


def _made(given: Iterable[Arguments]) -> list[Declaration]:
    return [Declaration.of(each, _options, os.environ) for each in given]
