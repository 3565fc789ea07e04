"""Times that do not go together: the limit of a wait or a hold, and an end before this limit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from simulator.appcheck.queue_triggers import lock_renewal
from simulator.appcheck.rules import RULES
from simulator.appcheck.timer_schedule import shortest_pause, skips_seconds, unmeant_star
from singleton.base.appsettings import setting
from singleton.functions.triggers import TIMER, is_http
from singleton.functions.wait_limit import WaitLimit
from singleton.settings.durations import in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.appcheck.checked_app import Subject
    from simulator.appcheck.finding import Finding
    from singleton.functions.guard import Guard

HTTP_LIMIT: Final = 230.0
"""Seconds after which Azure's load balancer ends a request without an answer, whatever ``functionTimeout`` says:
https://learn.microsoft.com/azure/azure-functions/functions-scale#timeout"""


_OFTEN: Final = 60.0
"""Seconds: a timer with a shorter period has a note, if its ticks wait."""


def patience(guard: Guard) -> float | None:
    """Return the declared seconds of an invocation's wait; None: not declared, or the invocation does not wait."""
    if guard.timeout is not None:
        return guard.timeout
    waits = guard.waits
    return waits or None


def waits_without_end(guard: Guard) -> bool:
    """Tell whether an invocation waits without a limit, for as long as the invocation may last."""
    return guard.waits is None and guard.layout.attempts is None


def check_timer(subject: Subject) -> Iterator[Finding]:
    """Yield the timers that tick more often than is meant."""
    if subject.trigger.type != TIMER:
        return
    settings, guards = subject.trigger.settings, [each for each in subject.guards if each.mode == "function"]
    schedule = _schedule(subject)
    unit = None if schedule is None else unmeant_star(schedule)
    if unit is not None:
        yield RULES["timer-ticks-often"].broken(
            f"the schedule {schedule!r} has * for the {unit}s: the timer ticks each {unit} of the times that the other "
            f"fields name. Write 0 for the {unit}s, for one tick at each of these times"
        )
    elif schedule is not None and skips_seconds(schedule):
        yield RULES["timer-skips-seconds"].broken(
            f"the schedule {schedule!r} has several seconds. If the host starts at second 25 of another minute, the "
            "next tick is not at the first of them, but at one after 25. Give one second, or a time span"
        )
    if guards and str(settings.get("runOnStartup")).lower() == "true":
        yield RULES["run-on-startup"].broken(
            f"run_on_startup=True ticks at each start of the app, of each instance that scales out, and after each "
            f"deployment. {guards[0].decorator} keeps these runs from one another, and not from doing the work again. "
            "Leave it out; or have the body look up when the work was last done, in current_hold().state"
        )


def check_times(subject: Subject, guard: Guard) -> Iterator[Finding]:
    """Yield the times of a guard that do not go together."""
    if guard.mode == "function":
        yield from _against_the_limit(subject, guard)
        if is_http(subject.trigger, {}):
            yield from _on_http(guard)
        elif subject.trigger.type == TIMER:
            yield from _on_timer(subject, guard)
        elif subject.trigger.type == "serviceBusTrigger":
            yield from _on_service_bus(subject, guard)


def _against_the_limit(subject: Subject, guard: Guard) -> Iterator[Finding]:
    limit = subject.app.function_timeout
    if limit is None:
        return
    said = f"functionTimeout, {in_words(limit.seconds)} ({limit.source})"
    waits = WaitLimit(limit)
    if (notice := waits.notice(patience(guard))) is not None:
        yield RULES["timeout-beyond-function-timeout"].broken(f"{notice}. Raise functionTimeout, or lower timeout")
    if guard.max_hold is not None and guard.max_hold >= limit.seconds:
        yield RULES["max-hold-beyond-function-timeout"].broken(
            f"max_hold is {in_words(guard.max_hold)}, not less than {said}: the host ends the worker before. Lower "
            "max_hold, or raise functionTimeout"
        )
    if guard.at_least > waits.seconds and guard.on_contention in ("wait", "coalesce"):
        yield RULES["at-least-beyond-function-timeout"].broken(
            f"at_least is {in_words(guard.at_least)}, and the next invocation of this lock may wait for "
            f"{in_words(waits.seconds)} only, because of {said}: it fails. Lower at_least, or don't wait"
        )
    if guard.period > limit.seconds:
        yield RULES["lock-period-beyond-function-timeout"].broken(
            f"lock_period is {in_words(guard.period)}, more than {said}: a worker that is ended leaves a lease that "
            "lasts for longer than an invocation. Lower lock_period"
        )


def _on_http(guard: Guard) -> Iterator[Finding]:
    waits = patience(guard)
    if waits is not None and waits > HTTP_LIMIT:
        yield RULES["http-wait-beyond-230-s"].broken(
            f"an invocation waits for up to {in_words(waits)}, and Azure's load balancer ends the request after 230 "
            "seconds. Set timeout to less, or answer 409: on_contention='conflict'"
        )
    elif waits_without_end(guard):
        yield RULES["http-wait-unbounded"].broken(
            "callers wait for up to functionTimeout, and Azure's load balancer ends their requests after 230 seconds. "
            "Set timeout to less"
        )


def _on_timer(subject: Subject, guard: Guard) -> Iterator[Finding]:
    schedule, waits = _schedule(subject), patience(guard)
    pause = None if schedule is None else shortest_pause(schedule)
    if pause is None:
        return
    if waits_without_end(guard) and waits is None and pause < _OFTEN:
        yield RULES["timer-wait-unbounded"].broken(
            f"a tick waits for as long as the lock is taken, and ticks may be {in_words(pause)} apart: later ones are "
            "late. Use 'skip', or set timeout"
        )
    every = f"some of the timer's ticks are only {in_words(pause)} apart"
    if guard.at_least >= pause:
        yield RULES["at-least-beyond-period"].broken(
            f"at_least is {in_words(guard.at_least)}, and {every}: the lock is still kept then. Set at_least below that"
        )
    if waits is not None and waits > pause:
        yield RULES["timer-wait-beyond-period"].broken(
            f"a tick waits for up to {in_words(waits)}, and {every}: later ticks are late. Set timeout below that, or "
            "use 'skip'"
        )


def _schedule(subject: Subject) -> str | None:
    """Return the timer's schedule, its settings filled in; None: a setting is not known."""
    text = str(subject.trigger.settings.get("schedule") or "")
    values = {name: setting(subject.app.values, name) for name in re.findall(r"%([^%]+)%", text)}
    if None in values.values():
        return None
    return re.sub(r"%([^%]+)%", lambda match: values[match[1]] or "", text)


def _on_service_bus(subject: Subject, guard: Guard) -> Iterator[Finding]:
    waits, renewed = patience(guard), lock_renewal(subject.app)
    if waits is not None and waits > renewed:
        yield RULES["wait-beyond-lock-renewal"].broken(
            f"an invocation waits for up to {in_words(waits)}, and its message is kept for "
            f"{in_words(renewed)} only (maxAutoLockRenewalDuration): then it is delivered to another one. Lower "
            "timeout, or raise maxAutoLockRenewalDuration"
        )
