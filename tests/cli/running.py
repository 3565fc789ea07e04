"""Run ``singleton-sim`` as people do: as a process, in an empty folder, and look at what it leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300.0


class Sim:
    """One run of the command."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.temp = folder / "temp"
        self.temp.mkdir(exist_ok=True)
        self.work = folder / "empty"
        self.work.mkdir(exist_ok=True)
        self._family: set[psutil.Process] = set()
        self._output = (folder / "output").open("w+b")
        self._errors = (folder / "errors").open("w+b")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "simulator.cli", *arguments],
            cwd=self.work,
            env={**os.environ, "TMPDIR": str(self.temp), "PYTHONPATH": str(ROOT), "COLUMNS": "120", **environment},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._errors,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.look()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for process in self._family:
            if process.is_running():
                process.kill()
        self._output.close()
        self._errors.close()

    def look(self) -> set[psutil.Process]:
        """Remember every process that the run has started so far."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._family |= set(psutil.Process(self.process.pid).children(recursive=True))
        return self._family

    def named(self, word: str) -> list[psutil.Process]:
        """Return the run's processes that have this word on their command line."""
        return [process for process in self.look() if word in _command(process)]

    def wait(self) -> int:
        """Wait for the end, and return the exit code."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, f"still running; it said:\n{self.output[-2000:]}\n{self.errors}"
            self.look()
            time.sleep(0.1)
        return int(self.process.returncode)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"it never came; it said:\n{self.output[-2000:]}\n{self.errors}"
            assert self.process.poll() is None, f"it ended; it said:\n{self.output[-2000:]}\n{self.errors}"
            self.look()
            time.sleep(0.05)

    def says(self, words: str) -> Callable[[], bool]:
        """Make a condition: the output has these words."""
        return lambda: words in self.output

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the command alone, as ``kill`` does."""
        self.look()
        self.process.send_signal(number)

    @property
    def output(self) -> str:
        """What came on standard output so far."""
        self._output.flush()
        return Path(self._output.name).read_text("utf-8")

    @property
    def errors(self) -> str:
        """What came on the error stream so far."""
        return Path(self._errors.name).read_text("utf-8")

    @property
    def verdict(self) -> dict[str, Any]:
        """The verdict of a run with ``--json``."""
        verdict: dict[str, Any] = json.loads(self.output)
        return verdict

    def left_behind(self, within: float = 60.0) -> list[str]:
        """Return the processes and files that are still there once a little time has passed."""
        end = time.monotonic() + within
        while (left := self.processes_left()) and time.monotonic() < end:
            time.sleep(0.05)
        return left + [f"file {path.relative_to(self.temp)}" for path in self.temp.rglob("*")]

    def processes_left(self) -> list[str]:
        """Return the run's processes that still live."""
        return [f"process {process.pid}: {_command(process)}" for process in self._family if _lives(process)]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
