"""The queries of `deploy/` are right: Microsoft's own analyzer of Kusto reads them against the tables that they ask."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TypedDict

import pytest

from simulator.azurite.install import cache, node
from tests.support.arm import parsed
from tools import dashboards

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent / "kusto"
TABLES = {
    "customMetrics": "timestamp: datetime, name: string, value: real, valueCount: int, valueSum: real, valueMin: real, "
    "valueMax: real, customDimensions: dynamic, cloud_RoleName: string, cloud_RoleInstance: string",
    "traces": "timestamp: datetime, message: string, severityLevel: int, itemCount: int, customDimensions: dynamic, "
    "cloud_RoleName: string, cloud_RoleInstance: string, operation_Id: string",
}


class Answer(TypedDict):
    columns: list[str]
    faults: list[str]


def installed() -> Path:
    """Install the analyzer into the cache, once for each lock file; return its folder."""
    lock = (HERE / "package-lock.json").read_bytes()
    folder = cache() / f"kusto-{hashlib.sha256(lock).hexdigest()[:12]}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix="kusto.new-", dir=folder.parent))
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(HERE / name, new / name)
        npm = node().parent / "../lib/node_modules/npm/bin/npm-cli.js"
        flags = ("--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier", "--loglevel=error")
        subprocess.run([node(), npm.resolve(), "ci", *flags], cwd=new, check=True, timeout=250)
        try:
            new.rename(folder)
        except OSError:  # another run was faster
            shutil.rmtree(new)
    return folder


def analyzed(**queries: str) -> dict[str, Answer]:
    """Let the analyzer read queries; return what it says of each."""
    folder = installed()
    shutil.copyfile(HERE / "analyze.cjs", folder / "analyze.cjs")
    said = subprocess.run(
        [node(), folder / "analyze.cjs"],
        input=json.dumps({"tables": TABLES, "queries": queries}),
        capture_output=True,
        text=True,
        check=True,
        timeout=250,
    )
    answers: dict[str, Answer] = json.loads(said.stdout)
    return answers


def test_the_analyzer_finds_nothing_wrong_and_the_alerts_their_columns() -> None:
    texts = {file.stem: file.read_text("utf-8") for file in (ROOT / "deploy" / "queries").glob("*.kql")}
    texts |= {f"panel {panel.query}": texts[panel.query] + panel.more for panel in dashboards.PANELS}
    answers = analyzed(**texts)
    assert {name: answer["faults"] for name, answer in answers.items() if answer["faults"]} == {}
    for panel in dashboards.PANELS:
        columns = answers[f"panel {panel.query}"]["columns"]
        if panel.drawn != "table":
            assert len(columns) == {"timechart": 3, "barchart": 2}[panel.drawn], panel.query
        assert panel.drawn != "timechart" or columns[0] == "timestamp"
    for rule in parsed(ROOT / "deploy" / "alerts.bicep").tree["variables"]["rules"]["value"]:
        dimensions = {by.removeprefix("by").lower() for by in rule["dimensions"]}
        assert {rule["measure"], *dimensions} == set(answers[rule["name"]]["columns"]), rule["name"]


def test_the_analyzer_tells_a_column_that_is_not_there_and_a_query_that_ends_too_early() -> None:
    answers = analyzed(column="traces | where mesage has 'lost'", syntax="traces | where")
    assert any("mesage" in fault for fault in answers["column"]["faults"])
    assert answers["syntax"]["faults"]
