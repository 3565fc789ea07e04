"""The report on prose counts words that point, in docstrings and comments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.prose import main, report

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = '''"""What tells others whose it is."""

LIMIT = 5  # the service refuses more
HIDDEN = 6  # noqa: ERA001


def end() -> None:
    """Release the lease. Raise an error if the service refuses the release."""
    text = "it is that of others"
'''


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "module.py").write_text(SOURCE)
    return str(tmp_path)


def test_it_tells_the_share_of_a_folder_and_the_worst_sentences_first(folder: str) -> None:
    first, *listed = report([folder], 2).splitlines()
    assert first == f"{folder}: 18.2 % of 22 words of prose are pro-words"
    assert [line.split("  ")[1:] for line in listed] == [
        ["67 %", f"{folder}/module.py:1", "What tells others whose it is."],
        ["0 %", f"{folder}/module.py:8", "Raise an error if the service refuses the release."],
    ]


def test_it_never_fails(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-n", "0", folder, folder]) == 0
    assert capsys.readouterr().out.count("pro-words") == 2
