"""``singleton-sim check`` as a pipeline calls it: exit codes, files, and apps that can't be imported."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from simulator.cli import cli
from tests.support.checked import write_app

if TYPE_CHECKING:
    from pathlib import Path

RIGHT = "@queue()\n@singleton(scope='Id')\ndef ship(msg: func.QueueMessage) -> None: ...\n"
WRONG = """
@app.route(route="orders")
@singleton(on_contention="skip")
def order(req: func.HttpRequest) -> str: return "ok"

@queue()
@singleton(lock_period=90)
def ship(msg: func.QueueMessage) -> None: ...

@queue()
def read(message: func.QueueMessage) -> None: ...
"""

pytestmark = pytest.mark.process


def check(app: Path, *arguments: str) -> tuple[int, str]:
    """Run the command in this process; the app is imported in one of its own."""
    result = CliRunner().invoke(cli, ["check", "--app", str(app), *arguments])
    return result.exit_code, result.output


def test_a_pipeline_gets_the_findings_in_all_their_forms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_app(tmp_path / "apps" / "shop", f"print('noise', flush=True)\n{WRONG}")
    (tmp_path / "settings.json").write_text('{"AzureWebJobsStorage": "UseDevelopmentStorage=true"}')
    code, output = check(tmp_path / "apps" / "shop", "--json", "--sarif", "found.sarif", "--settings", "settings.json")
    assert code == 1
    assert capfd.readouterr() == ("", ""), "what the app prints as it is imported is in nobody's JSON"
    report: dict[str, Any] = json.loads(output)
    assert [each["id"] for each in report["findings"]] == ["skip-on-http", "declaration-refused", "function-refused"]
    assert [each["function"] for each in report["findings"]] == ["order", "ship", "read"]
    assert report["counts"] == {"errors": 3, "warnings": 0, "notes": 0}
    log = json.loads((tmp_path / "found.sarif").read_text())
    places = [each["locations"][0]["physicalLocation"] for each in log["runs"][0]["results"]]
    assert {place["artifactLocation"]["uri"] for place in places} == {"apps/shop/function_app.py"}


def test_what_the_import_does_is_told_in_one_line(tmp_path: Path) -> None:
    bad = {
        "exits": ("import sys\nsys.exit(3)", "SystemExit: 3; an app must not exit while it is imported", 2),
        "dies": ("import os\nos._exit(4)", "ended the process while it was imported (exit code 4)", 2),
        "empty": ("", "the app has no functions", 2),
        "misspelt": ("@queue()\n@singleton(scop='Id')\ndef ship(msg): ...\n", "unknown-argument", 1),
        "unregistered": (
            "b = func.Blueprint()\n@b.timer_trigger(arg_name='t', schedule='0 0 3 * * *')\ndef tidy(t): ...\n",
            "no-function",
            1,
        ),
        "unset": ("import os\nos.environ['ONLY_IN_AZURE']\n", "in the environment, too, or give --settings FILE", 2),
        "endless": ("while True: pass", "it was not imported within 1 s", 2),
    }
    for name, (code, words, exit_code) in bad.items():
        write_app(tmp_path / name, code)
        patience = ["--patience", "1"] if name == "endless" else []
        found, output = check(tmp_path / name, *patience)
        assert (found, words in output.replace("\n  ", " ")) == (exit_code, True), output
        assert "Traceback" not in output
        assert exit_code == 1 or output.count("\n") == 1


def test_what_is_ignored_does_not_count_and_wrong_options_are_refused(tmp_path: Path) -> None:
    write_app(tmp_path, RIGHT.replace("'Id'", "'Order.Id'"))
    code, output = check(tmp_path, "--strict")
    assert code == 1
    assert "scope-path-with-dots" in output
    assert check(tmp_path, "--strict", "--ignore", "scope-path-with-dots")[0] == 0
    for arguments, words in (
        (["--ignore", "skip-on-htp"], "did you mean 'skip-on-http'?"),
        (["--settings", "/nope"], "--settings /nope: there is no such file"),
        (["--json", "--sarif", "-"], "both write here"),
        (["--patience", "0"], "give more than 0 seconds"),
    ):
        code, output = check(tmp_path, *arguments)
        assert code == 2
        assert words in output
    code, output = check(tmp_path / "nowhere")
    assert (code, "it is not a folder" in output) == (2, True)
