"""The limits of size and of names, and the exceptions with their reasons. One that is not needed is an error."""

from __future__ import annotations

from typing import Final

MODULE_LINES: Final = 500
FUNCTION_LINES: Final = 70

LONG_MODULES: Final = {
    "simulator/appcheck/rules.py": "one table: each rule with its meaning and its remedy",
}
LONG_FUNCTIONS: Final = {
    "singleton/decorator.py:singleton": "the arguments that users see, each with its meaning in the docstring",
}
