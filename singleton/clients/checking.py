"""What is given to lock clients, checked by name and value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from singleton.base.errors import ConfigurationError
from singleton.base.words import quoted
from singleton.locking.slots import MOST
from singleton.settings.durations import Limits
from singleton.settings.options import SingletonOptions, refuse_failover

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import TypeAlias

    from singleton.base.hold import Hold

    Seconds: TypeAlias = float | timedelta

_TIMEOUT = Limits(maximum=(2**31 - 1) / 1000, note=", or None to wait for as long as it takes")  # M-6


def checked_options(options: object, failover: Seconds | None) -> SingletonOptions:
    """Return the options of a client."""
    options = SingletonOptions() if options is None else options
    if not isinstance(options, SingletonOptions):
        raise ConfigurationError(f"options is a value of type {type(options).__name__}: give SingletonOptions(…)")
    if failover is not None:
        options = options.replace(failover=failover or None)
    if options.container == "azure-webjobs-hosts":
        refuse_failover(options, f"container={options.container!r}, where .NET hosts have their locks")
    return options


def check_owner(owner: object) -> None:
    """Refuse an owner that is no text."""
    if not isinstance(owner, str):
        raise ConfigurationError(f"owner is {quoted(owner)}: give a text")


def checked_hold(hold: object) -> Hold:
    """Return what is to be released if it is a hold."""
    from singleton.base.hold import Hold

    if not isinstance(hold, Hold):
        raise ConfigurationError(f"hold is {quoted(hold)}: give what acquire returned")
    return hold


def checked_timeout(timeout: Seconds | None) -> float | None:
    """Return a time-out in seconds if it is one."""
    return None if timeout is None else _TIMEOUT.check(timeout, "timeout")


def checked_limit(limit: object) -> int:
    """Return a semaphore's limit if it is one."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise ConfigurationError(f"limit is {quoted(limit)}: give a whole number from 1 to {MOST:,}")
    return limit
