"""The trigger of a function of the v1 model: a binding in the ``function.json`` beside its script."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from singleton.functions.triggers import RETURN, Trigger, users_code
from singleton.settings.hostjson import read_object

if TYPE_CHECKING:
    from collections.abc import Callable

_FILE: Final = "function.json"
_SCRIPT: Final = "__init__.py"
_ENTRY_POINT: Final = "main"


def trigger_in_json(function: Callable[..., Any]) -> Trigger | None:
    """Return the trigger of an entry point of the v1 model; None: no ``function.json`` beside it names it.

    Raises:
        ConfigurationError: the file can't be read.
    """
    if not inspect.isfunction(function):
        return None
    code = users_code(function)
    script = Path(code.co_filename)
    found = read_object(script.with_name(_FILE))
    named = str(found.get("scriptFile") or _SCRIPT), str(found.get("entryPoint") or _ENTRY_POINT)
    if not found or named != (script.name, code.co_name):
        return None
    bindings = [each for each in _listed(found.get("bindings")) if isinstance(each, dict)]
    returns = next((str(each.get("type")) for each in bindings if each.get("name") == RETURN), None)
    for each in bindings:
        kind = str(each.get("type") or "")
        if kind.lower().endswith("trigger"):  # the host takes any case
            return Trigger(kind[:1].lower() + kind[1:], str(each.get("name") or ""), each, script.parent.name, returns)
    return None


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []
