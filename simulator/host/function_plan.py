"""What a host will do with each function. It is checked against the app's settings before anything starts."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from functools import wraps
from inspect import CO_VARKEYWORDS, iscoroutinefunction, isfunction
from typing import TYPE_CHECKING, Any, Final, Never

from simulator.expected.declaration import ARGUMENTS, OPTIONS, Declaration
from simulator.extensions import unknown_bindings
from simulator.history.deeds import once_of
from simulator.host.app.app_model import HostError, SettingsError
from simulator.host.app.function_index import check_names
from simulator.host.app.settings import is_connection_string, is_set, not_set, resolve
from simulator.host.declared import declared_around, declared_on, operation_on
from simulator.host.triggers.delivery import Source, source_of
from simulator.host.triggers.outputs import queue_name
from simulator.host.triggers.schedule import NEVER, Schedule, ScheduleError
from simulator.host.web.routes import Route, RouteError
from simulator.witness.guards import GuardedFunction
from simulator.witness.witness import invoked
from singleton.base.appsettings import is_disabled
from singleton.base.words import listed
from singleton.decorator import _guarded_by_us, declared_guards, guards_of, is_wrapper
from singleton.dotnet.dequeueable import DequeueableLayout
from singleton.dotnet.webjobs import WebJobsLayout
from singleton.functions.triggers import ONCE_MARK, ORDERED_MARK
from singleton.layouts.layout import Layout
from singleton.scopes.template import ScopeTemplate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from simulator.history.journal import Write
    from simulator.host.app.app_model import IndexedFunction, Parameter
    from singleton.base.events import Call
    from singleton.functions.guard import Guard


_NO_NAME: Final = (
    "a connection string in place of the name of an app setting. The simulator uses its own storage only: put the "
    "string into an app setting, and give the name of the setting"
)
_LAYOUTS: Final[dict[type, str]] = {
    Layout: "default",
    WebJobsLayout: "webjobs",
    DequeueableLayout: "dequeueable",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One function, and how the function is triggered."""

    function: IndexedFunction
    guards: tuple[Guard, ...] = ()  # what the product made of its declarations, a listener's first
    declared: tuple[Declaration, ...] = ()  # its ``@singleton`` declarations as the app wrote them, a listener's first
    hidden: bool = False  # whether a decorator without ``__wrapped__`` hides them
    idle: str | None = None  # why the function is never called, or None
    queue: str | None = None
    schedule: Schedule | None = None
    monitored: bool = False  # whether the timer's status is kept in storage
    run_on_startup: bool = False  # whether the timer fires at once
    connection: str | None = None
    source: Source | None = None  # where the work comes from, for a trigger other than a timer or a storage queue

    @property
    def guard(self) -> Guard | None:
        """The innermost guard, under which its body runs; None if there is none."""
        return self.guards[-1] if self.guards else None

    def bare(self) -> Plan:
        """Return what a host must know of it, without any object of the app."""
        trigger = replace(self.function.trigger, annotation=None)
        function = replace(
            self.function, call=_elsewhere, trigger=trigger, inputs={}, outputs={}, returns=None, retry=None
        )
        return replace(self, function=function, guards=(), declared=())

    def to_json(self) -> dict[str, Any]:
        """Return what the journal tells of the function."""
        told = self._trigger()
        guard = self._guard()
        once = self.operation
        told |= {"once": once is not None, "keep": None if once is None else once.keep}
        if guard is None:
            return {**told, **({} if once is None else once.facts()), "guarded": False}
        names = [each.function for each in self.guards]
        return {
            **told,
            "guarded": True,
            "lock_level": guard.pop("level"),
            **guard,
            "declared": names,
        }

    def described(self) -> dict[str, Any]:
        """Return what ``--describe`` tells of the function."""
        key = self.operation_key
        told = {**self._trigger(), "guard": self._guard()}
        return told if key is None else {**told, "once": _paths_of(key)}

    def _trigger(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "name": self.function.name,
            "trigger": self.function.trigger_label,
            "async": self.function.is_async,
            "place": self.function.place,
            "idle": self.idle,
            "narrow": _narrow(self.function),
        }
        if self.idle is not None and (wanted := _declared_queue(self.function.trigger)):
            told["wanted"] = wanted
        # A function that is never called needs no messages and no ticks.
        if self.idle is None and self.queue is not None:
            told |= {"queue": self.queue, "connection": self.connection, "ordered": self.ordered}
        if self.idle is None and self.source is not None:
            told |= self.source.told()
        if self.idle is None and self.schedule is not None:
            gap = self.schedule.longest_gap(time.time())
            told |= {"schedule": self.schedule.text, "tick": None if gap == NEVER else round(gap, 3)}
        return told

    def _guard(self) -> dict[str, Any] | None:
        if not self.declared:
            return None
        led = (each for each in self.declared if each["mode"] == "listener")
        return {
            **_facts(self.guard, self.declared[-1]),
            "decorated": self.hidden or _is_decorated(self.function.call),
            "direct": self.guard is not None and _is_direct(self.guard),
            "listener": next(({"lease": each.lease, "poll": each.poll} for each in led), None),
        }

    @property
    def ordered(self) -> bool:
        """Whether ``@ordered`` handles its queue's messages, which an inbox has sent."""
        return hasattr(self.function.call, ORDERED_MARK)

    @property
    def once(self) -> Guard | None:
        """The ``@once`` that may answer in place of the body; None if there is none."""
        guard = getattr(self.function.call, ONCE_MARK, None)
        return None if guard is None else guard()

    @property
    def operation(self) -> Declaration | None:
        """What the app declares of its ``@once``; None: there is none."""
        return operation_on(self.function.call) or (None if self.once is None else _declared(self.once))

    @property
    def operation_key(self) -> str | None:
        """The path or the template that ``@once`` was given as a key; None: a function, or there is no ``@once``."""
        key = None if self.operation is None else self.operation.given.get("key")
        return key if isinstance(key, str) else None


def _facts(guard: Guard | None, declared: Declaration) -> dict[str, Any]:
    """Return what the journal tells of a guard, as it is declared."""
    return {"paths": [] if guard is None else list(guard.template.paths), **declared.facts()}


def _declared(guard: Guard) -> Declaration:
    """Return the declaration of a guard as written; one without a copy by the guard's own word."""
    copied = declared_around(guard.written, guard.mode, guard.decorator.lstrip("@"))
    if copied is not None:
        return copied
    given = {name: getattr(guard, name) for name in ARGUMENTS.keys() - {"layout", "dotnet_name"}}
    given["layout"] = _LAYOUTS.get(type(guard.layout), "of another decorator")
    given["dotnet_name"] = getattr(guard.layout, "dotnet_name", None)
    if guard.decorator == "@once":
        given |= {name: vars(guard)[name] for name in ("keep", "outputs")} | {"key": vars(guard)["key"].given}
    return Declaration(given=given, options={name: getattr(guard.options, name) for name in OPTIONS})


def _paths_of(key: str) -> list[str]:
    """Return the dotted paths of the properties in a key of ``@once``: a property's path, or a template."""
    if "{" in key or "%" in key:
        return [*ScopeTemplate(key, named="key", needs_values=True).paths]
    return [key.replace(":", ".")]


def _declared_queue(trigger: Parameter) -> str:
    """Return the queue, or the topic and subscription, as the trigger names them; empty: it names none."""
    names = (trigger.settings.get(key) for key in ("queueName", "topicName", "subscriptionName"))
    return "/".join(str(name) for name in names if name)


def _is_decorated(function: Callable[..., Any]) -> bool:
    while (inner := getattr(function, "__wrapped__", None)) is not None:
        if not is_wrapper(function):
            return True
        function = inner
    return False


def _narrow(function: IndexedFunction) -> str:
    """Name the decorator around a guard that takes no ``context``, which the worker passes as the guard asks for it."""
    call: Any = function.call
    while function.wants_context and isfunction(call) and not is_wrapper(call):
        code = call.__code__
        takes = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if not code.co_flags & CO_VARKEYWORDS and "context" not in takes:
            return f"{code.co_qualname.partition('.')[0]} (line {code.co_firstlineno})"
        call = getattr(call, "__wrapped__", None)
    return ""


def _is_direct(guard: Guard) -> bool:
    """Tell whether nothing is between a guard and the user's own function."""
    return any(below is guard.written for below in _guarded_by_us.values())


def _hidden_guards(function: IndexedFunction) -> tuple[Guard, ...]:
    """Return the guards that a decorator without ``__wrapped__`` hides; the decorator gave its function their name."""
    call = function.call
    renamed = isfunction(call) and call.__code__.co_name != call.__name__
    if guards_of(call) or not renamed:
        return ()
    return tuple(guard for guard in declared_guards() if guard.function == function.name)


def inner_guards(plans: Iterable[Plan]) -> list[Guard]:
    """Return the guards that no function of the host carries: of helpers, or below decorators that hide them."""
    carried = {id(guard) for plan in plans for guard in plan.guards}
    return [guard for guard in declared_guards() if id(guard) not in carried]


def tell_apart(guards: Iterable[Guard]) -> None:
    """Let each of these guards tell its own name: given the worker's context, a guard tells the trigger's function."""
    for guard in guards:

        def told(arguments: Mapping[str, Any], context: Any, guard: Guard = guard) -> Call:
            return replace(type(guard).call(guard, arguments, context), function=guard.function)

        vars(guard)["call"] = told  # a guard is frozen


def tell_policies(guards: Iterable[Guard], write: Write, given: Callable[[], Mapping[str, Any]]) -> None:
    """Write what each policy of the app's own answers when its guard asks, and what the policy was told wrongly.

    ``given``: returns the arguments of the guard that runs.
    """
    for guard in guards:
        if callable(policy := guard.on_contention):

            def asked(contention: Any, guard: Guard = guard, policy: Any = policy) -> Any:
                answer = policy(contention)
                if isinstance(answer, str):
                    about = {"function": guard.function, "waiting": getattr(contention, "waiting", 0)}
                    about |= {"patience": _declared(guard).patience, "wrong": _told_wrongly(contention, given())}
                    about |= {"lock": getattr(contention, "lock", ""), "told": getattr(contention, "function", "")}
                    write("policy_answered", invocation=invoked.get(), answer=answer, **about)
                return answer

            vars(guard)["on_contention"] = wraps(policy)(asked)  # a guard is frozen


def _told_wrongly(contention: Any, given: Mapping[str, Any]) -> list[str]:
    """Return what a policy is told of the invocation and its message, where that is not true, and what is true.

    The Functions host shows what the body has in place of a property of the message's own: that is not compared.
    """
    right: dict[str, object] = {"owner": invoked.get()} if getattr(contention, "owner", "") else {}
    from azure.functions import QueueMessage  # the command itself starts without it

    messages = [each for each in given.values() if isinstance(each, QueueMessage)]
    if len(messages) == 1:
        theirs = messages[0].get_body().decode("utf-8", "replace").casefold()
        names = {"message_id": ("id", messages[0].id), "dequeue_count": ("dequeuecount", messages[0].dequeue_count)}
        right |= {name: value for name, (key, value) in names.items() if not re.search(rf"\b{key}\b", theirs)}
    told = {name: getattr(contention, name, None) for name in right}
    return [f"{name} {told[name]!r} in place of {value!r}" for name, value in right.items() if told[name] != value]


def inner_records(plans: Iterable[Plan]) -> Iterator[dict[str, Any]]:
    """Yield what the journal tells of each guard that is not the guard of a function's own body."""
    plans = list(plans)
    guards = [(guard.function, guard) for guard in inner_guards(plans)]
    guards += [(once_of(plan.function.name), plan.once) for plan in plans if plan.guards and plan.once]
    for name, guard in guards:
        # What is between this guard and its function is not known.
        about = {"decorated": True, "direct": _is_direct(guard), **_facts(guard, _declared(guard))}
        yield {"name": name, "guarded": True, "async": iscoroutinefunction(guard.written), **about}


def users_functions(plans: Iterable[Plan]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the name and the function of each body that must be seen: below a decorator, the user's own."""
    plans = list(plans)
    for plan in plans:
        if not plan.hidden:
            yield plan.function.name, plan.function.call
    for guard in (*inner_guards(plans), *(guard for plan in plans if plan.hidden for guard in plan.guards)):
        if guard.written is not None:
            yield guard.function, guard.written


def guarded_functions(plans: Iterable[Plan]) -> Iterator[GuardedFunction]:
    """Yield each guard of this process with the function below the guard, also guards of helpers."""
    names: dict[object, str] = {}
    for plan in plans:
        function: Any = plan.function.call
        while function is not None:
            names.setdefault(function, plan.function.name)
            below = getattr(function, "__wrapped__", None)
            if hasattr(function, ONCE_MARK) and below and not hasattr(below, ONCE_MARK) and not is_wrapper(function):
                again = plan.operation is None or plan.operation.given.get("outputs") != "first"
                names_it = {"name": plan.function.name, "guard": function, "below": below}
                yield GuardedFunction(**names_it, keeps=True, sends_again=again)
            function = below
    for guard, below in [*_guarded_by_us.items()]:
        if isfunction(guard) and isfunction(below):
            yield GuardedFunction(name=names.get(guard) or guards_of(guard)[-1].function, guard=guard, below=below)


def make_plans(
    functions: Iterable[IndexedFunction],
    settings: Mapping[str, str],
    pace: float,
    allowed: frozenset[str] | None = None,
    app: Path | None = None,
) -> list[Plan]:
    """Return the plan of each function. A function whose trigger the host refuses is idle, and the others run (H-86).

    ``pace`` is the longest wait for a timer's next tick in seconds; 0 keeps the schedules. ``allowed`` has the
    functions that host.json allows, in lower case; None: all. ``app`` is the folder of host.json, which says whether
    the host knows the bindings; None: it does.

    Raises:
        AppError: two names differ by case only, and the host does not start.
        ConfigurationError: the host does not start with its extension bundle.
    """

    def lacks(function: IndexedFunction) -> list[str]:
        return [] if app is None else unknown_bindings(app, settings, function.bindings)

    plans = [_plan(function, settings, pace, allowed, lacks(function)) for function in functions]
    check_names(plan.function.name for plan in plans if plan.function.refused is None)
    return plans


def connections(plans: Iterable[Plan], settings: Mapping[str, str]) -> set[str]:
    """Return every storage connection that the app's queue triggers, queue outputs and guards name and that is set.

    Raises:
        HostError: a guard has a connection string instead of a setting's name, so it can't be pointed elsewhere.
    """
    named = {name for plan in plans if plan.idle is None for name in queue_connections(plan.function, settings)}
    for guard in declared_guards():
        if is_connection_string(guard.connection):
            raise HostError(f"@singleton on {guard.function!r} has {_NO_NAME}")
        named.add(guard.connection)
    return {name for name in named if is_set(settings, name)}


def missing_connections(plans: Iterable[Plan], settings: Mapping[str, str]) -> list[str]:
    """Return notes on queue outputs whose connection is not set."""
    named = {}
    for plan in plans:
        for output in (*plan.function.outputs.values(), plan.function.returns):
            if plan.idle is None and output is not None and output.binding.lower() == "queue":
                name = str(output.settings.get("connection") or "")
                named[f"output {output.name!r} of {plan.function.name!r}"] = name
    lost = {what: name for what, name in named.items() if not is_set(settings, name)}
    return [f"{what}: {not_set(name, settings)}: its calls fail" for what, name in lost.items()]


def _plan(
    function: IndexedFunction,
    settings: Mapping[str, str],
    pace: float,
    allowed: frozenset[str] | None,
    unknown: list[str],
) -> Plan:
    idle = function.not_driven
    if allowed is not None and function.name.lower() not in allowed:
        idle = "it is not in host.json's list of functions"
    elif idle is None and is_disabled(function.name, settings):
        idle = "it is disabled by an app setting"
    elif idle is None and unknown:
        idle = f"host.json has no extensionBundle, without which the host knows no {listed(unknown)}"
    hidden = _hidden_guards(function)
    guards = guards_of(function.call) or hidden
    declared = declared_on(function.call) or tuple(map(_declared, guards))
    plan = Plan(function=function, guards=guards, declared=declared, hidden=bool(hidden), idle=idle)
    if idle is not None:
        return plan
    try:
        for name in queue_connections(function, settings):
            if is_connection_string(name):
                raise SettingsError(f"it has {_NO_NAME}")  # noqa: TRY301
        if function.kind == "queue":
            return _with_queue(plan, settings)
        return _with_schedule(plan, settings, pace) if function.kind == "timer" else _with_source(plan, settings)
    except SettingsError as error:
        return replace(plan, idle=str(error))


def _with_queue(plan: Plan, settings: Mapping[str, str]) -> Plan:
    trigger = plan.function.trigger
    connection = resolve(str(trigger.settings.get("connection") or ""), settings, "its connection")
    if not is_set(settings, connection):
        raise SettingsError(not_set(connection, settings))
    return replace(plan, queue=queue_name(trigger, settings, "its queue"), connection=connection)


def _with_source(plan: Plan, settings: Mapping[str, str]) -> Plan:
    source = source_of(plan.function, settings)
    if source.route is not None:
        try:
            Route.parse(source.route)
        except RouteError as error:
            raise SettingsError(str(error)) from error
    if source.path:  # with the settings filled in
        trigger = plan.function.trigger
        trigger = replace(trigger, settings={**trigger.settings, "path": source.path})
        plan = replace(plan, function=replace(plan.function, trigger=trigger))
    return replace(plan, source=source)


def _with_schedule(plan: Plan, settings: Mapping[str, str], pace: float) -> Plan:
    trigger = plan.function.trigger.settings
    try:
        schedule = Schedule.parse(resolve(str(trigger.get("schedule") or ""), settings, "its schedule"), pace=pace)
    except ScheduleError as error:
        raise SettingsError(f"its schedule is wrong: {error}") from error
    return replace(
        plan,
        schedule=schedule,
        monitored=_is_true(trigger.get("useMonitor", True)) and not schedule.is_sub_minute,
        run_on_startup=_is_true(trigger.get("runOnStartup")),
    )


def queue_connections(function: IndexedFunction, settings: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of the connections of its queue trigger and its queue outputs.

    Raises:
        SettingsError: a name refers to a missing setting.
    """
    for parameter in (function.trigger, *function.outputs.values(), function.returns):
        if parameter is not None and parameter.binding.lower() in {"queuetrigger", "queue"}:
            text = str(parameter.settings.get("connection") or "")
            is_trigger = parameter is function.trigger  # the host fills in no %NAME% of an output
            yield resolve(text, settings, f"the connection of {parameter.name!r}") if is_trigger else text


def _is_true(value: object) -> bool:
    """Read a switch of a binding, which may be a text."""
    return str(value).strip().lower() == "true"


def _elsewhere(**_: object) -> Never:
    """Stand in for a function that only the worker has."""
    # A host has no code of the app. A call here asks the wrong process: that is a bug of the simulator.
    raise AssertionError("a host has workers to run its functions")
