"""An app's own module ``singleton`` and the package of this name: whichever is found, its reader is told of the other.

The package wins where the app's folder comes last on ``sys.path``, as in Azure; the module where the folder comes
first, as in pytest.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import _singleton_found
import singleton
from simulator.appcheck.rules import RULES
from tests.support.checked import checked

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[3]
RULE = "own-module-singleton"
PATTERN = """
made = {}
def singleton(cls):
    return lambda *given: made.setdefault(cls, cls(*given))
class Singleton(type): ...
"""
APP = """
import azure.functions as func
from singleton import singleton
app = func.FunctionApp()

@app.timer_trigger(schedule="0 0 3 * * *", arg_name="timer")
@singleton
def tidy(timer: func.TimerRequest) -> None: ...
"""


# --- the package wins -------------------------------------------------------------------------------------------------


def test_an_import_of_a_name_that_the_package_lacks_says_that_it_may_hide_a_module() -> None:
    with pytest.raises(ImportError) as raised:
        from singleton import Singleton  # type: ignore[attr-defined] # noqa: F401
    told = str(raised.value)
    assert told.startswith(f"cannot import name 'Singleton' from 'singleton' ({singleton.__file__})")
    assert "package azure-functions-singleton" in told
    assert told.endswith("the package hides that module: give the module another name")


def test_an_attribute_that_the_package_lacks_is_told_alike() -> None:
    with pytest.raises(AttributeError, match=r"no attribute .instance.: .* the package hides that module"):
        _ = singleton.instance  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="did you mean 'LockClient'"):
        _ = singleton.Lockclient  # type: ignore[attr-defined]


def test_a_module_of_the_package_that_nobody_has_imported_is_no_other_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(singleton, "dotnet", raising=False)
    with pytest.raises(AttributeError, match=r"^module 'singleton' has no attribute 'dotnet'$"):
        _ = singleton.dotnet  # type: ignore[attr-defined]


def test_who_only_asks_for_a_name_gets_no() -> None:
    assert not hasattr(singleton, "Singleton")
    assert not hasattr(singleton, "__wrapped__")
    assert getattr(singleton, "__nothing__", None) is None


@pytest.mark.parametrize("name", ["testing", "stores", "decorator", "once", "__path__"])
def test_modules_and_public_names_are_imported_as_ever(name: str) -> None:
    scope: dict[str, object] = {}
    exec(f"from singleton import {name}", scope)  # noqa: S102 - as a user writes it
    assert name in scope


@pytest.mark.parametrize("module", ["lib/singleton.py", "lib/singleton/__init__.py", "singleton.py"])
def test_the_check_names_a_module_that_the_app_puts_before_the_package(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / module
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(PATTERN)
    place = tmp_path / module.split("singleton", maxsplit=1)[0]
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    sys.path.insert(0, str(place).rstrip("/"))
    (found,) = [each for each in checked(tmp_path, APP).findings if each.id == RULE]
    assert (found.severity, str(found.place)) == ("error", f"{module}:1")
    assert f"{module} is imported in place of the package singleton" in found.message
    del sys.path[0]
    assert [each.severity for each in checked(tmp_path, APP).findings if each.id == RULE] == (
        [] if "lib" in module else ["warning"]
    )


@pytest.mark.parametrize(
    "files", [("singleton.py",), ("singleton/__init__.py", "singleton/meta.py"), ("singleton/meta.py",)]
)
def test_the_check_names_a_module_that_the_package_hides(tmp_path: Path, files: Sequence[str]) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(PATTERN)
    report = checked(tmp_path, "@queue()\n@singleton(scope='Id')\ndef ship(msg: func.QueueMessage) -> None: ...\n")
    (warning,) = report.warnings
    assert (warning.id, str(warning.place)) == (RULE, f"{files[0]}:1")
    assert "Give the module another name" in warning.message
    assert warning.docs == f"docs/{RULES[RULE].page}"


@pytest.mark.parametrize(
    "file", ["singletons.py", "singleton/readme.txt", "singleton/locking/lock.py", "lib/singleton.py"]
)
def test_what_is_no_such_module_is_not_named(tmp_path: Path, file: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("")
    assert not checked(
        tmp_path, "@queue()\n@singleton(scope='Id')\ndef ship(msg: func.QueueMessage) -> None: ...\n"
    ).warnings


# --- the module wins --------------------------------------------------------------------------------------------------


def test_another_module_is_known_by_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _singleton_found.hidden() is None
    (tmp_path / "singleton.py").write_text(PATTERN)
    monkeypatch.delitem(sys.modules, "singleton")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    try:
        told = _singleton_found.hidden()
    finally:
        del sys.modules["singleton"]
    assert told is not None
    assert told.startswith(f"the module singleton is {tmp_path / 'singleton.py'} here")
    assert "is no lock. Give the module another name" in told


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python where the module of the app's own comes first."""
    (folder / "singleton.py").write_text(PATTERN)
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTEST", "COV_"))}
    environment = {
        **kept,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))),
    }
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.process
@pytest.mark.parametrize(("entry", "command"), [("locks", "singleton-locks"), ("simulator", "singleton-sim")])
def test_a_command_says_it_in_a_line(tmp_path: Path, entry: str, command: str) -> None:
    done = run(tmp_path, "-c", f"import sys, _singleton_found; sys.exit(_singleton_found.{entry}())")
    assert done.returncode == _singleton_found.HIDDEN
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{command}: the module singleton is {tmp_path / 'singleton.py'} here")


@pytest.mark.process
@pytest.mark.parametrize(("entry", "command"), [("locks", "singleton-locks"), ("simulator", "singleton-sim")])
def test_ctrl_c_while_a_command_is_imported_is_told_in_a_line(entry: str, command: str) -> None:
    script = f"""
import os, signal, sys, _singleton_found

def load(module):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000): pass
    except KeyboardInterrupt as error:  # as dataclasses do on Python 3.11
        raise RuntimeError("Error calling __set_name__") from error

_singleton_found.import_module = load
sys.exit(_singleton_found.{entry}())
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, f"{command}: interrupted\n")


@pytest.mark.process
@pytest.mark.parametrize(
    ("tests", "outcome"),
    [
        ("def test_it(singleton_locks): ...", "1 error"),
        ("def test_it():\n    from singleton import LockClient", "1 failed"),
        ("from singleton import LockClient", "1 error"),
        ("def test_it():\n    import function_app", "1 passed"),
    ],
    ids=["fixture", "test", "collection", "success"],
)
def test_the_plugin_of_pytest_says_it_whatever_the_outcome(tmp_path: Path, tests: str, outcome: str) -> None:
    (tmp_path / "function_app.py").write_text(APP)
    (tmp_path / "test_it.py").write_text(tests)
    options = ("-q", "-W", "error", "-p", "no:cacheprovider", "-p", "_singleton_pytest", "test_it.py")
    shown = run(tmp_path, "-m", "pytest", *options).stdout
    assert outcome in shown
    assert f"the module singleton is {tmp_path / 'singleton.py'} here. It hides the package" in shown


@pytest.mark.process
@pytest.mark.parametrize("folder", [".", "tests", "tests/more"])
def test_the_plugin_of_pytest_says_it_where_a_conftest_is_not_imported(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / folder / "conftest.py").write_text("from singleton.testing import memory_locks")
    (tmp_path / folder / "test_it.py").write_text("def test_it(): ...")
    done = run(tmp_path, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-p", "_singleton_pytest")
    assert done.returncode != 0
    assert (
        f"the module singleton is {tmp_path / 'singleton.py'} here. It hides the package" in done.stdout + done.stderr
    )
