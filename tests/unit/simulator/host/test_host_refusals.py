"""One function that the Functions host refuses loses itself; what the Python worker refuses loses the app (H-86)."""

from __future__ import annotations

import importlib
import importlib.util
import json
import pickle
import sys
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import azure.functions as func
import pytest

import simulator
from simulator.host.app.app_model import AppError, HostConfig, HostError
from simulator.host.app.function_index import check_names, index_function, refused
from simulator.host.startup import describe, prepare_app
from singleton import ConfigurationError
from tests.support.app_shapes import HEAD, SHAPES, Shape, named, queue
from tests.support.checked import BUNDLE

pytestmark = pytest.mark.usefixtures("unchanged_process")


def described(folder: Path, source: str) -> dict[str, dict[str, Any]]:
    (folder / "function_app.py").write_text(source)
    return {function["name"]: function for function in describe(folder)}


def config(folder: Path) -> HostConfig:
    storage = "UseDevelopmentStorage=true"
    return HostConfig(name="h", app=folder, journal=folder / "journal", storage=storage, host_id="h", lock_host_id="h")


def installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_an_app_loses_what_the_real_host_refuses_and_no_more(shape: Shape, tmp_path: Path) -> None:
    if not installed(shape.needs):
        pytest.skip(f"{shape.needs} is not installed")
    if shape.indexed is None:
        with pytest.raises(HostError):
            described(tmp_path, shape.source)
        return
    found = described(tmp_path, shape.source)
    assert set(found) == {"good", *shape.indexed}
    assert {name for name, told in found.items() if told["idle"] is None} == {"good", *shape.runs}
    for name in set(shape.indexed) - set(shape.runs):
        assert shape.idle in found[name]["idle"]


class Base:
    """Stands in for the base package of the worker's extensions, where that is not installed."""

    class Actions: ...

    class Request: ...

    HttpV2FeatureChecker = SimpleNamespace(http_v2_enabled=lambda: True)
    RequestTrackerMeta = SimpleNamespace(check_type=lambda kind: kind is Base.Request)
    ResponseTrackerMeta = SimpleNamespace(check_type=lambda kind: kind is str)

    @staticmethod
    def get_binding_registry() -> Any:
        return SimpleNamespace(
            check_supported_type=lambda _: False,
            check_supported_grpc_client_type=lambda kind: kind is Base.Actions,
        )


def index(declare: Any, body: Any) -> Any:
    app = func.FunctionApp()
    declare(app)(body)
    (function,) = app.get_functions()
    return index_function(function, Path.cwd())


def test_a_client_that_settles_messages_may_come_on_top(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(msg: str, actions: Base.Actions) -> None: ...
    def two(msg: str, actions: Base.Actions, more: Base.Actions) -> None: ...

    def declare(app: func.FunctionApp) -> Any:
        return app.service_bus_queue_trigger(arg_name="msg", queue_name="q", connection="Bus")

    with pytest.raises(AppError, match="'actions', which no decorator binds"):
        index(declare, body)
    monkeypatch.setitem(sys.modules, "azurefunctions.extensions.base", Base)
    assert "client that settles messages" in (index(declare, body).not_driven or "")
    with pytest.raises(AppError, match="'actions', 'more', which no decorator binds"):
        index(declare, two)


def test_http_functions_have_the_types_of_their_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(req: Base.Request) -> str: ...  # type: ignore[empty-body]
    def older(req: func.HttpRequest) -> str: ...  # type: ignore[empty-body]

    def declare(app: func.FunctionApp) -> Any:
        return app.route(route="x")

    with pytest.raises(AppError, match="does not fit its binding 'httpTrigger'"):
        index(declare, body)
    monkeypatch.setitem(sys.modules, "azurefunctions.extensions.base", Base)
    assert "asks for an SDK type" in (index(declare, body).not_driven or "")
    with pytest.raises(AppError, match="does not fit its binding 'httpTrigger'"):
        index(declare, older)


@pytest.mark.parametrize(
    ("name", "bindings", "why"),
    [
        ("a", ["msg", "$return"], None),
        ("a" * 128, ["b" * 128], None),
        ("a" * 129, [], "at most 127"),
        ("host", [], "no function of this name"),
        ("hosted", [], None),
        ("a.b", [], "its name must be"),
        ("K", [], None),
        ("\N{KELVIN SIGN}", [], "its name must be"),
        ("a", ["_msg"], None),
        ("a", ["_"], None),
        ("a", ["1msg"], "no binding called '1msg'"),
        ("a", ["größe"], "no binding called"),
        ("a", ["msg", "Msg"], "two of its bindings are called 'Msg'"),
    ],
)
def test_names_are_the_hosts(name: str, bindings: list[str], why: str | None) -> None:
    told = refused(name, bindings)
    assert told is None if why is None else why in str(told)


def test_names_that_differ_by_case_keep_the_host_from_starting(tmp_path: Path) -> None:
    with pytest.raises(AppError, match="'good' and 'GOOD' differ by case only: the host does not start"):
        described(tmp_path, HEAD + named("GOOD"))
    check_names(["one", "two"])


@pytest.mark.parametrize(
    ("bundle", "runs"),
    [
        (None, {"page"}),
        ({}, {"page"}),
        (BUNDLE["extensionBundle"], {"page", "good", "tells"}),
        ({"ID": "Any.Bundle", "Version": 4}, {"page", "good", "tells"}),
        ("", "has no id and no version, so the host does not start"),
        (["id"], "has no id and no version"),
        ({"id": "Any.Bundle", "version": None}, "has no version"),
    ],
)
def test_without_a_bundle_the_host_knows_http_and_timers_only(
    bundle: object, runs: set[str] | str, tmp_path: Path
) -> None:
    code = """
    @app.route(route="page")
    def page(req: func.HttpRequest) -> str: ...

    @app.route(route="tells")
    @app.queue_output(arg_name="out", queue_name="others", connection="AzureWebJobsStorage")
    def tells(req: func.HttpRequest, out: func.Out[str]) -> str: ...
    """
    given = {} if bundle is None else {"extensionBundle": bundle}
    (tmp_path / "host.json").write_text(json.dumps({"version": "2.0", **given}))
    if isinstance(runs, str):
        with pytest.raises(HostError, match=runs):
            described(tmp_path, HEAD + dedent(code))
        return
    found = described(tmp_path, HEAD + dedent(code))
    assert {name for name, told in found.items() if told["idle"] is None} == runs
    if len(runs) == 1:
        assert found["tells"]["idle"] == "host.json has no extensionBundle, without which the host knows no 'queue'"
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "extensions.json").write_text("{}")
        assert {told["idle"] for told in described(tmp_path, HEAD + dedent(code)).values()} == {None}


@pytest.mark.parametrize(
    ("extensions", "wrong"),
    [({"serviceBus": {"maxConcurrentCalls": None}}, ""), ({"queues": {"batchSize": None}}, "batchSize is null")],
)
def test_options_count_of_an_extension_that_a_function_needs(
    extensions: dict[str, object], wrong: str, tmp_path: Path
) -> None:
    (tmp_path / "host.json").write_text(json.dumps({"version": "2.0", **BUNDLE, "extensions": extensions}))
    if wrong:
        with pytest.raises(HostError, match=wrong):
            described(tmp_path, HEAD)
    page = """
    import azure.functions as func
    app = func.FunctionApp()
    @app.route(route="page")
    def page(req: func.HttpRequest) -> str: ...
    """
    assert set(described(tmp_path, HEAD if not wrong else dedent(page))) == {"page" if wrong else "good"}


def test_functions_that_host_json_does_not_list_are_not_run(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text(json.dumps({"version": "2.0", **BUNDLE, "functions": ["GOOD"]}))
    found = described(tmp_path, HEAD + queue())
    assert found["good"]["idle"] is None
    assert found["other"]["idle"] == "it is not in host.json's list of functions"


@pytest.mark.parametrize(
    ("guard", "said"),
    [('scope="Id", connection="Locks"', "app setting AzureWebJobsLocks"), ('scope="{Id}"', "template")],
)
def test_an_app_that_a_worker_does_not_load_is_refused_and_with_fail_fast_off_its_function_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guard: str, said: str
) -> None:
    code = queue().replace("def ", f"@singleton({guard})\ndef ")
    (tmp_path / "function_app.py").write_text(HEAD + code)
    with pytest.raises(AppError, match=said):
        prepare_app(config(tmp_path))
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__failFast", "false")
    call = next(plan.function.call for plan in prepare_app(config(tmp_path)).plans if plan.function.name == "other")
    with pytest.raises(ConfigurationError, match=said):
        call(msg=None)
    assert "azure_functions_worker" not in sys.modules


def test_a_name_of_the_script_in_local_settings_is_followed(tmp_path: Path) -> None:
    (tmp_path / "local.settings.json").write_text('{"Values": {"PYTHON_SCRIPT_FILE_NAME": "helper_of_mine.py"}} // v2')
    (tmp_path / "helper_of_mine.py").write_text(HEAD)
    assert set(described(tmp_path, "1 / 0")) == {"good"}


def test_an_app_of_the_older_model_is_told_so(tmp_path: Path) -> None:
    for name in "abcdefg":
        (tmp_path / name).mkdir()
        (tmp_path / name / "function.json").write_text("{}")
    with pytest.raises(
        AppError, match=r"a function\.json for each of a, b, c, d, e and 2 more: .* v1 programming model"
    ):
        describe(tmp_path)


def test_a_folder_of_the_apps_that_is_called_as_ours_is_the_apps(tmp_path: Path) -> None:
    for name, value in (("simulator", 1), ("tests", 2), ("benchmarks", 3)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
        (tmp_path / name / "things.py").write_text(f"VALUE = {value}\n")
    code = """
    for name in [name for name in sys.modules if name.partition(".")[0] in {"tests", "benchmarks"}]:
        del sys.modules[name]  # the test's own
    from simulator.things import VALUE as one
    from tests.things import VALUE as two
    from benchmarks.things import VALUE as three
    assert (one, two, three) == (1, 2, 3)
    """
    assert set(described(tmp_path, "import sys\n" + dedent(code) + HEAD)) == {"good"}
    # What it imports later is its own, too; what hosts and workers send each other is known by its name, as before.
    assert importlib.import_module("simulator") is not simulator
    assert pickle.loads(pickle.dumps(AppError("a"))).args == ("a",)  # noqa: S301 - our own
    (tmp_path / "simulator" / "later.py").write_text("VALUE = 4\n")
    assert importlib.import_module("simulator.later").VALUE == 4
    assert importlib.import_module("simulator.host.startup").describe is describe
    for name in ("simulator.things", "simulator.later"):
        del sys.modules[name]


def test_switches_of_a_timer_may_be_texts(tmp_path: Path) -> None:
    trigger = 'type="timerTrigger", arg_name="timer", schedule="0 0 * * * *"'
    code = f"""
    @app.generic_trigger({trigger}, runOnStartup="False", useMonitor="false")
    def off(timer: str) -> None: ...

    @app.generic_trigger({trigger}, runOnStartup="True")
    def on(timer: str) -> None: ...
    """
    (tmp_path / "function_app.py").write_text(HEAD + dedent(code))
    plans = {plan.function.name: plan for plan in prepare_app(config(tmp_path)).plans}
    assert [(plans[name].run_on_startup, plans[name].monitored) for name in ("off", "on")] == [
        (False, False),
        (True, True),
    ]
