"""Guards of the v1 model: the trigger is the one in the function.json beside the script."""

from __future__ import annotations

import json
import runpy
from typing import TYPE_CHECKING, Any

import pytest

from singleton import ConfigurationError
from tests.support.lock_thread import an_app, guard_of

if TYPE_CHECKING:
    from pathlib import Path

QUEUE = {"type": "QueueTrigger", "direction": "in", "name": "msg", "queueName": "orders", "connection": "Bus"}
RESULT = {"type": "queue", "direction": "out", "name": "$return", "queueName": "done", "connection": "Bus"}
HTTP = {"type": "httpTrigger", "direction": "in", "name": "msg", "authLevel": "function"}


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    an_app(tmp_path, monkeypatch)
    return tmp_path


def main(app: Path, arguments: str, *bindings: dict[str, str], name: str = "main", **described: str) -> Any:
    """Return the guarded entry point of the function Ship; ``described``: more of its function.json."""
    folder = app / "Ship"
    folder.mkdir()
    (folder / "function.json").write_text(json.dumps({**described, "bindings": bindings}))
    (folder / "__init__.py").write_text(
        f"from singleton import singleton\n@singleton({arguments})\ndef {name}(msg) -> None: ...\n"
    )
    return runpy.run_path(str(folder / "__init__.py"))[name]


def test_a_guard_reads_its_trigger(app: Path) -> None:
    trigger = guard_of(main(app, "on_contention='defer'", QUEUE)).trigger
    assert trigger is not None
    assert (trigger.type, trigger.parameter, trigger.function) == ("queueTrigger", "msg", "Ship")
    assert trigger.settings["queueName"] == "orders"


@pytest.mark.parametrize(
    ("arguments", "bindings", "said"),
    [
        ("on_contention='skip'", [QUEUE, RESULT], "goes to its 'queue' output"),
        ("on_contention='defer'", [QUEUE, RESULT], "goes to its 'queue' output"),
        ("on_contention='skip'", [HTTP], "an HTTP trigger must answer"),
        ("on_contention='defer'", [HTTP], "httpTrigger"),
        ("on_contention='conflict'", [QUEUE], "main has a queueTrigger"),
    ],
)
def test_a_policy_that_its_trigger_or_output_can_not_take_is_refused(
    app: Path, arguments: str, bindings: list[dict[str, str]], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        main(app, arguments, *bindings)


@pytest.mark.parametrize(
    "described", [{"entryPoint": "other"}, {"scriptFile": "run.py"}], ids=["entry point", "script"]
)
def test_a_function_that_the_file_does_not_name_has_no_trigger(app: Path, described: dict[str, str]) -> None:
    assert guard_of(main(app, "", QUEUE, **described)).trigger is None


def test_an_entry_point_of_another_name_has_the_trigger(app: Path) -> None:
    assert guard_of(main(app, "", QUEUE, name="ship", entryPoint="ship")).trigger is not None


def test_a_broken_file_is_told(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json, "dumps", lambda _: "{")
    with pytest.raises(ConfigurationError, match=r"function\.json is not valid JSON at line 1"):
        main(app, "", QUEUE)
