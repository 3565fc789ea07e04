"""A function whose declaration is wrong: in a Functions worker each call fails, elsewhere the import fails.

A worker that meets an error as it imports an app loads none of its functions. So an error of one function becomes that
function's own: it is indexed as it would be without ``@singleton``, and each invocation fails with the message. What is
wrong for the whole app (host.json, an app setting, a package that is missing) does keep it from loading: no message is
fetched then, where each would be tried until it is poison.

Where no worker runs, in tests, scripts and the simulator, the declaration raises at once, as an early warning.

Who checks an app wants all of its mistakes: within ``collecting`` no declaration raises, and each error is listed.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
import sys
import weakref
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from singleton.base.errors import ConfigurationError
from singleton.functions.triggers import stand_where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from singleton.settings.options import SingletonOptions

OF_THE_APP: Final = "app"
"""The ``reason`` of errors that are not one function's."""
_WORKERS: Final = ("azure_functions_worker", "azure_functions_runtime")
"""The worker's packages: up to Python 3.12, and from 3.13 on."""
_failing: weakref.WeakKeyDictionary[Callable[..., Any], ConfigurationError] = weakref.WeakKeyDictionary()
"""What stands in for functions that were declared wrongly, each with its error."""
_LEASE: Final = "lock_period (the lease, which is renewed) or max_hold (after which it is not renewed any more)"
_CONTENTION: Final = "on_contention: 'skip' or 'raise' does not wait"
_ELSEWHERE: Final = {
    "blocking": _CONTENTION,
    "blocking_timeout": "timeout",
    "concurrency": "limit",
    "expire": _LEASE,
    "expires": _LEASE,
    "expiry": _LEASE,
    "lease_duration": _LEASE,
    "lock_acquisition_timeout": "timeout",
    "lock_at_least_for": "at_least",
    "lock_at_most_for": "max_hold",
    "lock_ttl": _LEASE,
    "max_concurrency": "limit",
    "max_concurrent": "limit",
    "max_count": "limit",
    "sleep": "lock_acquisition_polling_interval",
    "ttl": _LEASE,
    "wait_timeout": "timeout",
}
"""What other libraries and host.json call it, and what it is here."""


class Misdeclared(NamedTuple):
    """What was declared wrongly: the function, or what was given in its place, and the error."""

    function: object
    error: ConfigurationError


_collectors: list[list[Misdeclared]] = []


@contextlib.contextmanager
def collecting() -> Iterator[list[Misdeclared]]:
    """Collect the errors of the declarations in this block. None of them raises.

    Each function that is declared wrongly is replaced by one that always fails, as in a worker.
    """
    found: list[Misdeclared] = []
    _collectors.append(found)
    try:
        yield found
    finally:
        _collectors[:] = [each for each in _collectors if each is not found]  # equal lists are not the same


@contextlib.contextmanager
def concerning_the_app() -> Iterator[None]:
    """Mark the errors of this block as those of the whole app."""
    try:
        yield
    except ConfigurationError as error:
        error.reason = OF_THE_APP
        raise


def options_of_app(function: object, app_dir: Path | None) -> SingletonOptions:
    """Return the options of the app in which this function is declared; the defaults while errors are collected.

    Raises:
        ConfigurationError: one is wrong, which concerns the whole app.
    """
    from singleton.settings.options import SingletonOptions, load_options

    try:
        with concerning_the_app():
            return load_options(app_dir, os.environ)
    except ConfigurationError as error:
        if not _collected(function, error):
            raise
        return SingletonOptions()


def _collected(function: object, error: ConfigurationError) -> bool:
    """List an error, if they are collected now; tell whether they are."""
    for found in _collectors:
        found.append(Misdeclared(function, error))
    return bool(_collectors)


def always_fails(function: object) -> bool:
    """Tell whether it is what stands in for a function that was declared wrongly."""
    return inspect.isfunction(function) and function in _failing


def error_of(function: object) -> ConfigurationError | None:
    """Return why this function stands in for another one; None: it does not."""
    return _failing.get(function) if inspect.isfunction(function) else None


def stand_in(function: Callable[..., Any], error: ConfigurationError) -> Callable[..., Any]:
    """Return what raises this error at each call, and looks like ``function`` to the worker.

    Raises:
        ConfigurationError: the error itself, where no worker runs, or where it is not that of a single function. Not
            while errors are collected.
    """
    if _collected(function, error) and not inspect.isfunction(function):
        return function
    in_worker = any(name in sys.modules for name in _WORKERS)
    raises = not in_worker or error.reason == OF_THE_APP or not inspect.isfunction(function)
    if raises and not _collectors:
        raise error

    def fail() -> NoReturn:
        raise error.another()

    async def misdeclared_async(*_: Any, **__: Any) -> NoReturn:
        fail()

    def misdeclared(*_: Any, **__: Any) -> NoReturn:
        fail()

    failing = misdeclared_async if inspect.iscoroutinefunction(function) else misdeclared
    functools.update_wrapper(failing, function)
    stand_where(function, failing)
    _failing[failing] = error
    return failing


def no_such_argument(keyword: str, names: Sequence[str]) -> str:
    """Return what is wrong with this keyword, and what to do; ``names``: those that there are."""
    from singleton.base.words import did_you_mean, quoted
    from singleton.settings.options import SETTING_PREFIX, SingletonOptions, camel

    said = f"@singleton has no argument {quoted(keyword)}"
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", keyword).lower()
    if snake in names:
        return f"{said}: write {snake}"
    if snake in _ELSEWHERE:
        return f"{said}: give {_ELSEWHERE[snake]}"
    if snake in [field.name for field in fields(SingletonOptions)]:
        return (
            f"{said}: it is an option of the whole app. Set {camel(snake)} in the singleton section of host.json, or "
            f"the app setting {SETTING_PREFIX}__{camel(snake)}"
        )
    hint = did_you_mean(keyword, names) or "."
    return f"{said}{hint} Its arguments are {', '.join(names)}"
