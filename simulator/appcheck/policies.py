"""What happens when the lock is busy: whether the trigger allows it. The product's own checks are asked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from simulator.appcheck.rules import RULES
from singleton.base.appsettings import filled
from singleton.base.errors import ConfigurationError
from singleton.base.words import with_article
from singleton.dotnet.dequeueable import DequeueableLayout, load_dequeueable
from singleton.dotnet.webjobs import WebJobsLayout
from singleton.functions.coalescing import NEXT_ARRIVAL
from singleton.functions.listing import body_of
from singleton.functions.trigger_rules import declared_type, refuse_generator
from singleton.functions.triggers import QUEUE, TIMER, is_http
from singleton.settings.connection import DEFAULT_CONNECTION
from singleton.settings.hostid import host_id, is_machine_bound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.appcheck.checked_app import Subject
    from simulator.appcheck.finding import Finding
    from singleton.functions.guard import Guard

_NO_MESSAGES: Final = ("str", "bytes", "dict")
_BATCHES: Final = ("list", "List")
_MESSAGES: Final = (QUEUE, "serviceBusTrigger")
_WARMUP: Final = "warmupTrigger"
_LISTENING: Final = (QUEUE, TIMER)


def check_policy(subject: Subject, guard: Guard) -> Iterator[Finding]:
    """Yield the mistakes in the policy for contention: the trigger does not allow the policy, or loses messages."""
    if isinstance(guard.layout, DequeueableLayout):
        try:  # at the import, the layout had the settings of this process
            load_dequeueable(subject.app.values)
        except ConfigurationError as error:
            yield RULES["option-refused"].broken(str(error))
    refused = [*_refused(subject, guard)]
    for each in refused:
        rule = RULES.get(each.reason or "", RULES["declaration-refused"])
        # A finding has the function's name already.
        yield rule.broken(re.sub(r"\A@\w+ on \S+: ", "", str(each)))
    if refused:
        return
    if guard.mode == "listener":
        yield from _listening(subject, guard)
    elif guard.on_contention == "coalesce":
        yield from _coalescing(subject, guard)
    if subject.trigger.type == _WARMUP:
        yield RULES["guarded-warm-up"].broken(
            f"a warmup trigger prepares the instance that starts, and {guard.decorator} lets one instance prepare "
            "itself at a time: the others are late, or start cold. Remove it"
        )
    if guard.on_contention == "skip" and subject.trigger.type in _MESSAGES:
        yield RULES["skip-drops-message"].broken(
            "on_contention='skip' ends an invocation as a success, so a message whose lock is busy is deleted "
            "without its work. Use 'wait', 'defer' or, if a later run does that work, 'coalesce'"
        )


def _refused(subject: Subject, guard: Guard) -> Iterator[ConfigurationError]:
    """Yield the errors with which the product refuses the declaration, when the app is loaded."""
    asked = [*guard.rules(subject.trigger)]
    if guard is subject.guards[0]:
        asked.append(lambda: refuse_generator(body_of(subject.call), subject.trigger))
    for ask in asked:
        try:
            ask()
        except ConfigurationError as error:
            yield error


def _coalescing(subject: Subject, guard: Guard) -> Iterator[Finding]:
    trigger, declared = subject.trigger, declared_type(guard.written, subject.trigger)
    if trigger.type in NEXT_ARRIVAL:
        yield RULES["coalesce-next-arrival"].broken(
            f"the trigger is {with_article(trigger.type)}: "
            "an invocation that fails or dies while it waits takes along the changes "
            "of those that left, and only the next arrival brings a run. A storage queue or Service Bus delivers the "
            "message of a dead waiter again"
        )
    elif trigger.type not in _MESSAGES:
        yield RULES["coalesce-without-count"].broken(
            f"the trigger is {with_article(trigger.type)}, "
            "which does not say how often it delivered what. So each invocation "
            "waits, and none leaves. Send the changes by a storage queue or Service Bus"
        )
    elif declared in _NO_MESSAGES + _BATCHES:
        kind = "QueueMessage" if trigger.type == QUEUE else "ServiceBusMessage"
        yield RULES["coalesce-without-count"].broken(
            f"the parameter {trigger.parameter} is a {declared}, which does not say how often the message was "
            f"delivered. So each message waits, and none leaves. Annotate it as func.{kind}"
        )


def _listening(subject: Subject, guard: Guard) -> Iterator[Finding]:
    trigger = subject.trigger
    if trigger.type == TIMER and _is_the_hosts_own(subject, guard):
        yield RULES["listener-of-the-host"].broken(
            "the Functions host itself holds this lock for its timer, so the function would never run. Leave "
            "mode='listener' out, or set hostId in host.json's singleton section to the other app's id"
        )
    if trigger.type not in _LISTENING and guard.on_contention != "raise":
        who = "its caller gets status 500" if is_http(trigger, {}) else "it fails, and is delivered again or lost"
        yield RULES["listener-on-trigger"].broken(
            f"the trigger is {with_article(trigger.type)}: "
            "in a process that is not the listener an invocation can't be skipped or "
            f"put back, so {who}. Leave mode='listener' out; if it is meant so, give on_contention='raise'"
        )
    count = filled(subject.app.values, "FUNCTIONS_WORKER_PROCESS_COUNT") or ""
    if count.isdecimal() and int(count) > 1:
        yield RULES["listener-with-worker-processes"].broken(
            f"FUNCTIONS_WORKER_PROCESS_COUNT is {count}, and only one of these processes is the listener: what the "
            "host gives to another one does not run there. Set it to 1, or leave mode='listener' out"
        )


def _is_the_hosts_own(subject: Subject, guard: Guard) -> bool:
    """Tell whether it is the lock by which the host of this very app listens to its timer (W-111)."""
    if not isinstance(guard.layout, WebJobsLayout) or guard.connection != DEFAULT_CONNECTION:
        return False
    if guard.scope_id or (guard.name or subject.name) != subject.name:
        return False
    own = guard.options.host_id
    if own is None:
        return True
    values, folder = subject.app.values, subject.app.folder
    try:
        return not is_machine_bound(values) and own == host_id(values, folder)
    except ConfigurationError:
        return False
