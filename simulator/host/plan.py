"""What a host is going to do with each function: checked against the app's settings before anything is started."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Never

from simulator.host.app.errors import HostError, SettingsError
from simulator.host.app.settings import is_connection_string, is_disabled, resolve
from simulator.host.triggers.outputs import queue_name
from simulator.host.triggers.schedule import NEVER, Schedule, ScheduleError
from singleton.decorator import declared_guards, guards_of
from singleton.functions.deferring import JITTER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from simulator.host.app.model import IndexedFunction
    from singleton.functions.guard import Guard


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One function, and how it will be triggered.

    Attributes:
        function: the indexed function.
        guards: its ``@singleton`` declarations, a listener's first.
        idle: why it is never called, or None.
        queue: the queue that triggers it.
        schedule: the schedule that triggers it.
        monitored: whether the timer's status is kept in storage.
        run_on_startup: whether the timer fires at once.
        connection: the connection that its trigger names.
    """

    function: IndexedFunction
    guards: tuple[Guard, ...] = ()
    idle: str | None = None
    queue: str | None = None
    schedule: Schedule | None = None
    monitored: bool = False
    run_on_startup: bool = False
    connection: str | None = None

    @property
    def guard(self) -> Guard | None:
        """The declaration that its body runs under, the innermost; None where there is none."""
        return self.guards[-1] if self.guards else None

    def bare(self) -> Plan:
        """Return what a host has to know of it, without anything of the app's own."""
        trigger = replace(self.function.trigger, annotation=None)
        function = replace(
            self.function, call=_elsewhere, trigger=trigger, inputs={}, outputs={}, returns=None, retry=None
        )
        return replace(self, function=function, guards=())

    def to_json(self) -> dict[str, Any]:
        """Return what the journal tells of the function."""
        told = self._trigger()
        guard = self._guard()
        if guard is None:
            return {**told, "guarded": False}
        return {**told, "guarded": True, "lock_level": guard.pop("level"), **guard}

    def described(self) -> dict[str, Any]:
        """Return what ``--describe`` tells of the function."""
        return {**self._trigger(), "guard": self._guard()}

    def _trigger(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "name": self.function.name,
            "trigger": self.function.trigger_label,
            "async": self.function.is_async,
            "place": self.function.place,
            "idle": self.idle,
        }
        # What is never called has no queue to be fed, and no tick to be waited for.
        if self.idle is None and self.queue is not None:
            told |= {"queue": self.queue, "connection": self.connection}
        if self.idle is None and self.schedule is not None:
            gap = self.schedule.longest_gap(time.time())
            told |= {"schedule": self.schedule.text, "tick": None if gap == NEVER else round(gap, 3)}
        return told

    def _guard(self) -> dict[str, Any] | None:
        guard = self.guard
        if guard is None:
            return None
        return {
            "scope": guard.scope,
            "scope_id": guard.scope_id,
            "paths": list(guard.template.paths),
            "level": guard.level,
            "mode": guard.mode,
            "on_contention": guard.on_contention if isinstance(guard.on_contention, str) else "custom",
            "timeout": guard.wait,
            "lease": guard.period,
            "poll": guard.poll,
            "away": guard.options.defer_delay * (1 + JITTER),
            "listener": next(
                ({"lease": each.period, "poll": each.poll} for each in self.guards if each.mode == "listener"), None
            ),
        }


def make_plans(functions: Iterable[IndexedFunction], settings: Mapping[str, str], pace: float) -> list[Plan]:
    """Check every function's trigger against the settings.

    Raises:
        HostError: a setting is missing, or a schedule or name is none.
    """
    return [_plan(function, settings, pace) for function in functions]


def connections(plans: Iterable[Plan], settings: Mapping[str, str]) -> set[str]:
    """Return every storage connection that the app's queue triggers, queue outputs and guards name.

    Raises:
        HostError: one is a connection string in place of a setting's name, so it can't be pointed elsewhere; or a
            setting is missing.
    """
    named: dict[str, str] = {}
    for plan in plans:
        function = plan.function
        parameters = [function.trigger, *function.outputs.values(), function.returns]
        for parameter in parameters:
            if parameter is not None and parameter.binding.lower() in {"queuetrigger", "queue"}:
                where = f"function {function.name!r}"
                named[resolve(str(parameter.settings.get("connection") or ""), settings, where)] = where
    for guard in declared_guards():
        named[guard.connection] = f"@singleton on {guard.function!r}"
    for connection, where in named.items():
        if is_connection_string(connection):
            raise HostError(
                f"{where} has a connection string where the name of an app setting belongs: the simulator works on its "
                "own storage only; put the string into a setting and name that"
            )
    return set(named)


def unguarded(plans: Iterable[Plan]) -> list[str]:
    """Return the ``@singleton`` declarations that no function carries: they guard nothing."""
    carried = {id(guard) for plan in plans for guard in plan.guards}
    return [guard.function for guard in declared_guards() if id(guard) not in carried]


def _plan(function: IndexedFunction, settings: Mapping[str, str], pace: float) -> Plan:
    guards = guards_of(function.call)
    idle = function.not_driven
    if idle is None and is_disabled(function.name, settings):
        idle = "it is disabled by an app setting"
    where = f"function {function.name!r} ({function.place})"
    trigger = function.trigger.settings
    if function.kind == "queue":
        return Plan(
            function=function,
            guards=guards,
            idle=idle,
            queue=queue_name(function.trigger, settings, where),
            connection=resolve(str(trigger.get("connection") or ""), settings, where),
        )
    if function.kind == "timer":
        text = resolve(str(trigger.get("schedule") or ""), settings, where)
        try:
            schedule = Schedule.parse(text, pace=pace)
        except ScheduleError as error:
            raise SettingsError(f"{where}: its schedule is wrong: {error}") from error
        return Plan(
            function=function,
            guards=guards,
            idle=idle,
            schedule=schedule,
            monitored=trigger.get("useMonitor") is not False and not schedule.is_sub_minute,
            run_on_startup=bool(trigger.get("runOnStartup")),
        )
    return Plan(function=function, guards=guards, idle=idle)


def _elsewhere(**_: object) -> Never:
    """Stand for a function that only its worker has."""
    raise NotImplementedError("a host has workers to run its functions")
