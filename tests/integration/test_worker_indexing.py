"""The real Python worker takes and refuses the apps of the table to which the fake host is held."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.integration.workers import ROOT, needs_worker
from tests.support.app_shapes import SHAPES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_worker


def test_the_worker_indexes_and_refuses_what_the_table_says(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(len(SHAPES))]
    for folder, shape in zip(folders, SHAPES, strict=True):
        folder.mkdir()
        (folder / "function_app.py").write_text(shape.source)
    command = [sys.executable, "-W", "ignore", str(ROOT / "tests" / "support" / "python_worker_index.py")]
    done = subprocess.run([*command, *map(str, folders)], capture_output=True, text=True, timeout=250, check=True)
    answers = dict(zip((shape.name for shape in SHAPES), map(json.loads, done.stdout.splitlines()), strict=True))
    for shape in SHAPES:
        answer = answers[shape.name]
        if shape.indexed is None:
            assert isinstance(answer, str), f"{shape.name}: it indexes {answer}"
        else:
            assert answer == sorted(["good", *shape.indexed]), shape.name
