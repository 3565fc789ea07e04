"""A hint can be pasted: the command is named as the shell would find it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.program import called_as

if TYPE_CHECKING:
    import pytest


def called(by: str, path: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", path)
    monkeypatch.setattr(sys, "argv", [by])
    return called_as()


def test_by_its_name_where_the_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "singleton-sim"
    script.touch(mode=0o755)
    assert called(str(script), str(tmp_path), tmp_path, monkeypatch) == "singleton-sim"


def test_by_its_path_from_this_folder_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by = str(tmp_path / ".venv" / "bin" / "singleton-sim")
    assert called(by, "", tmp_path, monkeypatch) == str(Path(".venv/bin/singleton-sim"))


def test_by_its_whole_path_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    by = str(tmp_path / "bin" / "singleton-sim")
    assert called(by, "", elsewhere, monkeypatch) == by


def test_by_its_name_when_it_runs_as_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert called(str(tmp_path / "cli.py"), "", tmp_path, monkeypatch) == "singleton-sim"
