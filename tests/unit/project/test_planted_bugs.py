"""Each planted bug changes a source that is there: a quick look, for who renames or moves what a bug is planted in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.test_liveness import BUGS
from tests.unit.functions import test_renamed_mutants as renamed
from tests.unit.locking import core_mutants as core
from tests.unit.patterns.ordered import test_ordered_mutants as ordered

ROOT = Path(__file__).resolve().parents[3]
PLANTED = [
    *((mutant.name, mutant.file, mutant.old, mutant.new) for mutant in MUTANTS),
    *(
        (mutant.name, f"singleton/{mutant.module.replace('.', '/')}.py", mutant.old, mutant.new)
        for mutant in (
            *BUGS.values(),
            *(mutant for mutant, _ in (*core.UNSAFE, *core.OTHERS, *renamed.ALL, *ordered.OTHERS)),
            *ordered.LOGS,
        )
    ),
]


@pytest.mark.parametrize(("name", "file", "old", "new"), PLANTED, ids=[name for name, *_ in PLANTED])
def test_the_text_of_a_planted_bug_stands_in_its_file_once_and_becomes_python(
    name: str, file: str, old: str, new: str
) -> None:
    source = (ROOT / file).read_text(encoding="utf-8")
    assert source.count(old) == 1
    compile(source.replace(old, new), file, "exec", dont_inherit=True)
