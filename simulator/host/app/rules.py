"""What the Functions host refuses after the worker has indexed the app: names of functions and of bindings (H-86).

The worker's rules are in `indexing`: if one is broken, all functions of the app are lost. If a rule of this module is
broken, only that function is lost. The exception are two names that differ only in case: they keep the host from
starting.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from simulator.host.app.errors import AppError

if TYPE_CHECKING:
    from collections.abc import Iterable

_FUNCTION: Final = re.compile(r"[A-Za-z][A-Za-z0-9_\-]{0,127}")
# The rule of hosts from 4.1038 on; older hosts accept no underscore.
_BINDING: Final = re.compile(r"(?!.*__)[A-Za-z_][A-Za-z0-9_]{0,127}|\$return")


def refused(name: str, bindings: Iterable[str]) -> str | None:
    """Return why the host refuses a function of this name with bindings of these names, or None."""
    if name.lower() == "host":
        return "the host takes no function of this name"
    if not _FUNCTION.fullmatch(name):
        return "its name must be a letter, followed by at most 127 letters, digits, _ or - (ASCII)"
    seen = set()
    for binding in bindings:
        if not _BINDING.fullmatch(binding):
            return f"the host takes no binding called {binding!r}: letters, digits and single _ (ASCII), at most 128"
        if binding.lower() in seen:
            return f"two of its bindings are called {binding!r}; to the host case makes no difference"
        seen.add(binding.lower())
    return None


def check_names(names: Iterable[str]) -> None:
    """Check that no two functions have names that are the same to the host.

    Raises:
        AppError: two names differ by case only.
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise AppError(f"functions {other!r} and {name!r} differ by case only: the host does not start; rename one")
