"""Apps that are written as text, imported as a worker does, and checked, without a process for each."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import types
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from simulator.appcheck.checked_app import AppSettings
from simulator.appcheck.engine import check
from singleton.functions.misdeclaration import collecting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from simulator.appcheck.check_report import CheckReport

HEAD: Final = """
import functools
import azure.functions as func
from singleton import OldLock, once, singleton

app = func.FunctionApp()
queue = functools.partial(app.queue_trigger, arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
timer = functools.partial(app.timer_trigger, arg_name="clock")
bus = functools.partial(app.service_bus_queue_trigger, arg_name="msg", queue_name="orders", connection="Bus")
hub = functools.partial(app.event_hub_message_trigger, arg_name="event", event_hub_name="hub", connection="Hub")
"""
SETTINGS: Final = {
    "AzureWebJobsStorage": "UseDevelopmentStorage=true",
    "Bus": "Endpoint=sb://orders.example/",
    "Hub": "Endpoint=sb://hub.example/",
    "Cosmos": "AccountEndpoint=https://cosmos.example/",
}


BUNDLE: Final = {"extensionBundle": {"id": "Microsoft.Azure.Functions.ExtensionBundle", "version": "[4.*, 5.0.0)"}}
"""What makes the host know triggers other than HTTP and timers."""


def write_app(folder: Path, code: str, host: Mapping[str, Any] | str | None = None) -> Path:
    """Write an app into the folder; return its script. ``host``: what host.json has beside its version, or its text."""
    folder.mkdir(parents=True, exist_ok=True)
    text = host if isinstance(host, str) else json.dumps({"version": "2.0", **BUNDLE, **(host or {})}, indent=2)
    (folder / "host.json").write_text(text)
    script = folder / "function_app.py"
    script.write_text(HEAD + dedent(code))
    return script


@contextlib.contextmanager
def beside(folder: Path, **modules: str) -> Iterator[None]:
    """Have modules beside the app's script in this block, by their names and texts."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(dedent(text))
    with patch.object(sys, "path", [str(folder), *sys.path]):
        importlib.invalidate_caches()
        try:
            yield
        finally:
            for name in modules:
                sys.modules.pop(name, None)


def checked(
    folder: Path,
    code: str,
    host: Mapping[str, Any] | str | None = None,
    settings: Mapping[str, str] | None = None,
) -> CheckReport:
    """Import an app and check it, under these settings beside the usual ones."""
    with collecting() as misdeclared:
        module = imported(folder, code, host)
    app = AppSettings(folder=folder, values={**SETTINGS, **(settings or {})}, known=True)
    with patch.dict(sys.modules, {module.__name__: module}):
        return check(vars(module)["app"], app, misdeclared=misdeclared, everywhere=True)


def imported(folder: Path, code: str, host: Mapping[str, Any] | str | None = None) -> types.ModuleType:
    """Write an app into the folder, and import it as a worker does."""
    script = write_app(folder, code, host)
    module = types.ModuleType(f"checked_{abs(hash(folder))}")
    module.__file__ = str(script)
    sys.modules[module.__name__] = module
    try:
        exec(compile(script.read_text(), script, "exec"), vars(module))  # noqa: S102 - as a worker imports it
    finally:
        del sys.modules[module.__name__]
    return module
