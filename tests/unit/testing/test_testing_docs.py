"""docs/testing.md can't rot: its code is run as somebody would who copies it, and what it says of it is true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import singleton.testing

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
NAMED = re.compile(r"# (\w+\.py)\n")


def files() -> dict[str, str]:
    """Return the blocks by the file names in their first lines."""
    named = {name[1]: block for block in BLOCKS if (name := NAMED.match(block))}
    assert len(named) == len(BLOCKS), "each block names a file of its own in its first line"
    return named


def run(folder: Path, tests: dict[str, str], *options: str) -> str:
    """Run these files' tests where no setting is there and no other plugin; return what pytest prints."""
    for name, text in tests.items():
        (folder / name).write_text(text)
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("Azure", "PYTEST", "COV_"))}
    environment = {**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "_singleton_pytest", "-W", "error"]
    result = subprocess.run(
        [*command, *options], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return result.stdout + result.stderr


@pytest.mark.process
def test_all_its_tests_pass_in_no_time(tmp_path: Path) -> None:
    tests = {name: text for name, text in files().items() if name != "conftest.py"}
    shown = run(tmp_path, tests, "--durations=0", "-vv")
    written = "".join(tests.values()).count("def test_")
    assert f"{written} passed" in shown, shown
    slowest = max(float(seconds) for seconds in re.findall(r"^([\d.]+)s call", shown, re.MULTILINE))
    assert slowest < 5, "the waits that it shows are minutes long"


@pytest.mark.process
def test_its_conftest_switches_locks_off(tmp_path: Path) -> None:
    test = "from test_busy import import_rows\ndef test_it(): assert import_rows('a.csv') == 'imported'\n"
    named = files()
    shown = run(
        tmp_path,
        {"conftest.py": named["conftest.py"], "test_busy.py": named["test_busy.py"], "test_it.py": test},
        "test_it.py",
    )
    assert "1 passed" in shown, shown


BREAKS: list[tuple[str, str, str]] = [
    ('@singleton(scope="Id")\n', "test_an_order_is_shipped_by_one_at_a_time", "assert 5 == 1"),
    ('(scope="Id")', "test_different_orders_are_shipped_at_once", "assert 1 == 5"),
]


@pytest.mark.process
@pytest.mark.parametrize(("taken_away", "failing", "said"), BREAKS, ids=["@singleton", "scope"])
def test_its_first_tests_fail_as_it_says(taken_away: str, failing: str, said: str, tmp_path: Path) -> None:
    named = files()
    app = named["function_app.py"]
    assert app.count(taken_away) == 1
    assert said in TEXT
    tests = {"function_app.py": app.replace(taken_away, ""), "test_ship.py": named["test_ship.py"]}
    shown = run(tmp_path, tests)
    assert said in shown
    assert f"FAILED test_ship.py::{failing}" in shown
    assert "1 failed, 1 passed" in shown


@pytest.mark.process
@pytest.mark.parametrize("name", ["test_one_import_at_a_time", "test_one_import_at_a_time_in_real_time"])
def test_its_tests_of_sync_functions_fail_without_the_lock(name: str, tmp_path: Path) -> None:
    unguarded = files()["test_sync.py"].replace("@singleton\n", "").replace("sleep(0.05)", "sleep(0.5)")
    shown = run(tmp_path, {"test_sync.py": unguarded}, "-k", f"{name} and not {name}_")
    assert re.search(r"assert [23] == 1", shown), shown


def test_it_names_everything_that_there_is() -> None:
    table = TEXT.split("## What there is", 1)[1].split("###", 1)[0]
    assert set(re.findall(r"^\| `@?(\w+)", table, re.MULTILINE)) == set(singleton.testing.__all__)
    plugin = (ROOT / "_singleton_pytest.py").read_text(encoding="utf-8")
    assert set(re.findall(r"`(singleton_\w+)`", table)) == set(
        re.findall(r"^def (singleton_\w+)", plugin, re.MULTILINE)
    )
