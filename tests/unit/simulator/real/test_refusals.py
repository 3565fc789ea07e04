"""What can't be written at the end of a run is refused before it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simulator.real.refusals import check_output
from simulator.work.scenario import ScenarioError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_that_can_be_written_is_not_touched(tmp_path: Path) -> None:
    check_output("--report", tmp_path / "run.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("", "it is a folder: name a file in it"),
        ("nowhere/run.html", "there is no folder"),
        ("/dev/null/x", "no folder"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path, place: str, words: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        check_output("--report", tmp_path / place)
    assert "--report" in str(caught.value)
    assert words in str(caught.value)


def test_a_folder_without_the_right_to_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(ScenarioError, match="can't be written: name another file"):
        check_output("--trace", tmp_path / "run.json")
