"""From a configuration to an app that is ready to run: settings, import, index, check."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.host.app.config import HostConfig
from simulator.host.app.errors import AppError, SettingsError
from simulator.host.app.hostjson import QueueOptions, allowed_functions, queue_options
from simulator.host.app.loading import check_folder, load_functions
from simulator.host.app.settings import prepare, redirect
from simulator.host.plan import Plan, connections, make_plans, missing_connections, unguarded
from singleton.base.errors import ConfigurationError
from singleton.settings.appsettings import filled
from singleton.settings.options import SingletonOptions, load_options

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An app, imported and checked."""

    plans: tuple[Plan, ...]
    queue_options: QueueOptions
    options: SingletonOptions
    notes: tuple[str, ...]


def prepare_app(config: HostConfig) -> Prepared:
    """Import the app of ``config`` into this process, whose environment and working directory become the app's.

    Raises:
        HostError: the app or its settings can't be used.
    """
    # Only the process's own environment reaches the user's code.
    settings = os.environ
    check_folder(config.app)
    try:
        prepare(settings, config)
        queues = queue_options(config.app, settings)
        options = load_options(config.app, settings)
        allowed = allowed_functions(config.app, settings)
    except ConfigurationError as error:
        raise SettingsError(str(error)) from error
    notes = apply_time_zone(settings)
    _set_up_logging()
    functions = load_functions(config.app, settings)
    plans = make_plans(functions, settings, config.timer_every, allowed)
    redirect(settings, connections(plans, settings), config.storage)
    if all(plan.idle for plan in plans):
        reasons = "; ".join(f"{plan.function.name}: {plan.idle}" for plan in plans)
        raise AppError(f"none of the app's functions can be run here, only timer and queue triggers ({reasons})")
    missing = missing_connections(settings)
    longest_wait = min(queues.max_polling_interval, config.max_polling_interval)
    return Prepared(
        plans=tuple(plans),
        queue_options=replace(queues, max_polling_interval=longest_wait),
        options=options,
        notes=(*notes, *_notes(plans), *missing),
    )


def describe(app: Path) -> list[dict[str, Any]]:
    """Return what is known of each function of the app. Nothing is run, and nothing connected to.

    Raises:
        HostError: the app or its settings can't be used; the message is one line.
    """
    config = HostConfig(
        name="describe",
        app=app.resolve(),
        journal=Path(os.devnull),
        storage="UseDevelopmentStorage=true",
        host_id="describe",
        lock_host_id="describe",
        timer_every=0,
    )
    return [plan.described() for plan in prepare_app(config).plans]


def apply_time_zone(settings: Mapping[str, str]) -> list[str]:
    """Make ``TZ`` the local time that schedules mean (H-56, H-93); return notes on it."""
    if hasattr(time, "tzset"):
        time.tzset()
    zone = filled(settings, "WEBSITE_TIME_ZONE")
    if zone is None or filled(settings, "TZ") is not None:
        return []
    why = "which does nothing here: in Azure the platform sets TZ from it"
    return [f"WEBSITE_TIME_ZONE is {zone!r}, {why}; set TZ to have schedules in that time zone"]


def _notes(plans: list[Plan]) -> list[str]:
    notes = [f"function {plan.function.name!r} is not run: {plan.idle}" for plan in plans if plan.idle]
    notes += [
        f"@singleton on {function!r} is on no function that the host sees: has it no trigger, or is it below a "
        "decorator without functools.wraps?"
        for function in unguarded(plans)
    ]
    return notes


def _set_up_logging() -> None:
    """Log as the worker does, to the process's error stream; the SDK's own chatter only when it warns."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    for noisy in ("azure", "aiohttp", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
