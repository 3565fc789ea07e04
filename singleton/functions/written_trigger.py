"""The trigger of a function as its source has it: a trigger's decorator above ``@singleton`` has left no trace yet."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections import ChainMap
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from singleton.functions.triggers import RETURN, Trigger, users_code

if TYPE_CHECKING:
    from collections.abc import Callable

_TYPES: Final = {
    "cosmos_db_trigger": "cosmosDBTrigger",
    "event_hub_message_trigger": "eventHubTrigger",
    "route": "httpTrigger",
    "schedule": "timerTrigger",
    "service_bus_queue_trigger": "serviceBusTrigger",
    "service_bus_topic_trigger": "serviceBusTrigger",
}
"""The trigger's type by the method's name, where it is not the name in camel case."""
_OUTPUTS: Final = {"cosmos_db": "cosmosDB", "service_bus_queue": "serviceBus", "service_bus_topic": "serviceBus"}


def trigger_written(function: Callable[..., Any]) -> Trigger | None:
    """Return type and parameter of the trigger, and the output of the result; None: the source does not tell.

    Only decorators of an object with functions count: an app, or a blueprint.
    """
    if not inspect.isfunction(function):
        return None
    code = users_code(function)
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :]
    above = "".join(takewhile(lambda line: not line.lstrip().startswith(("def ", "async def ")), lines))
    try:
        (head,) = ast.parse(f"{textwrap.dedent(above)}def _(): ...\n").body
    except (SyntaxError, ValueError):
        return None
    found, returns = None, None
    for method, given in _calls(getattr(head, "decorator_list", []), code.co_filename):
        name = str(given.get("arg_name", ""))
        if method in _TYPES or method.endswith("_trigger"):
            kind = given.get("type") if method == "generic_trigger" else _TYPES.get(method, _camel(method))
            found, returns = (str(kind), name), "http" if method == "route" else returns
        elif name == RETURN and method.endswith("_output"):
            output = method.removesuffix("_output")
            returns = _OUTPUTS.get(output, _camel(output))
        elif name == RETURN and method == "generic_output_binding":
            returns = str(given.get("type"))
    return None if found is None else Trigger(*found, {}, returns=returns)


def completed(known: Trigger | None, function: Callable[..., Any]) -> Trigger | None:
    """Return the known trigger, with what the source tells besides: decorators further above come later."""
    written = trigger_written(function)
    if known is None or written is None:
        return known or written
    return known._replace(returns=known.returns or written.returns)


def _calls(decorators: list[ast.expr], file: str) -> list[tuple[str, dict[str | None, Any]]]:
    """Return the methods of apps and blueprints that are called, with their literal arguments."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename != file:
        frame = frame.f_back
    names = ChainMap[str, Any]() if frame is None else ChainMap(frame.f_locals, frame.f_globals)
    calls = []
    for each in decorators:
        match each:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=method), keywords=keywords):
                if isinstance(inspect.getattr_static(names.get(owner), "_function_builders", None), list):
                    literals = {one.arg: one.value.value for one in keywords if isinstance(one.value, ast.Constant)}
                    calls.append((method, literals))
    return calls


def _camel(method: str) -> str:
    first, *rest = method.split("_")
    return first + "".join(map(str.capitalize, rest))
