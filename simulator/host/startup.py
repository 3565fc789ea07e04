"""From a configuration to an app that is ready to run: settings, import, index, check."""

from __future__ import annotations

import logging
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from simulator.host.app.app_loader import load_functions
from simulator.host.app.app_model import AppError, HostConfig, SettingsError
from simulator.host.app.hostjson import (
    BusOptions,
    QueueOptions,
    RetryPolicy,
    allowed_functions,
    bus_options,
    check_version,
    declared_policy,
    function_timeout,
    host_policy,
    queue_options,
    route_prefix,
)
from simulator.host.app.settings import prepare, redirect
from simulator.host.declared import declarations_copied
from simulator.host.function_plan import (
    Plan,
    connections,
    make_plans,
    missing_connections,
    queue_connections,
)
from singleton.base.appsettings import filled
from singleton.base.errors import ConfigurationError
from singleton.settings.options import SingletonOptions, load_options

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_WORKERS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An app, imported and checked."""

    plans: tuple[Plan, ...]
    queue_options: QueueOptions
    bus_options: BusOptions
    route_prefix: str  # what comes before the routes of its HTTP functions
    options: SingletonOptions
    notes: tuple[str, ...]
    retries: Mapping[str, RetryPolicy]
    """The retry policies of its functions by name; other functions are not tried again."""
    time_limit: float | None  # how long an invocation may take in seconds (``functionTimeout``), or None
    workers: int  # in how many processes the host runs its functions
    zone: str | None  # the time zone of its schedules, if one is set
    queues: bool  # whether a function takes messages from queues or puts some there

    def bare(self) -> Prepared:
        """Return the preparation without objects of the app, for another process."""
        return replace(self, plans=tuple(plan.bare() for plan in self.plans))


def prepare_app(config: HostConfig) -> Prepared:
    """Import the app of ``config`` into this process. Its environment and working directory become those of the app.

    Raises:
        HostError: the app or its settings can't be used.
    """
    # The user's code sees only the environment of the process.
    settings = os.environ
    if not config.app.is_dir():
        raise AppError(f"{config.app} is not a folder")
    try:
        prepare(settings, config)
        check_version(config.app)
        prefix = route_prefix(config.app, settings)
        time_limit = function_timeout(config.app, settings)
        general = host_policy(config.app)
        options = load_options(config.app, settings)
        allowed = allowed_functions(config.app, settings)
    except ConfigurationError as error:
        raise SettingsError(str(error)) from error
    notes = apply_time_zone(settings)
    with declarations_copied(config.app, settings):
        functions = load_functions(config.app, settings)
    retries = [
        (function.name, declared_policy(function.retry, f"function {function.name!r}") if function.retry else general)
        for function in functions
    ]
    kinds = {each.lower().removesuffix("trigger") for function in functions for each in function.bindings}
    try:
        plans = make_plans(functions, settings, config.timer_every, allowed, config.app)
        # The host loads, and gives its options to, only an extension that a function needs.
        queues = queue_options(config.app, settings) if kinds & {"queue", "blob"} else QueueOptions()
        bus = bus_options(config.app, settings) if "servicebus" in kinds else BusOptions()
    except ConfigurationError as error:
        raise SettingsError(str(error)) from error
    redirect(settings, connections(plans, settings), config.settings)
    if all(plan.idle for plan in plans):
        reasons = "; ".join(f"{plan.function.name}: {plan.idle}" for plan in plans)
        raise AppError(f"none of the app's functions can be run here ({reasons})")
    missing = missing_connections(plans, settings)
    longest_wait = min(queues.max_polling_interval, config.max_polling_interval)
    return Prepared(
        plans=tuple(plans),
        queue_options=replace(queues, max_polling_interval=longest_wait),
        bus_options=bus,
        route_prefix=prefix,
        options=options,
        notes=(*notes, *_notes(plans), *missing),
        retries={name: policy for name, policy in retries if policy is not None},
        time_limit=time_limit,
        workers=worker_count(settings),
        zone=filled(settings, "TZ"),
        queues=any(plan.idle is None and [*queue_connections(plan.function, settings)] for plan in plans),
    )


def describe(app: Path) -> list[dict[str, Any]]:
    """Return what is known of each function of the app. Nothing is run, and nothing connected to.

    Raises:
        HostError: the app or its settings can't be used; the message is one line.
    """
    set_up_logging()
    config = HostConfig(
        name="describe",
        app=app.resolve(),
        journal=Path(os.devnull),
        storage="UseDevelopmentStorage=true",
        host_id="describe",
        lock_host_id="describe",
        timer_every=0,
    )
    prepared = prepare_app(config)
    return [{**plan.described(), "prefix": prepared.route_prefix} for plan in prepared.plans]


def apply_time_zone(settings: Mapping[str, str]) -> list[str]:
    """Make ``TZ`` the local time of schedules (H-56, H-93); return notes on it."""
    if hasattr(time, "tzset"):
        time.tzset()
    zone = filled(settings, "WEBSITE_TIME_ZONE")
    if zone is None or filled(settings, "TZ") is not None:
        return []
    why = "which has no effect here: in Azure the platform sets TZ from it"
    return [f"WEBSITE_TIME_ZONE is {zone!r}, {why}; set TZ to have schedules in that time zone"]


def worker_count(settings: Mapping[str, str]) -> int:
    """Return in how many processes the host runs its functions: ``FUNCTIONS_WORKER_PROCESS_COUNT``, 1 to 10 (H-88)."""
    text = filled(settings, "FUNCTIONS_WORKER_PROCESS_COUNT") or ""
    return min(int(text), _MOST_WORKERS) if text.isascii() and text.isdigit() and int(text) else 1


def _notes(plans: list[Plan]) -> list[str]:
    notes = [f"function {plan.function.name!r} is not run: {plan.idle}" for plan in plans if plan.idle]
    notes += [
        f"no messages were made up for {plan.queue!r}, the queue of the inbox of {plan.function.name!r}: what is in it "
        "comes from the app's own sends, which --messages FILE can set off"
        for plan in plans
        if plan.ordered and not plan.idle
    ]
    return notes


class _Log(logging.StreamHandler[Any]):
    """Writes to the process's error stream, as long as the app leaves it open."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - of its base
        """Tell of the stream's error, if there is where to."""
        with suppress(Exception):
            super().handleError(record)


def set_up_logging() -> None:
    """Log as the worker does, to the process's error stream; of the SDK only warnings."""
    words = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    logging.basicConfig(level=logging.INFO, format=words, handlers=[_Log()])
    for noisy in ("azure", "aiohttp", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def leave(code: int) -> NoReturn:
    """End the process without waiting for threads that the app may have left: the real worker is killed too."""
    # The app may have replaced its streams by anything.
    with suppress(Exception):
        logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)
