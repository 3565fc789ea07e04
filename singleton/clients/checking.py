"""What is given to lock clients, checked by name and value."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from singleton.base.errors import ConfigurationError
from singleton.base.words import quoted
from singleton.settings.durations import Limits, seconds
from singleton.settings.options import SingletonOptions, refuse_failover

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.hold import Hold
    from singleton.base.kinds import Seconds

_TIMEOUT = Limits(maximum=(2**31 - 1) / 1000, note=", or None to wait for as long as it takes")  # M-6


def checked_options(options: object, failover: Seconds | None) -> SingletonOptions:
    """Return the options of a client."""
    options = SingletonOptions() if options is None else options
    if not isinstance(options, SingletonOptions):
        raise ConfigurationError(f"options is a value of type {type(options).__name__}: give SingletonOptions(…)")
    if failover is not None:
        options = options.replace(failover=failover)
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


def checked_patience(timeout: Seconds) -> float:
    """Return the time-out of an attempt in seconds if it is one: an attempt without an end can't fail."""
    checked = checked_timeout(timeout)
    if checked is None:
        raise ConfigurationError(
            "timeout is None: give the seconds after which try_lock gives up, or 0 to ask once. To wait for as long as "
            "it takes, use lock"
        )
    return checked


def checked_period(every: Seconds, at_least: Seconds) -> float:
    """Return the seconds from tick to tick if they leave a worker the lock at its own next tick."""
    period, kept = seconds(every, "every", above=0), seconds(at_least, "at_least")
    if kept >= period:
        raise ConfigurationError(
            f"at_least is {kept:g} s and every is {period:g} s: the worker would find its own lock taken at its next "
            f"tick. Give an at_least below {period:g} s"
        )
    return period


def check_work(work: object) -> None:
    """Refuse work that can't be called with the hold: it would be found out only at its first tick."""
    if not callable(work):
        raise ConfigurationError(f"work is {quoted(work)}: give a function, or coroutine function, of the hold")
    _check_arity(work)


def _check_arity(work: Callable[..., object]) -> None:
    try:
        inspect.signature(work).bind(None)
    except TypeError as error:
        name = getattr(work, "__qualname__", repr(work))
        raise ConfigurationError(
            f"work={name} can't be called with the hold alone: {error}. Give a function of one parameter, such as "
            "`def clean_up(hold): ...`"
        ) from None
    except ValueError:  # a builtin that does not tell
        return
