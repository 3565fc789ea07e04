"""A function whose declaration is wrong: the app does not load, or with the option ``fail_fast`` off each call fails.

A worker loads no function of an app if its import raises, or the listing of its functions. No message is fetched then,
while otherwise each message would be tried until it is poison. With ``fail_fast`` off, an error of one function
concerns only that function: the worker indexes the function as without ``@singleton``, and every invocation fails with
the message. An error of the whole app (host.json, an app setting, a missing package) always keeps the app from loading.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import weakref
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from singleton.base.appsettings import environment
from singleton.base.errors import ConfigurationError
from singleton.base.forks import importing
from singleton.functions.triggers import users_code, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from singleton.base.appsettings import Environment
    from singleton.settings.options import SingletonOptions

OF_THE_APP: Final = "app"
"""The ``reason`` of errors of the whole app."""
_WORKERS: Final = ("azure_functions_worker", "azure_functions_runtime")
"""The worker's packages: up to Python 3.12, and from 3.13 on."""
_failing: weakref.WeakKeyDictionary[Callable[..., Any], ConfigurationError] = weakref.WeakKeyDictionary()
"""Functions that replace wrongly declared functions, with the error of the declaration."""


class Misdeclared(NamedTuple):
    """A wrong declaration: the function, or the value given instead of a function, and the error."""

    function: object
    error: ConfigurationError


_collectors: list[list[Misdeclared]] = []


@contextlib.contextmanager
def collecting() -> Iterator[list[Misdeclared]]:
    """Collect the errors of the declarations in this block, for a check of an app. None of them raises.

    A function that always fails replaces every wrongly declared function, as in a worker.
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


def options_of_app(function: Callable[..., Any]) -> tuple[Path | None, SingletonOptions]:
    """Return folder and options of the app which declares this function. A wrong option: the defaults, if collected.

    ``ConfigurationError``: an option is wrong, which concerns the whole app.
    """
    with importing:
        from singleton.settings.options import SingletonOptions, app_dir_of

    settings = environment()
    app_dir, host_json = app_dir_of(users_code(function).co_filename, settings), None
    if app_dir is not None:
        with contextlib.suppress(OSError):
            host_json = (app_dir / "host.json").read_bytes()
    try:
        with concerning_the_app():
            return app_dir, _loaded_options(app_dir, host_json, settings)
    except ConfigurationError as error:
        if not _collected(function, error):
            raise
        return app_dir, SingletonOptions()


@lru_cache(maxsize=8)
def _loaded_options(app_dir: Path | None, host_json: bytes | None, settings: Environment) -> SingletonOptions:  # noqa: ARG001
    """Return the options of an app, whose functions have them in common. ``host_json``: the bytes of the file."""
    with importing:
        from singleton.settings.options import load_options

    return load_options(app_dir, settings)


def _collected(function: object, error: ConfigurationError) -> bool:
    """List an error, if errors are collected now; tell whether errors are collected."""
    for found in _collectors:
        found.append(Misdeclared(function, error))
    return bool(_collectors)


def error_of(function: object) -> ConfigurationError | None:
    """Return the error of the wrong declaration that ``function`` replaces; None: ``function`` replaces nothing."""
    return _failing.get(function) if inspect.isfunction(function) else None


def in_worker() -> bool:
    """Tell whether this process is a Functions worker."""
    return any(name in sys.modules for name in _WORKERS)


def _fails_fast(function: Callable[..., Any]) -> bool:
    """Tell whether a wrong declaration fails the import: always where no worker runs, as an early warning."""
    return not in_worker() or not inspect.isfunction(function) or options_of_app(function)[1].fail_fast


def stand_in(function: Callable[..., Any], error: ConfigurationError) -> Callable[..., Any]:
    """Return a function that raises this error at every call, and looks like ``function`` to the worker.

    Raises:
        ConfigurationError: the error itself, unless errors are collected, or a worker runs an app with ``fail_fast``
            off and the error is of a single function.
    """
    if _collected(function, error) and not inspect.isfunction(function):
        return function
    if not _collectors and (error.reason == OF_THE_APP or _fails_fast(function)):
        raise error

    def misdeclared(*_: Any) -> NoReturn:
        raise error.another()

    failing = wrapped(function, misdeclared)
    _failing[failing] = error
    return failing
