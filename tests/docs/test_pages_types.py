"""Each block of Python in the documentation is right for type checkers: mypy --strict, and Pyright.

They also read a user's file (``tests/typing``): to start a checker costs more than a file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT
from tests.docs.typed import write_modules

if TYPE_CHECKING:
    from pathlib import Path

CACHE = ROOT / ".mypy_cache" / "docs"
MYPY = """
[mypy]
strict = True
python_version = 3.11
explicit_package_bases = True
# A block imports what another one has imported: on the page it stands below it.
implicit_reexport = True

[mypy-azure.durable_functions.*]
ignore_missing_imports = True

[mypy-users_code]
implicit_reexport = False

"""
UNTYPED = """
# The decorators and clients of azure-functions-durable have no types, nor has app.mcp_tool().
[mypy-{module}]
disallow_untyped_decorators = False
warn_return_any = False
"""
PYRIGHT = {"typeCheckingMode": "standard", "pythonVersion": "3.11", "extraPaths": [str(ROOT)]}


WRONG = """from singleton import LockClient, singleton


@singleton(scoep="Id")
def ship(msg: str) -> None: ...


name: int = LockClient().lock_name("ship")
"""
"""Each checker has this to read as well. It must complain of it, and of nothing else."""


def on_pages(folder: Path, errors: list[str]) -> str:
    """Return what a checker said of the pages' blocks, which stand in the folder's modules."""
    assert len([line for line in errors if "wrong.py" in line]) >= 2, errors
    found = "\n".join(line for line in errors if "wrong.py" not in line)
    for name, block in write_modules(folder).items():
        found = re.sub(rf"^.*{re.escape(name)}:", f"{block} ({name}):", found, flags=re.MULTILINE)
    return found


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    assert len(write_modules(folder)) > 50
    (folder / "wrong.py").write_text(WRONG)
    (folder / "users_code.py").write_text((ROOT / "tests" / "typing" / "users_code.py").read_text("utf-8"))
    return folder


@pytest.mark.process
def test_mypy_strict(modules: Path) -> None:
    untyped = [file for file in modules.glob("*/*.py") if re.search("durable|mcp_tool", file.read_text("utf-8"))]
    parts = [UNTYPED.format(module=f"{file.parent.name}.{file.stem}") for file in untyped]
    (modules / "mypy.ini").write_text("".join([MYPY, *parts]))
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", str(CACHE), "."]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    result = subprocess.run(command, cwd=modules, env=environment, capture_output=True, text=True, check=False)
    assert result.stderr == ""
    assert on_pages(modules, result.stdout.splitlines()) == ""


@pytest.mark.process
def test_pyright(modules: Path) -> None:
    (modules / "pyrightconfig.json").write_text(json.dumps(PYRIGHT))
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson"]
    result = subprocess.run(command, cwd=modules, capture_output=True, text=True, check=False)
    errors = [each for each in json.loads(result.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    lines = [f"{each['file']}:{each['range']['start']['line'] + 1}: {each['message']}" for each in errors]
    assert on_pages(modules, lines) == ""
