"""Guards of the v1 model: the trigger is the one in the function.json whose entry point is the guarded function."""

from __future__ import annotations

import importlib
import json
import sys
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from azure.functions import QueueMessage

from singleton import ConfigurationError
from singleton.testing import memory_locks
from tests.support.lock_thread import an_app, guard_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUEUE = {"type": "QueueTrigger", "direction": "in", "name": "msg", "queueName": "orders", "connection": "Bus"}
CAPITALS = {"TYPE": "queuetrigger", "Direction": "in", "Name": "msg", "QueueName": "orders", "Connection": "Bus"}
RESULT = {"type": "queue", "direction": "out", "name": "$return", "queueName": "done", "connection": "Bus"}
HTTP = {"type": "httpTrigger", "direction": "in", "name": "msg", "authLevel": "function"}
GUARDED = "from singleton import singleton\n@singleton({})\ndef {}(msg) -> None: ...\n"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Lets modules be imported as the worker does it: all of them below one package."""
    an_app(tmp_path, monkeypatch)
    spec = ModuleSpec("__app__", None)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.syspath_prepend(tmp_path)
    before = {*sys.modules}
    sys.modules["__app__"] = module_from_spec(spec)
    yield tmp_path
    for name in {*sys.modules} - before:
        del sys.modules[name]


def loaded(app: Path, *bindings: dict[str, str], files: dict[str, str], **described: str) -> Any:
    """Return the entry point of the function Ship; ``described``: more of its function.json."""
    for name, source in {"Ship/function.json": json.dumps({**described, "bindings": bindings}), **files}.items():
        (app / name).parent.mkdir(exist_ok=True)
        (app / name).write_text(source)
    script = (app / "Ship" / described.get("scriptFile", "__init__.py")).resolve().relative_to(app).with_suffix("")
    return getattr(importlib.import_module(".".join(("__app__", *script.parts))), described.get("entryPoint", "main"))


def main(app: Path, arguments: str, *bindings: dict[str, str]) -> Any:
    return loaded(app, *bindings, files={"Ship/__init__.py": GUARDED.format(arguments, "main")})


@pytest.mark.parametrize("binding", [QUEUE, CAPITALS])
def test_a_guard_reads_its_trigger(app: Path, binding: dict[str, str]) -> None:
    trigger = guard_of(main(app, "on_contention='defer'", binding)).trigger
    assert trigger is not None
    assert (trigger.type, trigger.parameter, trigger.function) == ("queueTrigger", "msg", "Ship")
    assert trigger.settings["queueName"] == "orders"


@pytest.mark.parametrize(
    ("arguments", "bindings", "said"),
    [
        ("on_contention='skip'", [QUEUE, RESULT], "goes to its 'queue' output"),
        ("on_contention='skip'", [CAPITALS, {"Type": "Queue", "NAME": "$return"}], "goes to its 'queue' output"),
        ("on_contention='defer'", [QUEUE, RESULT], "goes to its 'queue' output"),
        ("on_contention='skip'", [HTTP], "an HTTP trigger must answer"),
        ("on_contention='defer'", [HTTP], "httpTrigger"),
        ("on_contention='conflict'", [QUEUE], "its trigger is a queueTrigger"),
    ],
)
def test_a_policy_that_its_trigger_or_output_can_not_take_is_refused(
    app: Path, arguments: str, bindings: list[dict[str, str]], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        main(app, arguments, *bindings)


SHIP = GUARDED.format("on_contention='skip'", "ship")
CALLED = "from singleton import singleton\ndef f(msg) -> None: ...\n{} = singleton(on_contention='skip')(f)\n"
SHAPES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "other name": ({"entryPoint": "ship"}, {"Ship/__init__.py": SHIP}),
    "other script": ({"scriptFile": "job.py", "entryPoint": "ship"}, {"Ship/job.py": SHIP, "Ship/__init__.py": ""}),
    "script elsewhere": ({"scriptFile": "../shared/job.py", "entryPoint": "ship"}, {"shared/job.py": SHIP}),
    "called": ({}, {"Ship/__init__.py": CALLED.format("main")}),
    "called under its own name": (
        {},
        {"Ship/__init__.py": CALLED.replace(" f(", " main(").replace("(f)", "(main)").format("main")},
    ),
    "imported": ({}, {"Ship/__init__.py": "from shared.job import ship as main", "shared/job.py": SHIP}),
    "imported from a package": (
        {},
        {"Ship/__init__.py": "from ..shared import ship as main", "shared/__init__.py": SHIP},
    ),
    "imported twice": (
        {},
        {
            "Ship/__init__.py": "from __app__.shared.job import ship\nmain = ship",
            "shared/job.py": "from .work import ship",
            "shared/work.py": CALLED.format("ship"),
        },
    ),
}


@pytest.mark.parametrize(("described", "files"), SHAPES.values(), ids=SHAPES)
def test_a_function_is_the_entry_point_however_it_came_to_the_name(
    app: Path, described: dict[str, str], files: dict[str, str]
) -> None:
    trigger = guard_of(loaded(app, QUEUE, files=files, **described)).trigger
    assert trigger is not None
    assert trigger.function == "Ship"


@pytest.mark.parametrize(("described", "files"), SHAPES.values(), ids=SHAPES)
def test_what_is_wrong_with_it_is_told_when_the_app_is_loaded(
    app: Path, described: dict[str, str], files: dict[str, str]
) -> None:
    with pytest.raises(ConfigurationError, match="goes to its 'queue' output"):
        loaded(app, QUEUE, RESULT, files=files, **described)


def test_a_function_inside_another_is_no_entry_point_though_it_has_the_name(app: Path) -> None:
    inner = "def made():\n    @singleton(on_contention='skip')\n    def main(entry): ...\n"
    files = {"Ship/__init__.py": f"from singleton import singleton\n{inner}made()\ndef main(msg): ..."}
    loaded(app, HTTP, files=files)


def test_a_function_that_another_replaces_under_its_name_is_no_entry_point(app: Path) -> None:
    first = "@singleton(on_contention='skip')\ndef main(entry): ...\nsweep = main\n"
    source = f"from singleton import singleton\n{first}@singleton\ndef main(msg): ..."
    trigger = guard_of(loaded(app, HTTP, files={"Ship/__init__.py": source})).trigger
    assert trigger is not None
    assert trigger.type == "httpTrigger"


def test_where_the_source_does_not_tell_the_module_does_at_the_invocation(app: Path) -> None:
    files = {"Ship/__init__.py": "import shared.job\nmain = shared.job.ship", "shared/job.py": SHIP}
    guard = guard_of(loaded(app, QUEUE, RESULT, files=files))
    with pytest.raises(ConfigurationError, match="goes to its 'queue' output"):
        guard.call({"msg": "{}"}, None)


@pytest.mark.parametrize(
    "main",
    [
        "main = hooked(work, after=tidy)",
        "main = hooked(tidy, work)",
        "main = {'tidy': tidy}['tidy'] and work",
        "def made():\n    @guard\n    def tidy(): ...\n    return work\nmain = made()",
    ],
)
def test_a_guarded_helper_of_the_entry_point_has_no_trigger(app: Path, main: str) -> None:
    source = (
        "from singleton import singleton\nseen = []\n"
        "def guard(f):\n    seen.append(singleton(f))\n    return seen[-1]\n"
        "def hooked(*_, after=None): return work\ndef work(msg): ...\n@guard\ndef tidy(): ...\n"
    )
    helpers = loaded(app, QUEUE, files={"Ship/__init__.py": f"{source}{main}\n"}).__globals__["seen"]
    assert {guard_of(each).trigger for each in helpers} == {None}


def test_a_function_that_no_file_names_has_no_trigger(app: Path) -> None:
    other = loaded(app, QUEUE, files={"Ship/__init__.py": f"{SHIP}def main(msg): ...\n"}).__globals__["ship"]
    assert guard_of(other).trigger is None


def test_a_function_of_two_triggers_has_what_both_have(app: Path) -> None:
    files = {"shared.py": SHIP, "Ship/__init__.py": "from shared import ship as main"}
    described = {"bindings": [QUEUE], "scriptFile": "../shared.py", "entryPoint": "ship"}
    trigger = guard_of(loaded(app, QUEUE, files={**files, "Pay/function.json": json.dumps(described)})).trigger
    assert trigger is not None
    assert (trigger.type, trigger.function) == ("queueTrigger", "")


@pytest.mark.parametrize(
    ("policy", "said"), [("skip", "HTTP trigger must answer"), ("defer", "httpTrigger"), ("wait", "")]
)
def test_a_declaration_must_fit_each_of_two_triggers_that_differ(app: Path, policy: str, said: str) -> None:
    shared = f"from singleton import singleton\n@singleton(on_contention={policy!r})\ndef ship(msg): ...\n"
    files = {"shared.py": shared, "Ship/__init__.py": "from shared import ship as main"}
    described = json.dumps({"bindings": [HTTP], "scriptFile": "../shared.py", "entryPoint": "ship"})
    if not said:
        assert guard_of(loaded(app, QUEUE, files={**files, "Pay/function.json": described})).trigger is None
        return
    with pytest.raises(ConfigurationError, match=said):
        loaded(app, QUEUE, files={**files, "Pay/function.json": described})


def test_no_message_is_put_back_where_two_queues_have_one_entry_point(app: Path) -> None:
    shared = "from singleton import singleton\n@singleton(on_contention='defer')\ndef ship(msg): ...\n"
    files = {"shared.py": shared, "Ship/__init__.py": "from shared import ship as main"}
    bindings = [{**QUEUE, "queueName": "others"}]
    described = json.dumps({"bindings": bindings, "scriptFile": "../shared.py", "entryPoint": "ship"})
    with pytest.raises(ConfigurationError, match="Pay and Ship have this entry point"):
        loaded(app, QUEUE, files={**files, "Pay/function.json": described})


def test_a_broken_file_is_told(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json, "dumps", lambda _: "{")
    with pytest.raises(ConfigurationError, match=r"function\.json is not valid JSON at line 1"):
        main(app, "", QUEUE)


def test_no_body_runs_where_the_declaration_is_refused_at_the_invocation_only(app: Path) -> None:
    source = (
        "import azure.functions as func\nfrom singleton import singleton\nran = []\n@singleton(on_contention='skip')\n"
        "def main(msg: func.QueueMessage):\n    ran.append(msg)\n    return 'done'\n"
    )
    entry = loaded(app, QUEUE, RESULT, files={"Ship/__init__.py": "from jobs import *\n", "jobs.py": source})
    context = SimpleNamespace(invocation_id="1", function_name="Ship", function_directory=str(app / "Ship"))
    with memory_locks(), pytest.raises(ConfigurationError, match="goes to its 'queue' output"):
        entry(msg=QueueMessage(body=b"{}"), context=context)
    assert sys.modules["jobs"].ran == []
