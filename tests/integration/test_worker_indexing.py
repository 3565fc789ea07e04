"""The real Python worker takes and refuses the apps of the table to which the fake host is held."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.workers import ROOT, needs_worker
from tests.support.app_shapes import SHAPES
from tests.support.wrong_apps import APPS, HEAD, RIGHT, ROWS, SETTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = needs_worker


def test_the_worker_indexes_and_refuses_what_the_table_says(tmp_path: Path) -> None:
    found = indexed(tmp_path, [shape.source for shape in SHAPES])
    answers = dict(zip((shape.name for shape in SHAPES), found, strict=True))
    for shape in SHAPES:
        answer = answers[shape.name]
        if shape.indexed is None:
            assert isinstance(answer, str), f"{shape.name}: it indexes {answer}"
        else:
            assert answer == sorted(["good", *shape.indexed]), shape.name


@pytest.mark.parametrize("fail_fast", ["true", "false"])
def test_it_loads_an_app_with_a_mistake_as_the_reference_says(tmp_path: Path, fail_fast: str) -> None:
    cases = [(row[1 if fail_fast == "true" else 2], code) for row in ROWS for code in codes_of(row[0])]
    cases += [("loads", code) for code in RIGHT]
    settings = {**SETTINGS, "AzureFunctionsJobHost__singleton__failFast": fail_fast}
    for (said, code), found in zip(cases, indexed(tmp_path, [HEAD + code for _, code in cases], settings), strict=True):
        assert isinstance(found, str) if said == "loads no function" else isinstance(found, list), (code, found)


def codes_of(what: str) -> list[str]:
    """Return the apps of a row; host.json has no mistake here."""
    (codes,) = [codes for begin, codes in APPS.items() if what.startswith(begin)]
    return [] if what.startswith("host.json") else codes


def indexed(folder: Path, sources: list[str], settings: Mapping[str, str] = MappingProxyType({})) -> list[Any]:
    """Return what the worker says of each app: the names of its functions, or an error's text."""
    folders = [folder / str(number) for number in range(len(sources))]
    for app, source in zip(folders, sources, strict=True):
        app.mkdir()
        (app / "function_app.py").write_text(source)
    command = [sys.executable, "-W", "ignore", str(ROOT / "tests" / "support" / "python_worker_index.py")]
    done = subprocess.run(
        [*command, *map(str, folders)],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=250,
        check=True,
    )
    return [*map(json.loads, done.stdout.splitlines())]
