"""The check itself: reads an app's functions, asks every rule, and reports."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from simulator.appcheck.bodies import check_body
from simulator.appcheck.check_report import CheckReport, FunctionReport, GuardReport
from simulator.appcheck.checked_app import code_of, guarded_functions, place_of, subjects, uses_client
from simulator.appcheck.connections import (
    check_bindings,
    check_clients,
    check_connection,
    check_inbox_queue,
    check_queue,
)
from simulator.appcheck.data_bindings import check_data
from simulator.appcheck.finding import SEVERITIES
from simulator.appcheck.guard_options import layout_name, options_of
from simulator.appcheck.host_json import check_bundle, check_host
from simulator.appcheck.late_responses import check_responses
from simulator.appcheck.lock_places import lock_of_inbox
from simulator.appcheck.lost_functions import check_lost
from simulator.appcheck.own_module import check_own_module
from simulator.appcheck.policies import check_policy
from simulator.appcheck.queue_triggers import check_messages, check_threads
from simulator.appcheck.rules import RULES
from simulator.appcheck.scopes import check_scope
from simulator.appcheck.shared_locks import check_names, check_sharing, named_locks
from simulator.appcheck.source_lines import place_of_guard
from simulator.appcheck.time_limits import check_timer, check_times
from simulator.appcheck.wrappers import check_wrapping
from singleton.base.appsettings import is_disabled
from singleton.functions.misdeclaration import OF_THE_APP
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
_OF_FUNCTIONS: Final = (check_bindings, check_body, check_data, check_inbox_queue, check_timer)
"""A finding without a place stands at the ``def``."""
_OF_SETTINGS: Final = frozenset({"connection-unset", "connection-wrong", "identity-not-installed", "setting-unset"})
"""Rules of app settings, which a function that is switched off does not need."""
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
        *check_bundle(settings, found),
        *check_own_module(settings),
        *unnamed,
        *check_names(found),
        *check_sharing(named),
        *check_threads(found),
        *check_clients(settings),
        *check_responses(found, settings.folder),
        *more,
    ]
    findings += [
        RULES["function-refused"].broken(each.why, each.name, each.place)
        for each in unbuilt
        if not any(other.place == each.place for other in findings)
    ]
    for subject in found:
        of_function = [each.at(subject.name, each.place or subject.place) for each in _looked_at(subject)]
        if is_disabled(subject.name, settings.values):
            of_function = [replace(each, severity="note") if each.id in _OF_SETTINGS else each for each in of_function]
        findings += of_function
    findings += _refused(found, settings, misdeclared, [each.message for each in findings])
    findings += check_lost(app, found, settings, everywhere=everywhere, empty=not found and not unbuilt)
    guarded = any(subject.guards or subject.inbox or subject.is_locked or subject.refused for subject in found)
    guarded = guarded or bool(misdeclared or guarded_functions(settings.folder)) or uses_client(settings.folder)
    if found and not guarded:
        rule = RULES["nothing-guarded"]
        findings.append(rule.broken("none of the app's functions has a guard", place=found[0].place))
    findings = list(dict.fromkeys(findings))
    findings.sort(key=lambda each: (SEVERITIES.index(each.severity), _line(each), each.id))
    return CheckReport(functions=tuple(_reported(each, named) for each in found), findings=tuple(findings))


def _looked_at(subject: Subject) -> Iterator[Finding]:
    """Yield what is wrong with a function, and with its guards."""
    for guard in subject.guards:
        place = subject.place_of(guard)
        yield from (each.at(subject.name, place) for look in _OF_GUARDS for each in look(subject, guard))
    for look in _OF_FUNCTIONS:
        yield from look(subject)


def _line(finding: Finding) -> tuple[str, int]:
    return ("", 0) if finding.place is None else (finding.place.file, finding.place.line)


def _refused(
    found: Iterable[Subject], app: AppSettings, misdeclared: Sequence[Misdeclared], told: Sequence[str]
) -> Iterator[Finding]:
    """Yield the declarations that were refused. One error of the whole app is told once, by all of its functions."""
    names = {id(subject.refused): subject.name for subject in found}
    seen = set(told)
    errors = [(subject.call, subject.refused) for subject in found if subject.refused is not None and not misdeclared]
    for function, error in [*misdeclared, *errors]:
        message = str(error).replace(f"{app.folder}/", "")
        of_app = error.reason == OF_THE_APP
        if of_app and message in seen:
            continue
        seen.add(message)
        code, place = code_of(function, app.folder), place_of(function, app.folder)
        name = names.get(id(error), getattr(function, "__name__", ""))
        rule = RULES.get(error.reason or "", RULES["declaration-refused"])
        if code is not None and not of_app:
            by = re.match(r"@\w+", message)
            place = place_of_guard(code, by[0] if by else "", "function", app.folder)
        message = message.removeprefix(f"@singleton on {getattr(function, '__qualname__', name)}: ")
        yield rule.broken(message, "" if of_app else name, place)


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
    if subject.inbox is not None:
        guards.append(
            GuardReport(
                decorator="@ordered",
                mode="function",
                lock=lock_of_inbox(subject.inbox),
                also=None,
                layout="default",
                level="function",
                on_contention="order",
                options=(),
                place=subject.place_of_decorator("@ordered"),
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
