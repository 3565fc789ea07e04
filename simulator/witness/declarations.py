"""Copy the arguments of a decorator as an app writes them, before the product sees them.

So what a guard must do need not be asked of the guard.
"""

from __future__ import annotations

import functools
import inspect
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Arguments = Mapping[str, Any]


class Declarations:
    """The declarations of a process. ``function_of`` returns the function in what was decorated."""

    def __init__(self, function_of: Callable[[Any], Any]) -> None:
        self._function_of = function_of
        self._known: list[tuple[Any, tuple[Arguments, ...]]] = []  # what was decorated, with all its declarations

    def of(self, function: Any) -> tuple[Arguments, ...]:
        """Return the arguments of the declarations on a function, the outermost first; () without any."""
        known: tuple[Arguments, ...]
        while function is not None:
            for made, known in reversed(self._known):
                if made is function:
                    return known
            function = getattr(function, "__wrapped__", None)
        return ()

    def around(self, written: Any) -> tuple[Arguments, ...]:
        """Return the arguments of the declarations on whatever is around the user's own function, in order."""
        return tuple(declared[0] for made, declared in self._known if inspect.unwrap(made) is written)

    @contextmanager
    def copied(self, decorator: Any) -> Iterator[None]:
        """Copy the arguments of each call of ``decorator`` by what imports it meanwhile, from whichever module.

        ``inspect`` shows the decorator as it is.
        """

        @functools.wraps(decorator)
        def copying(target: Any = None, /, **given: Any) -> Any:
            copy = dict(given)
            if target is None or isinstance(target, str):
                decorate = decorator(target, **given)
                return lambda function: self._decorated(function, decorate, copy)
            return self._decorated(target, lambda function: decorator(function, **given), copy)

        vars(copying)["__signature__"] = inspect.signature(decorator)
        name = decorator.__name__
        modules = [getattr(module, "__dict__", {}) for module in list(sys.modules.values())]
        places = [names for names in modules if names.get(name) is decorator]
        for names in places:
            names[name] = copying
        try:
            yield
        finally:
            for names in places:
                names[name] = decorator

    def _decorated(self, target: Any, decorate: Callable[[Any], Any], given: Arguments) -> Any:
        below = self.of(self._function_of(target))
        made = decorate(target)
        self._known.append((self._function_of(made), (given, *below)))
        return made
