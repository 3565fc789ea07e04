"""How a function is declared, and judged against its trigger and outputs when the app lists its functions.

The worker imports the app's script, and then calls ``get_functions`` of the ``FunctionApp``. Before that call the
decorator of a trigger above ``@singleton`` has left no trace on the function. An error in the call keeps the worker
from loading the app.
"""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from singleton.base.appsettings import environment
from singleton.base.errors import ConfigurationError, ScopeError
from singleton.base.forks import importing
from singleton.functions.misdeclaration import error_of, in_worker, stand_in
from singleton.functions.triggers import (
    GUARDS_MARK,
    find_trigger,
    is_builder,
    is_replayer,
    listed_triggers,
    replace_user_function,
    trigger_of,
    trigger_of_function,
    user_function,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from singleton.functions.declaration import Declaration
    from singleton.functions.triggers import Trigger

    TriggerRules = Callable[[Trigger], Iterator[Callable[[], None]]]
    _Find = Callable[[], Trigger | None]


_RULES_MARK: Final = "__singleton_rules__"
"""The attribute of a guarded function: the rules of its declarations."""
_watched: weakref.WeakSet[type] = weakref.WeakSet()


def declare(target: Any, guarded: Callable[[Callable[..., Any], _Find, Trigger | None], Callable[..., Any]]) -> Any:
    """Guard a function, plain or in a trigger's builder; return the guarded function, or the builder with it.

    Args:
        target: a function, or what a trigger's decorator returns.
        guarded: returns the guarded function. It gets the function, the look-up of the trigger once the app is
            complete, and the trigger if it is known already. ``stand_in`` tells of an error of a wrong declaration.
    """
    with importing:
        from singleton.functions.function_json import common_trigger, triggers_in_json
        from singleton.functions.trigger_rules import refuse_several

    def find_below() -> Trigger | None:
        return find_trigger(inner) or common_trigger(triggers_in_json(inner, loaded=True))

    judge_when_listed()
    above = is_builder(target)
    inner = user_function(target) if above else target
    if error_of(inner) is not None:
        return target
    find = partial(trigger_of, target) if above else find_below
    try:
        triggers = [] if above else triggers_in_json(inner)
        known = find() if above else common_trigger(triggers)
        declared = guarded(inner, find if above or known is None else lambda: known, known)
        for each in triggers:
            judge(declared, each)
        if triggers and known is None:
            refuse_several(declared, triggers)
    except ConfigurationError as error:
        declared = stand_in(inner, error)
    if not above:
        return declared
    replace_user_function(target, declared)
    return target


def add_rules(guarded: Callable[..., Any], target: object, rules: TriggerRules) -> None:
    """Have a guarded function judged by these rules, too; ``target`` is the function that was declared."""
    vars(guarded)[_RULES_MARK] = (*getattr(target, _RULES_MARK, ()), rules)


def judge(function: Any, trigger: Trigger) -> None:
    """Raise ``ConfigurationError`` if the trigger, or an output, can't take a declaration on the function."""
    with importing:
        from singleton.functions.trigger_rules import refuse_generator

    for rules in getattr(function, _RULES_MARK, ()):
        for rule in rules(trigger):
            rule()
    refuse_generator(body_of(function), trigger)


def body_of(function: Any) -> Any:
    """Return the function below the guards."""
    while hasattr(function, _RULES_MARK):
        function = function.__wrapped__
    return function


def judge_when_listed() -> None:
    """Have every app judge its functions when it lists them."""
    if in_worker():
        with importing:
            import azure.functions  # noqa: F401 - the app's script may import it later
    register: Any = getattr(sys.modules.get("azure.functions"), "FunctionRegister", None)
    if register is None or register in _watched:
        return
    _watched.add(register)
    get_functions = register.get_functions

    @functools.wraps(get_functions)
    def judged(app: Any) -> list[Any]:
        functions: list[Any] = get_functions(app)
        found: dict[Any, Trigger | None] = {}
        for function in functions:
            for users, trigger in _judge_listed(function):
                found[users] = trigger if found.get(users, trigger) == trigger else None
        listed_triggers.update(found)
        _refuse_shared_seats(functions)
        return functions

    register.get_functions = judged


def _judge_listed(function: Any) -> Iterator[tuple[Any, Trigger]]:
    """Judge a guarded function, and yield the user's own function with its trigger."""
    call = function.get_user_function()
    # A guarded orchestrator or entity is inside of what azure-functions-durable makes of it.
    inside = [each.cell_contents for each in getattr(call, "__closure__", None) or ()] if is_replayer(call) else [call]
    for guarded in inside:
        if hasattr(guarded, _RULES_MARK) and error_of(guarded) is None:
            trigger = trigger_of_function(function)
            assert trigger is not None  # it could be built
            try:
                judge(guarded, trigger)
            except ConfigurationError as error:
                function._func = stand_in(call, error)  # noqa: SLF001 - there is no public way
            yield inspect.unwrap(guarded), trigger


def _refuse_shared_seats(functions: Iterable[Any]) -> None:
    """Refuse a lock of two functions of the app of which one has ``on_contention="coalesce"``."""
    declared: list[tuple[Any, Declaration]] = []
    for function in functions:
        call = function.get_user_function()
        if error_of(call) is None:
            declared += [(function, each) for each in getattr(call, GUARDS_MARK, ())]
    if all(each.on_contention != "coalesce" for _, each in declared):
        return
    settings, taken = environment(), dict[tuple[str, str, str], tuple[Any, bool]]()
    for function, each in declared:
        coalesces, name = each.on_contention == "coalesce", str(function.get_function_name())
        for lock in [each, *([each.also] if each.also is not None and coalesces else [])]:
            if lock.layout.foreign or lock.limit is not None or each.mode == "listener":
                continue
            try:
                place = lock.known_name(name, settings)
            except (ConfigurationError, ScopeError):  # outside of a worker settings may be missing
                continue
            other, leaves = taken.setdefault(place, (function, coalesces))
            if other is not function and (coalesces or leaves):
                error = ConfigurationError(
                    f"{each.decorator} on {name}: {other.get_function_name()} has the same lock, and one of both has "
                    "on_contention='coalesce': a message of one would leave while the other waits. Give each a name "
                    "of its own",
                    reason="coalesce-shared",
                )
                function._func = stand_in(function.get_user_function(), error)  # noqa: SLF001 - no public way
