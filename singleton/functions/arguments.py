"""The arguments of ``@singleton``: checked, and made into the guard of a function.

``singleton`` in ``decorator.py`` spells out their names, types and defaults. An argument is ``Any`` until the check.
``Declaration`` has the values that are kept.
"""

from __future__ import annotations

import inspect
import math
import os
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, get_args

from singleton.base.errors import ConfigurationError
from singleton.base.forks import importing
from singleton.base.json_values import check_path
from singleton.base.kinds import POLICIES, LayoutName, Level, Mode, WhenFull
from singleton.base.words import did_you_mean, quoted
from singleton.functions.declaration import Declaration
from singleton.functions.misdeclaration import concerning_the_app, options_of_app
from singleton.functions.trigger_rules import refuse_same_lock
from singleton.functions.triggers import ONCE_MARK, ORDERED_MARK, check_guardable
from singleton.layouts.layout import Layout
from singleton.scopes.template import ScopeTemplate
from singleton.settings.argument_names import OPTIONS
from singleton.settings.durations import seconds, span
from singleton.settings.options import SingletonOptions, refuse_failover

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from singleton.functions.triggers import Trigger

_OF_LISTENERS: Final = ("listener_lock_period", "listener_lock_recovery_polling_interval")
_AROUND_INVOCATIONS: Final = ("limit", "at_least", "max_hold", "max_waiting", "when_full", "lock_period")
_OF_DEQUEUEABLE: Final = {
    "lock_period": "LeaseDurationInSeconds",
    "lock_acquisition_polling_interval": "MaximumPollingIntervalInSeconds",
    "lock_acquisition_min_polling_interval": "MinimumPollingIntervalInSeconds",
}


_KEPT: Final = {each.name for each in fields(Declaration)}


class Arguments(SimpleNamespace):
    """The arguments of a ``@singleton``, given or default, as attributes.

    ``unnamed`` is a text that was given without a keyword.
    """

    @property
    def options(self) -> dict[str, Any]:
        """The options of the app with a value for this function alone."""
        return {name: value for name, value in vars(self).items() if name in OPTIONS and value is not None}


def _check_values(given: Arguments) -> None:
    """Refuse values that are wrong whatever the other arguments are. Options have the ranges of ``settings``."""
    if given.unnamed is not None:
        raise ConfigurationError(
            f"@singleton({given.unnamed!r}): name the argument: @singleton(scope={given.unnamed!r})"
        )
    if given.scope is not None:
        check_path(given.scope)
        if not {"{", "}"}.isdisjoint(given.scope) or any(given.scope.split("%")[1:-1]):
            raise ConfigurationError(
                f"scope={given.scope!r} is a template, and scope takes the path of a property. Write "
                f"scope_id={given.scope!r}",
                reason="scope-is-template",
            )
    if not isinstance(given.scope_id, str):
        raise ConfigurationError(f"scope_id is {given.scope_id!r}: give a text such as 'tenant:{{TenantId}}'")
    _check_word("level", given.level, Level)
    _check_word("mode", given.mode, Mode)
    _check_word("layout", given.layout, LayoutName)
    if given.on_contention not in POLICIES:
        with importing:
            from singleton.functions.contention import check_policy

        check_policy(given.on_contention)
    connection = given.connection
    if not isinstance(connection, str) or not connection.strip():
        raise ConfigurationError(f"connection is {connection!r}: name the app setting, such as 'AzureWebJobsStorage'")


def _check_word(name: str, value: object, words: object) -> None:
    allowed = get_args(words)
    if value not in allowed:
        hint = did_you_mean(str(value), allowed)
        raise ConfigurationError(f"{name} is {quoted(value)}: it must be one of {', '.join(map(repr, allowed))}{hint}")


def _check_name(given: Arguments) -> None:
    name = given.name
    if name is None:
        return
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(
            f"name is {quoted(name)}: give the function's name for the lock's name, such as 'ship'"
        )
    if given.layout == "dequeueable":
        raise ConfigurationError(
            f"name={name!r}: the locks of layout='dequeueable' have no function's name, the scope is the whole name: "
            "leave it out"
        )
    if given.level == "host":
        raise ConfigurationError(f"name={name!r}: the locks of level='host' have no function's name: leave it out")
    if given.dotnet_name is not None:
        raise ConfigurationError(
            f"name={name!r} and dotnet_name={given.dotnet_name!r} are both given: both name the function. Keep "
            "dotnet_name for a precompiled C# method, or name for any other function"
        )
    if given.layout == "webjobs" and "." in name:
        raise ConfigurationError(
            f"name={name!r} has a dot, and no function of a Functions host has one in its name: for the full name of a "
            "C# method give dotnet_name"
        )


def _check_dotnet_name(given: Arguments) -> None:
    """Refuse a full name of a C# method that is none, or does not go with the layout or level."""
    name = given.dotnet_name
    if name is None:
        return
    with importing:
        from singleton.dotnet.webjobs import check_dotnet_name

    check_dotnet_name(name)
    if given.layout != "webjobs":
        raise ConfigurationError(f"dotnet_name={name!r} is for layout='webjobs' only, and layout is {given.layout!r}")
    if given.level == "host":
        raise ConfigurationError(
            f"dotnet_name={name!r}: the locks of level='host' have no function's name: leave it out"
        )


def _check_scope_hash(given: Arguments) -> None:
    if given.scope_hash is False:
        return
    if given.scope_hash is not True:
        raise ConfigurationError(f"scope_hash is {given.scope_hash!r}: give True or False")
    if given.layout != "default":
        raise ConfigurationError(
            f"scope_hash=True is for layout='default' only, and layout is {given.layout!r}: the locks "
            "of that layout have the value itself in their names"
        )
    if given.scope is None and not given.scope_id:
        raise ConfigurationError("scope_hash=True needs a scope or a scope_id: there is nothing to hash")


def _check_mode(given: Arguments) -> None:
    if given.mode == "function":
        useless = next((name for name in _OF_LISTENERS if name in given.options), None)
        if useless is not None:
            raise ConfigurationError(
                f"{useless}={given.options[useless]!r} is for mode='listener' only: leave it out"
                + ("; for a lock around each invocation give lock_period" if useless.endswith("period") else "")
            )
        return
    around = {name: getattr(given, name) for name in _AROUND_INVOCATIONS} | {"at_least": given.at_least or None}
    wrong = next((name for name, value in around.items() if value is not None), None)
    if wrong is not None:
        instead = "give listener_lock_period" if wrong == "lock_period" else "leave it out"
        raise ConfigurationError(
            f"{wrong}={around[wrong]!r} is for mode='function' only, with a lock around each invocation. "
            f"A listener keeps its lock until its process ends: {instead}"
        )


def _checked_times(given: Arguments) -> dict[str, Any]:
    """Return times, in seconds, and counts. ``ConfigurationError``: one is out of range, or two do not go together."""
    if given.timeout == 0:
        raise ConfigurationError(
            "timeout is 0: it must be more than 0 seconds. To ask for the lock once, leave timeout out, and use "
            "on_contention='skip' or 'raise'"
        )
    timeout = None if given.timeout is None else seconds(given.timeout, "timeout", above=0)
    at_least, max_hold = span(given.at_least, given.max_hold)
    if given.limit is not None:
        with importing:
            from singleton.locking.semaphore import checked_limit

        checked_limit(given.limit)
        if given.layout != "default":
            raise ConfigurationError(
                f"limit={given.limit} is for layout='default' only, and layout is {given.layout!r}: .NET hosts, "
                "which share its locks, know no semaphores. Leave limit out"
            )
    if given.when_full is not None:
        _check_word("when_full", given.when_full, WhenFull)
    if given.max_waiting is None and given.when_full is not None:
        raise ConfigurationError(
            f"when_full={given.when_full!r} needs max_waiting: give max_waiting as well, or leave when_full out"
        )
    if (most := given.max_waiting) is not None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 0:
            raise ConfigurationError(
                f"max_waiting is {most!r}: give a whole number of at least 0. With 0 no invocation waits"
            )
        if given.on_contention in ("skip", "raise", "defer", "conflict") and given.timeout is None:
            raise ConfigurationError(
                f"max_waiting={most} has no effect: with on_contention={given.on_contention!r} and no timeout, no "
                "invocation waits. Leave max_waiting out, or give a timeout"
            )
    answers = given.on_contention in ("defer", "conflict") and given.max_waiting is not None
    return {
        "timeout": timeout,
        "at_least": at_least,
        "max_hold": max_hold,
        "when_full": given.when_full or (given.on_contention if answers else "raise"),
    }


def _check_coalescing(given: Arguments, target: Any) -> None:
    """Raise ``ConfigurationError`` if another argument does not go with the policy."""
    what, function = "on_contention='coalesce'", target.__name__
    reasons = {
        "mode": (given.mode != "function", "a listener's lock is kept for the life of the process"),
        "limit": (given.limit is not None, "a semaphore has slots, and no seat for the invocation that waits"),
        "max_waiting": (given.max_waiting is not None, "one invocation waits, and no more"),
        "layout": (given.layout != "default", "other libraries take the locks of that layout, and know no seat"),
        "level": (
            given.level == "host",
            "an invocation would leave while another function waits, which does other work",
        ),
    }
    for name, (wrong, why) in reasons.items():
        if wrong:
            raise ConfigurationError(
                f"{what} on {function} does not go with {name}={getattr(given, name)!s}: {why}. Leave {name} out, or "
                "use on_contention='wait'",
                reason="coalesce-declared",
            )
    if hasattr(target, ONCE_MARK) or hasattr(target, ORDERED_MARK):
        raise ConfigurationError(
            f"{what} on {function}: its messages are done once or in order, each for itself, and none may leave for "
            "another. Use on_contention='wait'",
            reason="coalesce-declared",
        )


def _checked_options(given: Arguments, options: SingletonOptions, laid: Layout) -> SingletonOptions:
    """Return the options of the app, adapted to the layout, with the options given for this function; checked."""
    changes = given.options
    own = next((name for name in changes if name in _OF_DEQUEUEABLE), None)
    if given.layout == "dequeueable" and own is not None:
        raise ConfigurationError(
            f"{own}={changes[own]!r} has no effect with layout='dequeueable', which takes it from the app setting "
            f"Dequeueable__Singleton__{_OF_DEQUEUEABLE[own]}: set that, and leave {own} out"
        )
    if changes.get("listener_lock_recovery_polling_interval") == math.inf:
        changes["listener_lock_recovery_polling_interval"] = None
    options = options.replace(**changes) if changes else options
    if laid.foreign:
        refuse_failover(options, f"layout={given.layout!r}, whose locks other libraries take as well")
    if given.limit is not None:
        refuse_failover(options, f"limit={given.limit}")
    return options


def guard_by(
    given: Arguments,
    target: Any,
    trigger: Callable[[], Trigger | None],
    policies: Mapping[Mode, object],
) -> Declaration:
    """Return the declaration of a function that is declared with these arguments, which are checked.

    ``trigger`` finds the trigger, once the app is complete; ``policies`` has the ``on_contention`` of earlier
    declarations, by mode.
    """
    check_guardable(target)
    app_dir, options = options_of_app(target)
    _check_values(given)
    _check_name(given)
    _check_dotnet_name(given)
    _check_scope_hash(given)
    _check_mode(given)
    times = _checked_times(given)
    if given.on_contention == "coalesce":
        _check_coalescing(given, target)
    if given.on_contention == "defer" or times["when_full"] == "defer":
        with importing:
            from singleton.functions.deferrable import check_deferrable

        check_deferrable(times["timeout"] if given.on_contention == "defer" else None)
    if given.mode in policies:
        raise ConfigurationError(
            f"@singleton is declared twice on {target.__qualname__} with mode={given.mode!r}: one of each mode is "
            "allowed"
        )
    if "listener" in policies.keys() | {given.mode} and "coalesce" in [*policies.values(), given.on_contention]:
        raise ConfigurationError(
            f"on_contention='coalesce' and mode='listener' on {target.__name__} do not go together: the listener puts "
            "the message of a dead waiter back as a new one, which would leave for the waiter's own word. Use "
            "on_contention='wait', or leave mode='listener' out",
            reason="coalesce-declared",
        )
    with concerning_the_app():
        laid = _layout_named(given.layout, given.dotnet_name)
    if given.level == "host" and given.scope is None and not given.scope_id and laid.by_host:
        raise ConfigurationError(
            "level='host' needs a scope or a scope_id: functions with the same scope share the lock"
        )
    declared = {name: value for name, value in vars(given).items() if name in _KEPT} | times
    declared |= {
        "function": target.__name__,
        "scope": laid.path(given.scope, given.scope_id, listener=given.mode == "listener"),
        "options": _checked_options(given, options.replace(**laid.fixed_options), laid),
        "app_dir": app_dir,
        "layout": laid,
        "template": ScopeTemplate(given.scope_id, dotnet=laid.dotnet),
        "also": None,
        "find_trigger": trigger,
        "written": inspect.unwrap(target),
        "own": (*given.options,),
    }
    if given.mode == "listener":
        with importing:
            from singleton.functions.listener import ListenerGuard

        guard: Declaration = ListenerGuard(**declared)
    else:
        guard = Declaration(**declared)
    return guard if given.also is None else _with_old_lock(guard, given, target, trigger)


def _layout_named(name: LayoutName, dotnet_name: str | None) -> Layout:
    """Return the layout of this name, as the app settings configure it. To add a layout, add two lines here."""
    if name == "webjobs":
        with importing:
            from singleton.dotnet.webjobs import WebJobsLayout

        return WebJobsLayout(dotnet_name)
    if name == "dequeueable":
        with importing:
            from singleton.dotnet.dequeueable import DequeueableLayout, load_dequeueable

        return DequeueableLayout(load_dequeueable(os.environ))
    return Layout()


def _with_old_lock(
    guard: Declaration, given: Arguments, target: Any, trigger: Callable[[], Trigger | None]
) -> Declaration:
    """Return the guard that takes its lock under the old name, too. Refuse a wrong ``also``, and one without effect."""
    with importing:
        from singleton.functions.old_lock import OldLock, older, options_of

    also = given.also
    if not isinstance(also, OldLock):
        raise ConfigurationError(f"also is {also!r}: give what was different before, such as OldLock(scope_hash=False)")
    if given.mode == "listener":
        raise ConfigurationError(
            "also= goes with mode='function' only: a listener keeps its lock until its process ends. Stop the old "
            "version before the new one starts, and leave also= out"
        )
    if given.limit is not None:
        raise ConfigurationError(
            f"also= does not go with limit={given.limit}: stop the old version before the new one starts, and leave "
            "also= out"
        )
    if given.layout == "dequeueable":
        raise ConfigurationError(
            "also= does not go with layout='dequeueable', which waits by attempts for one lock: stop the old version "
            "before the new one starts, and leave also= out. OldLock(layout='dequeueable') does go"
        )
    try:
        arguments = Arguments(**older(given, also))
        old = guard_by(arguments, target, trigger, {})
        old = replace(old, options=old.options.replace(**options_of(also, arguments.layout)))
    except ConfigurationError as error:
        raise ConfigurationError(f"also={also}: {error}") from None
    if (old.name is None) == (guard.name is None):  # else the host's name of the function counts, which comes later
        names = (each.known_name(guard.function) for each in (guard, old))
        refuse_same_lock(f"@singleton on {guard.function}", *names)
    return replace(guard, also=old)
