"""The check itself: reads an app's functions, asks every rule, and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from simulator.appcheck.check_report import CheckReport, FunctionReport, GuardReport
from simulator.appcheck.checked_app import code_of, is_the_apps, subjects, unregistered
from simulator.appcheck.connections import check_bindings, check_clients, check_connection, check_queue
from simulator.appcheck.data_bindings import check_data
from simulator.appcheck.finding import SEVERITIES
from simulator.appcheck.guard_options import layout_name, options_of
from simulator.appcheck.host_json import check_host
from simulator.appcheck.policies import check_policy
from simulator.appcheck.queue_triggers import check_messages, check_threads
from simulator.appcheck.rules import RULES
from simulator.appcheck.scopes import check_scope
from simulator.appcheck.shared_locks import check_names, check_sharing, named_locks
from simulator.appcheck.source_lines import place_of_class, place_of_function, place_of_guard
from simulator.appcheck.time_limits import check_times
from simulator.appcheck.wrappers import check_wrapping
from singleton.decorator import declared_guards
from singleton.functions.misdeclaration import OF_THE_APP
from singleton.functions.triggers import users_code
from singleton.layouts.blob_name import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from simulator.appcheck.checked_app import AppSettings, Subject
    from simulator.appcheck.finding import Finding
    from simulator.appcheck.shared_locks import Named
    from singleton.functions.misdeclaration import Misdeclared
    from singleton.functions.triggers import Trigger

_OF_GUARDS: Final = (
    check_policy,
    check_scope,
    check_times,
    check_messages,
    check_connection,
    check_queue,
    check_wrapping,
)
_NOT_THE_SOURCE: Final = frozenset({"authLevel", "dataType", "methods", "name"})


def check(
    app: Any,
    settings: AppSettings,
    *,
    misdeclared: Sequence[Misdeclared] = (),
    more: Iterable[Finding] = (),
    everywhere: bool = False,
) -> CheckReport:
    """Check an app that is imported already.

    Args:
        app: a function app or blueprint.
        settings: of the app.
        misdeclared: the declarations that were refused at the app's import.
        more: further findings of the caller.
        everywhere: look for guards without a function in all files of the app's folder, rather than in those that have
            functions: only where nothing but the app was imported.

    Raises:
        TypeError: ``app`` is no function app.
    """
    found, unbuilt = subjects(app, settings)
    named, unnamed = named_locks(found)
    findings = [
        *check_host(settings),
        *unnamed,
        *check_names(found),
        *check_sharing(named),
        *check_threads(found),
        *check_clients(settings),
        *more,
    ]
    findings += [
        RULES["function-refused"].broken(each.why, each.name, each.place)
        for each in unbuilt
        if not any(other.place == each.place for other in findings)
    ]
    for subject in found:
        for guard in subject.guards:
            place = subject.place_of(guard)
            findings += [each.at(subject.name, place) for look in _OF_GUARDS for each in look(subject, guard)]
        of_all = (*check_bindings(subject), *check_data(subject))
        findings += [each.at(subject.name, subject.place) for each in of_all]
    findings += _refused(found, settings, misdeclared, [each.message for each in findings])
    if not found and not unbuilt:
        findings += _unregistered(app, settings, "no-function", "the app has no function: this one")
    told = {each.function for each in findings if each.id == "no-function"}
    lost = list(_without_function(found, settings, everywhere=everywhere))
    findings += [each for each in lost if each.function not in told]
    if found and everywhere:
        told = {each.function for each in lost}
        others = _unregistered(app, settings, "function-not-registered", "it")
        findings += [each for each in others if each.function not in told]
    if found and not any(subject.guards or subject.refused for subject in found):
        rule = RULES["nothing-guarded"]
        findings.append(rule.broken("none of the app's functions has a guard", place=found[0].place))
    findings = list(dict.fromkeys(findings))
    findings.sort(key=lambda each: (SEVERITIES.index(each.severity), _line(each), each.id))
    return CheckReport(functions=tuple(_reported(each, named) for each in found), findings=tuple(findings))


def _line(finding: Finding) -> tuple[str, int]:
    return ("", 0) if finding.place is None else (finding.place.file, finding.place.line)


def _refused(
    found: Iterable[Subject], app: AppSettings, misdeclared: Sequence[Misdeclared], told: Sequence[str]
) -> Iterator[Finding]:
    """Yield the declarations that were refused. One error of the whole app is told once, by all of its functions."""
    names = {subject.place: subject.name for subject in found}
    seen = set(told)
    errors = [(subject.call, subject.refused) for subject in found if subject.refused is not None and not misdeclared]
    for function, error in [*misdeclared, *errors]:
        message = str(error).replace(f"{app.folder}/", "")
        code = code_of(function, app.folder)
        of_app = error.reason == OF_THE_APP
        if of_app and message in seen:
            continue
        seen.add(message)
        place = place_of_class(function, app.folder) if code is None else place_of_function(code, app.folder)
        name = names.get(place, getattr(function, "__name__", "")) if place else ""
        rule = RULES.get(error.reason or "", RULES["declaration-refused"])
        if code is not None and not of_app:
            place = place_of_guard(code, "@singleton", "function", app.folder)
        message = message.removeprefix(f"@singleton on {getattr(function, '__qualname__', name)}: ")
        yield rule.broken(message, "" if of_app else name, place)


def _without_function(found: Sequence[Subject], app: AppSettings, *, everywhere: bool) -> Iterator[Finding]:
    carried = {each.code for subject in found for each in subject.guards} | {users_code(each.call) for each in found}
    lines = {(code.co_filename, code.co_firstlineno) for code in carried if code is not None}
    files = {file for file, _ in lines}
    for guard in declared_guards():
        code = guard.code
        if code is None or (code.co_filename, code.co_firstlineno) in lines:
            continue
        if code.co_filename in files or (everywhere and is_the_apps(code.co_filename, app.folder)):
            place = place_of_guard(code, guard.decorator, guard.mode, app.folder)
            yield RULES["guard-without-function"].broken(
                f"{guard.function} is guarded, and it is none of the app's functions: it has no trigger, or its "
                "blueprint is not registered. Give it a trigger, or remove @singleton",
                guard.function,
                place,
            )


def _unregistered(app: Any, settings: AppSettings, rule: str, which: str) -> Iterator[Finding]:
    """Yield the functions of blueprints that are not registered."""
    for name, place in unregistered(app, settings.folder):
        yield RULES[rule].broken(
            f"{which} belongs to a blueprint that is not registered, so the host does not know it. Call "
            "app.register_functions(blueprint) in function_app.py",
            name,
            place,
        )


def _reported(subject: Subject, named: Iterable[Named]) -> FunctionReport:
    guards = []
    for each in named:
        if each.subject is subject:
            guard, policy = each.guard, each.guard.on_contention
            guards.append(
                GuardReport(
                    decorator=guard.decorator,
                    mode=guard.mode,
                    lock=each.lock,
                    also=each.also,
                    layout=layout_name(guard),
                    level=guard.level,
                    on_contention=getattr(policy, "__qualname__", "a function") if callable(policy) else policy,
                    options=tuple(options_of(guard, subject.app)),
                    place=subject.place_of(guard),
                )
            )
    return FunctionReport(
        name=subject.name,
        trigger=subject.trigger.type,
        source=_source(subject.trigger),
        guards=tuple(guards),
        refused=subject.refused is not None,
        place=subject.place,
    )


def _source(trigger: Trigger) -> str:
    """Return a hash of what triggers a function: its queue, path or schedule, but not its parameter's name."""
    said = sorted((key, str(value)) for key, value in trigger.settings.items() if key not in _NOT_THE_SOURCE)
    return digest(repr((trigger.type, said)))
