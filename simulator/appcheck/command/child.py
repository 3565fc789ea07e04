"""Starts the process that imports the app, and waits for what it has found."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

_CHECK: Final = (sys.executable, "-P", str(Path(__file__).parent / "__main__.py"))
"""No file of the working directory replaces a module: that folder may be an app."""


UNWRITTEN: Final = 74
"""The exit code of a process that could not write down what it found: ``EX_IOERR``."""


class Unchecked(Exception):
    """The app can't be checked. The message is one line."""


class CheckFailed(Exception):
    """The check itself failed. The message is one line."""


def report_on(app: Path, settings: Path | None, patience: float) -> dict[str, Any]:
    """Return the report on an app as ``CheckReport.to_json`` has it.

    Args:
        app: its folder.
        settings: a file with its app settings, or None.
        patience: seconds for which its import may last.

    Raises:
        Unchecked: it can't be imported.
        CheckFailed: our own process did not do it.
    """
    with _folder() as folder:
        result = Path(folder, "result.json")
        more = [] if settings is None else [settings.resolve()]
        code = _run([*_CHECK, result, app.resolve(), *more], app, patience)
        try:
            found: dict[str, Any] = json.loads(result.read_text("utf-8"))
        except FileNotFoundError:
            if code == UNWRITTEN:
                raise CheckFailed(
                    f"the result can't be written into {tempfile.gettempdir()}: the disk may be full. Make room there, "
                    "or set TMPDIR to another folder"
                ) from None
            ended = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise Unchecked(
                f"{app}: the app ended the process while it was imported ({ended}). An app must not exit, fork or "
                "crash then"
            ) from None
        except (OSError, ValueError) as error:
            raise CheckFailed(f"the result of the check can't be read: {error}") from error
    if "refused" in found:
        raise Unchecked(f"{app}: {found['refused']}")
    if "failed" in found:
        raise CheckFailed(f"{app}: the check failed, which is a defect of singleton-sim: {found['failed']}")
    report: dict[str, Any] = found["report"]
    return report


def _folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="singleton-check-")
    except OSError as error:
        raise CheckFailed(f"no folder can be made for the result: {error}. Set TMPDIR to one with room") from error


def _run(command: list[str | Path], app: Path, patience: float) -> int:
    try:
        # The output of the app's import is nobody's business.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise CheckFailed(f"no process could be started: {error}") from error
    try:
        return process.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        raise Unchecked(
            f"{app}: it was not imported within {patience:g} s. What takes long, or waits, does not belong into the "
            "import: put it into the functions"
        ) from None
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Make sure that the process is gone, with all that the app has started in it."""
    if sys.platform != "win32":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
