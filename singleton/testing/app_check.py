"""``check_app``: finds in a test what would fail at run time only. The extra ``[check]`` brings the check."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.appcheck.check_report import CheckReport


def check_app(
    app: Any, *, settings: Mapping[str, str] | None = None, folder: str | os.PathLike[str] | None = None
) -> CheckReport:
    """Look for mistakes that would show at run time only: policies, scopes, settings, times that don't go together.

    No function of the app is run, and no connection is made. ``singleton-sim check`` has the same findings, and also
    the refusals of the Functions host. Needs the extra ``[check]`` (or ``[sim]``).

    Args:
        app: the app in ``function_app``, or a blueprint.
        settings: the settings of the deployed app, without those by which a platform says that this machine is a pod
            or a runner of CI. Default: the environment; a missing ``AzureWebJobsStorage`` and
            missing settings of triggers are then no findings, as tests rarely have them.
        folder: folder of host.json. Default: the folder of the app's first function, or the nearest folder above with
            a host.json.

    Returns:
        each function with its guards and locks, and the findings. ``assert_ok()`` fails the test after an error.

    Raises:
        TypeError: ``app`` is no function app.
        ConfigurationError: the extra is not installed, or another package ``simulator`` hides the check.
    """
    try:
        from simulator.appcheck.checked_app import AppSettings, without_this_machine
        from simulator.appcheck.engine import check
    except ModuleNotFoundError as error:
        raise _not_found(error) from error

    values = without_this_machine(os.environ if settings is None else settings)
    where = _folder_of(app, values) if folder is None else Path(folder).resolve()
    return check(app, AppSettings(folder=where, values=values, known=settings is not None))


def _not_found(error: ModuleNotFoundError) -> Exception:
    """Return the error that says which extra is missing, or which package has the name of the simulator."""
    import sys

    from singleton.base.errors import ConfigurationError

    if not (error.name or "").startswith("simulator"):
        return error
    said = "check_app needs the package azure-functions-singleton-sim (the extra [check]): docs/install.md installs it"
    other = sys.modules.get("simulator")
    if other is not None:
        where = other.__file__ or next(iter(other.__path__), "?")
        said += f". If it is installed, the package simulator in {where} hides it: run singleton-sim check instead"
    return ConfigurationError(said)


def _folder_of(app: Any, settings: Mapping[str, str]) -> Path | None:
    from singleton.functions.triggers import is_builder, user_function, users_code
    from singleton.settings.options import find_app_dir

    builders = [each for each in getattr(app, "_function_builders", []) if is_builder(each)]
    if not builders:
        return None
    return find_app_dir(Path(users_code(user_function(builders[0])).co_filename).resolve().parent, settings)
