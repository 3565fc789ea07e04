"""Plant a bug into a copy of the packages, and see who finds it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.mutants import Mutant

ROOT: Final = Path(__file__).resolve().parents[2]
SCENARIOS: Final = 1000
_HUNT: Final = Path(__file__).with_name("hunt.py")
_TIME: Final = 400.0
"""Seconds of real time for one hunt: a thousand scenarios on a machine that does three a second."""


@dataclass(frozen=True, slots=True)
class Catch:
    """Who noticed a mutant: the oracle's check and after how many scenarios, or tests; nobody, if ``check`` is None."""

    check: str | None
    after: int
    text: str


def planted(mutant: Mutant, source: str) -> str:
    """Return the source with the bug in it.

    Raises:
        AssertionError: the text to change is not there exactly once.
    """
    times = source.count(mutant.old)
    assert times == 1, f"{mutant.name}: its text stands {times} times in {mutant.file}, not once"
    return source.replace(mutant.old, mutant.new)


@contextmanager
def copy_with(mutant: Mutant | None) -> Iterator[Path]:
    """Make a copy of the packages and the tests with the bug in it."""
    with TemporaryDirectory(prefix="singleton-mutant-") as folder:
        root = Path(folder)
        for name in ("singleton", "simulator", *(("tests",) if mutant is not None and mutant.by else ())):
            shutil.copytree(ROOT / name, root / name)  # what is compiled already comes along
        shutil.copy(ROOT / "pyproject.toml", root)
        if mutant is not None:
            file = root / mutant.file
            file.write_text(planted(mutant, file.read_text(encoding="utf-8")), encoding="utf-8")
        yield root


def hunt(mutant: Mutant | None, *, scenarios: int = SCENARIOS, seed: int = 1, first: int = 1) -> Catch:
    """Explore with the bug in place, or run the tests that are to see it.

    Args:
        mutant: the bug; None plants none.
        scenarios: how many to explore at most.
        seed: what they are drawn from.
        first: the number of the scenario to begin with; the others follow in order.
    """
    with copy_with(mutant) as root:
        if mutant is not None and mutant.by:
            return _test(root, mutant.by)
        return _explore(root, scenarios, seed, first)


def _explore(root: Path, scenarios: int, seed: int, first: int) -> Catch:
    numbers = map(str, (scenarios, seed, first))
    result = _run([sys.executable, "-P", str(_HUNT), str(root), *numbers], root)
    if result.returncode != 0:
        raise RuntimeError(f"exploring failed:\n{result.stdout}{result.stderr}")
    found = json.loads(result.stdout.splitlines()[-1])
    return Catch(found["check"], found["after"], found.get("text", ""))


def _test(root: Path, tests: tuple[str, ...]) -> Catch:
    options = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly")
    result = _run([sys.executable, "-m", "pytest", *options, *tests], root)
    if result.returncode == 0:
        return Catch(None, 0, "")
    failed = next((line for line in result.stdout.splitlines() if line.startswith("FAILED ")), "")
    if result.returncode != 1 or not failed:
        raise RuntimeError(f"the tests could not run:\n{result.stdout}{result.stderr}")
    return Catch("tests", 0, failed.removeprefix("FAILED ").split(" - ")[0])


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_TIME, check=False
    )
