"""What the app of this process declares: copied as the app is imported, with the options in force."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import singleton
from simulator.expected.declaration import Declaration, options_in_force
from simulator.witness.declarations import Declarations
from singleton.settings.hostjson import read_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path


def _function_of(target: Any) -> Any:
    """Return a function, or the one in what the decorator of a trigger returns."""
    get = getattr(getattr(target, "_function", None), "get_user_function", None)
    return target if get is None else get()


_DECLARATIONS: Final = Declarations(_function_of)
_options: dict[str, Any] = {}


@contextmanager
def declarations_copied(app: Path, settings: Mapping[str, str]) -> Iterator[None]:
    """Copy the declarations of the app that is imported meanwhile."""
    section: dict[str, object] = {}
    for name, value in read_object(app / "host.json").items():
        if name.casefold() == "singleton" and isinstance(value, dict):
            section |= value
    _options.clear()
    _options.update(options_in_force(section, settings))
    with _DECLARATIONS.copied(singleton.singleton):
        yield


def declared_on(function: Callable[..., Any]) -> tuple[Declaration, ...]:
    """Return the declarations on a function of the app, a listener's first."""
    return tuple(sorted(_made(_DECLARATIONS.of(function)), key=lambda each: str(each["mode"]), reverse=True))


def declared_around(written: Callable[..., Any] | None, mode: str) -> Declaration | None:
    """Return the declaration with this mode somewhere around the user's own function; None: none, or several."""
    found = [each for each in _made(_DECLARATIONS.around(written)) if each["mode"] == mode]
    return found[0] if len(found) == 1 else None


def _made(given: Iterable[Mapping[str, Any]]) -> list[Declaration]:
    return [Declaration.of(each, _options, os.environ) for each in given]
