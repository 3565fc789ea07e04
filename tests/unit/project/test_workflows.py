"""The files that a code host reads: workflows, issue forms, the citation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner

from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
SCHEMAS = {
    "github-workflows": WORKFLOWS,
    "github-issue-forms": FORMS,
    "github-issue-config": [ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"],
    "citation-file-format": [ROOT / "CITATION.cff"],
}


def fitting(schema: str, *paths: Path) -> Result:
    return CliRunner().invoke(check_jsonschema, ["--builtin-schema", f"vendor.{schema}", *map(str, paths)])


@pytest.mark.parametrize("schema", SCHEMAS)
def test_each_file_fits_its_schema(schema: str) -> None:
    assert SCHEMAS[schema]
    done = fitting(schema, *SCHEMAS[schema])
    assert done.exit_code == 0, done.output


def test_a_workflow_with_a_wrong_key_is_found(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text("utf-8").replace("runs-on:", "runs:", 1))
    assert fitting("github-workflows", wrong).exit_code == 1


def test_workflows_start_what_exists() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    names = re.findall(r"^([\w-]+(?: [\w-]+)*):", makefile, re.MULTILINE)
    targets = {target for line in names for target in line.split()}
    for path in WORKFLOWS:
        text = path.read_text("utf-8")
        assert set(re.findall(r"\bmake (?:PYTHON=python )?(\w[\w-]*)", text)) <= targets
        for name in re.findall(r"(?:tests|tools|distributions)/[\w./-]+", text):
            assert (ROOT / name).exists() or (path.parent / name).exists(), name


def test_a_tag_publishes_both_distributions_after_the_suite() -> None:
    text = (ROOT / ".github" / "workflows" / "publish.yml").read_text("utf-8")
    assert "uses: ./.github/workflows/tests.yml" in text
    assert text.index("needs: suite") < text.index("needs: build") < text.index("id-token: write")
