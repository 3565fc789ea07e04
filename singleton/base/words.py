"""Parts of error messages: a value, a list of names, a near miss, a function with wrong parameters.

Messages may end up in logs: long values are cut.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Final

from singleton.base.callables import signature_of
from singleton.base.errors import ConfigurationError, shown
from singleton.base.forks import importing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def quoted(value: object, limit: int = 80) -> str:
    """Return the value as Python writes it, cut to ``limit`` characters, and such that the host hides none of it."""
    try:
        said = called(value) if inspect.isroutine(value) or isinstance(value, partial) else shown(repr(value))
    except ValueError:  # an int of more digits than Python prints
        return f"a number of more than {limit} digits"
    except RecursionError:
        return f"a {type(value).__name__} that is deeply nested"
    return said if len(said) <= limit else f"{said[:limit]}…"


def called(function: object) -> str:
    """Return the name of a function, also in a partial, or of the class of a callable object: never an address."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def as_json(value: object) -> str:
    """Return a value of a JSON file in the spelling of JSON: null, true, false.

    >>> as_json(None), as_json(True), as_json("15")
    ('null', 'true', "'15'")
    """
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else quoted(value)


def with_article(name: str) -> str:
    """Return a name after ``a`` or ``an``."""
    return f"{'an' if name[:1] in 'aeioAEIO' else 'a'} {name}"


def listed(names: Iterable[object], limit: int = 10) -> str:
    """Return up to ``limit`` names, quoted and cut, and the number of the remaining names.

    >>> listed(["Id", "Region"])
    "'Id', 'Region'"
    >>> listed(range(12), limit=2)
    '0, 1 and 10 more'
    """
    known = list(names)
    said = ", ".join(quoted(name, 40) for name in known[:limit])
    return said if len(known) <= limit else f"{said} and {len(known) - limit} more"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean X?"`` for the closest known name, ignoring case, or the empty text."""
    with importing:
        import difflib

    spelt = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold()[:200], spelt, n=1)
    return f"; did you mean {quoted(spelt[close[0]])}?" if close else ""


NO_CLASS: Final = (
    "is a class, and this is no pattern for classes: a lock lets one call of a function at a time run, over all "
    "processes. Put it on a function. For one object in each process, use a global, or functools.cache on a function "
    "that makes the object"
)


def check_arity(named: str, function: Callable[..., object], what: str, example: str = "") -> None:
    """Refuse a function that can't be called with one argument, ``what``, before the first call."""
    try:
        signature_of(function).bind(None)
    except TypeError as error:
        raise ConfigurationError(
            f"{named}: {called(function)} can't be called with {what}: {error}. Give a function of one "
            f"parameter{example}"
        ) from None
    except ValueError:  # a builtin that does not tell
        return
