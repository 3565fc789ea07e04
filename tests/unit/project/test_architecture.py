"""The arrows between the parts, the rooms in the docs, and what the lock files must and must not say."""

from __future__ import annotations

import ast
import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from tests.unit.project.limits import FLOORS

ROOT = Path(__file__).resolve().parents[3]
MODULES = sorted(file for package in ("singleton", "simulator") for file in (ROOT / package).rglob("*.py"))
NPM = ROOT / "simulator" / "azurite"


@pytest.mark.process
def test_imports_follow_the_arrows() -> None:
    # The contracts are in pyproject.toml.
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_room_stands_on_more_floors_than_the_limit() -> None:
    """A floor is what a room's own imports stand on. An arrow to the root of a package stands on the whole package."""
    graph = grimp.build_graph("singleton", "simulator", cache_dir=None)
    rooms = {module for module in graph.modules if graph.find_children(module)}
    below: dict[str, set[str]] = {room: set() for room in rooms}
    for module in graph.modules:
        room = module if module in rooms else module.rpartition(".")[0]
        imported = graph.find_modules_directly_imported_by(module)
        rooms_imported = {name if name in rooms else name.rpartition(".")[0] for name in imported}
        below[room] |= {name for name in rooms_imported if not f"{room}.".startswith(f"{name}.")}

    @functools.cache
    def floor(room: str) -> tuple[int, str]:
        highest, way = max(map(floor, below[room]), default=(0, ""))
        return highest + 1, f"{room} → {way}" if way else room

    floors, way = max(map(floor, rooms))
    assert len(rooms) > 25
    assert floors <= FLOORS, way


@pytest.mark.process
def test_the_simulators_command_and_its_description_of_an_app_import_no_sdk() -> None:
    """A second of each start. For `singleton` itself, see `test_public_api.py`."""
    code = "import sys, simulator.cli, simulator.host.main, simulator.host.startup; print(*sys.modules)"
    output = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True).split()
    assert "simulator.cli" in output
    assert not {"azure", "aiohttp"} & {name.split(".")[0] for name in output}


@pytest.mark.process
def test_a_host_imports_no_sdk_until_it_knows_that_its_app_needs_one() -> None:
    code = "import sys, simulator.host.main; print(*sys.modules)"
    output = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True).split()
    assert "simulator.host.main" in output
    assert not [name for name in output if name.startswith("azure")]


def test_a_room_says_what_it_is() -> None:
    rooms = {module.parent for module in MODULES}
    assert len(rooms) > 25
    for room in rooms:
        said = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))
        assert said, f"{room} does not say what it is"


def test_the_rooms_in_the_docs_are_those_that_there_are() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = {
        room for row in re.findall(r"^\| (.+?) \|", text, re.MULTILINE) for room in re.findall(r"`([a-z/]+)/`", row)
    }
    there = {
        module.parent.relative_to(ROOT).as_posix().split("/", 1)[1]
        for module in MODULES
        if len(module.relative_to(ROOT).parts) > 2
    }
    assert named == there - {"virtual"}


def test_the_lock_file_of_npm_pins_what_package_json_names_by_hash_and_without_addresses() -> None:
    wanted = json.loads((NPM / "package.json").read_text())["dependencies"]["azurite"]
    packages = json.loads((NPM / "package-lock.json").read_text())["packages"]
    assert packages["node_modules/azurite"]["version"] == wanted
    for name, package in packages.items():
        assert "resolved" not in package
        assert not name or package["integrity"].startswith("sha512-")


def test_the_constraints_pin_versions_and_nothing_else() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.]+( ; .+)?", pin) for pin in pins)
