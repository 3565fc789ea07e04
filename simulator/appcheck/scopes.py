"""Where a scope's value comes from: whether the trigger delivers something in which it can be looked up."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Final

from simulator.appcheck.queue_triggers import extension_options
from simulator.appcheck.rules import RULES
from singleton.base.appsettings import filled
from singleton.base.words import quoted
from singleton.functions.message_properties import is_binary
from singleton.functions.trigger_rules import declared_as, declared_type
from singleton.functions.triggers import NAMED, QUEUE, TIMER, is_http, is_streamed_request
from singleton.settings.hostjson import whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.appcheck.checked_app import AppSettings, Subject
    from simulator.appcheck.finding import Finding
    from singleton.functions.guard import Guard

_ROWS: Final = {"sqlTrigger": "Sql", "mysqlTrigger": "MySql"}
"""Triggers that deliver rows in lists, and how their settings begin."""
_ALWAYS_NEW: Final = frozenset(
    {"dequeuecount", "enqueuedsequencenumber", "enqueuedtimeutc", "expirationtime", "insertiontime", "locktoken"}
    | {"nextvisibletime", "offset", "popreceipt", "sequencenumber"}
)
_OF_EVENTS: Final = frozenset({"eventtime", "id", "time"})
"""Properties of an Event Grid event; properties of the event's data are ``data.id``, for example."""
_OUTSIDE: Final = {
    "blobTrigger": frozenset({"blobtrigger", "uri", "metadata", "properties"}),
    "eventHubTrigger": frozenset({"partitionkey", "partitioncontext", "properties", "systemproperties"}),
    "kafkaTrigger": frozenset({"key", "topic", "partition", "offset"}),
    "serviceBusTrigger": frozenset(
        {"applicationproperties", "correlationid", "messageid", "partitionkey", "sessionid", "userproperties"}
    ),
}
"""Names that come beside the body."""
_OF_REQUESTS: Final = frozenset({"datetime", "headers", "query", "sys"})
"""Names that each request has, and the host's own."""
_FIRST_NAME: Final = re.compile(r"(?<!\{)\{(\w+)")
_BODILESS: Final = frozenset({"GET", "HEAD"})


def check_scope(subject: Subject, guard: Guard) -> Iterator[Finding]:
    """Yield the mistakes in the scope."""
    key = getattr(getattr(guard, "key", None), "given", None)
    yield from _literal(guard, key)
    yield from _constant(subject, guard)
    scoped = guard.scope or guard.template.paths or key
    if not scoped or guard.mode == "listener":
        return
    if subject.trigger.type == TIMER:
        return
    said = guard.looked_up or f"key={quoted(key)}"
    yield from _rows(subject, said)
    yield from _path(subject, guard)
    yield from _names(subject, guard)
    yield from _nameless(subject, guard)
    yield from _streamed(subject, guard, key, said)


def _literal(guard: Guard, key: object) -> Iterator[Finding]:
    """Say where doubled braces make a text of what looks like a placeholder."""
    name, text = ("key", key) if isinstance(key, str) else ("scope_id", guard.scope_id)
    for found in re.findall(r"\{\{\s*([\w.:-]+)\s*\}\}", text):
        yield RULES["scope-is-literal"].broken(
            f"{name}={text!r}: doubled braces stand for the braces themselves, so each message has the text "
            f"{{{found}}} in its place, and all share it. Write {{{found}}} with single braces"
        )


def _constant(subject: Subject, guard: Guard) -> Iterator[Finding]:
    """Say where each message has the same scope, which adds nothing to a function's own lock."""
    own = guard.level == "function" and guard.mode == "function" and guard.scope is None and not guard.layout.foreign
    if own and guard.scope_id and subject.trigger.type != TIMER and not re.search(r"[{}%]", guard.scope_id):
        yield RULES["scope-is-constant"].broken(
            f"scope_id={guard.scope_id!r} is the same text for each message, so all share one lock. If a property is "
            f"meant, write scope_id='{{{guard.scope_id}}}' or scope={guard.scope_id!r}"
        )


def _rows(subject: Subject, said: str) -> Iterator[Finding]:
    product = _ROWS.get(subject.trigger.type)
    if product is not None and not _one_row(product, subject.app):
        yield RULES["scope-on-rows"].broken(
            f"a {subject.trigger.type} delivers up to 100 rows at a time, and {said} names no one row of a longer "
            f"list. Set the app setting {product}_Trigger_MaxBatchSize to 1"
        )


def _one_row(product: str, app: AppSettings) -> bool:
    """Tell whether a trigger for rows delivers one at a time: by an app setting, its old name, or host.json."""
    for name in (f"{product}_Trigger_MaxBatchSize", f"{product}_Trigger_BatchSize"):
        if (value := filled(app.values, name)) is not None:
            return value == "1"
    return whole_number(extension_options(app, product).get("maxbatchsize")) == 1


def _path(subject: Subject, guard: Guard) -> Iterator[Finding]:
    scope = guard.scope
    if scope is None:
        return
    parts = [part for part in re.split(r"[./]", scope.removeprefix("$")) if part]
    if len(parts) > 1 or scope.startswith("$."):
        yield RULES["scope-path-with-dots"].broken(
            f"scope={scope!r} is the name of one property: levels are parted by ':'. Write {':'.join(parts)!r}, "
            "unless the property is really called so"
        )
    if is_http(subject.trigger, {}):
        methods = {str(getattr(each, "value", each)).upper() for each in subject.trigger.settings.get("methods") or ()}
        if methods and methods <= _BODILESS:
            yield RULES["scope-without-body"].broken(
                f"scope={scope!r} is looked up in the body, and the route takes only {', '.join(sorted(methods))}. "
                "Use scope_id with a name of the route or the query, such as scope_id='{id}'"
            )


def _names(subject: Subject, guard: Guard) -> Iterator[Finding]:
    new = _ALWAYS_NEW | ({"id"} if subject.trigger.type == QUEUE and is_binary(subject.trigger) else set())
    new |= _OF_EVENTS if subject.trigger.type == "eventGridTrigger" else set()
    what = "event" if subject.trigger.type == "eventGridTrigger" else "message"
    # With a format, as in {EnqueuedTimeUtc:yyyyMMdd}, several messages may have the same.
    for path in re.findall(r"\{([\w.-]+)\}", guard.scope_id):
        if path.casefold() in new:
            yield RULES["scope-always-new"].broken(
                f"scope_id={guard.scope_id!r}: {{{path}}} is another one for each {what}, so no two have the same "
                "lock, and nobody waits. Name a property of the body that they have in common"
            )


def _streamed(subject: Subject, guard: Guard, key: object, said: str) -> Iterator[Finding]:
    """Say where a value is looked up in the body of a streamed request, which only the function reads."""
    if not is_streamed_request(declared_as(inspect.unwrap(subject.call), subject.trigger)):
        return
    text = key if isinstance(key, str) else guard.scope_id
    route = {name.casefold() for name in re.findall(r"\{(\w+)", str(subject.trigger.settings.get("route")))}
    names = {name for name in re.findall(_FIRST_NAME, text) if name.casefold() not in route | _OF_REQUESTS}
    if names:
        first = min(names)
        yield RULES["scope-in-query"].broken(
            f"{said}: {{{first}}} is no name of the route, and the body of a streamed request can't be read before the "
            f"function reads it: a request without {first} in its query fails. If the query is meant, write "
            f"{{query.{first}}}"
        )


def _nameless(subject: Subject, guard: Guard) -> Iterator[Finding]:
    """Say where a name comes beside a body, and the parameter is nothing but the body."""
    trigger = subject.trigger
    declared = declared_type(inspect.unwrap(subject.call), trigger)
    outside = _OUTSIDE.get(trigger.type)
    if declared not in {"str", "bytes"} or outside is None:
        return
    if trigger.type == "blobTrigger":
        outside |= {name.casefold() for name in re.findall(r"\{([^{}]*)\}", str(trigger.settings.get("path", "")))}
    for path in re.findall(r"\{([\w.-]+)", guard.scope_id):
        if path.partition(".")[0].casefold() in outside:
            yield RULES["scope-not-in-text"].broken(
                f"scope_id={guard.scope_id!r}: {{{path}}} comes beside the content, and the parameter "
                f"{trigger.parameter} is a {declared}, which has only the names of its JSON. Annotate it as "
                f"{NAMED[trigger.type]}"
            )
