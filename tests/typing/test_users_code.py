"""A user's file type-checks under ``mypy --strict``, and does what its types say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from singleton.testing import memory_locks

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "tests" / "typing" / "users_code.py"


def test_it_runs() -> None:
    with memory_locks():
        from tests.typing.users_code import main

        main()


@pytest.mark.process
@pytest.mark.slow
def test_mypy_finds_nothing(tmp_path: Path) -> None:
    """Without the project's configuration, as a user has another; `make lint` reads the file with it."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--cache-dir", str(tmp_path), str(FILE)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
