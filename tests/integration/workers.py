"""Real Python workers as processes: what they indexed, and what comes of the invocations that they are asked for."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
Invocation = tuple[str, str, Any]
"""Function, the trigger's parameter, and what it is given: see ``incoming`` in ``support/python_worker.py``."""

needs_worker = pytest.mark.skipif(
    importlib.util.find_spec("azure_functions_runtime") is None,
    reason="azure-functions-runtime, the worker, is not installed: PyPI has it for Python 3.13 and later",
)


class Worker:
    """A worker process, and what it answers."""

    def __init__(
        self, app: Path, storage: str, journal: Path, threads: int | None = None, packages: Path = ROOT
    ) -> None:
        ours = {name: text for name, text in os.environ.items() if not name.startswith(("AzureWebJobs", "AzureF"))}
        environment = {
            **ours,
            "PYTHONPATH": str(packages),
            "AzureWebJobsStorage": storage,
            "AzureFunctionsWebHost__hostid": "worker",
            "JOURNAL": str(journal),
        }
        if threads is not None:
            environment["PYTHON_THREADPOOL_THREAD_COUNT"] = str(threads)
        command = [sys.executable, "-W", "ignore", str(ROOT / "tests" / "support" / "python_worker.py"), str(app)]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=app
        )

    def functions(self) -> list[str]:
        names: list[str] = self.answer()
        return names

    def ask(self, invocations: list[Invocation]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(invocations) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the worker ended"
        return json.loads(line)

    def end(self) -> None:
        try:
            self.process.communicate(timeout=60)
        finally:
            self.process.kill()


def both(workers: list[Worker], invocations: list[Invocation]) -> list[dict[str, Any]]:
    """Have all of them run all of these at once; return all outcomes."""
    for worker in workers:
        worker.ask(invocations)
    return [outcome for worker in workers for outcome in worker.answer()]
