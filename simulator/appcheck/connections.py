"""App settings that an app needs: of connections, and settings named by ``%NAME%``. No value is ever shown."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from simulator.appcheck.checked_app import named_values
from simulator.appcheck.rules import RULES
from simulator.appcheck.source_lines import place_of_name
from singleton.base.appsettings import setting
from singleton.base.errors import ConfigurationError
from singleton.base.words import did_you_mean, quoted
from singleton.baseclient import BaseClient
from singleton.functions.triggers import QUEUE
from singleton.settings.connection import (
    DEFAULT_CONNECTION,
    configured,
    resolve_blob_account,
    resolve_queue_account,
)
from singleton.settings.localrun import excludes_nobody

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.appcheck.checked_app import AppSettings, Binding, Subject
    from simulator.appcheck.finding import Finding, Place
    from singleton.functions.guard import Guard

_PERCENT: Final = re.compile(r"%([^%]+)%")
_NOT_FILLED: Final = frozenset({"route", "direction", "type", "name"})
_DEFAULTED: Final = frozenset({"queueTrigger", "queue", "blobTrigger", "blob"})
"""Bindings with the default connection ``AzureWebJobsStorage``."""
_DEFAULT_NAMES: Final = {
    "cosmosDBTrigger": "CosmosDB",
    "cosmosDB": "CosmosDB",
    "eventHubTrigger": "EventHub",
    "eventHub": "EventHub",
    "serviceBusTrigger": "ServiceBus",
    "serviceBus": "ServiceBus",
}
"""The connections of bindings that name none."""
_BLANK_IS_WRONG: Final = ("connection", "connectionStringSetting")
_NAMING: Final = {
    "connection": "",
    "connectionStringSetting": "a connection string",
    "topicEndpointUri": "the address of the topic",
    "topicKeySetting": "the key of the topic",
}
"""What names an app setting, and what the setting must have: of most bindings; of SQL, MySQL, SignalR and the older
Cosmos DB; of Event Grid."""


def check_bindings(subject: Subject) -> Iterator[Finding]:
    """Yield the missing connections and settings of a function's trigger and bindings."""
    app = subject.app
    for binding in subject.bindings:
        for finding in _settings_of(app, binding):
            yield finding if app.known else replace(finding, severity="warning")
        if app.known:
            yield from _connection_of(app, binding)
        yield from _blank(app, binding)


def check_connection(subject: Subject, guard: Guard) -> Iterator[Finding]:
    """Yield the missing settings of a guard, and the mistakes in its connection."""
    app, name = subject.app, guard.connection.strip()
    key = getattr(getattr(guard, "key", None), "given", None)  # of @once
    for argument, text in (("scope_id", guard.scope_id), ("key", key if isinstance(key, str) else "")):
        for wanted in _PERCENT.findall(text):
            if setting(app.values, wanted) is None:
                yield RULES["setting-unset"].broken(
                    f"{argument}={text!r}: there is no app setting {wanted}. Set it{did_you_mean(wanted, app.values)}"
                )
    if not guard.enabled:
        return
    if "=" in name:
        yield RULES["connection-string-in-code"].broken(
            "connection= is a connection string, with its key, in the source. Put it into an app setting, and give "
            "the setting's name. Then change the key"
        )
    elif not app.known and name == DEFAULT_CONNECTION:
        return
    elif _is_unset(name, app):
        yield _unset(name, f"connection={name!r}", app)
        return
    try:
        account = resolve_blob_account(name, app.values)
    except ConfigurationError as error:
        yield RULES["connection-wrong"].broken(str(error))
        return
    if account.credential is not None and not _is_installed("azure.identity"):
        yield RULES["identity-not-installed"].broken(
            f"connection={name!r} asks for an identity, and azure-identity is not installed here. Add "
            "azure-identity to requirements.txt"
        )
    if guard.layout.by_host and guard.options.host_id is None and excludes_nobody(app.values, account.endpoint):
        yield RULES["host-id-of-pod"].broken(
            "the settings are those of a pod, and the host id is made of the pod's own name: the pods of this app "
            "would not exclude one another, and each invocation fails. Set hostId in host.json's singleton section"
        )


def check_clients(app: AppSettings) -> Iterator[Finding]:
    """Yield the lock clients and inboxes of the app's modules whose app setting is missing or wrong.

    A client looks the setting up later.
    """
    places: dict[BaseClient, list[tuple[str, Place]]] = {}
    for file, name, given in named_values(app.folder) if app.known else ():
        value = _client_of(given)
        if isinstance(value, BaseClient) and value._given is None:  # noqa: SLF001 - its app setting names the account
            places.setdefault(value, []).append((name, place_of_name(file, name, app.folder)))
    for client, named in places.items():
        name, place = max(named, key=lambda one: one[1].line > 1)  # where it is made, not where it is imported
        try:
            resolve_blob_account(str(client._connection), app.values)  # noqa: SLF001
        except ConfigurationError as error:
            rule = "connection-unset" if "there is no app setting" in str(error) else "connection-wrong"
            yield RULES[rule].broken(f"{name}: {error}", place=place)


def check_inbox_queue(subject: Subject) -> Iterator[Finding]:
    """Yield the trigger of ``@ordered`` that no bell of the inbox reaches."""
    app, inbox = subject.app, subject.inbox
    wrong = None if inbox is None else inbox.bells.wrong_queue(subject.trigger, app.values, app.folder)
    if wrong is not None:
        yield RULES["inbox-on-other-queue"].broken(wrong, place=subject.place_of_decorator("@ordered"))


def _client_of(value: Any) -> object:
    """Return the lock client of an inbox; any other value unchanged."""
    inboxes = sys.modules.get("singleton.patterns.ordered.inbox")  # an app without inboxes has not imported it
    return value.service.client if inboxes is not None and isinstance(value, inboxes.Inbox) else value


def check_queue(subject: Subject, guard: Guard) -> Iterator[Finding]:
    """Yield what keeps the messages of a guard from being put back: the trigger's connection names no queues."""
    app, name = subject.app, str(subject.trigger.settings.get("connection") or DEFAULT_CONNECTION).strip()
    listens = guard.mode == "listener" and guard.on_contention != "raise"
    defers = subject.trigger.type == QUEUE and (listens or "defer" in (guard.on_contention, guard.when_full))
    if not (defers and guard.enabled) or not app.known or "%" in name or _is_unset(name, app):
        return
    try:
        resolve_queue_account(name, app.values)
    except ConfigurationError as error:
        yield RULES["connection-wrong"].broken(str(error))


def _texts(binding: Binding) -> dict[str, str]:
    """Return the binding's settings in which the host fills in ``%NAME%``."""
    return {key: value for key, value in binding.settings.items() if isinstance(value, str) and key not in _NOT_FILLED}


def _settings_of(app: AppSettings, binding: Binding) -> Iterator[Finding]:
    for key, text in _texts(binding).items():
        for wanted in _PERCENT.findall(text):
            if setting(app.values, wanted) is None:
                yield RULES["setting-unset"].broken(
                    f"{key} of {binding.type} {binding.name!r} is {quoted(text)}: there is no app setting {wanted}. "
                    f"Set it{did_you_mean(wanted, app.values)}"
                )


def _connection_of(app: AppSettings, binding: Binding) -> Iterator[Finding]:
    texts = _texts(binding)
    default = DEFAULT_CONNECTION if binding.type in _DEFAULTED else ""
    names = {key: texts.get(key, default if key == "connection" else "").strip() for key in _NAMING}
    for key, name in names.items():
        said = f"the {key} of {binding.type} {binding.name!r}"
        if "=" in name:
            found = RULES["connection-string-in-code"].broken(
                f"{said} is a connection string, with its key, in the source. The host looks for an app setting of "
                "this name. Put it into an app setting, and give the setting's name. Then change the key"
            )
            yield replace(found, severity="error")
        elif name and "%" not in name and _is_unset(name, app):
            how = "" if key == "connection" else f"Set it to {_NAMING[key]}"
            yield _unset(name, said, app, storage=binding.type in _DEFAULTED, how=how)


def _blank(app: AppSettings, binding: Binding) -> Iterator[Finding]:
    """Yield a connection that is the empty text: where a binding has a default then, that may be missing."""
    for key in _BLANK_IS_WRONG:
        given, default = binding.settings.get(key), _DEFAULT_NAMES.get(binding.type)
        if not isinstance(given, str) or given.strip() or binding.type in _DEFAULTED:
            continue
        if default is not None and not _is_unset(default, app):
            continue
        else_ = f": the host takes AzureWebJobs{default} then, and there is no such app setting" if default else ""
        found = RULES["connection-unset"].broken(
            f"the {key} of {binding.type} {binding.name!r} is empty{else_}. Give the name of an app setting"
        )
        yield found if app.known or default is None else replace(found, severity="warning")


def _unset(name: str, said: str, app: AppSettings, *, storage: bool = True, how: str = "") -> Finding:
    below = f"{name}__accountName" if storage else f"settings below it, {name}__…,"
    how = how or f"Set it to a connection string, or set {below} to use an identity"
    return RULES["connection-unset"].broken(
        f"{said}: there is no app setting {name}. {how}{did_you_mean(name, app.values)}"
    )


def _is_unset(name: str, app: AppSettings) -> bool:
    """Tell whether nothing is set for a connection of this name."""
    if not all(char.isalnum() or char in "_-.: " for char in name):
        return False  # no name: a finding of another kind
    try:
        configured(name, app.values)
    except ConfigurationError:
        return True
    return False


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False
