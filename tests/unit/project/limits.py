"""The limits of size and of names, and the exceptions with their reasons. One that is not needed is an error."""

from __future__ import annotations

from typing import Final

MODULE_LINES: Final = 500
FUNCTION_LINES: Final = 70
FLOORS: Final = 9  # rooms above one another, by their imports

LONG_MODULES: Final[dict[str, str]] = {}
LONG_FUNCTIONS: Final = {
    "singleton/decorator.py:singleton": "the arguments that users see, each with its meaning in the docstring",
}

MODULES_TWICE: Final = {
    "singleton": {
        "protocol": "the contract of each side: stores for locks, logs for inboxes",
    },
}
TYPES_TWICE: Final[dict[str, dict[str, str]]] = {
    "singleton": {},
    "simulator": {
        "Finding": "a mistake in an app, with id and line, and a sentence on a run; no module has both",
    },
}
