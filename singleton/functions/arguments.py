"""The arguments of ``@singleton``: checked, and made into the guard of a function."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from singleton.base.errors import ConfigurationError
from singleton.base.kinds import Level, Mode, WhenFull
from singleton.functions.declaring.naming import check_choice, check_dotnet_name, check_name, check_scope_hash
from singleton.functions.guard import Guard
from singleton.functions.misdeclared import concerning_the_app, options_of_app
from singleton.functions.triggers import check_guardable, refuse_none, refuse_policy, users_code
from singleton.layouts.named import LayoutName

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from singleton.base.kinds import Seconds
    from singleton.functions.contention import OnContention
    from singleton.functions.triggers import Trigger
    from singleton.layouts.layout import Layout
    from singleton.settings.options import SingletonOptions

_OF_LISTENERS: Final = ("listener_lock_period", "listener_lock_recovery_polling_interval")
_OF_DEQUEUEABLE: Final = {
    "lock_period": "LeaseDurationInSeconds",
    "lock_acquisition_polling_interval": "MaximumPollingIntervalInSeconds",
    "lock_acquisition_min_polling_interval": "MinimumPollingIntervalInSeconds",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What was given to ``@singleton``.

    Attributes:
        options: those of the app's options that are given for this function alone; None: not given.
        also: the lock's old name, which ``oldlock.py`` sees to.
        unnamed: a text that was given without a keyword.
    """

    scope: str | None
    scope_id: str
    level: Level
    mode: Mode
    limit: int | None
    on_contention: OnContention
    timeout: Seconds | None
    max_waiting: int | None
    when_full: WhenFull | None
    at_least: Seconds
    max_hold: Seconds | None
    name: str | None
    connection: str
    layout: LayoutName
    dotnet_name: str | None
    scope_hash: bool
    options: Mapping[str, Seconds | bool | None]
    also: object = None
    unnamed: str | None = None

    def check(self) -> None:
        """Refuse what no function can be declared with.

        Raises:
            ConfigurationError: an argument is wrong, or two do not go together.
        """
        if self.unnamed is not None:
            raise ConfigurationError(
                f"@singleton({self.unnamed!r}): name the argument: @singleton(scope={self.unnamed!r})"
            )
        if self.scope is not None:
            from singleton.scopes.scope import check_path

            check_path(self.scope)
        if not isinstance(self.scope_id, str):
            raise ConfigurationError(f"scope_id is {self.scope_id!r}: give a text such as 'tenant:{{TenantId}}'")
        check_choice("level", self.level, get_args(Level))
        check_choice("mode", self.mode, get_args(Mode))
        check_choice("layout", self.layout, get_args(LayoutName))
        if self.on_contention not in ("wait", "skip", "raise"):
            from singleton.functions.contention import check_policy

            check_policy(self.on_contention)
        connection: object = self.connection
        if not isinstance(connection, str) or not connection.strip():
            raise ConfigurationError(
                f"connection is {connection!r}: name the app setting, such as 'AzureWebJobsStorage'"
            )
        self._check_names()
        self._check_modes()

    def _check_names(self) -> None:
        if self.name is not None:
            check_name(self.name, self.layout, self.level, self.dotnet_name)
        if self.dotnet_name is not None:
            check_dotnet_name(self.dotnet_name, self.layout, self.level)
        if self.scope_hash is not False:
            check_scope_hash(self.scope_hash, self.layout, scoped=self.scope is not None or bool(self.scope_id))

    def _check_modes(self) -> None:
        given = [name for name, value in self.options.items() if value is not None]
        if self.mode == "function":
            useless = next((name for name in _OF_LISTENERS if name in given), None)
            if useless is not None:
                raise ConfigurationError(
                    f"{useless}={self.options[useless]!r} is for mode='listener' only: leave it out"
                    + ("; for a lock around each invocation give lock_period" if useless.endswith("period") else "")
                )
            return
        around = {
            "limit": self.limit,
            "at_least": self.at_least or None,
            "max_hold": self.max_hold,
            "max_waiting": self.max_waiting,
            "when_full": self.when_full,
            "lock_period": self.options["lock_period"],
        }
        wrong = next((name for name, value in around.items() if value is not None), None)
        if wrong is not None:
            instead = "give listener_lock_period" if wrong == "lock_period" else "leave it out"
            raise ConfigurationError(
                f"{wrong}={around[wrong]!r} is for mode='function' only, with a lock around each invocation. "
                f"A listener keeps its lock until its process ends: {instead}"
            )

    def checked_times(self) -> Times:
        """Return what is said of how long, how many and how often.

        Raises:
            ConfigurationError: a value is out of its range, or two do not go together.
        """
        from singleton.settings.durations import seconds, span

        patience = None if self.timeout is None else seconds(self.timeout, "timeout", above=0)
        at_least, max_hold = span(self.at_least, self.max_hold)
        if self.limit is not None:
            self._check_limit()
        if self.max_waiting is None and self.when_full is not None:
            raise ConfigurationError(
                f"when_full={self.when_full!r} needs max_waiting: give max_waiting as well, or leave when_full out"
            )
        if self.max_waiting is not None:
            self._check_max_waiting()
        default: WhenFull = "defer" if self.on_contention == "defer" and self.max_waiting is not None else "raise"
        return Times(patience, at_least, max_hold, self.when_full or default)

    def _check_limit(self) -> None:
        from singleton.locking.slots import checked_limit

        checked_limit(self.limit)
        if self.layout != "default":
            raise ConfigurationError(
                f"limit={self.limit} is for layout='default' only, and layout is {self.layout!r}: .NET hosts, "
                "which share its locks, know no semaphores. Leave limit out"
            )

    def _check_max_waiting(self) -> None:
        most = self.max_waiting
        if isinstance(most, bool) or not isinstance(most, int) or most < 0:
            raise ConfigurationError(
                f"max_waiting is {most!r}: give a whole number of at least 0. With 0 no invocation waits"
            )
        if self.on_contention in ("skip", "raise", "defer") and self.timeout is None:
            raise ConfigurationError(
                f"max_waiting={most} has no effect: with on_contention={self.on_contention!r} and no timeout, no "
                "invocation waits. Leave max_waiting out, or give a timeout"
            )
        if self.when_full is not None:
            check_choice("when_full", self.when_full, get_args(WhenFull))

    def for_function(self, options: SingletonOptions) -> SingletonOptions:
        """Return the options of the app, with those that are given for this function.

        Raises:
            ConfigurationError: one is out of its range, or does not go with the layout.
        """
        given = {name: value for name, value in self.options.items() if value is not None}
        own = next((name for name in given if name in _OF_DEQUEUEABLE), None)
        if self.layout == "dequeueable" and own is not None:
            raise ConfigurationError(
                f"{own}={given[own]!r} has no effect with layout='dequeueable', which takes it from the app setting "
                f"Dequeueable__Singleton__{_OF_DEQUEUEABLE[own]}: set that, and leave {own} out"
            )
        changes: dict[str, object] = {**given}
        if given.get("listener_lock_recovery_polling_interval") == math.inf:
            changes["listener_lock_recovery_polling_interval"] = None
        return options.replace(**changes) if changes else options


class Times(NamedTuple):
    """What a declaration says of how long, checked; all in seconds."""

    patience: float | None
    at_least: float
    max_hold: float | None
    when_full: WhenFull


def guard_by(
    given: Arguments,
    target: Any,
    trigger: Callable[[], Trigger | None],
    known: Trigger | None,
    modes: Collection[Mode],
) -> Guard:
    """Return the guard of a function that is declared so.

    Args:
        given: the arguments.
        target: the function.
        trigger: finds its trigger, once the app is complete.
        known: its trigger, where it is known already.
        modes: in which it is declared already.

    Raises:
        ConfigurationError: an argument or option is wrong, or the function can't be guarded.
    """
    from singleton.layouts.named import layout_named
    from singleton.scopes.scope import ScopeTemplate
    from singleton.settings.options import find_app_dir

    check_guardable(target, None if known is None else known.type)
    app_dir = find_app_dir(Path(users_code(target).co_filename).parent, os.environ)
    options = options_of_app(target, app_dir)
    given.check()
    refuse_policy(target.__name__, given.on_contention, known, {})
    times = given.checked_times()
    if given.on_contention == "defer" or times.when_full == "defer":
        from singleton.functions.deferring import check_deferrable

        if times.when_full == "defer":
            refuse_none(target.__name__, "when_full='defer'", known, "when_full='raise'")
        check_deferrable(target.__name__, times.patience if given.on_contention == "defer" else None, known)
    if given.mode in modes:
        raise ConfigurationError(
            f"@singleton is declared twice on {target.__qualname__} with mode={given.mode!r}: one of each mode is "
            "allowed"
        )
    with concerning_the_app():
        laid = layout_named(given.layout, os.environ, given.dotnet_name)
    if given.level == "host" and given.scope is None and not given.scope_id and laid.by_host:
        raise ConfigurationError(
            "level='host' needs a scope or a scope_id: functions with the same scope share the lock"
        )
    return _kind(given.mode)(
        function=target.__name__,
        scope=laid.path(given.scope, given.scope_id, listener=given.mode == "listener"),
        scope_id=given.scope_id,
        scope_hash=given.scope_hash,
        level=given.level,
        on_contention=given.on_contention,
        timeout=times.patience,
        connection=given.connection,
        options=_suited(given.for_function(laid.adapted(options)), given, laid),
        app_dir=app_dir,
        layout=laid,
        template=ScopeTemplate(given.scope_id, dotnet=laid.dotnet),
        name=given.name,
        limit=given.limit,
        at_least=times.at_least,
        max_hold=times.max_hold,
        max_waiting=given.max_waiting,
        when_full=times.when_full,
        find_trigger=trigger,
        code=users_code(target),
        own=tuple(name for name, value in given.options.items() if value is not None),
    )


def _kind(mode: Mode) -> type[Guard]:
    if mode == "function":
        return Guard
    from singleton.functions.listener import ListenerGuard

    return ListenerGuard


def _suited(options: SingletonOptions, given: Arguments, laid: Layout) -> SingletonOptions:
    """Return the options, unless what they say of failover does not go with the declaration."""
    from singleton.settings.options import refuse_failover

    if laid.foreign:
        refuse_failover(options, f"layout={given.layout!r}, whose locks other libraries take as well")
    if given.limit is not None:
        refuse_failover(options, f"limit={given.limit}")
    return options
