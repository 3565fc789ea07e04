"""The pytest plugin, as somebody meets it who has installed the package and no other plugin."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PLUGIN = "_singleton_pytest"

GUARDED = """
import pytest
from singleton import LockClient, LockNotAcquired, current_hold, singleton
from singleton.testing import assert_no_leases_left, virtual_time

@singleton
def job(): return current_hold().token

@singleton(on_contention="skip")
async def skips(): return "done"
"""


def run(folder: Path, tests: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on these tests: warnings are errors, no setting is there, no other plugin is loaded."""
    (folder / "test_it.py").write_text(GUARDED + tests)
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("AzureWebJobs", "PYTEST", "COV_"))}
    environment = {**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rA",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        *options,
        "test_it.py",
    ]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def outcomes(folder: Path, tests: str) -> dict[str, str]:
    """Return each test's outcome by its name, as pytest's summary tells."""
    shown = run(folder, tests, "-p", PLUGIN).stdout
    lines = [line.split() for line in shown.splitlines() if line.startswith(("PASSED", "FAILED", "ERROR"))]
    assert lines, shown
    return {words[1].partition("::")[2]: words[0] for words in lines}


def test_the_package_names_it_to_pytest() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"singleton": PLUGIN}
    assert not [line for line in project["dependencies"] if "pytest" in line]


@pytest.mark.process
def test_its_fixtures_need_no_setting_and_no_other_plugin(tmp_path: Path) -> None:
    tests = """
def test_in_memory(singleton_locks):
    assert job() < job()

def test_busy(singleton_always_busy):
    with pytest.raises(LockNotAcquired):
        job()

def test_off(singleton_disabled):
    assert job() is None

@virtual_time
async def test_virtual(singleton_locks):
    assert await skips() == "done"

@virtual_time
async def test_virtual_and_busy(singleton_always_busy):
    assert await skips() is None

def test_without():
    with pytest.raises(Exception, match="no app setting AzureWebJobsStorage"):
        job()
"""
    assert set(outcomes(tmp_path, tests).items()) == {
        (name, "PASSED")
        for name in (
            "test_in_memory",
            "test_busy",
            "test_off",
            "test_virtual",
            "test_virtual_and_busy",
            "test_without",
        )
    }


@pytest.mark.process
def test_a_test_that_leaves_a_lease_behind_fails_and_the_next_one_does_not(tmp_path: Path) -> None:
    tests = """
kept = []

def test_leaves(singleton_locks):
    kept.append(LockClient().acquire("job", owner="import/7"))

def test_next(singleton_locks):
    job()
"""
    result = run(tmp_path, tests, "-p", PLUGIN)
    assert "AssertionError: not given back: lock 'job', acquired by 'import/7'" in result.stdout
    assert "2 passed, 1 error" in result.stdout
    assert result.returncode == 1


@pytest.mark.process
def test_who_does_not_use_it_pays_nothing(tmp_path: Path) -> None:
    tests = """
import subprocess, sys

def test_what_is_loaded():
    code = "import sys, _singleton_pytest; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "_pytest" in loaded
    assert not [name for name in loaded if name.partition(".")[0] in ("singleton", "azure", "asyncio")]
"""
    assert outcomes(tmp_path, tests) == {"test_what_is_loaded": "PASSED"}


@pytest.mark.process
@pytest.mark.parametrize("fixture", ["singleton_locks", "singleton_always_busy", "singleton_disabled"])
def test_pytest_lists_what_each_fixture_does(fixture: str, tmp_path: Path) -> None:
    shown = run(tmp_path, "", "-p", PLUGIN, "--fixtures").stdout
    assert f"\n{fixture} -- " in shown
