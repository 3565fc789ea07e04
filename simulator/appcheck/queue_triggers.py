"""Messages that fail because of a busy lock, and waiters that keep the worker's threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simulator.appcheck.rules import RULES
from simulator.appcheck.source_lines import HOST_FILE, place_in_host, place_of_setting
from singleton.base.appsettings import filled, section
from singleton.base.errors import ConfigurationError
from singleton.base.timespan import parse_timespan
from singleton.base.words import as_json
from singleton.functions.triggers import QUEUE
from singleton.settings.durations import in_words
from singleton.settings.hostjson import as_text, extension_values, read_object, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from simulator.appcheck.checked_app import AppSettings, Subject
    from simulator.appcheck.finding import Finding
    from singleton.functions.guard import Guard

_RANGES: Final = {"batchsize": (1, 32), "newbatchthreshold": (0, 2**31 - 1), "maxdequeuecount": (1, 2**31 - 1)}
"""Of the options of ``extensions.queues`` that are whole numbers (H-33)."""
_SPANS: Final = ("visibilitytimeout", "maxpollinginterval")
_RENEWED: Final = 300.0
_BLOB_TRIES: Final = 5
"""Tries of a blob, with no delay between two; ``visibilityTimeout`` does not matter. Seen on the real host, 4.1037."""
_AT_ONCE: Final = {
    "activityTrigger": 10,
    "blobTrigger": 8,
    "eventGridTrigger": 16,
    "eventHubTrigger": 16,
    "httpTrigger": 16,
    "serviceBusTrigger": 16,
}
"""Invocations of other triggers that may well run at a time: the host's documented limit on one core
(``maxConcurrentCalls``, ``maxDegreeOfParallelism``, ``maxConcurrentActivityFunctions``). Other triggers: one."""


def check_queue_options(app: AppSettings) -> Iterator[Finding]:
    """Yield the options of queues with which the host does not start."""
    for name, (where, value) in _queue_values(app).items():
        wrong, days = _wrong(name, value), name in _SPANS and (as_text(value) or "").strip().isdecimal()
        if wrong is not None or (days and _seconds(value)):
            key = where.rpartition(".")[2]
            place = (
                place_in_host(app.folder, "extensions", "queues", key)
                if where.startswith(HOST_FILE)
                else place_of_setting(app.file, app.folder, where.removeprefix("app setting "))
            )
            if wrong is not None:
                told = f"{wrong}. The host does not start"
                yield RULES["queue-option-refused"].broken(f"{where} is {as_json(value)}: {told}", place=place)
                continue
            seconds = int(as_text(value) or "")
            meant = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
            yield RULES["queue-option-in-days"].broken(
                f'{where} is {as_json(value)}, which the host reads as days. Write "{meant}" if seconds are meant',
                place=place,
            )


def _wrong(name: str, value: object) -> str | None:
    """Return what to give in place of an option's value; None: it is right."""
    if name in _RANGES:
        least, most = _RANGES[name]
        number = whole_number(value)
        if number is None or not least <= number <= most:
            return f"give a whole number {f'from {least} to {most}' if most < 1000 else f'of at least {least}'}"
    elif name == "messageencoding" and (as_text(value) or "").strip().lower() not in ("base64", "none", "0", "1"):
        return 'give "base64" or "none"'
    elif name in _SPANS and ((seconds := _seconds(value)) is None or (seconds < 0.1 and name == "maxpollinginterval")):
        return 'give a time span "hh:mm:ss"; maxPollingInterval is 0.1 seconds at least'
    return None


def check_messages(subject: Subject, guard: Guard) -> Iterator[Finding]:
    """Yield the harm of a busy lock to the messages of a queue, and to the blobs of a blob trigger."""
    if guard.mode == "listener" and subject.trigger.type == "blobTrigger":
        yield RULES["raise-poisons-blobs"].broken(
            f"a blob fails {_BLOB_TRIES} times within a second in a process that is not the listener, and goes to "
            "webjobs-blobtrigger-poison. Leave mode='listener' out"
        )
    waits_in_vain = guard.on_contention in ("wait", "coalesce") and guard.timeout is not None
    is_full = guard.max_waiting is not None and guard.when_full == "raise"
    raises = guard.on_contention == "raise" or is_full
    if guard.mode != "function" or not (raises or waits_in_vain):
        return
    which, remedy = "whose lock is busy", "'wait' or 'defer'"
    if is_full:
        which, remedy = f"for whose lock max_waiting={guard.max_waiting} others wait", "when_full='defer'"
    if subject.trigger.type == "blobTrigger":
        if raises:
            yield RULES["raise-poisons-blobs"].broken(
                f"a blob {which} fails {_BLOB_TRIES} times within a second, and goes to webjobs-blobtrigger-poison. "
                "visibilityTimeout has no effect there. Use 'wait', and no max_waiting"
            )
        else:
            yield from _tries(guard, "blob", _BLOB_TRIES, 0.0, "timeout")
    elif subject.trigger.type == QUEUE:
        options = _queue_values(subject.app)
        most = whole_number(options["maxdequeuecount"][1]) if "maxdequeuecount" in options else 5
        away = _seconds(options["visibilitytimeout"][1]) if "visibilitytimeout" in options else None
        if most == 1:
            yield RULES["raise-with-one-dequeue"].broken(
                f"maxDequeueCount is 1 ({options['maxdequeuecount'][0]}): a message {which} fails once, and is poison. "
                f"Raise maxDequeueCount, or use {remedy}"
            )
        elif raises and not away:
            yield RULES["raise-comes-back-at-once"].broken(
                f"a message {which} comes back at once, and is poison after {most} failures. Set visibilityTimeout in "
                f"host.json, or use {remedy}"
            )
        yield from _tries(guard, "message", most or 5, away or 0.0, "timeout, visibilityTimeout or maxDequeueCount")


def lock_renewal(app: AppSettings) -> float:
    """Return for how many seconds the host renews the lock of a Service Bus message, 300 by default."""
    found = extension_options(app, "serviceBus")
    options = {**_folded(found.get("messagehandleroptions")), **found}
    value = options.get("maxautolockrenewalduration", options.get("maxautorenewduration"))
    seconds = _seconds(value)
    return _RENEWED if seconds is None else seconds


def extension_options(app: AppSettings, name: str) -> Mapping[str, object]:
    """Return the options of an extension by their names in lower case: an app setting stands over host.json (H-31)."""
    found: Mapping[str, object] = {}
    if app.folder is not None:
        try:
            found = _folded(
                _folded(_folded(read_object(app.folder / HOST_FILE)).get("extensions")).get(name.casefold())
            )
        except ConfigurationError:  # a finding of its own
            found = {}
    given = {key: text for _, key, text in section(app.values, f"AzureFunctionsJobHost__extensions__{name}")}
    return {**found, **given}


def _tries(guard: Guard, tried: str, most: int, away: float, remedies: str) -> Iterator[Finding]:
    """Compare the time of all tries with the time for which the lock may be taken.

    ``tried``: what is tried; ``most``: the number of tries; ``away``: the seconds between two; ``remedies``: what
    may be raised.
    """
    waits = guard.timeout or 0.0
    lasts = most * waits + (most - 1) * away
    taken = max(guard.at_least, guard.period if waits else 0.0)
    if most > 1 and lasts < taken:
        what = "at_least" if guard.at_least >= guard.period else "the lease of a holder that crashed"
        yield RULES["wait-runs-out"].broken(
            f"a {tried} is tried {most} times, for {in_words(lasts)} in all, and {what} keeps its lock for up to "
            f"{in_words(taken)}: so it may become poison though nothing is wrong with it. Raise {remedies}"
        )
    if 0 < away < waits:
        yield RULES["visibility-timeout-no-bound"].broken(
            f"an invocation waits for up to {in_words(waits)}, and visibilityTimeout is {in_words(away)}: it does not "
            "bound the wait, as it counts from a failure only"
        )


def check_threads(subjects: Sequence[Subject]) -> Iterator[Finding]:
    """Yield whether the waiters of all functions together may take all threads of the worker."""
    sync = [each for each in subjects if not each.is_async]
    if not sync:
        return
    count = filled(sync[0].app.values, "PYTHON_THREADPOOL_THREAD_COUNT") or ""
    waiting = sorted(((_waiters(each), each) for each in sync), key=lambda each: each[0], reverse=True)
    total = sum(number for number, _ in waiting)
    if not count.isdecimal() or not 0 < int(count) <= total or (total == 1 and len(sync) == 1):
        return
    first = waiting[0][1]
    who = ", ".join(f"{each.name} {number}" for number, each in waiting if number)
    yield RULES["waiters-fill-thread-pool"].broken(
        f"PYTHON_THREADPOOL_THREAD_COUNT is {count}, and {total} invocations at a time may wait for locks ({who}), "
        "each on a thread of its own: no other def function would run. Unset it, give max_waiting, or make the "
        "functions async",
        first.name,
        first.place_of(next(each for each in first.guards if _may_wait(each))),
    )


def _waiters(subject: Subject) -> int:
    """Return how many invocations of a function may well wait at a time on one host."""
    several = [guard for guard in subject.guards if _may_wait(guard)]
    if not several:
        return 0
    trigger = subject.trigger
    delivered = _in_flight(subject.app) if trigger.type == QUEUE else _AT_ONCE.get(trigger.type, 1)
    limits = [guard.max_waiting for guard in several]
    return min([delivered, sum(each or 0 for each in limits)]) if None not in limits else delivered


def _may_wait(guard: Guard) -> bool:
    return guard.mode == "function" and (guard.on_contention == "wait" or guard.timeout is not None)


def _in_flight(app: AppSettings) -> int:
    """Return how many messages of a queue one host runs at a time, at least (H-34)."""
    options = _queue_values(app)
    batch = whole_number(options["batchsize"][1]) if "batchsize" in options else None
    batch = 16 if batch is None else batch
    threshold = whole_number(options["newbatchthreshold"][1]) if "newbatchthreshold" in options else None
    return batch + (batch // 2 if threshold is None else threshold)


def _queue_values(app: AppSettings) -> dict[str, tuple[str, object]]:
    try:
        return extension_values(app.folder, app.values, "queues")
    except ConfigurationError:  # a finding of its own
        return {}


def _folded(value: object) -> Mapping[str, object]:
    return {str(key).casefold(): each for key, each in value.items()} if isinstance(value, dict) else {}


def _seconds(value: object) -> float | None:
    try:
        return None if value is None else parse_timespan(as_text(value) or "", days=True)
    except ValueError:
        return None
